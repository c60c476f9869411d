//! A store for the layer of tidegate-tower.

use core::time::Duration;
use std::sync::Arc;

use tidegate::Timestamp;
use tidegate_tower::{Answer, Counted, Counting, Key, Store, StoreError, StoreRequest};

use crate::error::{Error, ErrorKind};
use crate::limit::Limit;
use crate::limiter::RedisLimiter;
use crate::script::{Commit, When};
use crate::store::RedisStore;

/// A limiter as a store for the layer.
///
/// Its errors are the layer's to decide on, by its `OnFailure`. Refusals that are
/// [remembered](RedisLimiter::remembering), and that the server is down, are told at once, without a future.
///
/// ```no_run
/// use tidegate::Quota;
/// use tidegate_redis::{Limit, RedisStore, TowerStore};
/// use tidegate_tower::{OnFailure, PeerAddress, Policy, RateLimitLayer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn core::error::Error>> {
/// let store = RedisStore::builder("redis://127.0.0.1/")?.connect_later();
/// let quota = Quota::per_second(100);
///
/// // One limiter of yours, ...
/// let own = TowerStore::new(store.limiter("api", Limit::sliding_window(quota))?);
/// let api = Policy::new("api", PeerAddress::new()).limit(tidegate_tower::Limit::in_store(quota, own));
/// // ... or every limit of the policies.
/// let all = Policy::new("all", PeerAddress::new()).limit(tidegate_tower::Limit::token_bucket(quota));
/// let layer = RateLimitLayer::builder(OnFailure::Admit)
///     .stores(move |limit| store.for_layer(limit).map(Some))
///     .policy(api)
///     .policy(all)
///     .build()?;
/// # drop(layer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TowerStore {
    limiter: RedisLimiter,
}

impl TowerStore {
    /// Keeps the keys of requests in this limiter.
    pub fn new(limiter: RedisLimiter) -> Self {
        Self { limiter }
    }
}

fn encoded(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    key.encode(&mut bytes);
    bytes
}

impl Store for TowerStore {
    fn check(&self, key: &Key, _: Timestamp, cost: u64) -> Answer {
        let key = self.limiter.key(&encoded(key));
        if let Some(decision) = self.limiter.recall(&key, cost, When::Server) {
            return Answer::ready(decision.outcome);
        }
        let link = &self.limiter.store().link;
        if !link.is_up() {
            link.reconnect();
            link.counts.error(ErrorKind::Down);
            return Answer::Ready(Err(Box::new(Error::new(ErrorKind::Down))));
        }
        let limiter = self.limiter.clone();
        Answer::later(async move {
            let asked = limiter.ask_server(&key, cost, When::Server, Commit::All);
            let decision = asked.await?;
            Ok(Counted::at(decision.outcome, decision.taken_at))
        })
    }

    fn look(&self, key: &Key, _: Timestamp, cost: u64) -> Option<Answer> {
        let (limiter, key) = (self.limiter.clone(), encoded(key));
        Some(Answer::later(async move {
            let decision = limiter.peek_n(&key, cost).await?;
            Ok(decision.outcome)
        }))
    }

    fn refund(&self, key: &Key, taken_at: Timestamp, cost: u64) {
        self.limiter.refund_later(encoded(key), taken_at, cost);
    }
}

impl RedisStore {
    /// Keeps a limit of the layer's: for `Builder::stores`.
    ///
    /// The limiter is called after the policy, and its tier if it has one. So machines whose policies have the same
    /// names share them. It [remembers](RedisLimiter::remembering) 16,384 refusals, for a second, in 1.7 MB.
    ///
    /// # Errors
    ///
    /// [`ConfigError`](crate::ConfigError) if the server cannot count this limit exactly, or the names together have more
    /// than 64 characters, where all but letters, digits and hyphens count as three.
    pub fn for_layer(&self, request: &StoreRequest<'_>) -> Result<Arc<dyn Store>, StoreError> {
        let quota = request.quota();
        let limit = match request.counting() {
            Counting::TokenBucket => {
                let burst = request.burst().unwrap_or(quota.limit());
                Limit::token_bucket(quota).with_burst(burst)
            }
            Counting::FixedWindow => Limit::fixed_window(quota),
            Counting::AnchoredWindow => Limit::anchored_window(quota),
            Counting::SlidingWindow => Limit::sliding_window(quota),
            Counting::SlidingLog => Limit::sliding_log(quota),
            _ => return Err("this way of counting is not known on a server".into()),
        };
        let mut name = part(request.policy());
        if let Some(tier) = request.tier() {
            name = name + "." + &part(tier);
        }
        if request.is_candidate() {
            name += "..candidate";
        }
        let limiter = self.limiter(&name, limit)?;
        let limiter = limiter.remembering(16_384, Duration::from_secs(1));
        Ok(Arc::new(TowerStore::new(limiter)))
    }
}

/// A name of any characters, in those that a limiter's may have but dots; no two alike.
fn part(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            part.push(char::from(byte));
        } else {
            part += &format!("_{byte:02x}");
        }
    }
    part
}
