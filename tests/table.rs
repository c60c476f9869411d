//! The keyed table: beside an exact map, interrupted, and on threads.

#![cfg(not(tidegate_loom))]

mod common;

use core::time::Duration;

use common::table_model::{Beside, Call, Limits, Raw, Seen, SplitMix, key};
use tidegate::{
    Algorithm, AtomicWord, FixedWindow, FullCounts, Line, OnFull, Quota, Reason, SliceTable,
    SlidingWindow, Timestamp, TokenBucket,
};

const T: Timestamp = Timestamp::from_secs(1_000_000);

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
        (20_000, 320)
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
        60_000
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
        let in_tag = (6..32).contains(&bit);
        assert_eq!(share(TokenBucket::narrow(quota), one, other), !in_tag);
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
            ),
            (
                BoxTable::with_capacity_and_hasher(narrow, live, Raw).capacity(),
                8,
            ),
        ] {
            let (capacity, slots) = capacity;
            assert_eq!(capacity % slots, 0);
            assert!(
                capacity >= 2 * live && capacity >= slots,
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
#[cfg(feature = "ahash")]
#[test]
fn statics() {
    use tidegate::Table;

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
