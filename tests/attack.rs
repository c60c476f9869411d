//! An endless stream of new keys at a full table: what it costs, and whom it hurts.

#![cfg(not(tidegate_loom))]

mod common;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::time::Duration;
use std::alloc::System;

use common::table_model::SplitMix;
use tidegate::{
    Algorithm, AtomicWord, FixedWindow, KeyedTable, Line, OnFull, Quota, Reason, SliceTable,
    SlidingWindow, Storage, Timestamp, TokenBucket,
};

/// Counts what each thread asks of the heap.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it came. Counting neither allocates nor unwinds: the
// cell is const-initialised and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; the block came from there.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above; the block came from there.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// Resident memory in bytes, where the system tells.
fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

const T: Timestamp = Timestamp::from_secs(1_000_000);
const FLOOD: u64 = if cfg!(debug_assertions) {
    60_000
} else {
    2_500_000
};
/// Keys from here on are the flood's.
const NEW: u64 = 1 << 32;

/// A splitmix64 of the key: as good as a secret hash against a flood that does not choose its keys.
#[derive(Clone, Copy, Debug, Default)]
struct Mixed;

#[derive(Debug)]
struct MixedHasher(u64);

impl core::hash::BuildHasher for Mixed {
    type Hasher = MixedHasher;

    fn build_hasher(&self) -> MixedHasher {
        MixedHasher(0)
    }
}

impl core::hash::Hasher for MixedHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = SplitMix(key).draw();
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Keys that have used up all they may: as many as half the table, of which those that got a slot.
fn drain_victims<A, L>(table: &KeyedTable<A, L, Mixed>) -> Vec<u64>
where
    A: Algorithm<Word: AtomicWord>,
    L: Storage<A::Word>,
{
    let limit = table.algorithm().limit();
    (0..table.capacity() as u64 / 2)
        .filter(|key| table.check_n(key, T, limit).is_ok())
        .collect()
}

/// Floods a table whose victims are drained, while a thousandth of their budget comes back, if that.
fn flood<A, L>(table: KeyedTable<A, L, Mixed>, on_full: OnFull)
where
    A: Algorithm<Word: AtomicWord>,
    L: Storage<A::Word>,
{
    let table = table.on_full(on_full);
    let victims = drain_victims(&table);
    assert!(victims.len() > table.capacity() / 2 - table.capacity() / 20);
    let pressed = table.full_counts();

    let memory = resident();
    let allocations = ALLOCATIONS.get();
    let capacity = table.capacity();
    let (mut passed, mut full) = (0, 0);
    for turn in 0..FLOOD {
        // Half the flood comes at once, the rest in the next minute.
        let late = turn.saturating_sub(FLOOD / 2) * (60_000_000_000 / FLOOD);
        let now = T.saturating_add(Duration::from_nanos(late));
        match table.check(&(NEW + turn), now) {
            Ok(_) => passed += 1,
            Err(denied) => {
                // New keys, so nothing else can be wrong with them.
                assert_eq!(denied.reason(), Reason::TableFull);
                full += 1;
            }
        }
        let victim = victims[turn as usize % victims.len()];
        let denied = table
            .check(&victim, now)
            .expect_err("drained before the flood");
        assert_eq!(denied.reason(), Reason::Limited);
    }
    for victim in &victims {
        assert!(table.check(victim, T).is_err(), "drained before the flood");
    }

    assert_eq!(ALLOCATIONS.get(), allocations, "no allocation");
    assert_eq!((table.capacity(), passed + full), (capacity, FLOOD));
    if let (Some(before), Some(after)) = (memory, resident()) {
        // Other tests of this program run meanwhile, and have tables of their own.
        assert!(after < before + (16 << 20), "{before} bytes, then {after}");
    }
    // The flood got what was free, and then all of it was in the way of itself.
    let counts = table.full_counts();
    let (refused, uncounted) = (
        counts.denied - pressed.denied,
        counts.allowed - pressed.allowed,
    );
    assert_eq!((refused, counts.evicted), (full, 0));
    match on_full {
        OnFull::Allow => assert_eq!((full, passed - uncounted <= capacity as u64), (0, true)),
        _ => assert_eq!((uncounted, passed <= capacity as u64), (0, true)),
    }
    assert!(refused + uncounted > FLOOD / 2);
}

/// Over every algorithm that keeps a day's budget, and both widths.
fn flood_all(on_full: OnFull) {
    let quota = Quota::per_day(50);
    macro_rules! each {
        ($($new:path),*) => {
            $({
                let lines = core::iter::repeat_with(Line::new).take(1_000).collect();
                flood(SliceTable::over_with_hasher($new(quota), Vec::leak(lines), Mixed), on_full);
            })*
        };
    }
    each!(
        TokenBucket::new,
        TokenBucket::narrow,
        FixedWindow::new,
        FixedWindow::anchored,
        FixedWindow::narrow_anchored,
        SlidingWindow::new,
        SlidingWindow::narrow
    );
}

#[test]
fn nobody_is_refreshed_under_deny() {
    flood_all(OnFull::Deny);
}

#[test]
fn nobody_is_refreshed_under_allow() {
    flood_all(OnFull::Allow);
}

/// Under `Evict` a flood does hand budgets back early, as documented; and it hands back those that would
/// have come back first.
#[test]
fn evict_is_lossy() {
    let lines = Vec::leak(core::iter::repeat_with(Line::new).take(250).collect());
    let bucket = TokenBucket::new(Quota::per_day(50));
    let table = SliceTable::over_with_hasher(bucket, lines, Mixed).on_full(OnFull::Evict);
    let victims = drain_victims(&table);
    for turn in 0..20_000 {
        assert!(table.check(&(NEW + turn), T).is_ok(), "never refused");
    }
    // A new key has used one permit, a victim all: newcomers displace each other first.
    let evicted = table.full_counts().evicted;
    assert!(evicted > 15_000, "{evicted}");
    let drained = |&victim: &&u64| table.check_n(victim, T, 0).unwrap().remaining() == 0;
    assert!(victims.iter().filter(drained).count() > victims.len() * 9 / 10);
    // Whoever drains the new keys as well, a little later, wears down the rest.
    let later = T.saturating_add(Duration::from_secs(1));
    for turn in 0..20_000 {
        assert!(table.check_n(&(2 * NEW + turn), later, 50).is_ok());
    }
    assert!(victims.iter().filter(drained).count() < victims.len() / 2);
}
