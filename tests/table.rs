//! The keyed table: beside an exact map, interrupted, and on threads.

#![cfg(not(tidegate_loom))]

extern crate alloc;

mod common;

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Barrier;

use common::table_model::{Beside, Call, Limits, Raw, Seen, SplitMix, key};
use tidegate::{
    Algorithm, Allowed, AtomicWord, Denied, FixedWindow, FullCounts, Line, OnFull, Quota,
    SliceTable, SlidingWindow, Timestamp, TokenBucket,
};

/// About a second, and a whole number of units of any window here: a window that is given back all it counted is
/// idle only when its first unit begins.
const SECOND: u64 = 1 << 30;
const T: Timestamp = Timestamp::from_nanos(1_012_345 * SECOND);

fn lines<W: AtomicWord>(count: usize) -> &'static [Line<W>] {
    Vec::leak(core::iter::repeat_with(Line::new).take(count).collect())
}

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

/// Random calls on a table and the map. Says what it saw, and how many slots there were.
fn beside<A>(
    count: usize,
    keys_a_slot: usize,
    on_full: OnFull,
    limits: [Limits<A>; 2],
    steps: u64,
) -> (Seen, u64)
where
    A: Algorithm<Word: AtomicWord> + Copy,
{
    let table = SliceTable::over_with_hasher(limits[0].table, lines(count), Raw);
    let capacity = table.capacity();
    let keys = capacity * keys_a_slot;
    let mut beside = Beside::new(table, on_full, limits, 60_000_000_000, keys);
    let mut random = SplitMix(capacity as u64);
    for _ in 0..steps {
        beside.play(Call::random(&mut random));
    }
    (beside.seen(), capacity as u64)
}

/// Tables of a few lines, with three times as many keys as slots, all of them taken and given up all the time.
fn tiny(on_full: OnFull) {
    let (steps, lives) = if cfg!(debug_assertions) {
        (2_000, 32)
    } else {
        (40_000, 640)
    };
    for count in [1, 2, 3, 5] {
        for (limit, tier) in [(1, 1), (7, 5), (60, 33)] {
            for_each_algorithm!(limit, tier, |limits| {
                let (seen, slots) = beside(count, 3, on_full, limits, steps);
                assert!(seen.newcomers > slots * lives, "generations wrap: {seen:?}");
                assert!(count > 2 || seen.full > steps / 200, "it fills: {seen:?}");
                assert!(seen.limited > steps / 200, "so do keys: {seen:?}");
            });
        }
    }
}

#[test]
fn tiny_tables_that_deny() {
    tiny(OnFull::Deny);
}

#[test]
fn tiny_tables_that_allow() {
    tiny(OnFull::Allow);
}

#[test]
fn tiny_tables_that_evict() {
    tiny(OnFull::Evict);
}

/// Many lines, more keys than slots, and time that passes slowly.
#[test]
fn large_tables() {
    let steps = if cfg!(debug_assertions) {
        2_000
    } else {
        20_000
    };
    for on_full in [OnFull::Deny, OnFull::Allow, OnFull::Evict] {
        for_each_algorithm!(7, 5, |limits: [Limits<_>; 2]| {
            let table = SliceTable::over_with_hasher(limits[0].table, lines(50), Raw);
            let mut beside = Beside::new(table, on_full, limits, 100_000_000, 600);
            let mut random = SplitMix(1);
            for _ in 0..steps {
                let mut call = Call::random(&mut random);
                if random.below(2_000) > 0 {
                    // No day off, and nobody forgets everything.
                    call.when %= 208;
                    call.what %= 253;
                }
                beside.play(call);
            }
            let seen = beside.seen();
            assert!(seen.full > 10, "{seen:?}");
            assert!(seen.admitted - seen.newcomers > steps / 10, "{seen:?}");
        });
    }
}

