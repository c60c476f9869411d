//! A panic in any code of its user that the map calls, at any time: nobody else notices.

#![cfg(all(feature = "std", not(tidegate_loom)))]

use core::cell::Cell;
use core::hash::{Hash, Hasher};
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Once;

use tidegate::{Algorithm, Allowed, Denied, Map, OnFull, Quota, Reason, Timestamp, TokenBucket};

thread_local! {
    /// How many calls of the user's code are left until one panics; zero is never.
    static FUSE: Cell<u64> = const { Cell::new(0) };
}

const BANG: &str = "the fuse has burnt down";

fn burn() {
    let left = FUSE.get();
    FUSE.set(left.saturating_sub(1));
    if left == 1 {
        std::panic::panic_any(BANG);
    }
}

/// Says nothing of the panics that are meant to be.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&BANG) {
                usual(info);
            }
        }));
    });
}

struct Key(u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        burn();
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        burn();
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Self {
        burn();
        Self(self.0)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        burn();
    }
}

/// An algorithm that panics, too.
struct Fused(TokenBucket);

impl Algorithm for Fused {
    type Word = u64;

    fn limit(&self) -> u64 {
        burn();
        self.0.limit()
    }

    fn step(&self, state: u64, now: Timestamp, cost: u64) -> Result<(u64, Allowed), Denied> {
        burn();
        self.0.step(state, now, cost)
    }

    fn refund(&self, state: u64, taken_at: Timestamp, cost: u64) -> u64 {
        burn();
        self.0.refund(state, taken_at, cost)
    }

    fn idle_after(&self, state: u64, now: Timestamp) -> Duration {
        burn();
        self.0.idle_after(state, now)
    }

    fn is_idle(&self, state: u64, now: Timestamp) -> bool {
        burn();
        self.0.is_idle(state, now)
    }

    fn adopt(&self, old: &Self, state: u64, now: Timestamp) -> u64 {
        burn();
        self.0.adopt(&old.0, state, now)
    }
}

const EARLY: Timestamp = Timestamp::from_secs(1_000_000);
/// A key that has used one permit early is idle by now, one that has used more is not.
const NOW: Timestamp = Timestamp::from_secs(1_000_015);
const LIVE: u64 = 440;
const NEWCOMER: u64 = 1_000;

type Fragile = Map<Key, Fused>;

/// Live keys, and idle ones that make their segment full.
fn map(cap: Option<usize>, idle: u64, on_full: OnFull) -> Fragile {
    let mut map = Map::new(Fused(TokenBucket::new(Quota::per_minute(6)))).with_shards(1);
    if let Some(cap) = cap {
        map = map.with_max_keys(cap);
    }
    for key in 0..LIVE {
        map.check_n(&Key(key), EARLY, 4).unwrap();
    }
    for key in LIVE..LIVE + idle {
        map.check(&Key(key), EARLY).unwrap();
    }
    map.on_full(on_full)
}

/// Lets each call of the user's code in `operation` panic in turn, on a new map each time; in debug one of seven.
fn at_every_call(make: impl Fn() -> Fragile, operation: impl Fn(&Fragile), lost: usize) {
    quiet();
    let step = if cfg!(debug_assertions) { 7 } else { 1 };
    for fuse in (1..).step_by(step) {
        let map = make();
        FUSE.set(fuse);
        let result = catch_unwind(AssertUnwindSafe(|| operation(&map)));
        let left = FUSE.replace(0);
        if let Err(panic) = &result {
            assert_eq!(panic.downcast_ref::<&str>(), Some(&BANG));
        }

        // All live keys are there with what they have used, but for those that were to be displaced, or were given back to.
        let keys: Vec<_> = map.iter(NOW).collect();
        assert_eq!(keys.len(), map.len(), "fuse {fuse}");
        let used = (0..LIVE).filter(|&key| map.peek_n(&Key(key), NOW, 0).unwrap().remaining() < 4);
        let used = used.count();
        assert!(used + lost >= LIVE as usize, "fuse {fuse}: {used}");
        // No room is lost, and none gained.
        if let Some(cap) = map.max_keys() {
            let map = map.on_full(OnFull::Deny);
            for key in 10_000.. {
                match map.check_n(&Key(key), NOW, 6) {
                    Ok(_) => {}
                    Err(denied) => {
                        assert_eq!(denied.reason(), Reason::TableFull);
                        break;
                    }
                }
            }
            assert_eq!(map.len(), cap, "fuse {fuse}");
        } else {
            assert!(map.check(&Key(NEWCOMER + 1), NOW).is_ok());
        }
        if left > 0 {
            assert!(result.is_ok());
            return;
        }
    }
}

fn newcomer(map: &Fragile) {
    let key = Key(NEWCOMER);
    let _ = map.check(&key, NOW);
    core::mem::forget(key);
}

#[test]
fn while_a_segment_drops_its_idle_keys_and_splits() {
    for cap in [None, Some(500)] {
        at_every_call(|| map(cap, 8, OnFull::Deny), newcomer, 0);
    }
}

#[test]
fn while_a_segment_splits() {
    at_every_call(
        || {
            let map = map(None, 0, OnFull::Deny);
            for key in LIVE..448 {
                map.check_n(&Key(key), EARLY, 4).unwrap();
            }
            map
        },
        newcomer,
        0,
    );
}

#[test]
fn while_a_full_map_looks_for_room() {
    for on_full in [OnFull::Deny, OnFull::Allow] {
        at_every_call(|| map(Some(LIVE as usize), 0, on_full), newcomer, 0);
        at_every_call(|| map(Some(LIVE as usize + 5), 5, on_full), newcomer, 0);
    }
    at_every_call(|| map(Some(LIVE as usize), 0, OnFull::Evict), newcomer, 1);
}

#[test]
fn while_idle_keys_are_swept() {
    for cap in [None, Some(500)] {
        at_every_call(|| map(cap, 30, OnFull::Deny), |map| map.sweep(NOW), 0);
    }
}

#[test]
fn while_keys_are_visited() {
    for cap in [None, Some(500)] {
        let make = || map(cap, 3, OnFull::Deny);
        at_every_call(make, |map| _ = map.iter(NOW).map(|_| burn()).count(), 0);
        at_every_call(make, |map| _ = map.len_live(NOW), 0);
        let drop_idle = |map: &Fragile| {
            map.retain(NOW, |key, _| {
                burn();
                key.0 < LIVE
            });
        };
        at_every_call(make, drop_idle, 0);
    }
}

#[test]
fn while_one_key_is_asked_for() {
    let make = || map(Some(450), 3, OnFull::Deny);
    let known = Key(7);
    at_every_call(make, |map| _ = map.check(&known, NOW), 0);
    at_every_call(make, |map| _ = map.peek(&known, NOW), 0);
    at_every_call(make, |map| _ = map.refund(&known, NOW, 1), 1);
    at_every_call(make, |map| map.reset(&known), 1);
    at_every_call(make, |map| map.clear(), LIVE as usize);
}
