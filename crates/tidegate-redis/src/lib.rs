//! Limits that many machines share, on Redis.

#![forbid(unsafe_code)]
#![allow(clippy::std_instead_of_alloc, reason = "this crate needs std")]

mod decision;
mod error;
mod key;
mod limit;
mod limiter;
mod link;
mod script;
mod stats;
mod store;

pub use decision::Decision;
pub use error::{Error, ErrorKind};
pub use limit::{Limit, LimitError};
pub use limiter::RedisLimiter;
pub use stats::Stats;
pub use store::{Builder, ConfigError, RedisStore, Request};
