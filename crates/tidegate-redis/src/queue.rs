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

/// Lost when it is dropped, unless it is done.
struct Refund {
    limiter: RedisLimiter,
    /// As it is called on the server.
    key: Vec<u8>,
    taken_at: Timestamp,
    cost: u64,
    is_done: bool,
}

impl Drop for Refund {
    fn drop(&mut self) {
        if !self.is_done {
            let most = self.limiter.rule().limit;
            let lost = self.cost.min(most);
            self.limiter.store().link.counts.refunds_lost.add(lost);
        }
    }
}

impl RedisLimiter {
    /// [`refund`](Self::refund), that neither waits nor can be waited for: for a request that is abandoned, say.
    ///
    /// It is done in the background, together with others. What cannot be done, because there are too many, the server
    /// is down, or the runtime ends first, is lost and counted in [`Stats::refunds_lost`](crate::Stats::refunds_lost);
    /// so is what is given back outside of a Tokio runtime, if nothing was inside of one before.
    pub fn refund_later(&self, key: impl AsRef<[u8]>, taken_at: Timestamp, cost: u64) {
        let refund = Refund {
            key: self.key(key.as_ref()),
            limiter: self.clone(),
            taken_at,
            cost,
            is_done: false,
        };
        self.store().link.refunds.push(refund);
    }
}

impl Queue {
    fn push(&self, refund: Refund) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // The task may have ended with the runtime that it was started on.
        let live = match sender.take().filter(|sender| !sender.is_closed()) {
            Some(live) => live,
            None => {
                let Ok(runtime) = Handle::try_current() else {
                    return;
                };
                let (new, receiver) = channel(CAPACITY);
                runtime.spawn(work(receiver));
                new
            }
        };
        // What does not fit is dropped.
        let _ = live.try_send(refund);
        *sender = Some(live);
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
            let is_done = store.give_back(When::Server, &asks).await.is_ok();
            for mut refund in refunds.drain(..together) {
                refund.is_done = is_done;
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
