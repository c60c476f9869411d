//! The only path to atomics: `core`, `portable-atomic` or loom.
//!
//! Nothing else in the crate names an atomic type. A word that can live in an atomic cell implements
//! [`AtomicWord`]; which words do depends on the target and on the features, and where one does not,
//! the compiler's message says what to do about it.

use crate::word::Word;

pub(crate) use atomic::{Ordering, fence};

#[cfg(tidegate_loom)]
use loom::sync::atomic;

#[cfg(all(not(tidegate_loom), feature = "portable-atomic"))]
use portable_atomic as atomic;

#[cfg(all(not(tidegate_loom), not(feature = "portable-atomic")))]
use core::sync::atomic;

/// What a loop does before it looks again at what another thread has to change, or to make visible.
#[inline]
pub(crate) fn pause() {
    #[cfg(not(tidegate_loom))]
    core::hint::spin_loop();
    // To loom, the promise that looking again without a change elsewhere is in vain.
    #[cfg(tidegate_loom)]
    loom::thread::yield_now();
}

/// The word of a counter: the widest that is native, so that no counter is ever behind a spin lock.
#[cfg(any(tidegate_loom, target_has_atomic = "64"))]
pub(crate) type Count = u64;
/// The word of a counter: the widest that is native, so that no counter is ever behind a spin lock.
#[cfg(all(
    not(tidegate_loom),
    not(target_has_atomic = "64"),
    any(feature = "portable-atomic", target_has_atomic = "32")
))]
pub(crate) type Count = u32;

/// A lock for many readers or one writer, that a panic does not close.
///
/// What a panicking writer leaves behind, it has to leave in order; those who come after go on with it.
#[cfg(feature = "std")]
pub(crate) struct Lock<T>(lock::RwLock<T>);

#[cfg(feature = "std")]
mod lock {
    #[cfg(tidegate_loom)]
    pub(crate) use loom::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    #[cfg(not(tidegate_loom))]
    pub(crate) use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
}

