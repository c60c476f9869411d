//! What a limiter keeps, and how it decides with it, where several threads share it.

pub(crate) mod owned;

use core::time::Duration;

use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::sync::private::Cells;
use crate::sync::{AtomicWord, Ordering};
use crate::time::Timestamp;
use crate::word::Word;

pub use owned::OwnedStrategy;

/// A way to limit that threads can share without a lock: an [`Algorithm`] over one atomic word, or the
/// exact log over many.
///
/// [`Limiter`](crate::Limiter) holds one with one cell, a map one with a cell for each key. Every [`Algorithm`] whose
/// word can be exchanged atomically is one; implement that trait for a way of your own. Sealed.
pub trait Strategy: sealed::Sealed {
    /// What is kept: for one limiter, or for one key. Fresh, it is all zero.
    type Cell: Send + Sync;

    /// A fresh cell.
    #[cfg(not(tidegate_loom))]
    #[doc(hidden)]
    const FRESH: Self::Cell;

    /// A fresh cell.
    #[doc(hidden)]
    fn fresh(&self) -> Self::Cell;

    /// The most permits that can ever be left.
    fn limit(&self) -> u64;

    /// Decides, and counts what it admits; all or nothing. Cost 0 changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the cost does not pass; then nothing has changed.
    fn check_n(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;

    /// As [`check_n`](Self::check_n), where cells of other keys are decided in between: see
    /// [`Algorithm::step_keyed`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if the cost does not pass; then nothing has changed.
    #[inline(always)]
    fn check_keyed(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(cell, now, cost)
    }

    /// What [`check_n`](Self::check_n) would answer; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the cost would not pass.
    fn peek_n(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;

    /// Gives back at most what was taken at `taken_at`, and says whether anything changed.
    fn refund(&self, cell: &Self::Cell, taken_at: Timestamp, cost: u64) -> bool;

    /// Forgets everything: full again.
    fn reset(&self, cell: &Self::Cell);

    /// How long until the cell has fully recovered, if nothing more is taken. Zero if and only if it is as good as
    /// fresh.
    fn idle_after(&self, cell: &Self::Cell, now: Timestamp) -> Duration;

    /// Whether the cell has fully recovered, and so is as good as fresh.
    #[inline]
    fn is_idle(&self, cell: &Self::Cell, now: Timestamp) -> bool {
        self.idle_after(cell, now).is_zero()
    }

    /// Makes the cell fresh if it has fully recovered, which changes no answer; returns whether it had.
    fn sweep(&self, cell: &Self::Cell, now: Timestamp) -> bool;

    /// A cell under these limits in which what was used under `old` stays used, in permits.
    fn adopted(&self, old: &Self, cell: &Self::Cell, now: Timestamp) -> Self::Cell;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl<A: Algorithm<Word: AtomicWord>> sealed::Sealed for A {}

impl<A: Algorithm<Word: AtomicWord>> Strategy for A {
    type Cell = Cell<A::Word>;

    #[cfg(not(tidegate_loom))]
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "copied into each new limiter"
    )]
    const FRESH: Self::Cell = Cell {
        word: A::Word::ZERO_CELL,
    };

    #[inline]
    fn fresh(&self) -> Self::Cell {
        Cell::new(A::Word::ZERO)
    }

    #[inline]
    fn limit(&self) -> u64 {
        Algorithm::limit(self)
    }

    #[inline(always)]
    fn check_n(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        cell.update(|state| {
            let (next, allowed) = self.step(state, now, cost)?;
            Ok((if cost == 0 { None } else { Some(next) }, allowed))
        })
    }

    #[inline(always)]
    fn check_keyed(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        cell.update(|state| {
            let (next, allowed) = self.step_keyed(state, now, cost)?;
            Ok((if cost == 0 { None } else { Some(next) }, allowed))
        })
    }

    #[inline]
    fn peek_n(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let (_, allowed) = self.step(cell.state(), now, cost)?;
        Ok(allowed)
    }

    fn refund(&self, cell: &Self::Cell, taken_at: Timestamp, cost: u64) -> bool {
        let done = cell.update(|state| {
            let next = Algorithm::refund(self, state, taken_at, cost);
            if next == state {
                Err(())
            } else {
                Ok((Some(next), ()))
            }
        });
        done.is_ok()
    }

    fn reset(&self, cell: &Self::Cell) {
        A::Word::store(&cell.word, A::Word::ZERO, Ordering::Relaxed);
    }

    fn idle_after(&self, cell: &Self::Cell, now: Timestamp) -> Duration {
        Algorithm::idle_after(self, cell.state(), now)
    }

    #[inline]
    fn is_idle(&self, cell: &Self::Cell, now: Timestamp) -> bool {
        Algorithm::is_idle(self, cell.state(), now)
    }

    fn sweep(&self, cell: &Self::Cell, now: Timestamp) -> bool {
        let idle = cell.update(|state| {
            if state == A::Word::ZERO {
                Ok((None, ()))
            } else if Algorithm::is_idle(self, state, now) {
                Ok((Some(A::Word::ZERO), ()))
            } else {
                Err(())
            }
        });
        idle.is_ok()
    }

    fn adopted(&self, old: &Self, cell: &Self::Cell, now: Timestamp) -> Self::Cell {
        Cell::new(self.adopt(old, cell.state(), now))
    }
}

/// One atomic word: what a one-word algorithm keeps.
///
/// All accesses are `Relaxed`: the word guards nothing but itself, and the total order of changes to one atomic
/// variable is all that counting needs.
pub struct Cell<W: AtomicWord> {
    word: W::Atomic,
}

impl<W: AtomicWord> Cell<W> {
    pub(crate) fn new(state: W) -> Self {
        Self {
            word: W::cell(state),
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> W {
        W::load(&self.word, Ordering::Relaxed)
    }

    /// The loop: `step` says what to store, if anything, and what to answer.
    ///
    /// Always inlined, so that a decision of which only `is_ok()` is asked is never put together.
    #[inline(always)]
    pub(crate) fn update<T, E>(
        &self,
        mut step: impl FnMut(W) -> Result<(Option<W>, T), E>,
    ) -> Result<T, E> {
        let mut state = self.state();
        loop {
            let (next, answer) = step(state)?;
            let Some(next) = next else {
                return Ok(answer);
            };
            match W::compare_exchange_weak(
                &self.word,
                state,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(answer),
                Err(current) => state = current,
            }
        }
    }
}

impl<W: AtomicWord> core::fmt::Debug for Cell<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Cell").field(&self.state()).finish()
    }
}
