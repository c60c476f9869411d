//! What keeps the budgets.

use core::fmt;
use core::future::Future;
use core::hash::BuildHasher;
use core::pin::Pin;
use std::sync::Arc;

use tidegate::{
    Algorithm, Allowed, AtomicWord, Denied, KeyedTable, Limiter, Map, Quota, Storage, Strategy,
    Timestamp,
};

use crate::key::Key;
use crate::limit::{Counting, Limit};

/// What a store has decided.
pub type Decision = Result<Allowed, Denied>;

/// Why a store could not decide: not a refusal.
pub type StoreError = Box<dyn core::error::Error + Send + Sync>;

/// What a store elsewhere has decided, and when it was counted there.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub(crate) decision: Decision,
    pub(crate) taken_at: Option<Timestamp>,
}

impl Counted {
    /// Counted at this instant of the store's own clock, which is handed back to [`Store::refund`]. A plain decision
    /// is refunded as of the instant that was handed to [`Store::check`].
    pub const fn at(decision: Decision, taken_at: Timestamp) -> Self {
        Self {
            decision,
            taken_at: Some(taken_at),
        }
    }
}

impl From<Decision> for Counted {
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            taken_at: None,
        }
    }
}

/// A decision that takes a while.
pub type Later = Pin<Box<dyn Future<Output = Result<Counted, StoreError>> + Send>>;

/// A store's answer: at once, from memory, or later, from elsewhere.
pub enum Answer {
    /// At once; nothing is allocated.
    Ready(Result<Decision, StoreError>),
    /// Later.
    Later(Later),
}

impl Answer {
    /// A decision at once.
    pub fn ready(decision: Decision) -> Self {
        Self::Ready(Ok(decision))
    }

    /// An answer that takes a while: a [`Decision`], or one [`Counted`] by a clock of the store's own.
    pub fn later<T: Into<Counted>>(
        answer: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Self {
        Self::Later(Box::pin(async move { answer.await.map(Into::into) }))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(answer) => f.debug_tuple("Ready").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// A keyed gate: keeps a budget for each key. [`KeyedTable`], [`Map`], one [`Limiter`] (whatever the key), or what you
/// write for a store elsewhere.
///
/// # Laws
///
/// Those of [`tidegate::Gate`], for each key: a refusal changes nothing, cost 0 is admitted and changes nothing, and
/// a refund gives back at most what was taken. If there is no room to count a new key, that is a refusal with
/// [`Reason::TableFull`](tidegate::Reason::TableFull); what a store elsewhere cannot decide is an error.
pub trait Store: Send + Sync {
    /// May a request of this key and cost pass now? If so, it is counted; all or nothing.
    ///
    /// Called on the thread that serves the request: it must not block.
    fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer;

    /// What [`check`](Self::check) would answer now, if that can be told at once; changes nothing.
    ///
    /// It spares taking and giving back where one of several policies refuses, and tells the client where the others
    /// stand. A store elsewhere has none.
    fn peek(&self, key: &Key, now: Timestamp, cost: u64) -> Option<Decision> {
        let _ = (key, now, cost);
        None
    }

    /// What [`check`](Self::check) would answer, if it can be told at all; changes nothing. Unlike [`peek`](Self::peek),
    /// it may take a while. Called by who watches the server, not for requests.
    fn look(&self, key: &Key, now: Timestamp, cost: u64) -> Option<Answer> {
        self.peek(key, now, cost).map(Answer::ready)
    }

    /// How much of its room is in use, if that can be told at once. Called by who watches the server, not for requests.
    fn occupancy(&self, now: Timestamp) -> Option<Occupancy> {
        let _ = now;
        None
    }

    /// Gives back what was taken at `taken_at`, by the clock of which the answer [told](Counted::at).
    ///
    /// It must not block or wait: requests are also given back when their future is dropped. A store elsewhere queues
    /// it.
    fn refund(&self, key: &Key, taken_at: Timestamp, cost: u64);
}

/// How much of a store's room is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    live_keys: usize,
    capacity: Option<usize>,
}

impl Occupancy {
    /// So many keys that have used something, out of so many that there is room for, if that is limited.
    pub fn new(live_keys: usize, capacity: Option<usize>) -> Self {
        Self {
            live_keys,
            capacity,
        }
    }

    /// How many keys have used something that has not come back yet.
    pub fn live_keys(&self) -> usize {
        self.live_keys
    }

    /// How many keys can be live at once at the very most; `None` if only memory limits it.
    ///
    /// A table is full for some keys before that: see [`Limit::with_capacity`].
    pub fn capacity(&self) -> Option<usize> {
        self.capacity
    }
}

/// A limit for which a store is wanted: what [`Builder::stores`](crate::Builder::stores) asks with.
///
/// Policy, tier and whether it is a candidate tell the limits of a layer apart, also after a reload.
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest<'a> {
    policy: &'a str,
    tier: Option<&'a str>,
    is_candidate: bool,
    limit: &'a Limit,
    counting: Counting,
}

impl<'a> StoreRequest<'a> {
    /// None if the limit has a store already.
    pub(crate) fn new(
        policy: &'a str,
        tier: Option<&'a str>,
        is_candidate: bool,
        limit: &'a Limit,
    ) -> Option<Self> {
        Some(Self {
            policy,
            tier,
            is_candidate,
            limit,
            counting: limit.counting()?,
        })
    }

