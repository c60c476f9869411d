//! How much is allowed in how long, and its text form.

mod text;

use core::fmt;
use core::time::Duration;

use crate::time::saturating_nanos;

pub use text::{ParseQuotaError, ParseQuotaErrorKind};

/// `limit` permits per `period`.
///
/// Neither is ever zero. What a quota means exactly is the algorithm's business: the refill rate of a token
/// bucket, the capacity of a window.
///
/// ```
/// use core::time::Duration;
/// use tidegate::Quota;
///
/// const LOGIN: Quota = Quota::per_minute(5);
/// assert_eq!(LOGIN.limit(), 5);
/// assert_eq!(LOGIN.period(), Duration::from_secs(60));
///
/// let same: Quota = "5/min".parse()?;
/// assert_eq!(same, LOGIN);
/// assert_eq!("3 per 10 seconds".parse::<Quota>()?.to_string(), "3/10s");
/// # Ok::<(), tidegate::ParseQuotaError>(())
/// ```
///
/// A zero is refused at compile time in a `const`:
///
/// ```compile_fail
/// const NOTHING: tidegate::Quota = tidegate::Quota::per_second(0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Quota {
    limit: u64,
    period_ns: u64,
}

impl Quota {
    /// `limit` permits per `period`.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if either is zero, or the period is longer than `u64::MAX` nanoseconds (584 years).
    pub const fn new(limit: u64, period: Duration) -> Result<Self, QuotaError> {
        if limit == 0 {
            Err(QuotaError::ZeroLimit)
        } else if period.is_zero() {
            Err(QuotaError::ZeroPeriod)
        } else if period.as_nanos() > u64::MAX as u128 {
            Err(QuotaError::PeriodTooLong)
        } else {
            Ok(Self {
                limit,
                period_ns: saturating_nanos(period),
            })
        }
    }

    /// `limit` permits a second.
    ///
    /// # Panics
    ///
    /// If `limit` is 0; in a `const` or `static` that is a compile error.
    pub const fn per_second(limit: u64) -> Self {
        Self::per_secs(limit, 1)
    }

    /// `limit` permits a minute.
    ///
    /// # Panics
    ///
    /// If `limit` is 0; in a `const` or `static` that is a compile error.
    pub const fn per_minute(limit: u64) -> Self {
        Self::per_secs(limit, 60)
    }

    /// `limit` permits an hour.
    ///
    /// # Panics
    ///
    /// If `limit` is 0; in a `const` or `static` that is a compile error.
    pub const fn per_hour(limit: u64) -> Self {
        Self::per_secs(limit, 3_600)
    }

    /// `limit` permits in 24 hours.
    ///
    /// # Panics
    ///
    /// If `limit` is 0; in a `const` or `static` that is a compile error.
    pub const fn per_day(limit: u64) -> Self {
        Self::per_secs(limit, 86_400)
    }

    const fn per_secs(limit: u64, secs: u64) -> Self {
        assert!(limit > 0, "a quota of 0 would admit nothing, ever");
        Self {
            limit,
            period_ns: secs * 1_000_000_000,
        }
    }

    /// Permits in each period; at least 1.
    #[inline]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period; at least 1 ns.
    #[inline]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// `limit` must not be zero.
    pub(crate) const fn with_limit(&self, limit: u64) -> Self {
        Self {
            limit,
            period_ns: self.period_ns,
        }
    }

    #[inline]
    pub(crate) const fn period_ns(&self) -> u64 {
        self.period_ns
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quota({self})")
    }
}

/// Why [`Quota::new`] refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum QuotaError {
    /// The limit is 0: nothing would ever pass.
    ZeroLimit,
    /// The period is 0: the rate would be infinite.
    ZeroPeriod,
    /// The period exceeds `u64::MAX` nanoseconds.
    PeriodTooLong,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroLimit => "the limit is 0: nothing would ever pass; the least is 1",
            Self::ZeroPeriod => "the period is 0: the rate would be infinite; the least is 1 ns",
            Self::PeriodTooLong => "the period is longer than 584 years (2^64 - 1 ns)",
        })
    }
}

impl core::error::Error for QuotaError {}
