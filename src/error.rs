//! Why a configuration was refused.

use core::fmt;

/// A limit that the chosen algorithm and word cannot hold exactly enough.
///
/// `try_new` and its kin return it; `new` panics with its text, which in a `const` or `static` is a compile
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ConfigError {
    /// A burst or limit of 0 admits nothing, ever.
    ZeroBurst,
    /// An empty bucket would take longer to fill than the word can measure: 2.2 years for `u64`.
    BurstTooLong,
    /// No fraction with a numerator of at most 4,096 comes within 10^-6 below the rate. Only rates above
    /// four permits a microsecond can have this.
    RateTooFine,
    /// Burst and permits a minute together exceed 65,536, the most a narrow token bucket can tell apart.
    NarrowTooFast,
    /// Counting to this limit leaves fewer than 16 bits of the word for time.
    LimitTooLarge,
    /// The period is so short that the word cannot tell a late timestamp from an old state.
    PeriodTooShort,
    /// The period is longer than 146 years.
    PeriodTooLong,
    /// The limit is above the `N` of a [`SlidingLog`](crate::SlidingLog).
    LimitAboveCapacity,
    /// A [`SlidingLog`](crate::SlidingLog) cannot have so many places: at most 510 in `u32` words, 65,534 in `u64` words.
    LogTooLong,
}

impl ConfigError {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::ZeroBurst => "a burst or limit of 0 would admit nothing, ever; the least is 1",
            Self::BurstTooLong => {
                "filling the whole burst takes longer than the word can measure; lower the burst, or use the u64 word (2.2 years)"
            }
            Self::RateTooFine => {
                "the rate is above 4 permits a microsecond and no fraction the word can hold is within a millionth below it; choose a rounder one"
            }
            Self::NarrowTooFast => {
                "burst + permits a minute exceed 65536, the most a u32 token bucket can tell apart; use the u64 word"
            }
            Self::LimitTooLarge => {
                "counting to this limit leaves fewer than 16 bits of the word for time; lower the limit, or use the u64 word"
            }
            Self::PeriodTooShort => {
                "the period is too short for this word to tell late timestamps from old states; lengthen it, lower the limit, or use the u64 word"
            }
            Self::PeriodTooLong => "the period is longer than 146 years (2^62 ns)",
            Self::LimitAboveCapacity => {
                "the limit is above the N of the log, which is how many permits it can remember"
            }
            Self::LogTooLong => {
                "an N above 510 in u32 words, or 65534 in u64 words, is more than the log can number; for one owner use VecLog"
            }
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for ConfigError {}

/// Unwraps in a `const`, or panics with the error's text.
macro_rules! or_panic {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => panic!("{}", error.text()),
        }
    };
}

pub(crate) use or_panic;
