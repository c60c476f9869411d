//! The default hasher: seeded ahash, in a form that a `static` can hold and reseed.

use core::fmt;
use core::hash::BuildHasher;

/// Seeded `ahash`, the tables' default hasher.
///
/// Whoever knows the seeds can make up keys that share a budget or crowd the same lines. Under `std`,
/// [`default`](Self::default) draws them at random. A `static` begins with [`KNOWN`](Self::KNOWN) ones, that is,
/// with none: [`reseed`](Self::reseed) it when the program starts, before the table is used, with numbers
/// that others cannot guess.
///
/// Without the feature `ahash` this is a name only, and tables need a hasher of your own.
pub struct Seeded {
    #[cfg(feature = "ahash")]
    seeds: [crate::sync::SeedCell; 4],
    #[cfg(not(feature = "ahash"))]
    never: core::convert::Infallible,
}

#[cfg(feature = "ahash")]
impl Seeded {
    /// Seeds that everybody knows: 0.
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "a value to start from, copied into each table"
    )]
    pub const KNOWN: Self = Self::new([0; 2]);

    /// With seeds of your own.
    pub const fn new(seeds: [u64; 2]) -> Self {
        use crate::sync::SeedCell;
        Self {
            seeds: [
                SeedCell::new(seeds[0] as u32),
                SeedCell::new((seeds[0] >> 32) as u32),
                SeedCell::new(seeds[1] as u32),
                SeedCell::new((seeds[1] >> 32) as u32),
            ],
        }
    }

    /// Changes the seeds. What a table counted under the old ones is lost to its keys, so do it before the
    /// first decision.
    pub fn reseed(&self, seeds: [u64; 2]) {
        use crate::sync::Ordering;
        let parts = [seeds[0], seeds[0] >> 32, seeds[1], seeds[1] >> 32];
        for (cell, part) in self.seeds.iter().zip(parts) {
            // Relaxed: nothing else depends on it; a decision in between only hashes with mixed seeds.
            cell.store(part as u32, Ordering::Relaxed);
        }
    }
}

#[cfg(feature = "std")]
impl Default for Seeded {
    /// Random seeds.
    fn default() -> Self {
        #[cfg(feature = "ahash")]
        {
            // The standard library's own randomness: no dependency, and a new draw each time.
            let draw = || std::hash::RandomState::new().hash_one(0_u8);
            Self::new([draw(), draw()])
        }
        #[cfg(not(feature = "ahash"))]
        unreachable!("a hasher that does not exist is not asked for")
    }
}

#[cfg(all(feature = "ahash", not(feature = "std")))]
impl Default for Seeded {
    /// Known seeds: without `std` there is no randomness to draw from.
    fn default() -> Self {
        Self::KNOWN
    }
}

#[cfg(feature = "ahash")]
impl BuildHasher for Seeded {
    type Hasher = ahash::AHasher;

    #[inline]
    fn build_hasher(&self) -> ahash::AHasher {
        use crate::sync::Ordering;
        let part = |index: usize| u64::from(self.seeds[index].load(Ordering::Relaxed));
        // Relaxed: see `reseed`. The last two are digits of e and of the golden ratio.
        ahash::RandomState::with_seeds(
            part(0) | part(1) << 32,
            part(2) | part(3) << 32,
            0xb7e1_5162_8aed_2a6a,
            0x9e37_79b9_7f4a_7c15,
        )
        .build_hasher()
    }
}

impl fmt::Debug for Seeded {
    /// Without the seeds, which are a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seeded")
    }
}
