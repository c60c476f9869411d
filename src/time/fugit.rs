//! Conversions from and to the instants and durations of `fugit`.

use fugit::kind::{Kind, Monotonic};
use fugit::{Duration, Instant};

use super::{Ratio, Timestamp};
use crate::scale::SECOND;

/// Nanoseconds a tick of a base, and ticks a nanosecond.
struct Base<const NOM: u64, const DENOM: u64>;

impl<const NOM: u64, const DENOM: u64> Base<NOM, DENOM> {
    const NANOS: u64 = match SECOND.checked_mul(NOM) {
        Some(nanos) => nanos,
        None => panic!("a tick is longer than 584 years"),
    };
    const TO_NANOS: Ratio = Ratio::new(Self::NANOS, DENOM);
    const TO_TICKS: Ratio = Ratio::new(DENOM, Self::NANOS);
}

/// Since the epoch of the instant's timeline; rounds down to a nanosecond, and saturates. No division.
///
/// For 64-bit instants of either kind, since 64 bits do not wrap, and for monotonic ones of 32. A wrapping instant of
/// 32 bits says less than a timestamp: hand its ticks to [`Ticks`](crate::Ticks).
///
/// ```
/// use fugit::MonotonicInstant;
/// use tidegate::Timestamp;
///
/// let uptime = MonotonicInstant::<u64, 1, 32_768>::from_ticks(49_152);
/// assert_eq!(Timestamp::from(uptime), Timestamp::from_millis(1_500));
/// ```
impl<const NOM: u64, const DENOM: u64, K: Kind> From<Instant<u64, NOM, DENOM, K>> for Timestamp {
    #[inline]
    fn from(instant: Instant<u64, NOM, DENOM, K>) -> Self {
        Self::from_nanos(Base::<NOM, DENOM>::TO_NANOS.floor(instant.as_ticks()))
    }
}

/// Since the epoch of the instant's timeline; rounds down to a nanosecond, and saturates. No division.
impl<const NOM: u64, const DENOM: u64> From<Instant<u32, NOM, DENOM, Monotonic>> for Timestamp {
    #[inline]
    fn from(instant: Instant<u32, NOM, DENOM, Monotonic>) -> Self {
        Self::from_nanos(Base::<NOM, DENOM>::TO_NANOS.floor(u64::from(instant.as_ticks())))
    }
}

/// The time since the epoch; rounds down to a nanosecond, and saturates. No division.
impl<const NOM: u64, const DENOM: u64> From<Duration<u64, NOM, DENOM>> for Timestamp {
    #[inline]
    fn from(since_epoch: Duration<u64, NOM, DENOM>) -> Self {
        Self::from_nanos(Base::<NOM, DENOM>::TO_NANOS.floor(since_epoch.as_ticks()))
    }
}

/// The time since the epoch; rounds down to a nanosecond, and saturates. No division.
impl<const NOM: u64, const DENOM: u64> From<Duration<u32, NOM, DENOM>> for Timestamp {
    #[inline]
    fn from(since_epoch: Duration<u32, NOM, DENOM>) -> Self {
        Self::from_nanos(Base::<NOM, DENOM>::TO_NANOS.floor(u64::from(since_epoch.as_ticks())))
    }
}

/// The first tick that is not before the timestamp: who wakes then is not too early. Saturates.
///
/// ```
/// use fugit::MonotonicInstant;
/// use tidegate::{Limiter, Quota, Timestamp, TokenBucket};
///
/// let limiter = Limiter::new(TokenBucket::new(Quota::per_second(3)).with_burst(1));
/// let now = Timestamp::from_secs(1);
/// assert!(limiter.check(now).is_ok());
/// let wait = limiter.check(now).unwrap_err().retry_after().unwrap();
/// let wake = MonotonicInstant::<u64, 1, 1_000>::from(now.saturating_add(wait));
/// assert_eq!(wake.as_ticks(), 1_334);
/// assert!(limiter.check(wake.into()).is_ok());
/// ```
impl<const NOM: u64, const DENOM: u64, K: Kind> From<Timestamp> for Instant<u64, NOM, DENOM, K> {
    #[inline]
    fn from(timestamp: Timestamp) -> Self {
        Self::from_ticks(Base::<NOM, DENOM>::TO_TICKS.ceil(timestamp.as_nanos()))
    }
}

/// The time since the epoch in ticks, rounded up; saturates.
impl<const NOM: u64, const DENOM: u64> From<Timestamp> for Duration<u64, NOM, DENOM> {
    #[inline]
    fn from(timestamp: Timestamp) -> Self {
        Self::from_ticks(Base::<NOM, DENOM>::TO_TICKS.ceil(timestamp.as_nanos()))
    }
}
