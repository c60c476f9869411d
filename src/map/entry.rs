//! One key of a map.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use super::Map;
use crate::decision::{Allowed, Denied};
use crate::gate::Gate;
use crate::strategy::Strategy;
use crate::table::Seeded;
use crate::time::Timestamp;

/// One key of a map, hashed once; the key need not be there.
pub struct MapEntry<'a, K, A: Strategy, S = Seeded, Q: ?Sized = K> {
    pub(super) map: &'a Map<K, A, S>,
    pub(super) key: &'a Q,
    pub(super) hash: u64,
}

impl<K, A, S, Q> MapEntry<'_, K, A, S, Q>
where
    K: Borrow<Q> + Hash + Eq,
    A: Strategy,
    S: BuildHasher,
    Q: Hash + Eq + ?Sized,
{
    /// As [`Map::check`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if the request may not pass.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Result<Allowed, Denied>
    where
        Q: ToOwned<Owned = K>,
    {
        self.check_n(now, 1)
    }

    /// As [`Map::check_n`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if the request may not pass.
    #[inline]
    pub fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied>
    where
        Q: ToOwned<Owned = K>,
    {
        let map = self.map;
        map.check_hashed(self.hash, self.key, &map.algorithm, now, cost)
    }

    /// As [`Map::peek`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request would not pass.
    #[inline]
    pub fn peek(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.peek_n(now, 1)
    }

    /// As [`Map::peek_n`].
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request of this cost would not pass.
    pub fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.map.peek_hashed(self.hash, self.key, now, cost)
    }

    /// As [`Map::refund`].
    pub fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        self.map.refund_hashed(self.hash, self.key, taken_at, cost)
    }

    /// As [`Map::reset`].
    pub fn reset(&self) {
        self.map.reset_hashed(self.hash, self.key);
    }
}

impl<K, A, S, Q> Gate for MapEntry<'_, K, A, S, Q>
where
    K: Borrow<Q> + Hash + Eq,
    A: Strategy,
    S: BuildHasher,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
{
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

impl<K, A: Strategy, S, Q: ?Sized> fmt::Debug for MapEntry<'_, K, A, S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapEntry").finish_non_exhaustive()
    }
}
