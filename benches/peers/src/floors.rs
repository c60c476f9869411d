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

/// One hash, one probe, one compare-exchange, at half load. Keys that fall on the same entry share it.
pub struct Hashed<const OWNED: bool> {
    cell: Cell,
    hasher: ahash::RandomState,
    entries: Vec<Entry>,
    /// Zero, but the compiler does not know it.
    strict: u64,
}

impl<const OWNED: bool> Hashed<OWNED> {
    pub fn new(load: Load, n: usize) -> Self {
        Self {
            cell: Cell::new(load),
            hasher: ahash::RandomState::with_seeds(1, 2, 3, 4),
            entries: entries(2 * n),
            strict: std::hint::black_box(0),
        }
    }

    /// The entry by the high bits of the hash; the hash is the tag too.
    #[inline(always)]
    fn find<K: Hash>(&self, key: &K) -> (&Entry, u64) {
        let hash = self.hasher.hash_one(key);
        let place = (u128::from(hash) * self.entries.len() as u128) >> 64;
        (&self.entries[place as usize], hash)
    }

    #[inline(always)]
    fn decide(&self, entry: &Entry, tag: u64) -> bool {
        if OWNED {
            if entry.tag.load(Relaxed) != tag {
                entry.tag.store(tag, Relaxed);
            }
            return self.cell.admit(&entry.state);
        }
        // The tag must be loaded and compared, as in a real table, but a collision must cost nothing.
        let same = (entry.tag.load(Relaxed) ^ tag) & self.strict == 0;
        self.cell.admit(&entry.state) & same
    }
}

impl<K: Hash, const OWNED: bool> Keyed<K> for Hashed<OWNED> {
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
