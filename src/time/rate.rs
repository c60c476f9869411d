//! From ticks of a counter to nanoseconds without a division.

use super::Timestamp;
use crate::scale::{Divisor, SECOND, gcd};

/// How fast a tick counter runs: turns its ticks into timestamps without a division.
///
/// [`Timestamp::from_ticks`] divides twice by the rate, which cores that have no 64-bit division do in hundreds of
/// instructions. This divides once, when it is made. Make it a `const`, and the compiler folds all of it into the
/// code: one multiplication for 1 kHz, 1 MHz or 125 MHz, and a shift more for 32.768 kHz or 16 and 64 MHz.
///
/// The result is the same to the nanosecond: exact, rounded down, saturating.
///
/// ```
/// use tidegate::{TickRate, Timestamp};
///
/// const RTC: TickRate = TickRate::per_second(32_768);
/// assert_eq!(RTC.timestamp(32_768 + 16_384), Timestamp::from_millis(1_500));
/// assert_eq!(RTC.timestamp(12_345), Timestamp::from_ticks(12_345, 32_768));
/// ```
///
/// A counter that stands still is refused at compile time in a `const`:
///
/// ```compile_fail
/// const STOPPED: tidegate::TickRate = tidegate::TickRate::per_second(0);
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TickRate {
    nanos: Ratio,
}

impl TickRate {
    /// A counter of `hz` ticks a second.
    ///
    /// # Panics
    ///
    /// If `hz` is 0; in a `const` or `static` that is a compile error.
    pub const fn per_second(hz: u32) -> Self {
        assert!(hz > 0, "a counter that stands still tells no time");
        Self {
            nanos: Ratio::new(SECOND, hz as u64),
        }
    }

    /// The instant at this many ticks after the epoch, rounded down to a nanosecond; saturates.
    #[inline]
    pub const fn timestamp(&self, ticks: u64) -> Timestamp {
        Timestamp::from_nanos(self.nanos.floor(ticks))
    }
}

/// Multiplication by a constant fraction.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct Ratio {
    /// In lowest terms with the divisor. Their product fits 64 bits.
    factor: u64,
    divisor: Divisor,
    /// The largest number whose product with `factor` fits.
    direct: u64,
}

impl Ratio {
    /// `factor / divisor`, neither of them zero.
    ///
    /// # Panics
    ///
    /// If their product, in lowest terms, exceeds 64 bits. No unit of time in use comes near that.
    pub(crate) const fn new(factor: u64, divisor: u64) -> Self {
        let common = gcd(factor, divisor);
        let (factor, divisor) = (factor / common, divisor / common);
        assert!(
            factor.checked_mul(divisor).is_some(),
            "a tick is an odder fraction of a second than 64 bits can hold"
        );
        Self {
            factor,
            divisor: Divisor::new(divisor),
            direct: u64::MAX / factor,
        }
    }

    /// `n` times the fraction, rounded down; saturates.
    #[inline]
    pub(crate) const fn floor(&self, n: u64) -> u64 {
        self.apply(n).0
    }

    /// `n` times the fraction, rounded up; saturates.
    #[inline]
    #[cfg(any(feature = "fugit", feature = "embassy-time", test))]
    pub(crate) const fn ceil(&self, n: u64) -> u64 {
        let (floor, is_exact) = self.apply(n);
        floor.saturating_add(!is_exact as u64)
    }

    /// The product rounded down, and whether nothing was rounded off.
    #[inline]
    const fn apply(&self, n: u64) -> (u64, bool) {
        if n <= self.direct {
            let (quotient, rest) = self.div_rem(n * self.factor);
            return (quotient, rest == 0);
        }
        // n = whole * divisor + part, and part * factor is below divisor * factor, which fits.
        let (whole, part) = self.div_rem(n);
        let (quotient, rest) = self.div_rem(part * self.factor);
        let product = whole.saturating_mul(self.factor).saturating_add(quotient);
        (product, rest == 0)
    }

    /// A power of two, 1 among them, needs no multiplication.
    #[inline]
    const fn div_rem(&self, n: u64) -> (u64, u64) {
        let divisor = self.divisor.get();
        if divisor.is_power_of_two() {
            (n >> divisor.trailing_zeros(), n & (divisor - 1))
        } else {
            self.divisor.div_rem(n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(n: u64, factor: u64, divisor: u64) -> (u64, u64) {
        let product = u128::from(n) * u128::from(factor);
        let divisor = u128::from(divisor);
        let saturated = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        (
            saturated(product / divisor),
            saturated(product.div_ceil(divisor)),
        )
    }

    fn agrees(n: u64, factor: u64, divisor: u64) {
        let ratio = Ratio::new(factor, divisor);
        assert_eq!(
            (ratio.floor(n), ratio.ceil(n)),
            exact(n, factor, divisor),
            "{n} * {factor} / {divisor}"
        );
    }

    const RATES: [u32; 20] = [
        1,
        3,
        60,
        100,
        128,
        1_000,
        1_024,
        32_768,
        1_000_000,
        4_194_304,
        8_000_000,
        12_000_000,
        16_000_000,
        48_000_000,
        64_000_000,
        72_000_000,
        168_000_000,
        999_999_937,
        1_000_000_000,
        u32::MAX,
    ];

    /// The first ticks one by one, and those around every place where the way of computing or the result's
    /// magnitude changes.
    #[test]
    fn every_usual_rate() {
        for hz in RATES {
            let rate = TickRate::per_second(hz);
            let direct = rate.nanos.direct;
            let seconds = u64::MAX / SECOND;
            let edges = [direct, seconds.saturating_mul(u64::from(hz)), u64::MAX]
                .into_iter()
                .chain((0..64).map(|bit| 1 << bit));
            let near = edges.flat_map(|edge: u64| {
                let from = edge.saturating_sub(1_000);
                from..=edge.saturating_add(1_000)
            });
            for ticks in (0..100_000).chain(near) {
                let (floor, ceil) = exact(ticks, SECOND, u64::from(hz));
                assert_eq!(rate.timestamp(ticks).as_nanos(), floor, "{ticks} at {hz}");
                assert_eq!(rate.nanos.ceil(ticks), ceil, "{ticks} at {hz}");
                assert_eq!(Timestamp::from_ticks(ticks, hz).as_nanos(), floor);
            }
        }
    }

    proptest! {
        #[test]
        fn any_rate(ticks: u64, hz in 1_u32.., by in 0_u32..64) {
            agrees(ticks >> by, SECOND, u64::from(hz));
            agrees(ticks >> by, u64::from(hz), SECOND);
        }

        #[test]
        fn any_ratio(n: u64, factor in 1..=u64::from(u32::MAX), divisor in 1..=u64::from(u32::MAX), by in 0_u32..64) {
            agrees(n >> by, factor, divisor);
        }
    }
}
