//! How much, and counted how.

use core::fmt;

use tidegate::Quota;

/// Microseconds since 1970 stay below this for two centuries, and doubles hold every whole number up to it.
const EXACT: u128 = 1 << 53;
/// 35 years, in microseconds.
const PERIOD_MAX: u128 = 1 << 50;
/// Entries of an exact log.
const LOG_MAX: u64 = 1_000_000;

const MINUTE: u128 = 60_000_000;
const HOUR: u128 = 60 * MINUTE;

/// How much is allowed, and how it is counted.
///
/// ```
/// use tidegate::Quota;
/// use tidegate_redis::Limit;
///
/// let api = Limit::token_bucket(Quota::per_second(100)).with_burst(20);
/// let login = Limit::fixed_window(Quota::per_minute(5));
/// # drop((api, login));
/// ```
///
/// # Precision
///
/// The server counts in whole microseconds, and its scripts in doubles, which are exact up to 2^53. Limits that would
/// leave that range are refused when a limiter is made of them:
///
/// | | refused if |
/// |---|---|
/// | token bucket | the burst times `d` is above 2^51, where limit/period is `n/d` in lowest terms, in microseconds; or `n` is above 75 million, or with a small burst 150 |
/// | windows, log | the period is not whole microseconds |
/// | fixed windows | the limit is 2^53 or above |
/// | sliding window | limit times period is 2^53 or above, in the coarsest unit up to a second that divides the period |
/// | log | the limit is above a million |
/// | all | the period is above 35 years, or filling the burst takes more than 70 |
///
/// So `5/min` may have a burst of 187 million, `7/s` one of 2 billion; 100,003 a day, whose terms do not reduce, may
/// have 26,000. Within the range, and until the year 2180, what the server answers is what [`tidegate::TokenBucket`] and
/// the others answer to the same timestamps; but where a sliding window needs a unit above a microsecond, the last window
/// weighs what it did when the unit began: never less than it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    quota: Quota,
    method: Method,
    burst: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    TokenBucket,
    FixedWindow,
    AnchoredWindow,
    SlidingWindow,
    SlidingLog,
}

impl Limit {
    const fn new(quota: Quota, method: Method) -> Self {
        Self {
            quota,
            method,
            burst: None,
        }
    }

    /// A steady rate, and bursts of up to the quota's limit, or of what [`with_burst`](Self::with_burst) says.
    pub const fn token_bucket(quota: Quota) -> Self {
        Self::new(quota, Method::TokenBucket)
    }

    /// The quota in each window; windows begin at whole multiples of the period since 1970.
    pub const fn fixed_window(quota: Quota) -> Self {
        Self::new(quota, Method::FixedWindow)
    }

    /// The quota in each window; a key's window begins with its first request admitted.
    pub const fn anchored_window(quota: Quota) -> Self {
        Self::new(quota, Method::AnchoredWindow)
    }

    /// About the quota in any period.
    pub const fn sliding_window(quota: Quota) -> Self {
        Self::new(quota, Method::SlidingWindow)
    }

    /// Exactly the quota in any period; the server keeps a time for every permit in use.
    ///
    /// The server does nothing else while it writes or drops these: a request of cost 1,000,000 keeps it busy for a third
    /// of a second.
    pub const fn sliding_log(quota: Quota) -> Self {
        Self::new(quota, Method::SlidingLog)
    }

    /// Allows a token bucket bursts of so many.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// The quota.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    pub(crate) fn rule(&self) -> Result<Rule, LimitError> {
        if self.burst.is_some() && self.method != Method::TokenBucket {
            return Err(LimitError::NoBurst);
        }
        let limit = self.quota.limit();
        let nanos = self.quota.period().as_nanos();
        if nanos / 1_000 > PERIOD_MAX {
            return Err(LimitError::PeriodTooLong);
        }
        let period = || match nanos % 1_000 {
            0 => Ok(nanos / 1_000),
            _ => Err(LimitError::PeriodTooFine),
        };
        let (kind, most, numbers) = match self.method {
            Method::TokenBucket => {
                let burst = self.burst.unwrap_or(limit);
                ('b', burst, bucket(limit, nanos, burst)?)
            }
            Method::FixedWindow | Method::AnchoredWindow => {
                let kind = if self.method == Method::FixedWindow {
                    'f'
                } else {
                    'a'
                };
                if u128::from(limit) >= EXACT {
                    return Err(LimitError::TooLarge);
                }
                (kind, limit, [period()?, limit.into(), HOUR, 0])
            }
            Method::SlidingWindow => {
                let period = period()?;
                let unit = unit(limit, period)?;
                ('s', limit, [period, limit.into(), HOUR, unit])
            }
            Method::SlidingLog => {
                if limit > LOG_MAX {
                    return Err(LimitError::LogTooLong);
                }
                ('l', limit, [period()?, limit.into(), HOUR, 0])
            }
        };
        Ok(Rule {
            method: self.method,
            kind,
            limit: most,
            numbers: numbers.map(|number| number.to_string()),
        })
    }
}

