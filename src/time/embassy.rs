//! Conversions from and to the instants and durations of `embassy-time`.

use embassy_time::{Duration, Instant, TICK_HZ};

use super::{Ratio, Timestamp};
use crate::scale::SECOND;

const TO_NANOS: Ratio = Ratio::new(SECOND, TICK_HZ);
const TO_TICKS: Ratio = Ratio::new(TICK_HZ, SECOND);

/// Since the start of embassy's clock; rounds down to a nanosecond, and saturates. No division.
///
/// ```
/// use embassy_time::Instant;
/// use tidegate::Timestamp;
///
/// assert_eq!(Timestamp::from(Instant::from_millis(1_500)), Timestamp::from_millis(1_500));
/// ```
impl From<Instant> for Timestamp {
    #[inline]
    fn from(instant: Instant) -> Self {
        Self::from_nanos(TO_NANOS.floor(instant.as_ticks()))
    }
}

/// The time since the epoch; rounds down to a nanosecond, and saturates. No division.
impl From<Duration> for Timestamp {
    #[inline]
    fn from(since_epoch: Duration) -> Self {
        Self::from_nanos(TO_NANOS.floor(since_epoch.as_ticks()))
    }
}

/// The first tick that is not before the timestamp, so that who wakes then is not too early. Saturates.
///
/// Such as for `Timer::at(Instant::from(now.saturating_add(wait)))`:
///
/// ```
/// use embassy_time::Instant;
/// use tidegate::{Limiter, Quota, Timestamp, TokenBucket};
///
/// let limiter = Limiter::new(TokenBucket::new(Quota::per_second(3)).with_burst(1));
/// let now = Timestamp::from(Instant::from_secs(1));
/// assert!(limiter.check(now).is_ok());
/// let wait = limiter.check(now).unwrap_err().retry_after().unwrap();
/// let wake = Instant::from(now.saturating_add(wait));
/// assert!(limiter.check(wake.into()).is_ok());
/// ```
impl From<Timestamp> for Instant {
    #[inline]
    fn from(timestamp: Timestamp) -> Self {
        Self::from_ticks(TO_TICKS.ceil(timestamp.as_nanos()))
    }
}

/// The time since the epoch in ticks, rounded up; saturates.
impl From<Timestamp> for Duration {
    #[inline]
    fn from(timestamp: Timestamp) -> Self {
        Self::from_ticks(TO_TICKS.ceil(timestamp.as_nanos()))
    }
}
