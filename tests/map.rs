//! The map: beside an exact one, on threads, called from its own callbacks, and when its users' code panics.

#![cfg(all(feature = "std", not(tidegate_loom)))]

extern crate alloc;

mod common;

use alloc::sync::Arc;
use core::hash::Hash;
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::sync::{Barrier, mpsc};

use common::table_model::{Limits, SplitMix};
use tidegate::{
    Algorithm, AtomicWord, FixedWindow, FullCounts, Gate, Map, OnFull, Quota, Reason, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket, Word,
};

/// A whole number of units of any window here.
const SECOND: u64 = 1 << 30;
const T: Timestamp = Timestamp::from_nanos(1_012_345 * SECOND);
const LATER: Timestamp = Timestamp::from_nanos(1_023_456 * SECOND);

fn minutes(limit: u64, minutes: u64) -> Quota {
    Quota::new(limit, Duration::from_secs(60 * minutes)).unwrap()
}

/// Runs a body over every algorithm and width: with its limits, a tier's, and what to retune to.
macro_rules! for_each_algorithm {
    ($limit:expr, $tier:expr, $body:expr) => {{
        let (limit, tier) = ($limit, $tier);
        macro_rules! bucket {
            ($new:path) => {{
                let limits = |period| {
                    let table = $new(minutes(limit, period));
                    let tier = table.tier(minutes(tier, period), tier).unwrap();
                    Limits { table, tier }
                };
                $body([limits(1), limits(3)]);
            }};
        }
        macro_rules! window {
            ($new:path) => {{
                let limits = |period| Limits {
                    table: $new(minutes(limit, period)),
                    tier: $new(minutes(tier, period)),
                };
                $body([limits(1), limits(3)]);
            }};
        }
        bucket!(TokenBucket::new);
        bucket!(TokenBucket::narrow);
        window!(FixedWindow::new);
        window!(FixedWindow::narrow);
        window!(FixedWindow::anchored);
        window!(FixedWindow::narrow_anchored);
        window!(SlidingWindow::new);
        window!(SlidingWindow::narrow);
    }};
}

/// Random calls on a map and on a plain one, every answer compared.
///
/// Time does not go back here: that a dropped key is forgotten shows to late timestamps only.
struct Beside<A: Algorithm<Word: AtomicWord>> {
    map: Map<u64, A>,
    limits: [Limits<A>; 2],
    on_full: OnFull,
    keys: u64,
    words: HashMap<u64, A::Word>,
    taken_at: HashMap<u64, Timestamp>,
    now: Timestamp,
    counts: FullCounts,
    limited: u64,
    most: usize,
    /// How seldom time moves on.
    pace: u64,
}

impl<A: Algorithm<Word: AtomicWord> + Copy> Beside<A> {
    fn new(map: Map<u64, A>, limits: [Limits<A>; 2], on_full: OnFull, keys: u64) -> Self {
        Self {
            map: map.on_full(on_full),
            limits,
            on_full,
            keys,
            words: HashMap::new(),
            taken_at: HashMap::new(),
            now: T,
            counts: FullCounts::default(),
            limited: 0,
            most: 0,
            pace: 1 + keys / 100,
        }
    }

    fn live(&self) -> usize {
        let algorithm = &self.limits[0].table;
        let words = self.words.values();
        words
            .filter(|&&word| !algorithm.is_idle(word, self.now))
            .count()
    }

    /// What every key of the map was told, beside what the words say.
    fn audit(&mut self) {
        let mut seen = HashMap::new();
        for (key, allowed) in self.map.iter(self.now) {
            assert!(seen.insert(key, allowed).is_none(), "once");
        }
        assert_eq!(seen.len(), self.map.len());
        assert_eq!(self.map.is_empty(), seen.is_empty());
        if self.on_full == OnFull::Evict {
            // Who was displaced, the map alone knows.
            self.words.retain(|key, _| seen.contains_key(key));
        }
        let algorithm = &self.limits[0].table;
        for (&key, &word) in &self.words {
            let allowed = algorithm.step(word, self.now, 0).unwrap().1;
            match seen.get(&key) {
                Some(told) => assert_eq!(*told, allowed),
                None => assert!(algorithm.is_idle(word, self.now), "a live key is there"),
            }
        }
        assert_eq!(self.map.len_live(self.now), self.live());
        assert_eq!(self.map.full_counts(), self.counts);
        self.most = self.most.max(seen.len());
        if let Some(cap) = self.map.max_keys() {
            assert!(seen.len() <= cap);
        }
    }