    /// The policy's name.
    pub fn policy(&self) -> &'a str {
        self.policy
    }

    /// The tier of clients; `None` if the limit is for those of no tier.
    pub fn tier(&self) -> Option<&'a str> {
        self.tier
    }

    /// Whether the limit is the policy's [candidate](crate::Policy::candidate), which is only watched.
    pub fn is_candidate(&self) -> bool {
        self.is_candidate
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.limit.quota()
    }

    /// How it is to be counted.
    pub fn counting(&self) -> Counting {
        self.counting
    }

    /// How much a token bucket holds; `None` for other ways of counting.
    pub fn burst(&self) -> Option<u64> {
        self.limit.burst()
    }

    /// The whole limit.
    pub fn limit(&self) -> &'a Limit {
        self.limit
    }
}

impl<A, L, S> Store for KeyedTable<A, L, S>
where
    A: Algorithm<Word: AtomicWord> + Send + Sync,
    L: Storage<A::Word> + Send + Sync,
    S: BuildHasher + Send + Sync,
    Self: Send + Sync,
{
    fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer {
        Answer::ready(self.check_n(key, now, cost))
    }

    fn peek(&self, key: &Key, now: Timestamp, cost: u64) -> Option<Decision> {
        Some(self.at(key).peek_n(now, cost))
    }

    /// Visits every line.
    fn occupancy(&self, now: Timestamp) -> Option<Occupancy> {
        Some(Occupancy::new(self.len_live(now), Some(self.capacity())))
    }

    fn refund(&self, key: &Key, taken_at: Timestamp, cost: u64) {
        KeyedTable::refund(self, key, taken_at, cost);
    }
}

impl<A, S> Store for Map<Key, A, S>
where
    A: Strategy,
    S: BuildHasher,
    Self: Send + Sync,
{
    fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer {
        Answer::ready(self.check_n(key, now, cost))
    }

    fn peek(&self, key: &Key, now: Timestamp, cost: u64) -> Option<Decision> {
        Some(self.peek_n(key, now, cost))
    }

    /// Visits every key.
    fn occupancy(&self, now: Timestamp) -> Option<Occupancy> {
        Some(Occupancy::new(self.len_live(now), self.max_keys()))
    }

    fn refund(&self, key: &Key, taken_at: Timestamp, cost: u64) {
        Map::refund(self, key, taken_at, cost);
    }
}

/// One budget, whatever the key.
impl<A: Strategy> Store for Limiter<A>
where
    Self: Send + Sync,
{
    fn check(&self, _: &Key, now: Timestamp, cost: u64) -> Answer {
        Answer::ready(self.check_n(now, cost))
    }

    fn peek(&self, _: &Key, now: Timestamp, cost: u64) -> Option<Decision> {
        Some(self.peek_n(now, cost))
    }

    fn refund(&self, _: &Key, taken_at: Timestamp, cost: u64) {
        Limiter::refund(self, taken_at, cost);
    }
}

macro_rules! forward {
    ($type:ty) => {
        impl<T: Store + ?Sized> Store for $type {
            fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer {
                (**self).check(key, now, cost)
            }

            fn peek(&self, key: &Key, now: Timestamp, cost: u64) -> Option<Decision> {
                (**self).peek(key, now, cost)
            }

            fn look(&self, key: &Key, now: Timestamp, cost: u64) -> Option<Answer> {
                (**self).look(key, now, cost)
            }

            fn occupancy(&self, now: Timestamp) -> Option<Occupancy> {
                (**self).occupancy(now)
            }

            fn refund(&self, key: &Key, taken_at: Timestamp, cost: u64) {
                (**self).refund(key, taken_at, cost);
            }
        }
    };
}

forward!(Arc<T>);
forward!(&T);
