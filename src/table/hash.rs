//! The tables' default hasher, in a form that a `static` can hold and reseed.

use core::fmt;

#[cfg(any(feature = "ahash", feature = "foldhash"))]
use core::hash::BuildHasher;

#[cfg(any(feature = "ahash", feature = "foldhash"))]
use crate::sync::SeedCell;

/// The tables' default hasher, seeded: `ahash` with the feature of that name, which `std` has; else `foldhash`,
/// which needs no allocator anywhere in the program, with the default feature of that name.
///
/// Whoever knows the seeds can make up keys that share a budget or crowd the same lines. Under `std`,
/// `Seeded::default` draws them at random. A `static` begins with seeds that everybody knows, that is, with
/// none: [`reseed`](Self::reseed) it when the program starts, before the table is used, with numbers that others
/// cannot guess. `foldhash` looks at the first of the two alone.
///
/// With neither feature this is a name only, and tables need a hasher of your own.
pub struct Seeded {
    #[cfg(any(feature = "ahash", feature = "foldhash"))]
    seeds: [SeedCell; 2],
    #[cfg(not(any(feature = "ahash", feature = "foldhash")))]
    #[allow(dead_code, reason = "nobody can make one")]
    never: core::convert::Infallible,
}

#[cfg(any(feature = "ahash", feature = "foldhash"))]
impl Seeded {
    /// With seeds of your own.
    pub const fn new(seeds: [u64; 2]) -> Self {
        Self {
            seeds: [SeedCell::new(seeds[0]), SeedCell::new(seeds[1])],
        }
    }

    /// Changes the seeds. What a table counted under the old ones is lost to its keys, so do it before the
    /// first decision.
    pub fn reseed(&self, seeds: [u64; 2]) {
        for (cell, seed) in self.seeds.iter().zip(seeds) {
            cell.set(seed);
        }
    }
}

#[cfg(any(feature = "ahash", feature = "foldhash"))]
impl Clone for Seeded {
    /// With the same seeds: the same keys hash to the same.
    fn clone(&self) -> Self {
        Self::new([self.seeds[0].get(), self.seeds[1].get()])
    }
}

#[cfg(all(feature = "std", feature = "ahash"))]
impl Default for Seeded {
    /// Random seeds.
    fn default() -> Self {
        // The standard library's own randomness: no dependency, and a new draw each time.
        let draw = || std::hash::RandomState::new().hash_one(0_u8);
        Self::new([draw(), draw()])
    }
}

#[cfg(all(any(feature = "ahash", feature = "foldhash"), not(feature = "std")))]
impl Default for Seeded {
    /// Known seeds: without `std` there is no randomness to draw from.
    fn default() -> Self {
        Self::new([0; 2])
    }
}

#[cfg(feature = "ahash")]
impl BuildHasher for Seeded {
    type Hasher = ahash::AHasher;

    #[inline]
    fn build_hasher(&self) -> ahash::AHasher {
        // The last two are digits of e and of the golden ratio.
        ahash::RandomState::with_seeds(
            self.seeds[0].get(),
            self.seeds[1].get(),
            0xb7e1_5162_8aed_2a6a,
            0x9e37_79b9_7f4a_7c15,
        )
        .build_hasher()
    }
}

#[cfg(all(feature = "foldhash", not(feature = "ahash")))]
impl BuildHasher for Seeded {
    type Hasher = foldhash::quality::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        static SHARED: foldhash::SharedSeed = foldhash::SharedSeed::from_u64(0xb7e1_5162_8aed_2a6a);
        // It multiplies what it has by what comes, and so must not begin with zero: that would be the hash of every
        // short key. These are digits of the golden ratio.
        let begin = self.seeds[0].get() ^ 0x9e37_79b9_7f4a_7c15;
        foldhash::quality::FoldHasher::with_seed(begin, &SHARED)
    }
}

impl fmt::Debug for Seeded {
    /// Without the seeds, which are a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seeded")
    }
}
