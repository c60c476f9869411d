//! Timestamps that the caller supplies.

#[cfg(feature = "embassy-time")]
mod embassy;
#[cfg(feature = "fugit")]
mod fugit;
mod rate;
mod ticks;

use core::fmt;
use core::time::Duration;

#[cfg(any(feature = "fugit", feature = "embassy-time"))]
use rate::Ratio;
pub use rate::TickRate;
pub use ticks::Ticks;

/// An instant: nanoseconds since any epoch the caller likes.
///
/// The limiters never read a clock. Give them the time since boot, since the program's start or since 1970;
/// only differences matter, except to aligned windows, which begin at whole multiples of their period.
/// A `u64` of nanoseconds lasts 584 years. Constructors saturate there, and never panic.
///
/// ```
/// use tidegate::Timestamp;
///
/// assert_eq!(Timestamp::from_millis(1_500).as_nanos(), 1_500_000_000);
/// // a 32.768 kHz counter
/// assert_eq!(Timestamp::from_ticks(32_768 + 16_384, 32_768), Timestamp::from_millis(1_500));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Timestamp(u64);

impl Timestamp {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);

    /// The last instant that can be told.
    pub const MAX: Self = Self(u64::MAX);

    /// From nanoseconds since the epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From microseconds since the epoch; saturates.
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// From milliseconds since the epoch; saturates.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// From seconds since the epoch; saturates.
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// From the time since the epoch; saturates.
    #[inline]
    pub const fn from_duration(since_epoch: Duration) -> Self {
        Self(saturating_nanos(since_epoch))
    }

    /// From a counter that runs at `hz` ticks a second, rounded down to a nanosecond; saturates.
    ///
    /// A counter that stands still (`hz` = 0) stays at the epoch. Two divisions: where the rate is a constant,
    /// [`TickRate`] has none.
    #[inline]
    pub const fn from_ticks(ticks: u64, hz: u32) -> Self {
        if hz == 0 {
            return Self::ZERO;
        }
        let hz = hz as u64;
        // The remainder is below 2^32, so its product with 10^9 fits.
        let part = (ticks % hz) * 1_000_000_000 / hz;
        Self(
            (ticks / hz)
                .saturating_mul(1_000_000_000)
                .saturating_add(part),
        )
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since the epoch.
    #[inline]
    pub const fn since_epoch(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// This instant moved forward; saturates.
    #[inline]
    pub const fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(by)))
    }

    /// This instant moved back; saturates at the epoch.
    #[inline]
    pub const fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(by)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({} ns)", self.0)
    }
}

impl From<Duration> for Timestamp {
    fn from(since_epoch: Duration) -> Self {
        Self::from_duration(since_epoch)
    }
}

/// Whole nanoseconds of a duration, `u64::MAX` when there are more.
pub(crate) const fn saturating_nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(duration.subsec_nanos() as u64)
}

/// A monotonic clock for programs that have `std`.
///
/// Its epoch is its creation. Reading it costs what [`std::time::Instant::now`] costs, which is more than
/// a decision: read it once a request or once a batch, and hand the timestamp on.
///
/// ```
/// let clock = tidegate::Clock::new();
/// let first = clock.now();
/// assert!(clock.now() >= first);
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: std::time::Instant,
}

#[cfg(feature = "std")]
impl Clock {
    /// A clock that starts now, at [`Timestamp::ZERO`].
    pub fn new() -> Self {
        Self {
            epoch: std::time::Instant::now(),
        }
    }

    /// The time since this clock was made. Never goes back.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_duration(self.epoch.elapsed())
    }
}

#[cfg(feature = "std")]
impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
