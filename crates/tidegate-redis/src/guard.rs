//! What happens when there is no decision.

use core::fmt;
use core::hash::BuildHasher;
use std::sync::Arc;

use tidegate::{
    Algorithm, Allowed, AtomicWord, Clock, Denied, KeyedTable, Limiter, Map, Storage, Strategy,
    Timestamp,
};

use crate::decision::Decision;
use crate::error::Error;
use crate::limiter::RedisLimiter;

/// What happens when there is no decision. There is no default: each choice is right for somebody.
#[derive(Clone)]
#[non_exhaustive]
pub enum OnError {
    /// The request is refused: nobody gets past a limit because a server is down.
    Refuse,
    /// It is admitted, uncounted: nobody is kept out because a server is down.
    Admit,
    /// It is decided in-process, by a limiter of this machine's own.
    Fallback(Arc<dyn Fallback>),
}

impl OnError {
    /// Decides in-process, by a table, a map, or one limiter whatever the key.
    pub fn fallback(limiter: impl Fallback + 'static) -> Self {
        Self::Fallback(Arc::new(limiter))
    }
}

impl fmt::Debug for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "Refuse",
            Self::Admit => "Admit",
            Self::Fallback(_) => "Fallback",
        })
    }
}

/// A limiter in-process that decides when the server does not: a [`KeyedTable`], a [`Map`], or one [`Limiter`] for all
/// keys together.
///
/// Its limits are of this machine alone: of `n` machines each should have the `n`th part of the whole.
pub trait Fallback: Send + Sync {
    /// May a request of this key and cost pass now?
    ///
    /// # Errors
    ///
    /// [`Denied`] if not.
    fn check_n(&self, key: &[u8], now: Timestamp, cost: u64) -> Result<Allowed, Denied>;

    /// Gives back what was taken.
    fn refund(&self, key: &[u8], taken_at: Timestamp, cost: u64);
}

impl<A, L, S> Fallback for KeyedTable<A, L, S>
where
    A: Algorithm<Word: AtomicWord> + Send + Sync,
    L: Storage<A::Word> + Send + Sync,
    S: BuildHasher + Send + Sync,
    Self: Send + Sync,
{
    fn check_n(&self, key: &[u8], now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        KeyedTable::check_n(self, key, now, cost)
    }

    fn refund(&self, key: &[u8], taken_at: Timestamp, cost: u64) {
        KeyedTable::refund(self, key, taken_at, cost);
    }
}

impl<A: Strategy, S: BuildHasher> Fallback for Map<Vec<u8>, A, S>
where
    Self: Send + Sync,
{
    fn check_n(&self, key: &[u8], now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        Map::check_n(self, key, now, cost)
    }

    fn refund(&self, key: &[u8], taken_at: Timestamp, cost: u64) {
        Map::refund(self, key, taken_at, cost);
    }
}

impl<A: Strategy> Fallback for Limiter<A>
where
    Self: Send + Sync,
{
    fn check_n(&self, _: &[u8], now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        Limiter::check_n(self, now, cost)
    }

    fn refund(&self, _: &[u8], taken_at: Timestamp, cost: u64) {
        Limiter::refund(self, taken_at, cost);
    }
}

/// A limiter that always has an answer: the server's, or what was chosen for when there is none.
#[derive(Clone, Debug)]
pub struct GuardedLimiter {
    limiter: RedisLimiter,
    on_error: OnError,
    clock: Clock,
}

impl RedisLimiter {
    /// A limiter that always has an answer.
    pub fn guarded(self, on_error: OnError) -> GuardedLimiter {
        GuardedLimiter {
            limiter: self,
            on_error,
            clock: Clock::new(),
        }
    }
}

impl GuardedLimiter {
    /// May one request of this key pass now?
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Verdict {
        self.check_n(key, 1).await
    }

    /// May a request of this cost pass now? All or nothing.
    pub async fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Verdict {
        let key = key.as_ref();
        let error = match self.limiter.check_n(key, cost).await {
            Ok(decision) => return Verdict::Decided(decision),
            Err(error) => error,
        };
        let counts = &self.limiter.store().link.counts;
        let instead = match &self.on_error {
            OnError::Refuse => Instead::Refused,
            OnError::Admit => Instead::Admitted,
            OnError::Fallback(fallback) => {
                let now = self.clock.now();
                Instead::Fallback(fallback.check_n(key, now, cost), now)
            }
        };
        if instead.is_allowed() {
            counts.admitted_instead.add(1);
        } else {
            counts.refused_instead.add(1);
        }
        Verdict::Instead(instead, error)
    }

    /// Gives back what a verdict of this limiter has taken, to whomever it was taken from.
    ///
    /// # Errors
    ///
    /// [`Error`] if the server could not do it.
    pub async fn refund(
        &self,
        key: impl AsRef<[u8]>,
        verdict: &Verdict,
        cost: u64,
    ) -> Result<(), Error> {
        match (verdict, &self.on_error) {
            (Verdict::Decided(decision), _) if decision.is_allowed() => {
                self.limiter.refund(key, decision.taken_at(), cost).await?;
            }
            (
                Verdict::Instead(Instead::Fallback(Ok(_), taken_at), _),
                OnError::Fallback(fallback),
            ) => fallback.refund(key.as_ref(), *taken_at, cost),
            _ => {}
        }
        Ok(())
    }

    /// The limiter, whose errors are errors.
    pub fn limiter(&self) -> &RedisLimiter {
        &self.limiter
    }
}

/// An answer that there always is.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use = "a verdict that is not looked at limits nothing"]
pub enum Verdict {
    /// The server's.
    Decided(Decision),
    /// What was chosen for when there is none, and why there is none.
    Instead(Instead, Error),
}

/// What happened instead of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Instead {
    /// The request is refused.
    Refused,
    /// It is admitted, uncounted.
    Admitted,
    /// The limiter in-process has decided, at this time of its clock.
    Fallback(Result<Allowed, Denied>, Timestamp),
}

impl Instead {
    fn is_allowed(&self) -> bool {
        matches!(self, Self::Admitted | Self::Fallback(Ok(_), _))
    }
}

impl Verdict {
    /// Whether the request may pass.
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::Decided(decision) => decision.is_allowed(),
            Self::Instead(instead, _) => instead.is_allowed(),
        }
    }

    /// What was decided, by the server or in-process; `None` if it was refused or admitted for want of a decision.
    pub fn result(&self) -> Option<Result<Allowed, Denied>> {
        match self {
            Self::Decided(decision) => Some(decision.result()),
            Self::Instead(Instead::Fallback(outcome, _), _) => Some(*outcome),
            Self::Instead(..) => None,
        }
    }

    /// Why the server has not decided, if it has not.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Decided(_) => None,
            Self::Instead(_, error) => Some(error),
        }
    }
}
