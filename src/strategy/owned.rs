//! What a limiter of a single owner keeps, and how it decides with it.

use core::time::Duration;

use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::time::Timestamp;
use crate::word::Word;

/// A way to limit for a single owner, who has `&mut` and needs no atomics: an [`Algorithm`] on a plain word, of any
/// width on every core, or an exact log.
///
/// `OwnedTable` keeps one state for each key. Every [`Algorithm`] is one; implement that trait for a
/// way of your own. Sealed.
///
/// ```
/// use tidegate::{OwnedStrategy, Quota, SlidingLog, Timestamp};
///
/// let log = SlidingLog::<2>::new(Quota::per_minute(2));
/// let mut state = log.fresh();
/// let now = Timestamp::from_secs(100);
/// assert_eq!(log.check_n(&mut state, now, 2).unwrap().remaining(), 0);
/// assert!(log.check_n(&mut state, now, 1).is_err());
/// ```
pub trait OwnedStrategy: sealed::Sealed {
    /// What is kept: for one limiter, or for one key.
    type State;

    /// A state of which nothing has been used.
    fn fresh(&self) -> Self::State;

    /// The most permits that can ever be left.
    fn limit(&self) -> u64;

    /// Decides, and counts what it admits; all or nothing. Cost 0 changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the cost does not pass; then nothing has changed.
    fn check_n(
        &self,
        state: &mut Self::State,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied>;

    /// What [`check_n`](Self::check_n) would answer; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the cost would not pass.
    fn peek_n(&self, state: &Self::State, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;

    /// Gives back at most what was taken at `taken_at`, and says whether anything changed.
    fn refund(&self, state: &mut Self::State, taken_at: Timestamp, cost: u64) -> bool;

    /// How long until the state has fully recovered, if nothing more is taken. Zero if and only if it is as good as
    /// fresh.
    fn idle_after(&self, state: &Self::State, now: Timestamp) -> Duration;

    /// Whether the state has fully recovered, and so may be replaced by a fresh one unnoticed.
    #[inline]
    fn is_idle(&self, state: &Self::State, now: Timestamp) -> bool {
        self.idle_after(state, now).is_zero()
    }

    /// Makes a state under the limits of `old` one under these. What was used stays used, in permits.
    fn adopt(&self, old: &Self, state: &mut Self::State, now: Timestamp);
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl<A: Algorithm> sealed::Sealed for A {}

impl<A: Algorithm> OwnedStrategy for A {
    type State = A::Word;

    #[inline]
    fn fresh(&self) -> A::Word {
        A::Word::ZERO
    }

    #[inline]
    fn limit(&self) -> u64 {
        Algorithm::limit(self)
    }

    #[inline]
    fn check_n(&self, state: &mut A::Word, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let (next, allowed) = self.step(*state, now, cost)?;
        if cost > 0 {
            *state = next;
        }
        Ok(allowed)
    }

    #[inline]
    fn peek_n(&self, state: &A::Word, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let (_, allowed) = self.step(*state, now, cost)?;
        Ok(allowed)
    }

    fn refund(&self, state: &mut A::Word, taken_at: Timestamp, cost: u64) -> bool {
        let next = Algorithm::refund(self, *state, taken_at, cost);
        core::mem::replace(state, next) != next
    }

    fn idle_after(&self, state: &A::Word, now: Timestamp) -> Duration {
        Algorithm::idle_after(self, *state, now)
    }

    #[inline]
    fn is_idle(&self, state: &A::Word, now: Timestamp) -> bool {
        Algorithm::is_idle(self, *state, now)
    }

    fn adopt(&self, old: &Self, state: &mut A::Word, now: Timestamp) {
        *state = Algorithm::adopt(self, old, *state, now);
    }
}
