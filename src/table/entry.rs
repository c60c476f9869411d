//! One key of a table, and limits for a tier of keys.

use core::fmt;

use super::line::Place;
use super::{KeyedTable, Storage};
use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::sync::AtomicWord;
use crate::time::Timestamp;
use crate::word::Word;

/// Limits of one tier of clients, in a table whose other clients have others.
///
/// States of all tiers live in one table, so they must mean the same: whether one is idle must not depend on the
/// tier. Made by [`KeyedTable::tier`], or that of a map, which refuse limits of another scale.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tier<A> {
    pub(crate) algorithm: A,
}

impl<A: Algorithm<Word: AtomicWord>, L, S> KeyedTable<A, L, S> {
    /// Limits for some of the clients of this table; `None` if their states would not mean the same as the
    /// table's: see [`Algorithm::shares_states`].
    ///
    /// ```
    /// # #[cfg(any(feature = "ahash", feature = "foldhash"))] {
    /// use tidegate::{Quota, Table, Timestamp, TokenBucket};
    ///
    /// // The scale is that of the largest tier: the others are made from it.
    /// const GOLD: TokenBucket = TokenBucket::new(Quota::per_minute(100));
    /// static CLIENTS: Table<TokenBucket, 64> = Table::new(GOLD);
    ///
    /// let free = CLIENTS.tier(GOLD.tier(Quota::per_minute(10), 10).unwrap()).unwrap();
    /// let now = Timestamp::from_secs(1);
    /// assert_eq!(CLIENTS.check_with(&free, "bob", now, 1).unwrap().remaining(), 9);
    /// assert_eq!(CLIENTS.check("carol", now).unwrap().remaining(), 99);
    /// # }
    /// ```
    pub fn tier(&self, algorithm: A) -> Option<Tier<A>> {
        self.algorithm
            .shares_states(&algorithm)
            .then_some(Tier { algorithm })
    }
}

/// One key of a table, hashed once.
pub struct Entry<'a, A: Algorithm<Word: AtomicWord>, L, S> {
    pub(super) table: &'a KeyedTable<A, L, S>,
    pub(super) place: Place,
}

impl<A: Algorithm<Word: AtomicWord>, L: Storage<A::Word>, S> Entry<'_, A, L, S> {
    /// As [`KeyedTable::check`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if the request may not pass.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.check_n(now, 1)
    }

    /// As [`KeyedTable::check_n`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if the request may not pass.
    #[inline]
    pub fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.table
            .check_at(self.place, &self.table.algorithm, now, cost)
    }

    /// As [`KeyedTable::peek`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request would not pass.
    pub fn peek(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.peek_n(now, 1)
    }

    /// What [`check_n`](Self::check_n) would answer now; changes nothing. A full table is not foreseen.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request of this cost would not pass.
    pub fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.table.peek_at(self.place, now, cost)
    }

    /// As [`KeyedTable::refund`].
    pub fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        let algorithm = &self.table.algorithm;
        self.table
            .change_at(self.place, |state| algorithm.refund(state, taken_at, cost))
    }

    /// As [`KeyedTable::reset`].
    pub fn reset(&self) {
        self.table.change_at(self.place, |_| A::Word::ZERO);
    }
}

impl<A: Algorithm<Word: AtomicWord>, L, S> fmt::Debug for Entry<'_, A, L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}
