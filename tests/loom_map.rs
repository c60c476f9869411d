//! The map's races, in every interleaving: states are atomic, and looked at by many under a shared lock.
//!
//! `std`'s lock is loom's here. Four keys make the only segment of these maps look for room.

#![cfg(all(tidegate_loom, feature = "std"))]

extern crate alloc;

use alloc::sync::Arc;
use core::hash::BuildHasher;

use loom::thread;
use tidegate::{FixedWindow, Map, OnFull, Quota, Seeded, Timestamp};

const T: Timestamp = Timestamp::from_secs(1_000_000);
const LATER: Timestamp = Timestamp::from_secs(1_000_060);

type Small = Map<u64, FixedWindow, Seeded>;

fn map(limit: u64) -> Small {
    let window = FixedWindow::new(Quota::per_minute(limit));
    // Loom has to find the same again in each execution.
    Map::with_hasher(window, Seeded::new([1, 2])).with_shards(1)
}

fn used(map: &Small, key: u64, now: Timestamp) -> u64 {
    map.algorithm().quota().limit() - map.peek_n(&key, now, 0).unwrap().remaining()
}

fn model(name: &str, body: impl Fn() + Send + Sync + 'static) {
    use loom::model::Builder;
    let executions = Arc::new(core::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&executions);
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        count.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        body();
    });
    let count = executions.load(core::sync::atomic::Ordering::Relaxed);
    println!("{name}: {count} executions");
    assert!(count > 1, "{name} has nothing to race");
}

/// A key is idle and about to be dropped for a newcomer while it asks again: its debit is kept, or it comes back as
/// a newcomer with it.
#[test]
fn a_request_against_the_drop_of_its_key() {
    model("a request against the drop of its key", || {
        let map = Arc::new(map(2));
        for key in 0..3 {
            map.check(&key, T).unwrap();
        }
        let other = Arc::clone(&map);
        let newcomer = thread::spawn(move || other.check(&3, LATER).is_ok());
        assert!(map.check(&0, LATER).is_ok());
        assert!(newcomer.join().unwrap());
        assert_eq!((used(&map, 0, LATER), used(&map, 3, LATER)), (1, 1));
        assert_eq!(map.len_live(LATER), 2);
        assert_eq!(map.iter(LATER).count(), map.len());
    });
}

#[test]
fn a_sweep_against_two_requests() {
    model("a sweep against two requests", || {
        let map = Arc::new(map(2));
        map.check(&0, T).unwrap();
        let other = Arc::clone(&map);
        let request = thread::spawn(move || other.check(&0, LATER).is_ok());
        map.sweep(LATER);
        assert!(map.check(&0, LATER).is_ok());
        assert!(request.join().unwrap());
        assert_eq!((used(&map, 0, LATER), map.len()), (2, 1));
        assert!(map.check(&0, LATER).is_err());
    });
}

/// Two bring in the same key: one entry, both counted.
#[test]
fn the_same_new_key_twice() {
    model("the same new key twice", || {
        let map = Arc::new(map(1));
        let other = Arc::clone(&map);
        let request = thread::spawn(move || other.check(&0, T).is_ok());
        let mine = map.check(&0, T).is_ok();
        assert!(mine != request.join().unwrap(), "one permit, one of them");
        assert_eq!((map.len(), used(&map, 0, T)), (1, 1));
    });
}

/// Two newcomers and one place.
#[test]
fn the_last_place() {
    for on_full in [OnFull::Deny, OnFull::Evict] {
        model("the last place", move || {
            let map = Arc::new(map(1).with_max_keys(1).on_full(on_full));
            let other = Arc::clone(&map);
            let request = thread::spawn(move || other.check(&0, T).is_ok());
            let mine = map.check(&1, T).is_ok();
            let theirs = request.join().unwrap();
            match on_full {
                OnFull::Evict => assert!(mine && theirs),
                _ => assert!(mine != theirs),
            }
            assert_eq!(map.len(), 1);
            let full = map.full_counts();
            assert_eq!(full.denied + full.evicted, 1);
        });
    }
}

/// Two newcomers from different shards, and one place for either.
#[test]
fn the_last_place_of_two_shards() {
    model("the last place of two shards", || {
        let map = Arc::new(map(1).with_shards(2).with_max_keys(2));
        assert_eq!(map.shards(), 2);
        // The documented bits of the hash.
        let shard = |key: &u64| map.hasher().hash_one(key) >> 41 & 1;
        let one = (1..).find(|key| shard(key) == 0).unwrap();
        let other = (1..).find(|key| shard(key) == 1).unwrap();
        map.check(&0, T).unwrap();
        let request = {
            let map = Arc::clone(&map);
            thread::spawn(move || map.check(&other, T).is_ok())
        };
        let mine = map.check(&one, T).is_ok();
        assert!(mine != request.join().unwrap());
        assert_eq!((map.len(), map.full_counts().denied), (2, 1));
    });
}

/// What is given back makes room, and whoever comes after it knows.
#[test]
fn a_refund_against_a_newcomer_to_a_full_map() {
    model("a refund against a newcomer to a full map", || {
        let map = Arc::new(map(1).with_max_keys(1));
        map.check(&0, T).unwrap();
        // It is known by now that nobody is idle for the rest of the minute.
        assert!(map.check(&1, T).is_err());
        let other = Arc::clone(&map);
        let refund = thread::spawn(move || assert!(other.refund(&0, T, 1)));
        let _ = map.check(&1, T);
        refund.join().unwrap();
        assert!(map.check(&1, T).is_ok() || used(&map, 1, T) == 1);
        assert_eq!(map.len(), 1);
    });
}

/// A visitor beside a newcomer sees who was there all the while, once.
#[test]
fn a_visit_against_a_newcomer() {
    model("a visit against a newcomer", || {
        let map = Arc::new(map(2));
        for key in 0..3 {
            map.check(&key, LATER).unwrap();
        }
        let other = Arc::clone(&map);
        let newcomer = thread::spawn(move || other.check(&3, LATER).is_ok());
        let mut seen: Vec<_> = map.iter(LATER).map(|(key, _)| key).collect();
        seen.sort_unstable();
        assert!(seen == [0, 1, 2] || seen == [0, 1, 2, 3]);
        assert!(newcomer.join().unwrap());
    });
}