    fn check(&mut self, key: u64, cost: u64, tiered: bool) {
        let algorithm = if tiered {
            self.limits[0].tier
        } else {
            self.limits[0].table
        };
        let told = if tiered {
            let tier = self.map.tier(algorithm).unwrap();
            self.map.check_with(&tier, &key, self.now, cost)
        } else {
            self.map.check_n(&key, self.now, cost)
        };
        let word = self.words.get(&key).copied().unwrap_or(A::Word::ZERO);
        let expected = algorithm.step(word, self.now, cost);
        let is_new = self.limits[0].table.is_idle(word, self.now);
        let full = self
            .map
            .max_keys()
            .is_some_and(|cap| is_new && cost > 0 && expected.is_ok() && self.live() >= cap);
        match (full, self.on_full) {
            (true, OnFull::Deny) => {
                let denied = told.unwrap_err();
                assert_eq!(
                    (denied.reason(), denied.limit()),
                    (Reason::TableFull, algorithm.limit())
                );
                assert_eq!(denied.retry_after(), None);
                self.counts.denied += 1;
                return;
            }
            (true, OnFull::Allow) => {
                assert_eq!(told, expected.map(|(_, allowed)| allowed));
                assert!(!told.unwrap().is_counted());
                self.counts.allowed += 1;
                return;
            }
            (true, OnFull::Evict) => {
                self.counts.evicted += 1;
                let before: HashSet<u64> = self.words.keys().copied().collect();
                let there: HashSet<u64> = self.map.iter(self.now).map(|(key, _)| key).collect();
                let live = |key: &&u64| !self.limits[0].table.is_idle(self.words[key], self.now);
                let gone: Vec<u64> = before.difference(&there).filter(live).copied().collect();
                assert_eq!(gone.len(), 1, "one was displaced");
                self.words.remove(&gone[0]);
            }
            (false, _) => {}
        }
        assert_eq!(told, expected.map(|(_, allowed)| allowed));
        match expected {
            Ok((next, _)) if cost > 0 => {
                self.words.insert(key, next);
                self.taken_at.insert(key, self.now);
            }
            Ok(_) => {}
            Err(_) => self.limited += 1,
        }
    }

    fn play(&mut self, random: &mut SplitMix) {
        let key = random.below(self.keys) * random.below(5) / 4;
        let cost = [0, 1, 1, 1, 2, 3, 9][random.below(7) as usize];
        match random.below(4_000) {
            0 => {
                self.map.clear();
                self.words.clear();
                assert!(self.map.is_empty());
            }
            1..=3 => {
                self.map.sweep(self.now);
                assert_eq!(self.map.len(), self.live(), "no idle key is left");
            }
            4..=6 => {
                let odd = |key: &u64| key % 16 == 1;
                self.map.retain(self.now, |key, _| !odd(key));
                self.words.retain(|key, _| !odd(key));
            }
            7..=9 => {
                self.limits.swap(0, 1);
                let old = self.limits[1].table;
                let new = self.limits[0].table;
                self.map.retune(new, self.now);
                for word in self.words.values_mut() {
                    *word = new.adopt(&old, *word, self.now);
                }
            }
            10..=29 => self.audit(),
            30..=199 => {
                self.map.reset(&key);
                self.words.remove(&key);
            }
            200..=599 => {
                let taken_at = self.taken_at.get(&key).copied().unwrap_or(T);
                let word = self.words.get(&key).copied().unwrap_or(A::Word::ZERO);
                if self.limits[0].table.is_idle(word, self.now) {
                    // Dropped or not: nothing that shows.
                    self.map.refund(&key, taken_at, 0);
                } else {
                    let next = self.limits[0].table.refund(word, taken_at, cost);
                    assert_eq!(self.map.refund(&key, taken_at, cost), next != word);
                    self.words.insert(key, next);
                }
            }
            600..=999 => {
                let word = self.words.get(&key).copied().unwrap_or(A::Word::ZERO);
                let expected = self.limits[0].table.step(word, self.now, cost);
                let expected = expected.map(|(_, allowed)| allowed);
                assert_eq!(self.map.peek_n(&key, self.now, cost), expected);
                assert_eq!(self.map.at(&key).peek_n(self.now, cost), expected);
            }
            1_000..=1_299 if random.below(self.pace) == 0 => {
                let far = random.below(64) == 0;
                let by = SECOND * random.below(if far { 400 } else { 3 });
                self.now = self.now.saturating_add(Duration::from_nanos(by));
            }
            1_300..=1_699 => self.check(key, cost, true),
            _ => self.check(key, cost, false),
        }
    }
}