/// A forgotten key leaves a slot that is its own and unused; newcomers get it in the end.
#[test]
fn slots_that_were_reset_are_free() {
    for on_full in [OnFull::Deny, OnFull::Allow, OnFull::Evict] {
        for_each_algorithm!(7, 5, |limits: [Limits<_>; 2]| {
            let table = SliceTable::over_with_hasher(limits[0].table, lines(1), Raw);
            let table = table.on_full(on_full);
            let capacity = table.capacity();
            for round in 0..40 {
                let keys: Vec<_> = (0..capacity)
                    .map(|slot| key(round * capacity + slot))
                    .collect();
                for key in &keys {
                    assert_eq!(table.check(key, T).unwrap().remaining(), 6);
                }
                assert_eq!(table.len_live(T), capacity);
                for key in &keys {
                    table.reset(key);
                }
                assert_eq!(table.len_live(T), 0);
            }
            assert_eq!(
                table.full_counts(),
                FullCounts::default(),
                "nobody was in the way"
            );
        });
    }
}

/// What makes two keys one: the documented fingerprint, and a line that both may be in.
#[test]
fn equal_fingerprints_share() {
    fn share<A: Algorithm<Word: AtomicWord>>(algorithm: A, one: u64, other: u64) -> bool {
        let table = SliceTable::over_with_hasher(algorithm, lines(1), Raw);
        table.check(&one, T).unwrap();
        table.check(&other, T).unwrap().remaining() == 5
    }
    let quota = Quota::per_minute(7);
    let one = key(1);
    for bit in 0..64 {
        let other = one ^ 1 << bit;
        assert_eq!(share(TokenBucket::new(quota), one, other), bit < 6);
        assert_eq!(share(TokenBucket::narrow(quota), one, other), bit < 38);
    }
}

/// The largest sizes and the smallest.
#[cfg(feature = "alloc")]
#[test]
fn boxed_tables() {
    use tidegate::BoxTable;

    let wide = TokenBucket::new(Quota::per_minute(7));
    let narrow = TokenBucket::narrow(Quota::per_minute(7));
    for live in [0, 1, 2, 3, 4, 5, 7, 1_000, 1_001] {
        for capacity in [
            (
                BoxTable::with_capacity_and_hasher(wide, live, Raw).capacity(),
                4,
                4,
            ),
            (
                BoxTable::with_capacity_and_hasher(narrow, live, Raw).capacity(),
                8,
                3,
            ),
        ] {
            // Slots for two live keys: four of the wide word, three of the narrow.
            let (capacity, slots, least) = capacity;
            assert_eq!(capacity % slots, 0);
            assert!(
                capacity >= live * least / 2 && capacity >= slots,
                "{capacity} for {live}"
            );
            assert!(capacity < 2 * live.max(1) + slots, "{capacity} for {live}");
        }
    }
    let table = BoxTable::with_lines(wide, 0, Raw);
    assert_eq!(table.capacity(), 4);
    assert_eq!(table.check(&key(1), T).unwrap().remaining(), 6);
    let shown = format!("{table:?}");
    assert!(shown.contains("capacity: 4"), "{shown}");
}

/// As `boxed_tables`, inline: in a `static`, with the default hasher.
#[cfg(any(feature = "ahash", feature = "foldhash"))]
#[test]
fn statics() {
    use tidegate::{Reason, Table};

    static TABLE: Table<SlidingWindow<u32>, 3> =
        Table::new(SlidingWindow::narrow(Quota::per_minute(7))).on_full(OnFull::Allow);
    TABLE.hasher().reseed([1, 2]);
    for key in ["a", "b", "c"] {
        for left in (0..7).rev() {
            assert_eq!(TABLE.check(key, T).unwrap().remaining(), left);
        }
        assert_eq!(TABLE.check(key, T).unwrap_err().reason(), Reason::Limited);
    }
    assert_eq!((TABLE.capacity(), TABLE.len_live(T)), (24, 3));
    assert_eq!(size_of_val(&TABLE) % 64, 0);
}