/// What one permit costs, and what a microsecond brings, in whole units; and how far ahead a state may be.
fn bucket(limit: u64, nanos: u128, burst: u64) -> Result<[u128; 4], LimitError> {
    if burst == 0 {
        return Err(LimitError::ZeroBurst);
    }
    let (num, den) = (u128::from(limit) * 1_000, nanos);
    let common = gcd(num, den);
    let (num, den) = (num / common, den / common);
    let full = u128::from(burst)
        .checked_mul(den)
        .filter(|&full| full <= EXACT / 4)
        .ok_or(LimitError::TooLarge)?;
    let fill = full.div_ceil(num);
    if fill > 2 * PERIOD_MAX {
        return Err(LimitError::PeriodTooLong);
    }
    // A state that is so far ahead, one cost more, and what rounding adds.
    let late = [HOUR, MINUTE]
        .into_iter()
        .find(|late| 2 * full + (late + 2) * num <= EXACT)
        .ok_or(LimitError::TooLarge)?;
    Ok([num, den, burst.into(), fill + late])
}

/// The finest unit that keeps the products of a sliding window exact.
fn unit(limit: u64, period: u128) -> Result<u128, LimitError> {
    let mut unit = 1;
    while u128::from(limit) * (period / unit) >= EXACT {
        unit *= 10;
        if unit > 1_000_000 || !period.is_multiple_of(unit) {
            return Err(LimitError::TooLarge);
        }
    }
    Ok(unit)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A limit as the scripts take it.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) method: Method,
    pub(crate) kind: char,
    /// The most that can ever be left.
    pub(crate) limit: u64,
    pub(crate) numbers: [String; 4],
}

/// Why a [`Limit`] cannot be kept on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// A burst of 0.
    ZeroBurst,
    /// A burst, and no token bucket.
    NoBurst,
    /// Limit, burst and period together leave what the server's scripts can count exactly.
    TooLarge,
    /// A log of more than a million permits.
    LogTooLong,
    /// A period that is not whole microseconds.
    PeriodTooFine,
    /// A period above 35 years, or a bucket that takes 70 to fill.
    PeriodTooLong,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroBurst => "a burst of 0 admits nothing; the least is 1",
            Self::NoBurst => "only a token bucket has a burst",
            Self::TooLarge => {
                "limit, burst and period are too large to be counted exactly; choose a limit that divides the period \
                 more evenly, or a smaller one"
            }
            Self::LogTooLong => {
                "the exact log is for up to a million permits; lower the limit, or use a sliding window"
            }
            Self::PeriodTooFine => {
                "the server's clock counts microseconds, and the period is not a whole number of them"
            }
            Self::PeriodTooLong => "the longest period is 35 years, and the longest time to fill a bucket 70",
        })
    }
}

impl core::error::Error for LimitError {}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn rule(limit: Limit) -> Result<[String; 4], LimitError> {
        limit.rule().map(|rule| rule.numbers)
    }

    #[test]
    fn buckets_are_in_lowest_terms() {
        let five = rule(Limit::token_bucket(Quota::per_minute(5))).unwrap();
        assert_eq!(five[..3], ["1", "12000000", "5"]);
        let fine = Quota::new(2, Duration::from_nanos(1_500)).unwrap();
        let fine = rule(Limit::token_bucket(fine)).unwrap();
        assert_eq!(fine[..3], ["4", "3", "2"]);
    }

    #[test]
    fn what_leaves_the_exact_range_is_refused() {
        let minute = Limit::token_bucket(Quota::per_minute(5));
        assert!(minute.with_burst(187_000_000).rule().is_ok());
        assert_eq!(
            rule(minute.with_burst(188_000_000)),
            Err(LimitError::TooLarge)
        );
        let day = Limit::token_bucket(Quota::per_day(100_003));
        assert!(day.with_burst(26_000).rule().is_ok());
        assert_eq!(rule(day.with_burst(27_000)), Err(LimitError::TooLarge));
        assert_eq!(rule(minute.with_burst(0)), Err(LimitError::ZeroBurst));
        assert_eq!(rule(minute.with_burst(u64::MAX)), Err(LimitError::TooLarge));

        let second = |limit| Limit::token_bucket(Quota::per_second(limit)).with_burst(1);
        assert!(second(37_000_003).rule().is_ok());
        assert!(second(1_000_000_000_003).rule().is_err());

        let nanos = Quota::new(1, Duration::from_nanos(1_500)).unwrap();
        assert_eq!(
            rule(Limit::fixed_window(nanos)),
            Err(LimitError::PeriodTooFine)
        );
        let long = Quota::new(1, Duration::from_secs(36 * 366 * 86_400)).unwrap();
        assert_eq!(
            rule(Limit::sliding_log(long)),
            Err(LimitError::PeriodTooLong)
        );
        let many = Quota::per_day(1_000_001);
        assert_eq!(rule(Limit::sliding_log(many)), Err(LimitError::LogTooLong));
        // One more, and a sum that does not fit would be rounded to one that does.
        let most = |limit| Quota::new(limit, Duration::from_secs(1)).unwrap();
        for way in [
            Limit::fixed_window,
            Limit::anchored_window,
            Limit::sliding_window,
        ] {
            assert!(way(most((1 << 53) - 1)).rule().is_ok());
            assert_eq!(rule(way(most(1 << 53))), Err(LimitError::TooLarge));
        }
        assert_eq!(
            rule(Limit::fixed_window(many).with_burst(1)),
            Err(LimitError::NoBurst)
        );
    }

    #[test]
    fn sliding_windows_count_in_units_that_stay_exact() {
        let unit =
            |limit| rule(Limit::sliding_window(Quota::per_day(limit))).map(|it| it[3].clone());
        assert_eq!(unit(100_000).as_deref(), Ok("1"));
        assert_eq!(unit(1_000_000).as_deref(), Ok("10"));
        assert_eq!(unit(100_000_000_000).as_deref(), Ok("1000000"));
        assert_eq!(unit(1_000_000_000_000), Err(LimitError::TooLarge));
    }
}