#[test]
fn answers_as_an_exact_map_would() {
    let steps = if cfg!(debug_assertions) {
        12_000
    } else {
        120_000
    };
    // Few keys, and many in few shards, so that segments split and shrink.
    for (keys, shards) in [(20, 4), (3_000, 1), (3_000, 16)] {
        for_each_algorithm!(7, 5, |limits: [Limits<_>; 2]| {
            let map = Map::new(limits[0].table).with_shards(shards);
            let mut beside = Beside::new(map, limits, OnFull::Deny, keys);
            let mut random = SplitMix(keys ^ shards as u64);
            for _ in 0..steps {
                beside.play(&mut random);
            }
            beside.audit();
            assert!(beside.limited > steps / 500, "{}", beside.limited);
            assert_eq!(beside.counts, FullCounts::default());
            assert!(keys < 1_000 || beside.most > 500, "{}", beside.most);
        });
    }
}

/// Up to 448 keys, it is full if and only if all of them are live.
#[test]
fn capped_as_an_exact_map_would() {
    let steps = if cfg!(debug_assertions) {
        8_000
    } else {
        80_000
    };
    for (cap, keys) in [(0, 5), (1, 3), (10, 40), (150, 400), (440, 900)] {
        for on_full in [OnFull::Deny, OnFull::Allow, OnFull::Evict] {
            if (cap, on_full) == (0, OnFull::Evict) {
                // Nobody to displace; below.
                continue;
            }
            for_each_algorithm!(7, 5, |limits: [Limits<_>; 2]| {
                let map = Map::new(limits[0].table).with_max_keys(cap);
                assert_eq!(map.shards(), 1);
                let mut beside = Beside::new(map, limits, on_full, keys);
                let mut random = SplitMix(cap as u64);
                for _ in 0..steps {
                    beside.play(&mut random);
                }
                beside.audit();
                let FullCounts {
                    denied,
                    allowed,
                    evicted,
                } = beside.counts;
                assert!(denied + allowed + evicted > 5, "{cap}: {:?}", beside.counts);
            });
        }
    }
}

#[test]
fn nobody_to_displace() {
    let map: Map<u64, _> = Map::new(TokenBucket::new(minutes(5, 1)))
        .with_max_keys(0)
        .on_full(OnFull::Evict);
    assert_eq!(map.check(&1, T).unwrap_err().reason(), Reason::TableFull);
    assert_eq!(map.full_counts().denied, 1);
    assert_eq!(map.check_n(&1, T, 0).unwrap().remaining(), 5);
    assert_eq!(
        map.check_n(&1, T, 6).unwrap_err().reason(),
        Reason::TooCostly
    );
    assert!(map.is_empty());
}

/// Of 16 keys or fewer, the one that is displaced is the one that would be idle first.
#[test]
fn displaces_the_nearest_to_idle() {
    let map = Map::new(TokenBucket::new(minutes(60, 1)))
        .with_max_keys(16)
        .on_full(OnFull::Evict);
    for key in 0..16_u64 {
        map.check_n(&key, T, 20 + (key * 7) % 16).unwrap();
    }
    for newcomer in 16..32 {
        // 7 is a unit modulo 16: this is who has used `20 + (newcomer - 16)`.
        let first = (newcomer - 16) * 7 % 16;
        map.check_n(&newcomer, T, 60).unwrap();
        assert_eq!(map.peek_n(&first, T, 0).unwrap().remaining(), 60);
        assert_eq!(map.len(), 16);
    }
    assert_eq!(map.full_counts().evicted, 16);
}

