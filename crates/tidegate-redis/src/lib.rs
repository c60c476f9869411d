//! Limits that many machines share, on Redis: one atomic script a decision, and the answers of [`tidegate`] in-process.
//!
//! ```no_run
//! use tidegate::Quota;
//! use tidegate_redis::{Limit, OnError, RedisStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let store = RedisStore::builder("redis://127.0.0.1/")?.connect().await?;
//! let api = store.limiter("api", Limit::token_bucket(Quota::per_second(100)).with_burst(20))?;
//!
//! match api.check("client-1").await {
//!     Ok(decision) => match decision.result() {
//!         Ok(allowed) => println!("{} left", allowed.remaining()),
//!         Err(denied) => println!("again in {:?}", denied.retry_after()),
//!     },
//!     // Never a refusal: the server is slow, gone, full or restarting.
//!     Err(error) => println!("no decision: {error}"),
//! }
//!
//! // Or choose once what happens then.
//! let api = api.guarded(OnError::Admit);
//! if api.check("client-1").await.is_allowed() {
//!     // ...
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - A [`RedisStore`] is a server, or a cluster; a [`RedisLimiter`] one [`Limit`] on it, for any number of keys. Several
//!   limits can be asked [at once](RedisStore::check_all), all or nothing, and many keys of one limit
//!   [in a batch](RedisLimiter::check_many).
//! - A decision is one script, which reads, decides and writes while nothing else happens on the server. It counts in
//!   whole numbers, by the server's clock alone: machines whose clocks disagree share limits all the same.
//! - Permits can be taken [many at a time](RedisLimiter::lease), and [refusals remembered](RedisLimiter::remembering),
//!   so that most requests cost no round trip.
//!
//! # What the server keeps
//!
//! One key for each key of a limiter, from its first request until everything it has used is back; then it expires. As
//! measured by `used_memory` of Redis 7.0, with names and keys of 10 characters each, 20,000 keys (2,000 of the log), and the
//! tables that find and expire them included:
//!
//! | limit | bytes a key |
//! |---|---|
//! | token bucket | 202 |
//! | fixed window, aligned or anchored | 186 |
//! | sliding window | 202 |
//! | exact log of 100 permits in use | 1281 |
//!
//! Keys of more than 64 bytes are kept as their SHA-256. One key more, `PREFIX:server`, tells a server that has lost its
//! data from one that has not; it does not expire.
//!
//! # Servers
//!
//! Redis 5 or later, and what is compatible with it; tested with Redis 7.0, alone and as a cluster, with either protocol.
//! If keys are evicted for want of memory, their budgets begin anew: the policy `noeviction` makes that an error instead.
//! A user needs no more than this, for limits under the prefix `tidegate`, and for another database than 0 `+select`, for
//! a cluster `+cluster|slots`:
//!
//! ```text
//! ACL SETUSER limits on >secret ~tidegate:* \
//!     +evalsha +eval +time +get +set +del +pexpire \
//!     +llen +lindex +lrange +rpush +ltrim +lrem +lset
//! ```
//!
//! A script either counts everything or nothing, also when the server's memory is used up or a key holds what is not ours:
//! it reads and decides before it writes. But a [batch](RedisLimiter::check_many) has counted what came before the key that
//! it failed at. Replicas get what a script has written, not the script. One that takes over may lack the last decisions
//! before, as with everything on Redis: they are then admitted once more.
//!
//! # Runtime
//!
//! Tokio's, with its I/O and its time enabled. The connection lives on the runtime that made it. If that ends, the next
//! decision finds out, and the connection is made anew by the runtime that it is on; a runtime of one thread that is kept
//! and no longer run, however, keeps what it was about to do.
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `cluster` | [`RedisStore::cluster`](RedisStore) |
//! | `metrics` | `Stats::publish`: the recorder of the crate `metrics` is told what has happened |
//! | `tls` | `rediss://`, by the system's certificates; by `ring`, unless the program has installed another default provider of `rustls` before |
//! | `tower` | a store for the layer of `tidegate-tower` |

#![forbid(unsafe_code)]
#![allow(clippy::std_instead_of_alloc, reason = "this crate needs std")]

mod decision;
mod error;
mod guard;
mod key;
mod lease;
mod limit;
mod limiter;
mod link;
mod queue;
mod refusals;
mod script;
mod stats;
mod store;
#[cfg(feature = "metrics")]
mod telemetry;
#[cfg(feature = "tower")]
mod tower;

pub use decision::Decision;
pub use error::{Error, ErrorKind};
pub use guard::{Fallback, GuardedLimiter, Instead, OnError, Verdict};
pub use lease::RedisLease;
pub use limit::{Limit, LimitError};
pub use limiter::RedisLimiter;
pub use stats::Stats;
pub use store::{Builder, ConfigError, RedisStore, Request};
#[cfg(feature = "metrics")]
pub use telemetry::describe_metrics;
#[cfg(feature = "tower")]
pub use tower::TowerStore;

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// All that tasks share, or hold while they wait.
const _: () = {
    const fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<RedisStore>();
    is_shared::<RedisLimiter>();
    is_shared::<RedisLease>();
    is_shared::<GuardedLimiter>();
    is_shared::<Verdict>();
    is_shared::<Error>();
    is_shared::<Builder>();
};
