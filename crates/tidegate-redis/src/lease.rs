//! Permits that are taken many at a time.

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate::{Allowed, Clock, Denied, LeaseState, Timestamp};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::limit::Method;
use crate::limiter::RedisLimiter;
use crate::refusals::Refusal;

/// A handle that takes permits of one key from the server in batches, and spends them without asking it.
///
/// Clones share the permits: one lease serves all tasks of a process. While one of them asks the server, the others wait
/// for its answer. A batch grows, up to a bound, until it lasts some 20 ms, and is at most a quarter of what is left, so
/// that other machines find something too. What is not spent within a second, or is left when the last clone is
/// dropped, goes back.
///
/// Never over: a permit that is held lapses as the server's budget refills, as in [`tidegate::Lease`], whose promises
/// these are, the one about exact logs included. Time since the batch was taken is measured by this machine's monotonic
/// clock, from before the server was asked; so clocks of machines need not agree.
///
/// What a lease holds is missing to others meanwhile. Of `n` machines that hold leases, up to `n` times the bound may
/// lie idle for a second.
///
/// ```no_run
/// use tidegate::Quota;
/// use tidegate_redis::{Limit, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn core::error::Error>> {
/// let store = RedisStore::builder("redis://127.0.0.1/")?.connect().await?;
/// let quota = Limit::fixed_window(Quota::per_day(1_000_000));
/// let customer = store.limiter("daily", quota)?.lease("customer-1", 1..=256);
/// for _ in 0..10_000 {
///     // Some forty round trips, not ten thousand.
///     assert!(customer.check().await?.is_ok());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisLease {
    shared: Arc<Shared>,
}

struct Shared {
    limiter: RedisLimiter,
    key: Vec<u8>,
    clock: Clock,
    max_age: Duration,
    batch: Mutex<Batch>,
    /// Held by the task that asks the server.
    asking: Arc<tokio::sync::Mutex<()>>,
}

struct Batch {
    state: LeaseState,
    /// When it was taken, by the server's clock.
    taken_at: Timestamp,
    /// And by this machine's.
    granted_at: Timestamp,
    /// The refusal that the server would repeat.
    refused: Option<Refusal>,
    /// The task that is going to give back what is not spent.
    watcher: Option<AbortHandle>,
}

impl RedisLimiter {
    /// Takes permits of a key in batches of between `start` and `end`.
    ///
    /// # Panics
    ///
    /// If the range is empty or begins at 0.
    pub fn lease(&self, key: impl Into<Vec<u8>>, permits: RangeInclusive<u64>) -> RedisLease {
        let state = LeaseState::new(permits).with_interval(Duration::from_millis(20));
        RedisLease::new(self.clone(), key.into(), state, Duration::from_secs(1))
    }

    /// A [`lease`](Self::lease) by the rules of a state that holds nothing yet, and whose permits go back after
    /// `max_age`.
    pub fn lease_with(
        &self,
        key: impl Into<Vec<u8>>,
        state: LeaseState,
        max_age: Duration,
    ) -> RedisLease {
        RedisLease::new(self.clone(), key.into(), state, max_age)
    }
}

impl RedisLease {
    fn new(limiter: RedisLimiter, key: Vec<u8>, state: LeaseState, max_age: Duration) -> Self {
        Self {
            shared: Arc::new(Shared {
                limiter,
                key,
                clock: Clock::new(),
                max_age,
                batch: Mutex::new(Batch {
                    state: state.with_max_age(max_age),
                    taken_at: Timestamp::ZERO,
                    granted_at: Timestamp::ZERO,
                    refused: None,
                    watcher: None,
                }),
                asking: Arc::default(),
            }),
        }
    }

    /// May one request pass now?
    ///
    /// # Errors
    ///
    /// [`Error`] if nothing is held, and the server has not decided in time.
    pub async fn check(&self) -> Result<Result<Allowed, Denied>, Error> {
        self.check_n(1).await
    }

    /// May a request of this cost pass now? All or nothing.
    ///
    /// The answer's `remaining` is what this lease still holds: so many pass at this instant whatever others do. Cost 0
    /// asks the server, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error`] if too little is held, and the server has not decided in time.
    pub async fn check_n(&self, cost: u64) -> Result<Result<Allowed, Denied>, Error> {
        let shared = &self.shared;
        if cost == 0 {
            let decision = shared.limiter.check_n(&shared.key, 0).await?;
            return Ok(decision.result());
        }
        if let Some(outcome) = shared.spend(cost) {
            return Ok(outcome);
        }
        let store = shared.limiter.store();
        let deadline = store.link.options.deadline;
        let asked = timeout(deadline, async {
            let asking = Arc::clone(&shared.asking).lock_owned().await;
            // Somebody else may have asked meanwhile.
            if let Some(outcome) = shared.spend(cost) {
                return Ok(outcome);
            }
            // A task of its own: a batch that the server has counted is not lost because this request is given up.
            let shared = Arc::clone(shared);
            let task = tokio::spawn(async move {
                let _asking = asking;
                shared.ask(cost).await
            });
            match task.await {
                Ok(outcome) => outcome,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime ends.
                    Err(_) => Err(Error::new(ErrorKind::Down)),
                },
            }
        });
        asked.await.unwrap_or_else(|_| {
            store.link.counts.error(ErrorKind::Deadline);
            Err(Error::new(ErrorKind::Deadline))
        })
    }

    /// How many permits can be spent without asking the server.
    pub fn held(&self) -> u64 {
        self.shared.batch().state.held(self.shared.clock.now())
    }

    /// Gives back what is held, and says how many permits that were: at the end of a program, whose runtime ends before
    /// what is given back in the background.
    ///
    /// # Errors
    ///
    /// [`Error`] if the server could not take them. Then they are lost, and counted in
    /// [`Stats::refunds_lost`](crate::Stats::refunds_lost).
    pub async fn give_back(&self) -> Result<u64, Error> {
        let shared = &self.shared;
        let Some((taken_at, rest)) = shared.let_go(shared.clock.now()) else {
            return Ok(0);
        };
        shared.refund(taken_at, rest).await?;
        Ok(rest)
    }
}