#[test]
fn sizes() {
    let bucket = TokenBucket::new(minutes(5, 1));
    let map: Map<u64, _> = Map::new(bucket);
    assert!(map.shards().is_power_of_two());
    assert_eq!(map.max_keys(), None);
    for (wanted, shards) in [(0, 1), (1, 1), (5, 8), (64, 64), (usize::MAX, 1 << 16)] {
        let map: Map<u64, _> = Map::new(bucket).with_shards(wanted);
        assert_eq!(map.shards(), shards);
    }
    for (cap, shards) in [(0, 1), (511, 1), (512, 2), (100_000, 64), (usize::MAX, 64)] {
        let map: Map<u64, _> = Map::new(bucket).with_max_keys(cap).with_shards(64);
        assert_eq!((map.shards(), map.max_keys()), (shards, Some(cap)));
        let map: Map<u64, _> = Map::new(bucket).with_shards(64).with_max_keys(cap);
        assert_eq!((map.shards(), map.max_keys()), (shards, Some(cap)));
    }
    let shown = format!("{:?}", Map::<u64, _>::new(bucket).with_max_keys(7));
    assert!(shown.contains("max_keys: Some(7)"), "{shown}");
}

#[test]
fn borrowed_keys() {
    let bucket = TokenBucket::new(minutes(5, 1));

    let by_name: Map<String, _> = Map::new(bucket);
    let alice = String::from("alice");
    assert_eq!(by_name.check("alice", T).unwrap().remaining(), 4);
    assert_eq!(by_name.check(&alice, T).unwrap().remaining(), 3);
    assert_eq!(by_name.check(alice.as_str(), T).unwrap().remaining(), 2);
    assert_eq!(by_name.peek("alice", T).unwrap().remaining(), 1);
    assert!(by_name.refund("alice", T, 1));
    assert_eq!(by_name.at("alice").check_n(T, 3).unwrap().remaining(), 0);
    by_name.reset("alice");
    assert!(by_name.is_empty());
    assert!(!by_name.refund("alice", T, 1));

    let by_flow = Map::new(bucket);
    let peer = (IpAddr::V4(Ipv4Addr::LOCALHOST), 80_u16);
    assert!(by_flow.check(&peer, T).is_ok() && by_flow.check(&(peer.0, 81), T).is_ok());
    assert_eq!(by_flow.len(), 2);

    let by_route: Map<&'static str, _> = Map::new(bucket);
    assert!(by_route.check(&"/login", T).is_ok());
    assert_eq!(by_route.peek("/login", T).unwrap().remaining(), 3);

    let by_token: Map<Vec<u8>, _> = Map::new(bucket);
    assert!(by_token.check(&[1, 2, 3][..], T).is_ok());

    let by_id: Map<Arc<str>, _> = Map::new(bucket);
    let id: Arc<str> = "an id".into();
    assert!(by_id.check(&id, T).is_ok());
    assert_eq!(Arc::strong_count(&id), 2);
    assert_eq!(by_id.peek("an id", T).unwrap().remaining(), 3);
}

/// A key is cloned when it comes in, and not for what needs no entry.
#[test]
fn clones_new_keys_only() {
    static CLONES: AtomicUsize = AtomicUsize::new(0);

    #[derive(PartialEq, Eq, Hash)]
    struct Counted(u64);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            CLONES.fetch_add(1, Ordering::Relaxed);
            Self(self.0)
        }
    }

    let clones = || CLONES.load(Ordering::Relaxed);
    let map = Map::new(TokenBucket::new(minutes(5, 1))).with_max_keys(1);
    let key = Counted(1);
    map.peek(&key, T).unwrap();
    map.check_n(&key, T, 0).unwrap();
    map.check_n(&key, T, 6).unwrap_err();
    assert_eq!((clones(), map.len()), (0, 0));
    for _ in 0..7 {
        let _ = map.check(&key, T);
    }
    assert_eq!(clones(), 1);
    map.check(&Counted(2), T).unwrap_err();
    assert_eq!(clones(), 1);
}

