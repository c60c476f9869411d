//! The contract of an algorithm: a pure step on one word.

mod fixed_window;
mod sliding_window;
mod token_bucket;

use core::time::Duration;

use crate::decision::{Allowed, Denied};
use crate::time::Timestamp;
use crate::word::Word;

pub use fixed_window::FixedWindow;
pub(crate) use fixed_window::{PERIOD_MAX, apart, bits, resolution, tolerated};
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// A rate limiting algorithm: a pure function on one machine word.
///
/// Implement it for a type of your own, and [`Limiter`](crate::Limiter) makes it lock-free. A state is a
/// word whose lowest [`GENERATION_BITS`](crate::GENERATION_BITS) bits are zero ([`Word::from_payload`] makes
/// one); the zero word is a fresh state.
///
/// # Laws
///
/// Every algorithm of this crate keeps them, and so must yours:
///
/// 1. *Never over.* What the algorithm promises, it never exceeds.
/// 2. *A denial costs nothing.* `step` returns no state with it.
/// 3. *Retry is exact.* Denied at `t` with wait `w`: the same state admits the same cost at `t + w`, and
///    denies it 1 ns earlier.
/// 4. *Remaining is exact.* Admitted with `r` remaining: `r` more of cost 1 pass at the same instant, the
///    next does not.
/// 5. *Idle is fresh.* If a state [is idle](Self::is_idle) at `t`, every step from then on equals a step from
///    the zero word.
/// 6. *Too costly is never.* A cost above the limit is denied as [`TooCostly`](crate::Reason::TooCostly),
///    without a wait.
/// 7. *Total.* Every word, timestamp and cost gets an answer; nothing panics or overflows.
/// 8. *Late timestamps earn nothing.* A timestamp older than one already seen never causes an extra admission,
///    and is refused at most what its lateness is worth.
/// 9. *A clock that jumps back heals.* A state further ahead of `now` than the horizon is a leftover, and
///    counts as fresh.
/// 10. *Refund* gives back at most what was taken, never above full.
///
/// A step with a cost above 0 that admits must change the word, and must not return zero. Cost 0 must be
/// admitted and must return the state as it was.
///
/// # Example
///
/// One permit, ever, per boot:
///
/// ```
/// use core::time::Duration;
/// use tidegate::{Algorithm, Allowed, Denied, Limiter, Timestamp, Word};
///
/// struct Once;
///
/// impl Algorithm for Once {
///     type Word = u32;
///
///     fn limit(&self) -> u64 {
///         1
///     }
///
///     fn step(&self, state: u32, _: Timestamp, cost: u64) -> Result<(u32, Allowed), Denied> {
///         let left = u64::from(state == 0);
///         match cost {
///             0 => Ok((state, Allowed::new(1, left, Duration::ZERO))),
///             1 if left == 1 => Ok((u32::from_payload(1), Allowed::new(1, 0, Duration::MAX))),
///             _ => Err(Denied::too_costly(1, left, Duration::MAX)),
///         }
///     }
///
///     fn refund(&self, state: u32, _: Timestamp, cost: u64) -> u32 {
///         if cost > 0 { 0 } else { state }
///     }
///
///     fn idle_after(&self, state: u32, _: Timestamp) -> Duration {
///         if state == 0 { Duration::ZERO } else { Duration::MAX }
///     }
///
///     fn adopt(&self, _: &Self, state: u32, _: Timestamp) -> u32 {
///         state
///     }
/// }
///
/// static GREETING: Limiter<Once> = Limiter::new(Once);
/// assert!(GREETING.check(Timestamp::ZERO).is_ok());
/// assert!(GREETING.check(Timestamp::MAX).is_err());
/// ```
pub trait Algorithm {
    /// The word that holds a state.
    type Word: Word;

    /// The most permits that can ever be left.
    fn limit(&self) -> u64;

    /// Decides whether `cost` permits pass at `now`, and what the state is then.
    ///
    /// # Errors
    ///
    /// [`Denied`] if they do not; the state stays as it was.
    fn step(
        &self,
        state: Self::Word,
        now: Timestamp,
        cost: u64,
    ) -> Result<(Self::Word, Allowed), Denied>;

    /// The same decision, for a state that is another's than the one before: in a keyed table.
    ///
    /// There the processor cannot guess what depends on the state, so an algorithm may prefer choices of values to
    /// branches; with one state it is the other way round. Does [`step`](Self::step) unless an algorithm says otherwise.
    ///
    /// # Errors
    ///
    /// As [`step`](Self::step).
    #[inline(always)]
    fn step_keyed(
        &self,
        state: Self::Word,
        now: Timestamp,
        cost: u64,
    ) -> Result<(Self::Word, Allowed), Denied> {
        self.step(state, now, cost)
    }

    /// The state after `cost` permits that were taken at `taken_at` have been given back.
    fn refund(&self, state: Self::Word, taken_at: Timestamp, cost: u64) -> Self::Word;

    /// How long until the state is idle, that is, has fully recovered, if nothing more is taken.
    ///
    /// Zero if and only if it [is idle](Self::is_idle). A keyed table evicts what is nearest to idle.
    fn idle_after(&self, state: Self::Word, now: Timestamp) -> Duration;

    /// Whether the state has fully recovered, and so may be replaced by the zero word unnoticed.
    #[inline]
    fn is_idle(&self, state: Self::Word, now: Timestamp) -> bool {
        self.idle_after(state, now).is_zero()
    }

    /// Whether states of `other`, a tier of clients with other limits, may live in one table with states of this:
    /// a state of either must mean the same to both, so that `self` can tell whether it is idle.
    ///
    /// False unless an algorithm says otherwise.
    fn shares_states(&self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// Translates a state of `old`, the same algorithm under other limits, into one of this.
    ///
    /// What was used stays used, in permits: 5 used of 5 leave 5 of 10, and none of 3.
    fn adopt(&self, old: &Self, state: Self::Word, now: Timestamp) -> Self::Word;
}