impl Shared {
    fn batch(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What can be answered without the server.
    fn spend(&self, cost: u64) -> Option<Result<Allowed, Denied>> {
        let now = self.clock.now();
        let mut batch = self.batch();
        if batch.state.spend(now, cost) {
            self.limiter.store().link.counts.leased.add(1);
            return Some(Ok(batch.state.allowed(now)));
        }
        let denied = batch.refused?.repeated(cost, now)?;
        self.limiter.store().link.counts.refused_locally.add(1);
        Some(Err(denied))
    }

    /// Ends the batch: when it was taken, by the server's clock, and what is left of it.
    fn let_go(&self, now: Timestamp) -> Option<(Timestamp, u64)> {
        let mut batch = self.batch();
        let (_, rest) = batch.state.give_back(now)?;
        Some((batch.taken_at, rest))
    }

    async fn refund(&self, taken_at: Timestamp, rest: u64) -> Result<(), Error> {
        let refunded = self.limiter.refund(&self.key, taken_at, rest).await;
        // Not tried again: the server may have done it.
        if refunded.is_err() {
            let counts = &self.limiter.store().link.counts;
            counts.refunds_lost.add(rest);
        }
        refunded.map(drop)
    }

    async fn ask(self: &Arc<Self>, cost: u64) -> Result<Result<Allowed, Denied>, Error> {
        let now = self.clock.now();
        if let Some((taken_at, rest)) = self.let_go(now) {
            // Too few for this request, but maybe what the server lacks.
            self.refund(taken_at, rest).await?;
        }
        let wanted = self.batch().state.wanted(now, cost);
        let mut decision = self.limiter.check_n(&self.key, wanted).await?;
        let mut taken = wanted;
        if wanted > cost && !decision.is_allowed() {
            self.batch().state.refused();
            decision = self.limiter.check_n(&self.key, cost).await?;
            taken = cost;
        }
        let mut batch = self.batch();
        match decision.outcome {
            Ok(allowed) => {
                let terms = terms(&self.limiter, &decision, &allowed);
                batch.state.granted(now, taken, cost, &terms);
                batch.taken_at = decision.taken_at;
                batch.granted_at = now;
                batch.refused = None;
                // The task may have ended with the runtime that it was started on.
                let is_watched = batch.watcher.as_ref().is_some_and(|it| !it.is_finished());
                if taken > cost && !is_watched {
                    let watcher = tokio::spawn(watch(Arc::downgrade(self), self.max_age));
                    batch.watcher = Some(watcher.abort_handle());
                }
                Ok(Ok(batch.state.allowed(now)))
            }
            Err(denied) => {
                // What others give back is noticed as soon as what this lease would give back itself.
                let heard_at = self.clock.now();
                batch.refused = Refusal::new(cost, now, heard_at, denied, self.max_age);
                Ok(Err(denied))
            }
        }
    }
}

/// The answer as a lease reads it: a sliding window's counts are those of its window.
fn terms(limiter: &RedisLimiter, decision: &Decision, allowed: &Allowed) -> Allowed {
    match limiter.rule().method {
        Method::SlidingWindow => {
            Allowed::in_window(allowed.limit(), allowed.remaining(), decision.window_end)
        }
        _ => *allowed,
    }
}

/// Gives back what nobody spends.
async fn watch(shared: Weak<Shared>, max_age: Duration) {
    let mut pause = max_age;
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let now = shared.clock.now();
        let (taken_at, rest) = {
            let mut batch = shared.batch();
            if batch.state.held(now) > 0 {
                // A younger batch.
                let age = now.saturating_duration_since(batch.granted_at);
                pause = max_age.saturating_sub(age) + Duration::from_millis(1);
                continue;
            }
            batch.watcher = None;
            (batch.taken_at, batch.state.give_back(now))
        };
        if let Some((_, rest)) = rest {
            shared
                .limiter
                .refund_later(shared.key.clone(), taken_at, rest);
        }
        return;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let now = self.clock.now();
        let batch = self.batch.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = batch.watcher.take() {
            watcher.abort();
        }
        let Some((_, rest)) = batch.state.give_back(now) else {
            return;
        };
        let (limiter, key, taken_at) = (
            self.limiter.clone(),
            core::mem::take(&mut self.key),
            batch.taken_at,
        );
        limiter.refund_later(key, taken_at, rest);
    }
}

impl fmt::Debug for RedisLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLease")
            .field("limiter", &self.shared.limiter)
            .field("state", &self.shared.batch().state)
            .finish_non_exhaustive()
    }
}