#[test]
fn entries_are_gates() {
    fn twice(gate: &impl Gate) -> bool {
        gate.check(T).is_ok() && gate.check(T).is_ok() && gate.refund(T, 1) && gate.peek(T).is_ok()
    }
    let map: Map<String, _> = Map::new(FixedWindow::new(minutes(2, 1)));
    assert!(twice(&map.at("alice")));
    assert!(!twice(&map.at("alice")));
}

#[test]
fn tiers_of_another_scale_are_refused() {
    let map: Map<u64, _> = Map::new(FixedWindow::new(minutes(7, 1)));
    assert!(map.tier(FixedWindow::new(minutes(5, 1))).is_some());
    assert!(map.tier(FixedWindow::new(minutes(5, 2))).is_none());
}

/// On threads, while the clock stands still, then moves on: takes, gives back, sweeps and visits at the same time.
/// What each key keeps taken is what the map says in the end.
#[test]
fn conserves_permits_on_threads() {
    fn stress<A>(algorithm: A, keys: u64, shards: usize)
    where
        A: Algorithm<Word: AtomicWord> + Copy + Send + Sync,
    {
        const THREADS: u64 = 4;
        let rounds = if cfg!(debug_assertions) { 6 } else { 40 };
        let map: Map<u64, A> = Map::new(algorithm).with_shards(shards);
        let kept: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
        let mut words = vec![A::Word::ZERO; keys as usize];
        let mut now = T;
        let (admitted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        for round in 0..rounds {
            let barrier = Barrier::new(THREADS as usize);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (map, kept, barrier) = (&map, &kept, &barrier);
                    let (admitted, refused) = (&admitted, &refused);
                    scope.spawn(move || {
                        let mut random = SplitMix(round * THREADS + thread);
                        barrier.wait();
                        for turn in 0..400 {
                            let key = random.below(keys);
                            let cost = 1 + random.below(2);
                            if map.check_n(&key, now, cost).is_ok() {
                                admitted.fetch_add(1, Ordering::Relaxed);
                                if random.below(2) == 0 {
                                    assert!(map.refund(&key, now, cost), "a live key stays");
                                } else {
                                    kept[key as usize].fetch_add(cost, Ordering::Relaxed);
                                }
                            } else {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            match turn % 100 {
                                0 => map.sweep(now),
                                1 => assert!(map.len() <= keys as usize),
                                2 => {
                                    let mut seen = HashSet::new();
                                    assert!(map.iter(now).all(|(key, _)| seen.insert(key)));
                                }
                                3 => map.retain(now, |_, _| true),
                                _ => {}
                            }
                        }
                    });
                }
            });
            for key in 0..keys {
                let taken = kept[key as usize].swap(0, Ordering::Relaxed);
                let word = &mut words[key as usize];
                if taken > 0 {
                    let stepped = algorithm.step(*word, now, taken);
                    *word = stepped.expect("no more than the limit was granted").0;
                }
                let expected = algorithm.step(*word, now, 0).unwrap().1;
                assert_eq!(map.check_n(&key, now, 0).unwrap(), expected);
            }
            let live = words.iter().filter(|&&word| !algorithm.is_idle(word, now));
            assert_eq!(map.len_live(now), live.count());
            now = now.saturating_add(Duration::from_nanos(
                SECOND * [1, 20, 400][round as usize % 3],
            ));
        }
        assert!(admitted.into_inner() > rounds && refused.into_inner() > 0);
    }
    for_each_algorithm!(3, 3, |limits: [Limits<_>; 2]| {
        stress(limits[0].table, 30, 1);
        stress(limits[0].table, 700, 2);
    });
}

/// Every key gets its limit, and not one permit more, however many threads bring it in at once.
#[test]
fn exactly_the_limit_on_threads() {
    const THREADS: usize = 4;
    const KEYS: u64 = 2_000;
    for_each_algorithm!(3, 3, |limits: [Limits<_>; 2]| {
        let map: Map<u64, _> = Map::new(limits[0].table).with_shards(2);
        let barrier = Barrier::new(THREADS);
        let granted: usize = std::thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| {
                scope.spawn(|| {
                    barrier.wait();
                    (0..KEYS * 3)
                        .filter(|turn| map.check(&(turn % KEYS), T).is_ok())
                        .count()
                })
            });
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(granted as u64, 3 * KEYS);
        assert_eq!((map.len() as u64, map.len_live(T) as u64), (KEYS, KEYS));
    });
}

