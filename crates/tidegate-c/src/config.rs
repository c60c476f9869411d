//! What C says of the limits it wants.

use core::time::Duration;

use tidegate::{OnFull, Quota, QuotaError};

use crate::chosen::{Chosen, Width};
use crate::status::tidegate_status::{self, *};

/// Nanoseconds in a second.
pub const TIDEGATE_SECOND: u64 = 1_000_000_000;

/// How a limit counts.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "C has no namespaces")]
pub enum tidegate_algorithm {
    /// At most `burst + limit * d / period` in any stretch of time `d`. Starts full.
    TIDEGATE_TOKEN_BUCKET = 0,
    /// At most `limit` in each window; windows begin at whole multiples of the period since the epoch. Up to twice
    /// the limit around a boundary.
    TIDEGATE_FIXED_WINDOW = 1,
    /// The same, but a window begins with the first admitted request after the last has ended.
    TIDEGATE_ANCHORED_WINDOW = 2,
    /// About `limit` in any period, and less than twice that: the last window fades out as the current one ages.
    TIDEGATE_SLIDING_WINDOW = 3,
}

/// What becomes of a new key when every slot of a table that it may have is live.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "C has no namespaces")]
pub enum tidegate_on_full {
    /// It is refused, as TIDEGATE_TABLE_FULL.
    TIDEGATE_ON_FULL_DENY = 0,
    /// It passes uncounted.
    TIDEGATE_ON_FULL_ALLOW = 1,
    /// It displaces the key that would be idle first, whose budget is so handed back early.
    TIDEGATE_ON_FULL_EVICT = 2,
}

/// The limits of a limiter, or of each key of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tidegate_config {
    /// A tidegate_algorithm.
    pub algorithm: i32,
    /// Permits in each period; at least 1.
    pub limit: u64,
    /// The period, in nanoseconds; at least 1.
    pub period_ns: u64,
    /// The most permits that a token bucket holds; 0 stands for the limit. Of windows it must be 0.
    pub burst: u64,
}

impl tidegate_config {
    pub(crate) fn algorithm<W: Width>(&self) -> Result<Chosen<W>, tidegate_status> {
        let quota =
            Quota::new(self.limit, Duration::from_nanos(self.period_ns)).map_err(|error| {
                match error {
                    QuotaError::ZeroLimit => TIDEGATE_ERROR_ZERO_LIMIT,
                    QuotaError::ZeroPeriod => TIDEGATE_ERROR_ZERO_PERIOD,
                    _ => TIDEGATE_ERROR_LIMITS,
                }
            })?;
        let chosen = if self.algorithm == tidegate_algorithm::TIDEGATE_TOKEN_BUCKET as i32 {
            let burst = match self.burst {
                0 => self.limit,
                burst => burst,
            };
            W::token_bucket(quota, burst).map(Chosen::TokenBucket)
        } else if self.burst != 0 {
            return Err(TIDEGATE_ERROR_BURST_OF_WINDOW);
        } else if self.algorithm == tidegate_algorithm::TIDEGATE_FIXED_WINDOW as i32 {
            W::fixed_window(quota).map(Chosen::FixedWindow)
        } else if self.algorithm == tidegate_algorithm::TIDEGATE_ANCHORED_WINDOW as i32 {
            W::anchored_window(quota).map(Chosen::FixedWindow)
        } else if self.algorithm == tidegate_algorithm::TIDEGATE_SLIDING_WINDOW as i32 {
            W::sliding_window(quota).map(Chosen::SlidingWindow)
        } else {
            return Err(TIDEGATE_ERROR_ALGORITHM);
        };
        chosen.map_err(tidegate_status::from)
    }
}

/// A `tidegate_on_full`, which from C may be any number.
pub(crate) fn on_full(number: i32) -> Result<OnFull, tidegate_status> {
    match number {
        _ if number == tidegate_on_full::TIDEGATE_ON_FULL_DENY as i32 => Ok(OnFull::Deny),
        _ if number == tidegate_on_full::TIDEGATE_ON_FULL_ALLOW as i32 => Ok(OnFull::Allow),
        _ if number == tidegate_on_full::TIDEGATE_ON_FULL_EVICT as i32 => Ok(OnFull::Evict),
        _ => Err(TIDEGATE_ERROR_ON_FULL),
    }
}
