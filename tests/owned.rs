//! The table of a single owner, beside exact models, over every algorithm and word width.

#![cfg(feature = "heapless")]

use core::time::Duration;
use std::collections::HashMap;

use proptest::prelude::*;
use tidegate::{
    Algorithm, FixedWindow, FullCounts, OnFull, OwnedTable, Quota, Reason, SlidingWindow,
    Timestamp, TokenBucket, Word,
};

const T: Timestamp = Timestamp::from_secs(1_000_000);
const POLICIES: [OnFull; 3] = [OnFull::Deny, OnFull::Allow, OnFull::Evict];

/// Runs a body over every algorithm and width, each with a limit of `$limit` a minute, at most 60.
macro_rules! for_each_algorithm {
    ($limit:expr, $body:expr) => {{
        let quota = Quota::per_minute($limit);
        $body(TokenBucket::new(quota));
        $body(TokenBucket::narrow(quota));
        $body(FixedWindow::new(quota));
        $body(FixedWindow::narrow(quota));
        $body(FixedWindow::anchored(quota));
        $body(FixedWindow::narrow_anchored(quota));
        $body(SlidingWindow::new(quota));
        $body(SlidingWindow::narrow(quota));
    }};
}

fn after(seconds: u64) -> Timestamp {
    T.saturating_add(Duration::from_secs(seconds))
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Check { key: u8, cost: u64 },
    Refund { key: u8, cost: u64 },
    Reset { key: u8 },
    Sweep,
    Retune { limit: u64 },
    Clear,
}

fn call(keys: u8) -> impl Strategy<Value = Call> {
    let key = 0..keys;
    prop_oneof![
        20 => (key.clone(), 0..8_u64).prop_map(|(key, cost)| Call::Check { key, cost }),
        2 => (key.clone(), 1..4_u64).prop_map(|(key, cost)| Call::Refund { key, cost }),
        1 => key.prop_map(|key| Call::Reset { key }),
        1 => Just(Call::Sweep),
        1 => (3..9_u64).prop_map(|limit| Call::Retune { limit }),
        1 => Just(Call::Clear),
    ]
}

/// Milliseconds from one call to the next: often none, mostly some seconds, now and then longer than everything
/// takes to come back, and sometimes late.
fn pause() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => Just(0),
        6 => 0..5_000_i64,
        2 => 5_000..70_000_i64,
        1 => 70_000..400_000_i64,
        1 => -30_000..0_i64,
    ]
}

/// The keys that have a slot, and their states: what the table must be holding.
type Held<A> = HashMap<u8, <A as Algorithm>::Word>;