/// Four threads bring in new keys as fast as they can. Live keys keep their places, and there are never too many.
#[test]
fn never_above_the_cap_on_threads() {
    const CAP: usize = 2_000;
    const NEWCOMERS: u64 = if cfg!(debug_assertions) {
        5_000
    } else {
        50_000
    };
    for on_full in [OnFull::Deny, OnFull::Allow, OnFull::Evict] {
        let map: Map<u64, _> = Map::new(TokenBucket::new(minutes(1, 1)))
            .with_shards(4)
            .with_max_keys(CAP)
            .on_full(on_full);
        assert_eq!(map.shards(), 4);
        for key in 0..100 {
            map.check(&key, T).unwrap();
        }
        let over = AtomicBool::new(false);
        let admitted: usize = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Nobody is idle, so a key is displaced in its own shard or not at all, and no sum over shards
                // can count one twice.
                while !over.load(Ordering::Relaxed) {
                    assert!(map.len() <= CAP);
                    std::thread::yield_now();
                }
            });
            let threads = [1, 2, 3, 4].map(|thread: u64| {
                let map = &map;
                scope.spawn(move || {
                    (0..NEWCOMERS)
                        .filter(|number| map.check(&(thread << 32 | number), T).is_ok())
                        .count()
                })
            });
            let admitted = threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum();
            over.store(true, Ordering::Relaxed);
            admitted
        });
        assert_eq!(map.len(), CAP);
        let full = map.full_counts();
        let turned_away = 4 * NEWCOMERS - (CAP as u64 - 100);
        assert_eq!(full.denied + full.allowed + full.evicted, turned_away);
        let expected = match on_full {
            OnFull::Deny => CAP - 100,
            OnFull::Allow | OnFull::Evict => 4 * NEWCOMERS as usize,
        };
        assert_eq!(admitted, expected);
        if on_full != OnFull::Evict {
            for key in 0..100 {
                let denied = map.check(&key, T).unwrap_err();
                assert_eq!(
                    denied.reason(),
                    Reason::Limited,
                    "nobody was handed anything back"
                );
            }
        }

        // Everybody is idle, and all places are for newcomers again.
        // But for some of those whose shard has no idle key left while others have.
        let newcomers = (0..CAP as u64 / 2).map(|number| 9 << 32 | number);
        newcomers.for_each(|key| _ = map.check(&key, LATER));
        assert!(map.len() <= CAP);
        let live = map.len_live(LATER);
        assert!(live > CAP / 2 * 9 / 10, "{live}");
        map.sweep(LATER);
        assert_eq!(map.len(), live);
    }
}

/// A key that is given back to in a full map leaves its place at once, though its time had not come.
#[test]
fn given_back_is_noticed_by_a_full_map() {
    let map: Map<u64, _> = Map::new(TokenBucket::new(minutes(5, 1))).with_max_keys(10);
    for key in 0..10 {
        map.check(&key, T).unwrap();
    }
    assert!(map.check(&10, T).is_err());
    assert!(map.check(&10, T).is_err());
    assert!(map.refund(&3, T, 1));
    assert!(map.check(&10, T).is_ok());
    assert!(map.check(&11, T).is_err());
    map.reset(&4);
    assert!(map.check(&11, T).is_ok());
    assert!(map.check(&12, T).is_err());
    assert_eq!((map.len(), map.full_counts().denied), (10, 4));
}

/// A clock that jumps back does not leave a full map closed until the time it came from.
#[test]
fn a_full_map_heals_after_a_jump_back() {
    let map: Map<u64, _> = Map::new(TokenBucket::new(minutes(5, 1))).with_max_keys(10);
    let ahead = T.saturating_add(Duration::from_secs(90 * 86_400));
    for key in 0..10 {
        map.check(&key, ahead).unwrap();
    }
    assert!(map.check(&10, ahead).is_err());
    // Far behind the horizon: all those states are leftovers, and idle.
    assert!(map.check(&10, T).is_ok());
}

