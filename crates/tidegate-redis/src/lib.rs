//! Limits that many machines share, on Redis.

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
#[cfg(feature = "tower")]
pub use tower::TowerStore;