/// An algorithm that is interrupted: whatever the thread has set up runs in the midst of a decision, between
/// the table's look at a slot and its exchange.
#[derive(Clone, Copy, Debug)]
struct Interrupted<A>(A);

thread_local! {
    static INTERRUPT: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

fn interrupt() {
    let handler = INTERRUPT.with_borrow(Clone::clone);
    if let Some(handler) = handler {
        handler();
    }
}

fn on_interrupt(handler: impl Fn() + 'static) {
    INTERRUPT.set(Some(Rc::new(handler)));
}

impl<A: Algorithm> Algorithm for Interrupted<A> {
    type Word = A::Word;

    fn limit(&self) -> u64 {
        self.0.limit()
    }

    fn step(
        &self,
        state: A::Word,
        now: Timestamp,
        cost: u64,
    ) -> Result<(A::Word, Allowed), Denied> {
        interrupt();
        self.0.step(state, now, cost)
    }

    fn refund(&self, state: A::Word, taken_at: Timestamp, cost: u64) -> A::Word {
        interrupt();
        self.0.refund(state, taken_at, cost)
    }

    fn idle_after(&self, state: A::Word, now: Timestamp) -> Duration {
        interrupt();
        self.0.idle_after(state, now)
    }

    fn is_idle(&self, state: A::Word, now: Timestamp) -> bool {
        interrupt();
        self.0.is_idle(state, now)
    }

    fn adopt(&self, old: &Self, state: A::Word, now: Timestamp) -> A::Word {
        self.0.adopt(&old.0, state, now)
    }
}

/// Runs a body over every algorithm and width.
macro_rules! for_each_alone {
    ($limit:expr, $body:expr) => {
        for_each_algorithm!($limit, $limit, |limits: [Limits<_>; 2]| $body(
            limits[0].table
        ))
    };
}

type Threads<A> = SliceTable<Interrupted<A>, Raw>;

/// A table while the clock stands still, then moves on, with what each key keeps taken of it beside.
///
/// While it stands the order of requests does not matter, so an exact map can say what is left in the end. And
/// no more hands are changed than four bits can count.
struct Ledger<A: Algorithm<Word: AtomicWord>> {
    table: Threads<A>,
    now: AtomicU64,
    /// Permits taken since the clock stands, less those given back.
    kept: Vec<AtomicU64>,
    refused: AtomicU64,
    admitted: AtomicU64,
}

impl<A: Algorithm<Word: AtomicWord> + Copy> Ledger<A> {
    fn new(algorithm: A, count: usize, keys_a_slot: usize) -> Self {
        let table = SliceTable::over_with_hasher(Interrupted(algorithm), lines(count), Raw);
        Self {
            now: AtomicU64::new(T.as_nanos()),
            kept: (0..table.capacity() * keys_a_slot)
                .map(|_| AtomicU64::new(0))
                .collect(),
            table,
            refused: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(Ordering::Relaxed))
    }

    /// Takes from some key; its number, if that was granted.
    fn take(&self, random: &mut SplitMix, cost: u64) -> Option<usize> {
        let number = random.below(self.kept.len() as u64) as usize;
        if self.table.check_n(&key(number), self.now(), cost).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.admitted.fetch_add(1, Ordering::Relaxed);
        self.kept[number].fetch_add(cost, Ordering::Relaxed);
        Some(number)
    }

    fn give_back(&self, number: usize, cost: u64) {
        self.kept[number].fetch_sub(cost, Ordering::Relaxed);
        let changed = self.table.refund(&key(number), self.now(), cost);
        assert!(changed, "a live key keeps its slot");
    }

    /// Everybody is done: compares, and moves the clock on.
    fn audit(&self, words: &mut [A::Word], forward: u64) {
        let (algorithm, now) = (self.table.algorithm().0, self.now());
        let mut live = 0;
        for (number, word) in words.iter_mut().enumerate() {
            let kept = self.kept[number].swap(0, Ordering::Relaxed);
            if kept > 0 {
                let stepped = algorithm.step(*word, now, kept);
                *word = stepped.expect("no more than the limit was granted").0;
            }
            let expected = algorithm.step(*word, now, 0).unwrap().1;
            let told = self.table.check_n(&key(number), now, 0).unwrap();
            assert_eq!(told, expected, "key {number} kept {kept}");
            live += usize::from(!algorithm.is_idle(*word, now));
        }
        // One slot for each, and nothing else in use.
        assert_eq!(
            self.table.len_live(now),
            live,
            "{}",
            core::any::type_name::<A>()
        );
        self.now.fetch_add(forward, Ordering::Relaxed);
    }
}

/// How the clock moves on: by a permit, a part of one, or far enough for everybody to be idle.
fn forward(random: &mut SplitMix) -> u64 {
    SECOND * [1, 20, 60, 400][random.below(4) as usize]
}

/// Interrupt handlers may call everything, having interrupted anything.
#[test]
fn interrupted_anywhere() {
    fn play<A: Algorithm<Word: AtomicWord> + Copy + 'static>(algorithm: A, count: usize) {
        let ledger = Rc::new(Ledger::new(algorithm, count, 3));
        let random = Rc::new(RefCell::new(SplitMix(count as u64)));
        let interrupts = Rc::new(Cell::new(0));
        // How many more may interrupt the call at hand: fewer than a slot has generations.
        let left = Rc::new(Cell::new(0_u32));

        let call = {
            let (ledger, random) = (Rc::clone(&ledger), Rc::clone(&random));
            move || {
                let mut mine = SplitMix(random.borrow_mut().draw());
                match mine.below(16) {
                    0 => ledger.table.sweep(ledger.now()),
                    1 => assert!(ledger.table.len_live(ledger.now()) <= ledger.table.capacity()),
                    2 => {
                        _ = ledger
                            .table
                            .peek(&key(mine.below(8) as usize), ledger.now())
                    }
                    3..=8 => {
                        let cost = 1 + mine.below(2);
                        if let Some(number) = ledger.take(&mut mine, cost) {
                            ledger.give_back(number, cost);
                        }
                    }
                    _ => _ = ledger.take(&mut mine, 1),
                }
            }
        };
        on_interrupt({
            let (call, random, left) = (call.clone(), Rc::clone(&random), Rc::clone(&left));
            let interrupts = Rc::clone(&interrupts);
            move || {
                if left.get() > 0 && random.borrow_mut().below(6) == 0 {
                    left.set(left.get() - 1);
                    interrupts.set(interrupts.get() + 1);
                    call();
                }
            }
        });

        let rounds = if cfg!(debug_assertions) { 100 } else { 4_000 };
        let mut words = vec![A::Word::default(); ledger.kept.len()];
        for _ in 0..rounds {
            for _ in 0..6 {
                left.set(5);
                call();
            }
            left.set(0);
            let step = forward(&mut random.borrow_mut());
            ledger.audit(&mut words, step);
        }
        INTERRUPT.set(None);
        let (admitted, refused) = (&ledger.admitted, &ledger.refused);
        assert!(interrupts.get() > rounds);
        assert!(admitted.load(Ordering::Relaxed) > rounds);
        assert!(refused.load(Ordering::Relaxed) > rounds / 10);
    }
    for limit in [1, 2, 5] {
        for_each_alone!(limit, |algorithm| {
            play(algorithm, 1);
            play(algorithm, 2);
        });
    }
}

