//! Something that admits a cost now, and can take it back.

mod all;
mod gates;
mod lapse;
mod lease;
#[cfg(any(tidegate_loom, feature = "portable-atomic", target_has_atomic = "32"))]
mod shadow;

use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::limiter::Limiter;
use crate::strategy::Strategy;
use crate::sync::AtomicWord;
use crate::table::{Entry, Storage};
use crate::time::Timestamp;

pub use all::{All, AllDenied};
pub use gates::Gates;
pub(crate) use lapse::Lapse;
pub use lease::{Lease, LeaseState};
#[cfg(any(tidegate_loom, feature = "portable-atomic", target_has_atomic = "32"))]
pub use shadow::{Beside, BesideCounts, Shadow, ShadowCounts};

/// Something that admits a cost now, and can take it back: a [`Limiter`], or one key of a table or of a map.
///
/// What composes limits asks for gates, so any kind goes with any other: [`All`] for several limits at once, `Shadow`
/// and `Beside` for limits on trial, [`Lease`] for a limit that many threads would fight over.
///
/// # Laws
///
/// 1. A refusal changes nothing.
/// 2. Cost 0 is admitted, and changes nothing.
/// 3. `peek_n` changes nothing, and answers what `check_n` would if nobody else came between.
/// 4. `refund` gives back at most what was taken. Call it only for what [was counted](Allowed::is_counted), and soon:
///    a window that has ended has nothing to give back to, and a token bucket cannot tell that it has been full
///    since, when the permits had come back by themselves. After the admission's `reset_after` nothing is owed.
///
/// ```
/// use tidegate::{FixedWindow, Gate, Limiter, Quota, Timestamp, TokenBucket};
///
/// fn send(gate: &impl Gate, bytes: u64, now: Timestamp) -> bool {
///     gate.check_n(now, bytes).is_ok()
/// }
///
/// let now = Timestamp::from_secs(1);
/// let smooth = Limiter::new(TokenBucket::new(Quota::per_second(1_500)));
/// let daily = Limiter::new(FixedWindow::new(Quota::per_day(1_000)));
/// assert!(send(&smooth, 1_500, now));
/// assert!(!send(&daily, 1_500, now));
/// ```
pub trait Gate {
    /// May a request of this cost pass now? If so, it is counted; all or nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed.
    fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;

    /// What [`check_n`](Self::check_n) would answer now; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request of this cost would not pass.
    fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;

    /// Gives back permits that were taken at `taken_at` and not used; returns whether anything changed.
    fn refund(&self, taken_at: Timestamp, cost: u64) -> bool;

    /// Whether it ever refuses. What only watches, such as a [`Shadow`], does not, and is asked last by [`All`].
    #[inline]
    fn enforces(&self) -> bool {
        true
    }

    /// May one request pass now? If so, it is counted.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed.
    #[inline]
    fn check(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.check_n(now, 1)
    }

    /// What [`check`](Self::check) would answer now; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request would not pass.
    #[inline]
    fn peek(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.peek_n(now, 1)
    }
}

/// A gate that forwards to what it stands for.
macro_rules! forward {
    () => {
        #[inline]
        fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
            (**self).check_n(now, cost)
        }

        #[inline]
        fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
            (**self).peek_n(now, cost)
        }

        #[inline]
        fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
            (**self).refund(taken_at, cost)
        }

        #[inline]
        fn enforces(&self) -> bool {
            (**self).enforces()
        }
    };
}

impl<G: Gate + ?Sized> Gate for &G {
    forward!();
}

#[cfg(feature = "alloc")]
impl<G: Gate + ?Sized> Gate for alloc::boxed::Box<G> {
    forward!();
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<G: Gate + ?Sized> Gate for alloc::sync::Arc<G> {
    forward!();
}

impl<A: Strategy> Gate for Limiter<A> {
    #[inline]
    fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(now, cost)
    }

    #[inline]
    fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.peek_n(now, cost)
    }

    #[inline]
    fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        self.refund(taken_at, cost)
    }
}

impl<A: Algorithm<Word: AtomicWord>, L: Storage<A::Word>, S> Gate for Entry<'_, A, L, S> {
    #[inline]
    fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(now, cost)
    }

    #[inline]
    fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.peek_n(now, cost)
    }

    #[inline]
    fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        self.refund(taken_at, cost)
    }
}
