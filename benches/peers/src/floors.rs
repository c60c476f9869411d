//! The cheapest things that could possibly do the job. They decide by the same arithmetic as everybody, and
//! leave out whatever a real table needs beyond it.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::subject::{Keyed, Load, now, prefetch};

/// A GCRA cell: the virtual time at which it is full again.
pub struct Cell {
    pub per: u64,
    pub tolerance: u64,
}

impl Cell {
    pub fn new(load: Load) -> Self {
        let (per, burst) = load.gcra();
        Self {
            per,
            tolerance: per * (burst - 1),
        }
    }

    #[inline(always)]
    pub fn admit(&self, full_again: &AtomicU64) -> bool {
        let now = now();
        let mut seen = full_again.load(Relaxed);
        loop {
            let from = seen.max(now);
            if from - now > self.tolerance {
                return false;
            }
            match full_again.compare_exchange_weak(seen, from + self.per, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
    }
}

/// 16 bytes, as in every table that keeps a 64-bit tag beside a 64-bit state.
#[repr(align(16))]
#[derive(Default)]
struct Entry {
    tag: AtomicU64,
    state: AtomicU64,
}

fn entries(n: usize) -> Vec<Entry> {
    (0..n).map(|_| Entry::default()).collect()
}

/// The key is the index.
pub struct Array {
    cell: Cell,
    entries: Vec<Entry>,
}

impl Array {
    pub fn new(load: Load, n: usize) -> Self {
        Self {
            cell: Cell::new(load),
            entries: entries(n),
        }
    }
}

impl Keyed<u64> for Array {
    #[inline(always)]
    fn check(&self, key: &u64) -> bool {
        self.cell.admit(&self.entries[*key as usize].state)
    }

    #[inline(always)]
    fn check_batch(&self, keys: &[u64]) -> Option<usize> {
        for key in keys {
            prefetch(&self.entries[*key as usize]);
        }
        Some(keys.iter().filter(|key| self.check(key)).count())
    }
}

/// One hash, one probe, one compare-exchange, at half load; every probe compares a tag.
///
/// Keys that fall on the same entry share it. Without `TURNS` the tag is the entry's own, so that such a
/// collision goes unnoticed. With it the tag is the key's, and each takes the entry over from the other, as
/// happens to no table that works, but costs about what a few collisions do.
pub struct Hashed<const TURNS: bool> {
    cell: Cell,
    hasher: ahash::RandomState,
    entries: Vec<Entry>,
}

impl<const TURNS: bool> Hashed<TURNS> {
    pub fn new(load: Load, n: usize) -> Self {
        Self {
            cell: Cell::new(load),
            hasher: ahash::RandomState::with_seeds(1, 2, 3, 4),
            entries: entries(2 * n),
        }
    }

    /// The entry by the high bits of the hash, and the tag to find there.
    #[inline(always)]
    fn find<K: Hash>(&self, key: &K) -> (&Entry, u64) {
        let hash = self.hasher.hash_one(key);
        let place = ((u128::from(hash) * self.entries.len() as u128) >> 64) as usize;
        let tag = if TURNS { hash } else { place as u64 + 1 };
        (&self.entries[place], tag)
    }

    #[inline(always)]
    fn decide(&self, entry: &Entry, tag: u64) -> bool {
        if entry.tag.load(Relaxed) != tag {
            entry.tag.store(tag, Relaxed);
        }
        self.cell.admit(&entry.state)
    }
}

impl<K: Hash, const TURNS: bool> Keyed<K> for Hashed<TURNS> {
    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        let (entry, tag) = self.find(key);
        self.decide(entry, tag)
    }

    #[inline(always)]
    fn check_batch(&self, keys: &[K]) -> Option<usize> {
        let mut found = [(&self.entries[0], 0); 32];
        for (found, key) in found.iter_mut().zip(keys) {
            *found = self.find(key);
            prefetch(found.0);
        }
        let passed = found[..keys.len()]
            .iter()
            .filter(|(entry, tag)| self.decide(entry, *tag));
        Some(passed.count())
    }
}