#[cfg(feature = "std")]
impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(lock::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> lock::RwLockReadGuard<'_, T> {
        self.0
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> lock::RwLockWriteGuard<'_, T> {
        self.0
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A number that many threads count up and down.
///
/// Relaxed: it guards nothing. Each change of one atomic variable takes the one before into account, whatever the
/// ordering, and that is all that counting needs.
#[cfg(feature = "std")]
pub(crate) struct Tally(atomic::AtomicUsize);

#[cfg(feature = "std")]
impl Tally {
    pub(crate) fn new() -> Self {
        Self(atomic::AtomicUsize::new(0))
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// One more, if that is no more than `most`; returns whether it was.
    pub(crate) fn add_one_below(&self, most: usize) -> bool {
        let next = |count| (count < most).then(|| count + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

/// A seed of a hasher: written when a program starts, never exchanged, so loads and stores are enough for it,
/// which even cores without compare-exchange have. Loom has nothing to explore there.
///
/// Relaxed: nothing else depends on it; a decision during a change only hashes with mixed seeds.
#[cfg(any(feature = "ahash", feature = "foldhash"))]
pub(crate) struct SeedCell {
    #[cfg(target_has_atomic = "64")]
    seed: core::sync::atomic::AtomicU64,
    #[cfg(not(target_has_atomic = "64"))]
    halves: [core::sync::atomic::AtomicU32; 2],
}

#[cfg(all(any(feature = "ahash", feature = "foldhash"), target_has_atomic = "64"))]
impl SeedCell {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            seed: core::sync::atomic::AtomicU64::new(seed),
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.seed.load(core::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn set(&self, seed: u64) {
        self.seed.store(seed, core::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(all(
    any(feature = "ahash", feature = "foldhash"),
    not(target_has_atomic = "64")
))]
impl SeedCell {
    pub(crate) const fn new(seed: u64) -> Self {
        use core::sync::atomic::AtomicU32;
        Self {
            halves: [
                AtomicU32::new(seed as u32),
                AtomicU32::new((seed >> 32) as u32),
            ],
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        let half = |index: usize| {
            u64::from(self.halves[index].load(core::sync::atomic::Ordering::Relaxed))
        };
        half(0) | half(1) << 32
    }

    pub(crate) fn set(&self, seed: u64) {
        for (half, bits) in self.halves.iter().zip([seed, seed >> 32]) {
            half.store(bits as u32, core::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// A word that is loaded and stored and never exchanged, which even cores without compare-exchange can do.
///
/// Relaxed: who uses it must not need more.
pub(crate) struct Register(RegisterCell);

#[cfg(not(tidegate_loom))]
type RegisterCell = core::sync::atomic::AtomicU32;
#[cfg(tidegate_loom)]
type RegisterCell = atomic::AtomicU32;

impl Register {
    #[cfg(not(tidegate_loom))]
    pub(crate) const fn new(value: u32) -> Self {
        Self(RegisterCell::new(value))
    }

    #[cfg(tidegate_loom)]
    pub(crate) fn new(value: u32) -> Self {
        Self(RegisterCell::new(value))
    }

    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u32) {
        self.0.store(value, core::sync::atomic::Ordering::Relaxed);
    }
}

/// A [`Word`] that this target can exchange atomically.
///
/// `u32` and `u64` have it wherever the processor has compare-exchange of that width. Elsewhere a feature
/// of this crate supplies it:
///
/// | target | `u32` words | `u64` words |
/// |---|---|---|
/// | 64-bit | native | native |
/// | Cortex-M3/M4/M7/M33, RV32IMAC | native | `portable-atomic-fallback` |
/// | Cortex-M0, RV32IMC | `portable-atomic-critical-section` or `portable-atomic-unsafe-assume-single-core` | `portable-atomic-fallback` with one of these |
///
/// Where the core has atomics of its own, `portable-atomic-fallback` is a spin lock. An interrupt handler must
/// never take one: if it has interrupted the holder, it spins for ever.
#[diagnostic::on_unimplemented(
    message = "this target has no atomic compare-exchange for `{Self}` words",
    label = "no atomic `{Self}` here",
    note = "on cores with 32-bit atomics choose the narrow word: `TokenBucket::narrow(..)`, type `TokenBucket<u32>`",
    note = "on cores without compare-exchange enable tidegate's feature `portable-atomic-unsafe-assume-single-core` or `portable-atomic-critical-section`",
    note = "if it must be a 64-bit word: feature `portable-atomic-fallback`, a spin lock, never to be taken by interrupt handlers"
)]
pub trait AtomicWord: Word + private::Cells {}

pub(crate) mod private {
    use super::Ordering;

    /// How a word lives in memory that several contexts share.
    #[diagnostic::on_unimplemented(
        message = "this target has no atomic compare-exchange for `{Self}` words"
    )]
    pub trait Cells: Sized {
        type Atomic: Send + Sync;
        /// Half a cache line of cells: the tags, or the states, of one line of the table.
        type Lane: Send + Sync + AsRef<[Self::Atomic]>;
        /// Cells in a lane.
        const SLOTS: usize;
        #[cfg(not(tidegate_loom))]
        const ZERO_CELL: Self::Atomic;
        #[cfg(not(tidegate_loom))]
        const ZERO_LANE: Self::Lane;
        fn cell(value: Self) -> Self::Atomic;
        #[cfg(tidegate_loom)]
        fn lane() -> Self::Lane;
        fn load(cell: &Self::Atomic, order: Ordering) -> Self;
        fn store(cell: &Self::Atomic, value: Self, order: Ordering);
        fn compare_exchange_weak(
            cell: &Self::Atomic,
            current: Self,
            new: Self,
            success: Ordering,
            failure: Ordering,
        ) -> Result<Self, Self>;
        fn compare_exchange(
            cell: &Self::Atomic,
            current: Self,
            new: Self,
            success: Ordering,
            failure: Ordering,
        ) -> Result<Self, Self>;
        fn fetch_add(cell: &Self::Atomic, by: Self, order: Ordering);
    }
}

#[allow(
    unused_macros,
    reason = "a target without compare-exchange has no such word"
)]
macro_rules! atomic_word {
    ($word:ty, $atomic:ty, $slots:expr) => {
        impl AtomicWord for $word {}

        impl private::Cells for $word {
            type Atomic = $atomic;
            type Lane = [$atomic; $slots];
            const SLOTS: usize = $slots;

            #[cfg(not(tidegate_loom))]
            #[allow(
                clippy::declare_interior_mutable_const,
                reason = "copied into each new line"
            )]
            const ZERO_LANE: Self::Lane = [const { <$atomic>::new(0) }; $slots];

            #[cfg(tidegate_loom)]
            fn lane() -> Self::Lane {
                core::array::from_fn(|_| <$atomic>::new(0))
            }

            #[cfg(not(tidegate_loom))]
            #[allow(
                clippy::declare_interior_mutable_const,
                reason = "copied into each new cell"
            )]
            const ZERO_CELL: $atomic = <$atomic>::new(0);

            #[inline]
            fn cell(value: Self) -> $atomic {
                <$atomic>::new(value)
            }

            #[inline]
            fn load(cell: &$atomic, order: Ordering) -> Self {
                cell.load(order)
            }

            #[inline]
            fn store(cell: &$atomic, value: Self, order: Ordering) {
                cell.store(value, order);
            }

            #[inline]
            fn compare_exchange_weak(
                cell: &$atomic,
                current: Self,
                new: Self,
                success: Ordering,
                failure: Ordering,
            ) -> Result<Self, Self> {
                cell.compare_exchange_weak(current, new, success, failure)
            }

            #[inline]
            fn compare_exchange(
                cell: &$atomic,
                current: Self,
                new: Self,
                success: Ordering,
                failure: Ordering,
            ) -> Result<Self, Self> {
                cell.compare_exchange(current, new, success, failure)
            }

            #[inline]
            fn fetch_add(cell: &$atomic, by: Self, order: Ordering) {
                cell.fetch_add(by, order);
            }
        }
    };
}

// Two slots a line under loom: the rare paths become common, and all of them can be explored.
#[cfg(tidegate_loom)]
atomic_word!(u32, atomic::AtomicU32, 2);
#[cfg(tidegate_loom)]
atomic_word!(u64, atomic::AtomicU64, 2);

#[cfg(all(
    not(tidegate_loom),
    not(feature = "portable-atomic"),
    target_has_atomic = "32"
))]
atomic_word!(u32, atomic::AtomicU32, 8);
#[cfg(all(
    not(tidegate_loom),
    not(feature = "portable-atomic"),
    target_has_atomic = "64"
))]
atomic_word!(u64, atomic::AtomicU64, 4);

// portable-atomic itself refuses to compile where compare-exchange has no back end, and names the features.
#[cfg(all(not(tidegate_loom), feature = "portable-atomic"))]
atomic_word!(u32, atomic::AtomicU32, 8);
#[cfg(all(not(tidegate_loom), feature = "portable-atomic"))]
portable_atomic::cfg_has_atomic_64! {
    atomic_word!(u64, atomic::AtomicU64, 4);
}
