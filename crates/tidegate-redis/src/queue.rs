//! Refunds that nobody waits for.

use std::sync::{Mutex, PoisonError};

use tidegate::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::limiter::RedisLimiter;
use crate::script::{Ask, When};

/// Refunds on their way; more than these are lost.
const CAPACITY: usize = 16_384;
/// Refunds in one script.
const TOGETHER: usize = 128;

/// Refunds that nobody waits for, and the task that makes them.
#[derive(Default)]
pub(crate) struct Queue {
    sender: Mutex<Option<Sender<Refund>>>,
}

struct Refund {
    limiter: RedisLimiter,
    /// As it is called on the server.
    key: Vec<u8>,
    taken_at: Timestamp,
    cost: u64,
}

impl RedisLimiter {
    /// [`refund`](Self::refund), that neither waits nor can be waited for: for a request that is abandoned, say.
    ///
    /// It is done in the background, together with others. What cannot be done, because there are too many, the server
    /// is down, or this is no Tokio runtime, is lost and counted in
    /// [`Stats::refunds_lost`](crate::Stats::refunds_lost).
    pub fn refund_later(&self, key: impl AsRef<[u8]>, taken_at: Timestamp, cost: u64) {
        let refund = Refund {
            key: self.key(key.as_ref()),
            limiter: self.clone(),
            taken_at,
            cost,
        };
        let link = &self.store().link;
        if !link.refunds.push(refund) {
            link.counts.refunds_lost.add(cost);
        }
    }
}

impl Queue {
    fn push(&self, refund: Refund) -> bool {
        let Ok(runtime) = Handle::try_current() else {
            return false;
        };
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // The task may have ended with the runtime that it was started on.
        let live = match sender.take().filter(|sender| !sender.is_closed()) {
            Some(live) => live,
            None => {
                let (new, receiver) = channel(CAPACITY);
                runtime.spawn(work(receiver));
                new
            }
        };
        let is_queued = live.try_send(refund).is_ok();
        *sender = Some(live);
        is_queued
    }
}

/// Ends when the store does, whose queue holds the sender.
async fn work(mut receiver: Receiver<Refund>) {
    let mut refunds = Vec::new();
    while receiver.recv_many(&mut refunds, TOGETHER).await > 0 {
        while let Some(first) = refunds.first() {
            let store = first.limiter.store().clone();
            // On a cluster, keys may lie anywhere.
            let together = if store.link.is_cluster() {
                1
            } else {
                refunds.len()
            };
            let asks: Vec<Ask<'_>> = refunds[..together].iter().map(Refund::ask).collect();
            if store.give_back(When::Server, &asks).await.is_err() {
                let lost = asks.iter().fold(0, |sum, ask| ask.cost.saturating_add(sum));
                store.link.counts.refunds_lost.add(lost);
            }
            for refund in refunds.drain(..together) {
                refund.limiter.forget(&refund.key);
            }
        }
    }
}

impl Refund {
    fn ask(&self) -> Ask<'_> {
        Ask {
            rule: self.limiter.rule(),
            key: &self.key,
            cost: self.cost,
            taken_at: self.taken_at,
        }
    }
}