/// Runs a body that must come to an end.
fn in_time(body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        done.send(()).unwrap();
    });
    match finished.recv_timeout(Duration::from_secs(300)) {
        Ok(()) => thread.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("waits for itself"),
    }
}

/// What goes over the keys may call everything.
#[test]
fn callbacks_may_use_the_map() {
    fn meddle(map: &Map<u64, TokenBucket>, key: u64) {
        let _ = map.check(&(key + 10_000), T);
        let _ = map.check(&key, T);
        let _ = map.peek(&key, T);
        map.refund(&key, T, 1);
        map.reset(&(key + 1));
        if key.is_multiple_of(50) {
            map.sweep(T);
            assert!(!map.is_empty() && map.len_live(T) > 0);
            assert!(map.iter(T).count() > 0);
            map.retain(T, |_, _| !map.is_empty());
        }
    }
    in_time(|| {
        let map = Map::new(TokenBucket::new(minutes(5, 1))).with_shards(1);
        for key in 0..2_000 {
            map.check(&key, T).unwrap();
        }
        for (key, _) in map.iter(T) {
            if key < 10_000 {
                meddle(&map, key);
            }
        }
        map.retain(T, |key, _| {
            if *key < 10_000 {
                meddle(&map, *key);
            }
            true
        });
        for _ in map.iter(T) {
            map.clear();
        }
        assert!(map.is_empty());
    });
}

/// However the map grows meanwhile, a visit sees each key that was there before, and once.
#[test]
fn a_visit_sees_each_key_once_while_segments_split() {
    const KEYS: u64 = 3_000;
    let map = Map::new(TokenBucket::new(minutes(5, 1))).with_shards(2);
    for key in 0..KEYS {
        map.check(&key, T).unwrap();
    }
    let mut seen = HashMap::<u64, u64>::new();
    let mut newcomers = KEYS..;
    for (key, _) in map.iter(T) {
        *seen.entry(key).or_default() += 1;
        for newcomer in newcomers.by_ref().take(4) {
            map.check(&newcomer, T).unwrap();
        }
    }
    assert!(map.len() as u64 > 4 * KEYS);
    assert!((0..KEYS).all(|key| seen.contains_key(&key)));
    assert!(seen.values().all(|&times| times == 1));
}

#[test]
fn retain_forgets_what_it_is_told_to() {
    let map: Map<u64, _> = Map::new(TokenBucket::new(minutes(5, 1)));
    for key in 0..5_000 {
        map.check_n(&key, T, 1 + key % 5).unwrap();
    }
    map.retain(T, |key, allowed| {
        assert_eq!(allowed.remaining(), 4 - key % 5);
        allowed.remaining() == 0
    });
    assert_eq!(map.len(), 1_000);
    assert!(map.iter(T).all(|(key, _)| key % 5 == 4));
}

/// What is kept for a key may be more than a word.
#[test]
fn logs() {
    let mut map: Map<String, SlidingLog<8>> = Map::new(SlidingLog::new(minutes(5, 1)));
    let later = |seconds| T.saturating_add(Duration::from_secs(seconds));
    for second in 0..5 {
        let allowed = map.check("alice", later(second)).unwrap();
        assert_eq!(allowed.remaining(), 4 - second);
    }
    let denied = map.check("alice", later(59)).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(map.check_n("bob", T, 5).unwrap().remaining(), 0);
    assert!(map.refund("bob", T, 2));

    map.retune(SlidingLog::new(minutes(7, 1)), later(5));
    assert_eq!(map.peek_n("alice", later(5), 0).unwrap().remaining(), 2);
    assert_eq!(map.peek_n("bob", later(5), 0).unwrap().remaining(), 4);

    // More than a segment, some idle.
    for number in 0..2_000 {
        let now = later(5 + number / 20);
        assert!(map.check(&format!("client {number}"), now).is_ok());
    }
    let now = later(5 + 1_999 / 20);
    map.sweep(now);
    assert_eq!((map.len(), map.len_live(now)), (1_200, 1_200));
    for number in 800..2_000 {
        let left = map.peek_n(&format!("client {number}"), now, 0).unwrap();
        assert_eq!(left.remaining(), 6);
    }
}