/// Plays a script on a table and on a map of states beside it. Which key loses its slot is the table's choice, so the
/// model looks it up, and checks that it was one that may.
fn play<A: Algorithm + Copy, const N: usize>(
    make: impl Fn(u64) -> A,
    on_full: OnFull,
    script: &[(i64, Call)],
) {
    let mut algorithm = make(5);
    let mut table = OwnedTable::<u8, A, N>::new(algorithm).on_full(on_full);
    let mut held: Held<A> = HashMap::new();
    let mut full = FullCounts::default();
    let mut now = T;
    for &(pause, call) in script {
        now = Timestamp::from_nanos(now.as_nanos().saturating_add_signed(pause * 1_000_000));
        let live = |state: A::Word| !algorithm.is_idle(state, now);
        match call {
            Call::Check { key, cost } => {
                let before = held.get(&key).copied();
                let foreseen = table.peek_n(&key, now, cost);
                let expected = algorithm.step(before.unwrap_or(A::Word::ZERO), now, cost);
                assert_eq!(foreseen, expected.map(|(_, allowed)| allowed));
                let answer = table.check_n(&key, now, cost);
                let needs_slot = before.is_none() && cost > 0 && expected.is_ok();
                let all_live = held.len() == N && held.values().all(|&state| live(state));
                if needs_slot && all_live && on_full == OnFull::Deny {
                    full.denied += 1;
                    let denied = answer.unwrap_err();
                    assert_eq!(denied.reason(), Reason::TableFull);
                    assert_eq!(
                        (denied.limit(), denied.retry_after()),
                        (algorithm.limit(), None)
                    );
                } else {
                    assert_eq!(answer, foreseen);
                    if needs_slot && all_live && on_full == OnFull::Allow {
                        full.allowed += 1;
                    } else {
                        if needs_slot && held.len() == N {
                            let kept: Vec<u8> = table.iter(now).map(|(&key, _)| key).collect();
                            let lost: Vec<u8> = held
                                .keys()
                                .copied()
                                .filter(|key| !kept.contains(key))
                                .collect();
                            let [lost] = lost[..] else {
                                panic!("one slot for one newcomer: {lost:?}");
                            };
                            let wait = |state| algorithm.idle_after(state, now);
                            let least = held.values().map(|&state| wait(state)).min();
                            let was = wait(held.remove(&lost).unwrap());
                            assert_eq!(Some(was), least, "the nearest to idle, or an idle one");
                            assert!(was.is_zero() || on_full == OnFull::Evict);
                            full.evicted += u64::from(!was.is_zero());
                        }
                        if let Ok((next, _)) = expected
                            && cost > 0
                        {
                            held.insert(key, next);
                        }
                    }
                }
            }
            Call::Refund { key, cost } => {
                let state = held.get(&key).copied();
                let next = state.map(|state| algorithm.refund(state, now, cost));
                assert_eq!(table.refund(&key, now, cost), next != state);
                next.map(|next| held.insert(key, next));
            }
            Call::Reset { key } => {
                table.reset(&key);
                held.remove(&key);
            }
            Call::Sweep => {
                table.sweep(now);
                held.retain(|_, &mut state| live(state));
            }
            Call::Retune { limit } => {
                let next = make(limit);
                table.retune(next, now);
                for state in held.values_mut() {
                    *state = next.adopt(&algorithm, *state, now);
                }
                algorithm = next;
            }
            Call::Clear => {
                table.clear();
                held.clear();
            }
        }

        let live = |&&state: &&A::Word| !algorithm.is_idle(state, now);
        assert_eq!(table.len(), held.len());
        assert_eq!(table.is_empty(), held.is_empty());
        assert_eq!(table.len_live(now), held.values().filter(live).count());
        assert_eq!(table.full_counts(), full);
        let listed: HashMap<u8, _> = table.iter(now).map(|(&key, it)| (key, it)).collect();
        assert_eq!(listed.len(), table.len(), "no key twice");
        for (key, &state) in &held {
            let (_, expected) = algorithm.step(state, now, 0).unwrap();
            assert_eq!(listed[key], expected, "key {key}");
        }
    }
}

/// How many scripts a property gets: overflow shows in debug, numbers in release.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(debug_assertions) { 128 } else { 1_500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn scripts(keys: u8) -> impl Strategy<Value = Vec<(i64, Call)>> {
    prop::collection::vec((pause(), call(keys)), 1..120)
}

/// One property for each algorithm and width: tables of 1, 4 and 7 slots, every policy.
macro_rules! beside_the_model {
    ($($name:ident: $new:path;)*) => {
        mod beside_the_model {
            use super::*;

            $(proptest! {
                #![proptest_config(config())]

                #[test]
                fn $name(script in scripts(10)) {
                    let make = |limit| $new(Quota::per_minute(limit));
                    for on_full in POLICIES {
                        play::<_, 1>(make, on_full, &script);
                        play::<_, 4>(make, on_full, &script);
                        play::<_, 7>(make, on_full, &script);
                    }
                }
            })*
        }
    };
}

beside_the_model! {
    token_bucket: TokenBucket::new;
    token_bucket_narrow: TokenBucket::narrow;
    fixed_window_aligned: FixedWindow::new;
    fixed_window_aligned_narrow: FixedWindow::narrow;
    fixed_window_anchored: FixedWindow::anchored;
    fixed_window_anchored_narrow: FixedWindow::narrow_anchored;
    sliding_window: SlidingWindow::new;
    sliding_window_narrow: SlidingWindow::narrow;
}

