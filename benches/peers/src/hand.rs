//! What people write by hand.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use dashmap::DashMap;

use crate::floors::Cell;
use crate::subject::{Keyed, Load, now};

/// A concurrent map of GCRA cells.
pub struct Dash<K: Eq + Hash> {
    cell: Cell,
    map: DashMap<K, AtomicU64, ahash::RandomState>,
}

impl<K: Eq + Hash> Dash<K> {
    pub fn new(load: Load) -> Self {
        Self {
            cell: Cell::new(load),
            map: DashMap::default(),
        }
    }
}

impl<K: Copy + Eq + Hash + Send + Sync> Keyed<K> for Dash<K> {
    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        // A hit needs no more than the shard's shared lock.
        match self.map.get(key) {
            Some(state) => self.cell.admit(&state),
            None => self.cell.admit(&self.map.entry(*key).or_default()),
        }
    }

    fn sweep(&self) -> bool {
        let now = now();
        self.map.retain(|_, full_again| *full_again.get_mut() > now);
        self.map.shrink_to_fit();
        true
    }
}

/// A token bucket in floating point.
struct Bucket {
    tokens: f64,
    at: u64,
}

/// One lock around the standard map.
pub struct Locked<K> {
    burst: f64,
    /// Tokens a nanosecond.
    rate: f64,
    map: Mutex<HashMap<K, Bucket>>,
}

impl<K> Locked<K> {
    pub fn new(load: Load) -> Self {
        let (per, burst) = load.gcra();
        Self {
            burst: burst as f64,
            rate: 1.0 / per as f64,
            map: Mutex::default(),
        }
    }
}

impl<K: Copy + Eq + Hash + Send> Keyed<K> for Locked<K> {
    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        let now = now();
        let mut map = self.map.lock().unwrap();
        let bucket = map.entry(*key).or_insert(Bucket {
            tokens: self.burst,
            at: now,
        });
        let refilled = now.saturating_sub(bucket.at) as f64 * self.rate;
        bucket.tokens = (bucket.tokens + refilled).min(self.burst);
        bucket.at = now;
        let passes = bucket.tokens >= 1.0;
        if passes {
            bucket.tokens -= 1.0;
        }
        passes
    }

    fn sweep(&self) -> bool {
        let now = now();
        let mut map = self.map.lock().unwrap();
        map.retain(|_, bucket| {
            bucket.tokens + now.saturating_sub(bucket.at) as f64 * self.rate < self.burst
        });
        map.shrink_to_fit();
        true
    }
}