/// On real threads, which give way to each other in the midst of decisions.
#[test]
fn permits_are_conserved_on_threads() {
    fn stress<A>(algorithm: A, count: usize)
    where
        A: Algorithm<Word: AtomicWord> + Copy + Send + Sync,
    {
        const THREADS: usize = 4;
        let rounds = if cfg!(debug_assertions) { 30 } else { 150 };
        let ledger = Ledger::new(algorithm, count, 3);
        let mut words = vec![A::Word::default(); ledger.kept.len()];
        let mut random = SplitMix(count as u64);
        for _ in 0..rounds {
            let barrier = Barrier::new(THREADS);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    let (ledger, barrier) = (&ledger, &barrier);
                    let mut random = SplitMix(random.draw());
                    scope.spawn(move || {
                        give_way_sometimes(random.draw());
                        barrier.wait();
                        // In all fewer than sixteen takers, so that no slot comes round to a generation.
                        let borrowed = ledger.take(&mut random, 1);
                        ledger.take(&mut random, 1);
                        if let Some(number) = borrowed {
                            ledger.give_back(number, 1);
                        }
                        ledger.take(&mut random, 1);
                    });
                }
            });
            ledger.audit(&mut words, forward(&mut random));
        }
        assert!(ledger.admitted.load(Ordering::Relaxed) > rounds);
        assert!(ledger.refused.load(Ordering::Relaxed) > 0);
    }
    for limit in [1, 3] {
        for_each_alone!(limit, |algorithm| {
            stress(algorithm, 1);
            stress(algorithm, 2);
        });
    }
}

