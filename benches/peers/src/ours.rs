//! tidegate's table, for both widths of word, and its map.

use std::hash::Hash;
use std::time::Duration;

use tidegate::{BoxTable, Map, Quota, Timestamp, TokenBucket};

use crate::subject::{Keyed, Load, now};

/// The table with 64-bit words.
pub struct Wide(BoxTable<TokenBucket>);

/// The table with 32-bit words.
pub struct Narrow(BoxTable<TokenBucket<u32>>);

/// The map, with 64-bit words.
pub struct Exact<K>(Map<K, TokenBucket>);

fn quota(load: Load) -> (Quota, u64) {
    let (per, burst) = load.gcra();
    (Quota::new(1, Duration::from_nanos(per)).unwrap(), burst)
}

impl Wide {
    pub fn new(load: Load, live: usize) -> Self {
        let (quota, burst) = quota(load);
        let bucket = TokenBucket::new(quota).with_burst(burst);
        Self(BoxTable::with_capacity(bucket, live))
    }
}

impl Narrow {
    pub fn new(load: Load, live: usize) -> Self {
        let bucket = match load {
            // As much as a narrow word can hold: 30,000 at once and 500 a second, which the clock's steps
            // between chunks of checks give back.
            Load::Plenty => TokenBucket::narrow(Quota::per_minute(30_000)),
            _ => {
                let (quota, burst) = quota(load);
                TokenBucket::narrow(quota).with_burst(burst)
            }
        };
        Self(BoxTable::with_capacity(bucket, live))
    }
}

macro_rules! keyed {
    ($table:ty) => {
        impl<K: Hash> Keyed<K> for $table {
            #[inline(always)]
            fn check(&self, key: &K) -> bool {
                self.0.check(key, Timestamp::from_nanos(now())).is_ok()
            }

            #[inline(always)]
            fn check_batch(&self, keys: &[K]) -> Option<usize> {
                let mut passed = 0;
                self.0
                    .check_many(keys, Timestamp::from_nanos(now()), |_, decision| {
                        passed += usize::from(decision.is_ok());
                    });
                Some(passed)
            }
        }
    };
}

keyed!(Wide);
keyed!(Narrow);

impl<K> Exact<K> {
    pub fn new(load: Load) -> Self {
        let (quota, burst) = quota(load);
        Self(Map::new(TokenBucket::new(quota).with_burst(burst)))
    }
}

impl<K: Clone + Eq + Hash + Send + Sync> Keyed<K> for Exact<K> {
    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        self.0.check(key, Timestamp::from_nanos(now())).is_ok()
    }

    fn sweep(&self) -> bool {
        self.0.sweep(Timestamp::from_nanos(now()));
        true
    }
}
