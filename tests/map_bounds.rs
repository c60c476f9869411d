//! What one call on a map looks at, and what memory a map has: counted.

#![cfg(all(feature = "std", not(tidegate_loom)))]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hash::{BuildHasher, Hash, Hasher};
use core::time::Duration;
use std::alloc::System;

use tidegate::{
    Algorithm, Allowed, Denied, FixedWindow, Map, OnFull, Quota, Seeded, Timestamp, TokenBucket,
};

/// Counts what each thread has of the heap.
struct Counting;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
    /// How many states were asked whether they are idle.
    static LOOKS: Cell<u64> = const { Cell::new(0) };
    /// How many keys were hashed.
    static HASHES: Cell<u64> = const { Cell::new(0) };
    /// How many keys were compared.
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it came. Counting neither allocates nor unwinds: the
// cell is const-initialised and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as i64);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as i64);
        // SAFETY: as above; the block came from there.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        BYTES.set(BYTES.get() + size as i64 - layout.size() as i64);
        // SAFETY: as above; the block came from there.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

#[derive(Clone, Copy)]
struct Key(u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        HASHES.set(HASHES.get() + 1);
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0 == other.0
    }
}

impl Eq for Key {}

struct Counted(TokenBucket);

impl Algorithm for Counted {
    type Word = u64;

    fn limit(&self) -> u64 {
        self.0.limit()
    }

    fn step(&self, state: u64, now: Timestamp, cost: u64) -> Result<(u64, Allowed), Denied> {
        self.0.step(state, now, cost)
    }

    fn refund(&self, state: u64, taken_at: Timestamp, cost: u64) -> u64 {
        self.0.refund(state, taken_at, cost)
    }

    fn idle_after(&self, state: u64, now: Timestamp) -> Duration {
        LOOKS.set(LOOKS.get() + 1);
        self.0.idle_after(state, now)
    }

    fn is_idle(&self, state: u64, now: Timestamp) -> bool {
        LOOKS.set(LOOKS.get() + 1);
        self.0.is_idle(state, now)
    }

    fn adopt(&self, old: &Self, state: u64, now: Timestamp) -> u64 {
        self.0.adopt(&old.0, state, now)
    }
}

/// What calls have looked at, at most.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    looks: u64,
    hashes: u64,
    comparisons: u64,
}

impl Most {
    fn of<T>(&mut self, call: impl FnOnce() -> T) -> T {
        LOOKS.set(0);
        HASHES.set(0);
        COMPARISONS.set(0);
        let result = call();
        self.looks = self.looks.max(LOOKS.get());
        self.hashes = self.hashes.max(HASHES.get());
        self.comparisons = self.comparisons.max(COMPARISONS.get());
        result
    }
}

/// The documented number of keys that are looked through at once.
const SEGMENT: u64 = 448;
const MANY: u64 = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};
const T: Timestamp = Timestamp::from_secs(1_000_000);
const LATER: Timestamp = Timestamp::from_secs(1_001_000);

fn counted() -> Counted {
    Counted(TokenBucket::new(Quota::per_minute(10)))
}

/// A million idle keys, dropped while as many come in: no call looks at more than a segment.
#[test]
fn no_call_visits_many_keys() {
    let map = Map::new(counted()).with_shards(8);
    let mut growing = Most::default();
    for key in 0..MANY {
        growing.of(|| map.check(&Key(key), T)).unwrap();
    }
    assert_eq!(map.len() as u64, MANY);
    let mut dropping = Most::default();
    for key in MANY..2 * MANY {
        dropping.of(|| map.check(&Key(key), LATER)).unwrap();
    }
    println!("growing: {growing:?}, dropping: {dropping:?}");
    assert!(map.len() as u64 <= MANY * 3 / 2, "{}", map.len());
    assert_eq!(map.len_live(LATER) as u64, MANY);
    for most in [growing, dropping] {
        assert!(most.looks <= SEGMENT, "{most:?}");
        // And the key's own.
        assert!(most.hashes <= SEGMENT + 1, "{most:?}");
        assert!(most.comparisons < 30, "{most:?}");
    }
    assert!(
        growing.hashes > SEGMENT / 2 && dropping.looks > SEGMENT / 2,
        "it was about something"
    );

    let mut known = Most::default();
    for key in MANY..2 * MANY {
        known.of(|| map.check(&Key(key), LATER)).unwrap();
    }
    assert_eq!((known.looks, known.hashes), (0, 1));
}

/// The same in a map that is full, of live keys and of idle ones.
#[test]
fn no_call_on_a_full_map_visits_many_keys() {
    for on_full in [OnFull::Deny, OnFull::Allow, OnFull::Evict] {
        let map = Map::new(counted())
            .with_shards(8)
            .with_max_keys(MANY as usize)
            .on_full(on_full);
        for key in 0..MANY {
            map.check(&Key(key), T).unwrap();
        }
        let mut live = Most::default();
        for key in MANY..MANY + MANY / 10 {
            let _ = live.of(|| map.check(&Key(key), T));
        }
        let full = map.full_counts();
        assert_eq!(full.denied + full.allowed + full.evicted, MANY / 10);
        let mut idle = Most::default();
        for key in 2 * MANY..3 * MANY {
            let _ = idle.of(|| map.check(&Key(key), LATER));
        }
        println!("{on_full:?}: among live keys {live:?}, among idle ones {idle:?}");
        for most in [live, idle] {
            assert!(most.looks <= 3 * SEGMENT, "{most:?}");
            assert!(most.hashes <= SEGMENT + 1, "{most:?}");
        }
        assert!(map.len() as u64 <= MANY);
    }
}