/// Sets this thread up to give way to others in one decision of eight.
fn give_way_sometimes(seed: u64) {
    let random = RefCell::new(SplitMix(seed));
    on_interrupt(move || match random.borrow_mut().below(64) {
        0..=3 => std::thread::yield_now(),
        4..=19 => core::hint::spin_loop(),
        _ => {}
    });
}

/// While the clock stands still, each key that has a slot gets its limit, and not one permit more.
#[test]
fn exactly_the_limit_on_threads() {
    fn race<A>(algorithm: A)
    where
        A: Algorithm<Word: AtomicWord> + Copy + Send + Sync,
    {
        const THREADS: usize = 4;
        let limit = algorithm.limit();
        let ledger = Ledger::new(algorithm, 1, 3);
        let keys = ledger.kept.len();
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (ledger, barrier) = (&ledger, &barrier);
                scope.spawn(move || {
                    give_way_sometimes(thread as u64);
                    barrier.wait();
                    for turn in 0..keys * limit as usize {
                        let number = (turn + thread) % keys;
                        if ledger.table.check(&key(number), T).is_ok() {
                            ledger.kept[number].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let mut served = 0;
        for number in 0..keys {
            // Whoever was told of a full table in the rush is not by now, if it has a slot.
            while ledger.table.check(&key(number), T).is_ok() {
                ledger.kept[number].fetch_add(1, Ordering::Relaxed);
            }
            let kept = ledger.kept[number].load(Ordering::Relaxed);
            assert!(kept == limit || kept == 0, "{kept} of {limit}");
            served += usize::from(kept > 0);
        }
        assert_eq!(served, ledger.table.capacity());
        assert_eq!(ledger.table.len_live(T), served);
    }
    for _ in 0..if cfg!(debug_assertions) { 5 } else { 25 } {
        for_each_alone!(20, |algorithm| race(algorithm));
    }
}

/// A clock that runs while threads decide, so that keys become idle, lose their slots and come back all the time:
/// what each key was granted keeps to the bucket's law.
#[test]
fn bucket_law_on_threads() {
    /// Nanoseconds a permit.
    const PER: u64 = 60_000_000_000 / 6_000;
    const BURST: u64 = 3;
    /// How far ahead of the slowest thread the others may decide. Of each change of hands a late request may
    /// make so much, which the law below allows for; and no slot changes hands sixteen times meanwhile.
    const LATE: u64 = PER / 8;
    const THREADS: usize = 4;

    struct Grant {
        key: usize,
        asked: u64,
        granted: u64,
    }

    fn stress<A>(algorithm: A, count: usize)
    where
        A: Algorithm<Word: AtomicWord> + Copy + Send + Sync,
    {
        let requests = if cfg!(debug_assertions) {
            4_000
        } else {
            40_000
        };
        let table: Threads<A> =
            SliceTable::over_with_hasher(Interrupted(algorithm), lines(count), Raw);
        let keys = table.capacity() * 2;
        let clock = AtomicU64::new(T.as_nanos());
        let stamps: [AtomicU64; THREADS] = [const { AtomicU64::new(T.as_nanos()) }; THREADS];
        let mut grants: Vec<Grant> = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|thread| {
                let (table, clock, stamps) = (&table, &clock, &stamps);
                scope.spawn(move || {
                    let mut random = SplitMix((count * THREADS + thread) as u64);
                    give_way_sometimes(thread as u64);
                    let mut grants = Vec::new();
                    for _ in 0..requests {
                        let asked = clock.fetch_add(1 + random.below(PER / 16), Ordering::SeqCst);
                        stamps[thread].store(asked, Ordering::SeqCst);
                        while stamps
                            .iter()
                            .any(|other| other.load(Ordering::SeqCst) + LATE < asked)
                        {
                            std::thread::yield_now();
                        }
                        // A few keys ask far more often than the rest.
                        let key_number = (random.below(keys as u64) * random.below(4) / 3) as usize;
                        if table
                            .check(&key(key_number), Timestamp::from_nanos(asked))
                            .is_ok()
                        {
                            grants.push(Grant {
                                key: key_number,
                                asked,
                                granted: clock.load(Ordering::SeqCst),
                            });
                        }
                    }
                    stamps[thread].store(u64::MAX / 2, Ordering::SeqCst);
                    grants
                })
            });
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(table.full_counts().denied > 0, "it fills");

        grants.sort_by_key(|grant| (grant.key, grant.asked));
        let mut tight = 0;
        for grants in grants.chunk_by(|one, other| one.key == other.key) {
            for (first, from) in grants.iter().enumerate() {
                let mut until = 0;
                for (count, to) in grants[first..].iter().take(40).enumerate() {
                    until = until.max(to.granted);
                    let granted = count as u64 + 1;
                    let most = BURST * PER + (until - from.asked);
                    assert!(
                        granted * (PER - LATE) <= most,
                        "{granted} in {} ns",
                        until - from.asked
                    );
                    tight += u64::from((granted + 1) * PER > most);
                }
            }
        }
        assert!(tight > 0, "some key was granted all it may");
    }
    let quota = Quota::per_minute(6_000);
    for count in [1, 2] {
        stress(TokenBucket::new(quota).with_burst(BURST), count);
        stress(TokenBucket::narrow_with_burst(quota, BURST), count);
    }
}

/// Keys of every usual kind are told apart, whatever the seeds, those of a table that was never seeded above all.
#[cfg(any(feature = "ahash", feature = "foldhash"))]
#[test]
fn hashes_differ() {
    use core::hash::{BuildHasher, Hash};
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::collections::HashSet;
    use tidegate::Seeded;

    const KEYS: u32 = 20_000;

    fn check<K: Hash>(what: &str, seeds: [u64; 2], key: impl Fn(u32) -> K) {
        let hasher = Seeded::new(seeds);
        let hashes: Vec<u64> = (0..KEYS).map(|index| hasher.hash_one(key(index))).collect();
        // Of so few, no two are likely to agree in 58 bits, and not one in a hundred shares its highest 26, or its
        // lowest 32, with another.
        for (bits, shift, apart) in [(58, 6, KEYS), (26, 38, KEYS - KEYS / 100)] {
            let distinct: HashSet<u64> = hashes.iter().map(|hash| hash >> shift).collect();
            assert!(
                distinct.len() >= apart as usize,
                "{what}, {seeds:?}: {} of {bits} bits",
                distinct.len()
            );
        }
        let low: HashSet<u32> = hashes.iter().map(|&hash| hash as u32).collect();
        assert!(
            low.len() >= (KEYS - KEYS / 100) as usize,
            "{what}, {seeds:?}: {}",
            low.len()
        );
    }

    for seeds in [[0, 0], [1, 0], [0, 1], [1, 2], [u64::MAX; 2]] {
        check("u8 pairs", seeds, |i| (i as u8, (i >> 8) as u8));
        check("u16 and u16", seeds, |i| (i as u16, i as u16));
        check("u32", seeds, |i| i);
        check("u64", seeds, u64::from);
        check("u64 in steps", seeds, |i| u64::from(i) << 40);
        check("u128", seeds, |i| u128::from(i) << 64);
        check("bytes of an address", seeds, |i| i.to_be_bytes());
        check("Ipv4Addr", seeds, Ipv4Addr::from);
        check("IpAddr, 4", seeds, |i| IpAddr::from(Ipv4Addr::from(i)));
        check("IpAddr, 6", seeds, |i| {
            IpAddr::from(Ipv6Addr::from(u128::from(i) << 64))
        });
        check("SocketAddr", seeds, |i| {
            SocketAddr::from((Ipv4Addr::from(i), 80))
        });
        check("MAC address", seeds, |i| {
            let [a, b, c, d] = i.to_be_bytes();
            [2, 0, a, b, c, d]
        });
        check("str", seeds, |i| i.to_string());
        check("name and route", seeds, |i| {
            (format!("client-{i}"), "/login")
        });
    }
}

/// Two of 100,000 keys beside narrow words: how many pairs have one fingerprint, and how many of those share a slot.
#[cfg(any(feature = "ahash", feature = "foldhash"))]
#[test]
fn narrow_collisions() {
    use core::hash::BuildHasher;
    use tidegate::Seeded;

    const KEYS: u64 = 100_000;
    const LINES: usize = 16;

    /// Whether a count is what chance would have it, give or take five standard deviations. It may be half as many:
    /// the upper and the lower half of a `foldhash` of consecutive numbers are not quite independent, in favour of
    /// fewer that share.
    fn assert_near(count: u64, expected: f64, what: &str) {
        println!("{what}: {count}, expected {expected:.1}");
        let deviation = expected.sqrt();
        let most = expected + 5.0 * deviation;
        let fewest = expected / 2.0 - 5.0 * deviation;
        assert!(
            (fewest..most).contains(&(count as f64)),
            "{what}: {count}, expected {expected:.1}"
        );
    }

    let bucket = TokenBucket::narrow(Quota::per_minute(7));
    let seeds = if cfg!(debug_assertions) { 10 } else { 60 };
    let (mut pairs, mut shared, mut shared_crowded) = (0, 0, 0);
    for seed in 0..seeds {
        let hasher = Seeded::new([seed, seed * seed]);
        let mut hashes: Vec<u64> = (0..KEYS).map(|key| hasher.hash_one(key)).collect();
        let fingerprint = |hash: &u64| *hash >> 38;
        hashes.sort_unstable_by_key(fingerprint);
        for pair in hashes.windows(2) {
            if fingerprint(&pair[0]) != fingerprint(&pair[1]) {
                continue;
            }
            pairs += 1;
            let share = |live_slots: u64| {
                let table = SliceTable::over_with_hasher(bucket, lines(LINES), Raw);
                for number in 0..live_slots {
                    let hash = SplitMix(seed ^ pairs << 20 ^ number << 40).draw();
                    let _ = table.check(&hash, T);
                }
                table.check(&pair[0], T).unwrap();
                table.check(&pair[1], T).unwrap().remaining() == 5
            };
            shared += u64::from(share(0));
            shared_crowded += u64::from(share(4 * LINES as u64));
        }
    }
    let all = (seeds * KEYS * (KEYS - 1) / 2) as f64;
    assert_near(pairs, all / f64::from(1 << 26), "pairs of one fingerprint");
    // The later of two finds the earlier if that is in one of its own two lines.
    let expected = pairs as f64 * 2.0 / LINES as f64;
    assert_near(shared, expected, "sharing a slot");
    assert_near(shared_crowded, expected, "the same in a half full table");
}