/// Reusing slots loses nothing: as long as time does not go back, every answer is that of a map which never forgets,
/// or that all slots are taken by keys that are live in that map.
fn as_a_map_that_never_forgets<A: Algorithm + Copy>(algorithm: A, script: &[(u64, u8, u64)]) {
    const N: usize = 4;
    let mut table = OwnedTable::<u8, A, N>::new(algorithm);
    let mut map: HashMap<u8, A::Word> = HashMap::new();
    let mut now = T;
    for &(pause_ms, key, cost) in script {
        now = now.saturating_add(Duration::from_millis(pause_ms));
        let live = |state: A::Word| !algorithm.is_idle(state, now);
        let state = map.get(&key).copied().unwrap_or(A::Word::ZERO);
        let others = map.iter().filter(|&(&it, &s)| it != key && live(s)).count();
        match (
            algorithm.step(state, now, cost),
            table.check_n(&key, now, cost),
        ) {
            (Ok(_), Err(denied)) => {
                assert_eq!(denied.reason(), Reason::TableFull);
                assert!(!live(state), "it has a slot");
                assert_eq!(others, N);
            }
            (Ok((next, expected)), Ok(allowed)) => {
                assert_eq!(allowed, expected);
                if cost > 0 {
                    assert!(others < N);
                    map.insert(key, next);
                }
            }
            (expected, answer) => assert_eq!(answer, expected.map(|(_, allowed)| allowed)),
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_is_lost(
        script in prop::collection::vec((pause().prop_map(i64::unsigned_abs), 0..8_u8, 0..7_u64), 1..200)
    ) {
        for_each_algorithm!(5, |algorithm| as_a_map_that_never_forgets(algorithm, &script));
    }
}

/// Whoever makes up keys gets nowhere: what a victim or the attacker has used up stays used up.
#[test]
fn a_drained_victim_stays_drained_under_a_flood() {
    fn flood<A: Algorithm>(algorithm: A) {
        let mut table = OwnedTable::<u32, A, 8>::new(algorithm);
        let mut passed = 0;
        let now = after(0);
        assert_eq!(table.check_n(&0, now, 10).unwrap().remaining(), 0);
        for key in 1..10_000 {
            passed += u32::from(table.check(&key, now).is_ok());
            assert_eq!(table.check(&0, now).unwrap_err().reason(), Reason::Limited);
        }
        assert_eq!(passed, 7, "the other slots");
        let counts = FullCounts {
            denied: 9_999 - 7,
            ..FullCounts::default()
        };
        assert_eq!(table.full_counts(), counts);
        // A key that has a slot is served all the while.
        assert_eq!(table.check(&7, now).unwrap().remaining(), 8);
    }
    for_each_algorithm!(10, flood);
}

#[test]
fn policies_when_full() {
    fn policies<A: Algorithm + Copy>(algorithm: A) {
        let fill = |on_full| {
            let mut table = OwnedTable::<u32, A, 3>::new(algorithm).on_full(on_full);
            for key in 0..3 {
                table.check_n(&key, T, 10).unwrap();
            }
            table
        };

        let mut deny = fill(OnFull::Deny);
        for round in 1..=3 {
            let denied = deny.check(&9, T).unwrap_err();
            assert_eq!(
                (denied.reason(), denied.remaining()),
                (Reason::TableFull, 0)
            );
            assert_eq!(deny.full_counts().denied, round);
        }
        assert_eq!(deny.peek(&9, T).unwrap().remaining(), 9, "not foreseen");
        // What needs no slot does not ask for one, and is not counted as refused for want of one.
        assert_eq!(deny.check_n(&9, T, 0).unwrap().remaining(), 10);
        let costly = deny.check_n(&9, T, 11).unwrap_err();
        assert_eq!(costly.reason(), Reason::TooCostly);
        assert_eq!(deny.full_counts().denied, 3);

        let mut allow = fill(OnFull::Allow);
        for round in 1..=30 {
            let allowed = allow.check(&9, T).unwrap();
            assert_eq!((allowed.remaining(), allowed.is_counted()), (9, false));
            assert_eq!(allow.full_counts().allowed, round);
        }
        assert!(
            allow.check(&0, T).is_err(),
            "those who have a slot are counted"
        );

        let mut evict = fill(OnFull::Evict);
        assert_eq!(evict.check(&9, T).unwrap().remaining(), 9);
        assert_eq!(evict.check_n(&9, T, 9).unwrap().remaining(), 0, "counted");
        assert_eq!(evict.full_counts().evicted, 1);
        let drained = (0..3).filter(|key| evict.peek(key, T).is_err()).count();
        assert_eq!(drained, 2, "one budget was handed back early");
    }
    for_each_algorithm!(10, policies);
}

/// Idle keys keep their slots until these are needed, and lose them then, one a newcomer.
#[test]
fn idle_keys_are_reused_when_full() {
    fn reuse<A: Algorithm>(algorithm: A) {
        let mut table = OwnedTable::<u32, A, 4>::new(algorithm);
        for key in 0..3 {
            table.check(&key, T).unwrap();
        }
        let rested = after(121);
        assert_eq!((table.len(), table.len_live(rested)), (3, 0));
        table.check(&3, rested).unwrap();
        assert_eq!(table.len(), 4, "a vacant slot comes first");
        // Three idle ones make room for three; the fourth newcomer meets live keys alone.
        for key in 4..7 {
            table.check(&key, rested).unwrap();
            assert_eq!(table.len(), 4);
        }
        assert_eq!(table.len_live(rested), 4);
        assert_eq!(
            table.check(&7, rested).unwrap_err().reason(),
            Reason::TableFull
        );
        for key in 3..7 {
            assert_eq!(
                table.peek(&key, rested).unwrap().remaining(),
                8,
                "key {key}"
            );
        }
        // Without anybody's help, for ever.
        for round in 2..200 {
            let now = after(121 * round);
            for key in 0..4 {
                let newcomer = 1_000 * round as u32 + key;
                assert_eq!(table.check(&newcomer, now).unwrap().remaining(), 9);
            }
        }
        assert_eq!(table.full_counts().denied, 1);
    }
    for_each_algorithm!(10, reuse);
}

/// Keys need not be `Copy` nor hashable; only what takes a slot is cloned; lookups take the borrowed form.
#[test]
fn keys_of_any_kind() {
    use core::borrow::Borrow;
    use core::cell::Cell;

    thread_local!(static CLONES: Cell<u32> = const { Cell::new(0) });

    #[derive(PartialEq, Eq, Debug)]
    struct Name(String);

    impl Clone for Name {
        fn clone(&self) -> Self {
            CLONES.set(CLONES.get() + 1);
            Self(self.0.clone())
        }
    }

    impl Borrow<str> for Name {
        fn borrow(&self) -> &str {
            &self.0
        }
    }

    let mut table = OwnedTable::<Name, _, 2>::new(TokenBucket::new(Quota::per_minute(3)));
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|it| Name(it.into()));
    for left in [2, 1, 0] {
        assert_eq!(table.check(&alice, T).unwrap().remaining(), left);
    }
    assert!(table.check(&alice, T).is_err());
    assert_eq!(CLONES.get(), 1);
    assert!(table.check_n(&bob, T, 4).is_err());
    assert!(table.check_n(&bob, T, 0).is_ok());
    assert_eq!((CLONES.get(), table.len()), (1, 1));
    table.check(&bob, T).unwrap();
    assert!(table.check(&carol, T).is_err());
    assert_eq!(CLONES.get(), 2, "no slot, no clone");

    assert!(table.peek("alice", T).is_err());
    assert!(table.refund("alice", T, 1));
    assert!(!table.refund("carol", T, 1));
    assert!(table.peek("alice", T).is_ok());
    table.reset("alice");
    assert_eq!(table.peek_n("alice", T, 3).unwrap().remaining(), 0);
    let names: Vec<_> = table
        .iter(T)
        .map(|(key, it)| (key, it.remaining()))
        .collect();
    assert_eq!(names, [(&bob, 2)]);
}

/// What the docs say about memory; and `const` tables, in a `static` as well.
#[test]
fn memory() {
    fn a_slot<K, A: Algorithm>() -> usize {
        size_of::<OwnedTable<K, A, 65>>() - size_of::<OwnedTable<K, A, 33>>()
    }
    type Narrow = TokenBucket<u32>;
    assert_eq!(a_slot::<u32, Narrow>(), 32 * 8);
    assert_eq!(a_slot::<u32, TokenBucket>(), 32 * 16);
    assert_eq!(a_slot::<[u8; 6], Narrow>(), 32 * 12);
    assert_eq!(a_slot::<[u8; 6], TokenBucket>(), 32 * 16);
    let rest = size_of::<OwnedTable<u32, Narrow, 1>>() - size_of::<Narrow>() - 8;
    assert!(rest <= 3 * 8 + 3 * size_of::<usize>(), "{rest}");

    use std::sync::Mutex;
    type Nodes = OwnedTable<u32, Narrow, 16>;
    const EMPTY: Nodes = OwnedTable::new(TokenBucket::narrow(Quota::per_second(2)));
    static NODES: Mutex<Nodes> = Mutex::new(EMPTY.on_full(OnFull::Evict));
    let mut nodes = NODES.lock().unwrap();
    assert_eq!((nodes.capacity(), nodes.algorithm().burst()), (16, 2));
    assert_eq!(nodes.check_n(&1, T, 2).unwrap().remaining(), 0);
    assert!(format!("{nodes:?}").contains("capacity: 16"));
}

/// What was used stays used when the limits change.
#[test]
fn retuned() {
    let make = |limit| TokenBucket::narrow(Quota::per_minute(limit));
    let mut table = OwnedTable::<u8, _, 4>::new(make(5));
    table.check_n(&1, T, 5).unwrap();
    table.check_n(&2, T, 1).unwrap();
    table.retune(make(10), T);
    assert_eq!(table.check_n(&1, T, 0).unwrap().remaining(), 5);
    assert_eq!(table.check_n(&2, T, 0).unwrap().remaining(), 9);
    assert_eq!(table.check_n(&3, T, 10).unwrap().remaining(), 0);
    table.retune(make(3), T);
    assert_eq!(table.check_n(&1, T, 0).unwrap().remaining(), 0);
    assert_eq!(table.algorithm().limit(), 3);
}

/// An exact log for each key answers as a log of the key's own.
mod exact_logs {
    use tidegate::{OwnedStrategy, SlidingLog};

    use super::*;

    fn play<S: OwnedStrategy + Copy, const N: usize>(log: S, script: &[(i64, Call)]) {
        let mut table = OwnedTable::<u8, S, N>::new(log);
        let mut own: HashMap<u8, S::State> = HashMap::new();
        let mut now = T;
        for &(pause, call) in script {
            now = Timestamp::from_nanos(now.as_nanos() + pause.unsigned_abs() * 1_000_000);
            match call {
                Call::Check { key, cost } => {
                    let others = own
                        .iter()
                        .filter(|(it, state)| **it != key && !log.is_idle(state, now))
                        .count();
                    let state = own.entry(key).or_insert_with(|| log.fresh());
                    let was_idle = log.is_idle(state, now);
                    match table.check_n(&key, now, cost) {
                        Err(denied) if denied.reason() == Reason::TableFull => {
                            assert!(was_idle && others == N);
                        }
                        answer => assert_eq!(answer, log.check_n(state, now, cost)),
                    }
                }
                Call::Refund { key, cost } => {
                    let before = own.get(&key).map(|state| log.peek_n(state, now, 0));
                    own.get_mut(&key).map(|state| log.refund(state, now, cost));
                    table.refund(&key, now, cost);
                    let after = own.get(&key).map(|state| log.peek_n(state, now, 0));
                    assert!(before.is_none() || after == Some(table.peek_n(&key, now, 0)));
                }
                Call::Reset { key } => {
                    own.remove(&key);
                    table.reset(&key);
                }
                Call::Sweep => table.sweep(now),
                Call::Retune { .. } => {
                    table.retune(log, now);
                }
                Call::Clear => {
                    own.clear();
                    table.clear();
                }
            }
            let live = own.values().filter(|state| !log.is_idle(state, now));
            assert_eq!(table.len_live(now), live.count());
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn of_each_key(script in scripts(8)) {
            play::<_, 4>(SlidingLog::<5>::new(Quota::per_minute(5)), &script);
            play::<_, 4>(SlidingLog::<5, u32>::narrow(Quota::per_minute(3)), &script);
        }
    }
}