/// A flood of new keys on a map that is full of live ones does not look through them for each.
#[test]
fn a_full_map_is_not_looked_through_again_and_again() {
    const CAP: u64 = 4_000;
    let map = Map::new(counted()).with_max_keys(CAP as usize);
    for key in 0..CAP {
        map.check(&Key(key), T).unwrap();
    }
    LOOKS.set(0);
    for key in CAP..CAP + 100_000 {
        assert!(map.check(&Key(key), T).is_err());
    }
    let looks = LOOKS.get();
    assert!(looks <= CAP, "each key once: {looks}");
}

/// Runs a stream of keys that never come again, and returns the largest number of entries and of bytes.
fn stream<A: tidegate::Strategy>(
    map: &Map<u64, A>,
    keys: core::ops::Range<u64>,
    apart: u64,
) -> (usize, i64) {
    let before = BYTES.get();
    let (mut entries, mut bytes) = (0, 0);
    for key in keys {
        let now = LATER.saturating_add(Duration::from_nanos(key * apart));
        assert!(map.check(&key, now).is_ok());
        bytes = bytes.max(BYTES.get() - before);
        if key % 64 == 0 {
            entries = entries.max(map.len());
        }
    }
    (entries, bytes)
}

/// 2,000 keys are live at a time, and however many have come and gone, there are no more than a few times as many.
#[test]
fn memory_is_bounded_under_an_endless_stream() {
    const LIVE: u64 = 2_000;
    let bucket = TokenBucket::new(Quota::per_second(1_000));
    // A permit is back after a millisecond.
    let apart = 1_000_000 / LIVE;
    for shards in [1, 16] {
        let map = Map::new(bucket).with_shards(shards);
        let first = stream(&map, 0..50 * LIVE, apart);
        let rest = stream(&map, 50 * LIVE..50 * LIVE + MANY, apart);
        println!("{shards} shards: {first:?}, then {rest:?}");
        assert!(
            first.0.max(rest.0) as u64 <= 3 * LIVE,
            "{first:?}, {rest:?}"
        );
        // 16 bytes a key and a state.
        assert!(first.1 < LIVE as i64 * 16 * 6, "{first:?}");
        assert!(rest.1 < first.1 / 2, "it had all it needs: {rest:?}");
    }
}

/// After a rush, memory comes back by itself as far as newcomers come by, and by a sweep at once.
#[test]
fn memory_comes_back_after_a_rush() {
    let bucket = TokenBucket::new(Quota::per_second(1_000));
    let before = BYTES.get();
    let map = Map::new(bucket).with_shards(4);
    let empty = BYTES.get() - before;
    for key in 0..MANY {
        map.check(&(1 << 40 | key), T).unwrap();
    }
    let rush = BYTES.get() - before;
    assert!(rush > 16 * MANY as i64);

    // Enough to fill every segment once.
    stream(&map, 0..2 * MANY, 500);
    let after = BYTES.get() - before;
    assert!(after < rush / 4, "{after} of {rush}");
    assert!((map.len() as u64) < MANY / 4);

    map.sweep(Timestamp::MAX);
    assert!(map.is_empty());
    let swept = BYTES.get() - before;
    assert_eq!(swept, empty);
    drop(map);
    assert_eq!(BYTES.get(), before);
    // Not before: what is printed is kept on this heap, too.
    println!("empty {empty}, rush {rush}, after {after}");
}

/// A cleared map, and one that was retained to nothing, are as good as new.
#[test]
fn clear_gives_memory_back() {
    let map = Map::new(FixedWindow::new(Quota::per_minute(5))).with_shards(4);
    let empty = BYTES.get();
    for key in 0..50_000_u64 {
        map.check(&key, T).unwrap();
    }
    map.clear();
    assert_eq!(BYTES.get(), empty);
}

/// Hashes that do not spread: slow, but right, and the directory does not run away.
#[test]
fn bad_hashers_are_survived() {
    #[derive(Clone, Copy)]
    struct Masked(u64);

    impl BuildHasher for Masked {
        type Hasher = MaskedHasher;

        fn build_hasher(&self) -> MaskedHasher {
            MaskedHasher(self.0, Seeded::new([1, 2]).build_hasher())
        }
    }

    struct MaskedHasher(u64, <Seeded as BuildHasher>::Hasher);

    impl Hasher for MaskedHasher {
        fn write(&mut self, bytes: &[u8]) {
            self.1.write(bytes);
        }

        fn finish(&self) -> u64 {
            self.1.finish() & self.0
        }
    }

    const KEYS: u64 = 5_000;
    // Nothing; only the bucket; only low bits of the position; only the shard; only the first bits of the position.
    for mask in [0, 0x1ff, 0xffff << 9, 0xff << 41, 0xf << 37] {
        let before = BYTES.get();
        let map =
            Map::with_hasher(TokenBucket::new(Quota::per_minute(2)), Masked(mask)).with_shards(4);
        for key in 0..KEYS {
            assert_eq!(map.check(&key, T).unwrap().remaining(), 1, "{mask:x}");
        }
        for key in 0..KEYS {
            assert_eq!(map.check(&key, T).unwrap().remaining(), 0, "{mask:x}");
        }
        let mut seen: Vec<_> = map.iter(T).map(|(key, _)| key).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..KEYS));
        let bytes = BYTES.get() - before;
        assert!(bytes < KEYS as i64 * 16 * 6, "{mask:x}: {bytes}");
        for key in 0..KEYS {
            map.check(&(key | 1 << 40), LATER).unwrap();
        }
        map.sweep(Timestamp::MAX);
        assert!(map.is_empty());
    }
}
