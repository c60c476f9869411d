//! One limiter, shared by everyone who can see it.

use core::fmt;
use core::time::Duration;

use crate::algorithm::{Algorithm, TokenBucket};
use crate::decision::{Allowed, Denied};
use crate::strategy::{Cell, Strategy};
use crate::sync::AtomicWord;
use crate::time::Timestamp;

/// One limiter, shared by everyone who can see it: an [`Algorithm`] and one atomic word, or a log.
///
/// `const`-constructible: a `static` one needs no initialisation when the program starts.
///
/// # Cost
///
/// An admission is one load and one compare-exchange; a denial or a peek is one load, and stores nothing. An exact log
/// costs more, and publishes no more: see [`SlidingLog`](crate::SlidingLog), also on progress and ordering.
///
/// # Progress
///
/// Every operation is lock-free: load, pure step, compare-exchange, and again if the exchange failed. It fails
/// only because another thread's succeeded meanwhile (or spuriously, on processors that exchange by
/// load-linked and store-conditional), so somebody always gets on, and a thread that is suspended anywhere
/// holds up nobody. There is no state in which a word is half-written, so an interrupt handler may call
/// everything here, even having interrupted the same call. Where the word's atomics are not native this
/// holds as far as the chosen back end goes; see [`AtomicWord`].
///
/// # Memory ordering
///
/// All accesses are `Relaxed`: the word guards nothing but itself, and the total order of changes to one
/// atomic variable is all that counting needs. Callers must not conclude from a decision that they see what
/// another thread wrote before its own.
///
/// ```
/// use tidegate::{Limiter, Quota, Timestamp, TokenBucket};
///
/// static PINGS: Limiter<TokenBucket> = Limiter::new(TokenBucket::new(Quota::per_second(10)));
///
/// let uptime_ms = 1_234;
/// match PINGS.check(Timestamp::from_millis(uptime_ms)) {
///     Ok(allowed) => assert_eq!(allowed.remaining(), 9),
///     Err(denied) => panic!("{denied}"),
/// }
/// ```
pub struct Limiter<A: Strategy> {
    algorithm: A,
    cell: A::Cell,
}

impl<A: Strategy> Limiter<A> {
    /// A fresh limiter.
    #[cfg(not(tidegate_loom))]
    pub const fn new(algorithm: A) -> Self {
        Self {
            algorithm,
            cell: A::FRESH,
        }
    }

    /// A fresh limiter.
    #[cfg(tidegate_loom)]
    pub fn new(algorithm: A) -> Self {
        let cell = algorithm.fresh();
        Self { algorithm, cell }
    }

    /// The algorithm and its limits.
    #[inline]
    pub const fn algorithm(&self) -> &A {
        &self.algorithm
    }

    #[cfg(feature = "defmt")]
    pub(crate) fn cell(&self) -> &A::Cell {
        &self.cell
    }

    /// May one request pass now? If so, it is counted.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.check_n(now, 1)
    }

    /// May a request of this cost pass now? If so, it is counted; all or nothing.
    ///
    /// Cost 0 always passes and changes nothing: it asks what remains.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed.
    #[inline]
    pub fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.algorithm.check_n(&self.cell, now, cost)
    }

    /// What [`check`](Self::check) would answer now; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request would not pass.
    #[inline]
    pub fn peek(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.peek_n(now, 1)
    }

    /// What [`check_n`](Self::check_n) would answer now; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request of this cost would not pass.
    #[inline]
    pub fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.algorithm.peek_n(&self.cell, now, cost)
    }

    /// Gives back permits that were taken and not used.
    ///
    /// `taken_at` is the timestamp with which they were taken: a window that has ended since has nothing to
    /// give back to. Never gives back more than was taken, nor above full. Returns whether anything changed.
    ///
    /// Refund soon. A token bucket cannot tell that it has been full since `taken_at`, when what was taken had come back by
    /// itself; it may then admit that much more, once. After the admission's `reset_after` nothing is owed.
    pub fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        self.algorithm.refund(&self.cell, taken_at, cost)
    }

    /// Forgets everything: full again.
    pub fn reset(&self) {
        self.algorithm.reset(&self.cell);
    }

    /// Makes the state fresh if it is idle, which changes no answer; returns whether it was idle.
    ///
    /// States measure time in a word that wraps. Called at least once in half a wrap, this rules out that a
    /// long idle state looks used; see the algorithms for how long a wrap is and for how little happens
    /// without it.
    pub fn sweep(&self, now: Timestamp) -> bool {
        self.algorithm.sweep(&self.cell, now)
    }

    /// A limiter under other limits in which what was used stays used: 5 used of 5 leave 5 of 10, and none
    /// of 3; nobody waits out the old rate.
    ///
    /// For an owner that swaps limiters, behind a pointer of its own. Permits that others take from the old
    /// limiter after this call are not counted in the new one: at most the old limit can be lost so.
    #[must_use]
    pub fn retuned(&self, algorithm: A, now: Timestamp) -> Self {
        let cell = algorithm.adopted(&self.algorithm, &self.cell, now);
        Self { algorithm, cell }
    }

    /// Changes the limits in place; what was used stays used, as in [`retuned`](Self::retuned).
    pub fn retune(&mut self, algorithm: A, now: Timestamp) {
        *self = self.retuned(algorithm, now);
    }
}

impl<A: Algorithm<Word: AtomicWord>> Limiter<A> {
    /// A limiter that goes on from a state, as [`state`](Self::state) gave it under equal limits: across a
    /// deep sleep, or a restart.
    pub fn with_state(algorithm: A, state: A::Word) -> Self {
        Self {
            algorithm,
            cell: Cell::new(state),
        }
    }

    /// The state word. Its meaning is the algorithm's; zero is fresh.
    #[inline]
    pub fn state(&self) -> A::Word {
        self.cell.state()
    }
}

impl<W: AtomicWord> Limiter<TokenBucket<W>> {
    /// Takes the cost even if it must be waited for, and returns the wait: for pacing outbound work.
    ///
    /// Waits are limited to half the tolerated lateness (at least 30 s, 30 min for most `u64` buckets),
    /// whatever `max_wait` says. If the work is called off, [`refund`](Self::refund) the cost.
    ///
    /// # Errors
    ///
    /// `Limited` if the wait would exceed `max_wait`, with the time after which it would not; `TooCostly` if
    /// the cost exceeds the burst. Nothing is taken then.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate::{Limiter, Quota, Timestamp, TokenBucket};
    ///
    /// let mails = Limiter::new(TokenBucket::new(Quota::per_second(2)).with_burst(1));
    /// let now = Timestamp::ZERO;
    /// let patience = Duration::from_secs(1);
    /// assert_eq!(mails.reserve(now, 1, patience), Ok(Duration::ZERO));
    /// assert_eq!(mails.reserve(now, 1, patience), Ok(Duration::from_millis(500)));
    /// assert_eq!(mails.reserve(now, 1, patience), Ok(Duration::from_secs(1)));
    /// let refused = mails.reserve(now, 1, patience).unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
    /// ```
    pub fn reserve(
        &self,
        now: Timestamp,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Duration, Denied> {
        self.cell.update(|state| {
            let (next, wait) = self.algorithm.reserve_step(state, now, cost, max_wait)?;
            Ok((if cost == 0 { None } else { Some(next) }, wait))
        })
    }
}

impl<A: Strategy<Cell: fmt::Debug> + fmt::Debug> fmt::Debug for Limiter<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("algorithm", &self.algorithm)
            .field("cell", &self.cell)
            .finish()
    }
}
