//! The exact mapping from nanoseconds to state units.
//!
//! A token bucket measures time in *phase*: a 64-bit number that advances by a constant `speed` every tick
//! of the caller's clock and wraps. The state word keeps the phase's highest payload bits. So one wrapping
//! multiplication maps a timestamp to state units, for any rate, and continuously over every wrap.
//!
//! - `u64`: a tick is 1 ns and `speed` is `num << 4`, with `L/P = num/den` permits a nanosecond. Nothing is
//!   hidden below the word: one permit is exactly `den` units.
//! - `u32`: a tick is `2^shift` ns and `speed` is a 36-bit binary fraction of a unit. The 36 bits below the
//!   word are hidden, that is rounded down.

use crate::error::ConfigError;
use crate::word::GENERATION_BITS;
use crate::word::sealed::Hidden;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Lateness that every limiter tolerates.
pub(crate) const LATE_MIN: u64 = 60 * SECOND;
/// Lateness that a limiter tolerates where its word has room.
pub(crate) const LATE_MAX: u64 = 3_600 * SECOND;

/// Largest numerator of a rate in a 64-bit word: the larger, the sooner the word wraps.
const NUM_MAX: u64 = 4_096;

/// A token bucket's numbers, in units (not shifted into place).
pub(crate) struct Scale {
    /// Phase a tick.
    pub(crate) speed: u64,
    /// A tick is `2^shift` ns.
    pub(crate) shift: u32,
    /// Units a permit.
    pub(crate) per: u64,
    /// Units from full that a state may be and still count as used: the full bucket and the lateness.
    pub(crate) horizon: u64,
}

/// A token bucket's clock at one instant: converts its units back to nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Ramp {
    pub(crate) now: u64,
    pub(crate) speed: u64,
    pub(crate) shift: u8,
    pub(crate) hidden: Hidden,
}

impl Ramp {
    /// Nanoseconds until the word has advanced by `units`; `u64::MAX` if they are more than that.
    pub(crate) const fn nanos(&self, units: u64) -> u64 {
        if units == 0 {
            return 0;
        }
        if self.speed == 0 {
            // No bucket is made so; but so the compiler knows it, and needs no way to panic.
            return u64::MAX;
        }
        let (phase, spent) = match self.hidden {
            Hidden::Nothing => (units, 0),
            Hidden::LowHalf => {
                // What the word cannot show of the phase and of the tick has already been travelled.
                let travelled = (self.now >> self.shift).wrapping_mul(self.speed)
                    & ((1 << (32 + GENERATION_BITS)) - 1);
                let spent = self.now & ((1 << self.shift) - 1);
                ((units << 32) - travelled, spent)
            }
        };
        let ticks = phase.div_ceil(self.speed);
        if ticks > u64::MAX >> self.shift {
            u64::MAX
        } else {
            // At least one tick is to come, and less than one is spent.
            (ticks << self.shift) - spent
        }
    }
}

pub(crate) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// How many units of a payload of `bits` bits may mean "used": 1/16 of the wide word, 1/256 of the narrow.
///
/// What remains is the time an idle state may be left alone before the wrap makes it look used again.
pub(crate) const fn used_range(word_bits: u32, field_bits: u32) -> u64 {
    1 << (field_bits - if word_bits == 64 { 4 } else { 8 })
}

/// Units for a 64-bit word: exact where the rate reduces to a numerator of at most [`NUM_MAX`] that leaves
/// room, else the best fraction below it.
pub(crate) const fn wide(limit: u64, period: u64, burst: u64) -> Result<Scale, ConfigError> {
    let common = gcd(limit, period);
    let (num, den) = (limit / common, period / common);
    let range = used_range(64, 64 - GENERATION_BITS) as u128;

    // Nanoseconds until an empty bucket is full, and the least lateness: the time that must fit.
    let full = (burst as u128 * den as u128).div_ceil(num as u128);
    let room = range / (full + LATE_MIN as u128);
    let num_max = if room > NUM_MAX as u128 {
        NUM_MAX
    } else {
        room as u64
    };
    if num_max == 0 {
        return Err(ConfigError::BurstTooLong);
    }

    let (a, b) = if num <= num_max {
        (num, den)
    } else {
        match below(num, den, num_max) {
            Some(fraction) => fraction,
            None => return Err(ConfigError::RateTooFine),
        }
    };

    // `b` may be rounded up, so look again at what is left.
    let full = burst as u128 * b as u128;
    if full + LATE_MIN as u128 * a as u128 > range {
        return Err(ConfigError::BurstTooLong);
    }
    let late = (range - full) / a as u128;
    let late = if late > LATE_MAX as u128 {
        LATE_MAX as u128
    } else {
        late
    };
    Ok(Scale {
        speed: a << GENERATION_BITS,
        shift: 0,
        per: b,
        horizon: (full + late * a as u128) as u64,
    })
}

/// The fraction `a/b` nearest below `num/den` with `a <= a_max`; `None` if it is off by more than 10^-6.
const fn below(num: u64, den: u64, a_max: u64) -> Option<(u64, u64)> {
    // For each a the best b is ceil(a * den / num); `gap` is b * num - a * den, kept below num.
    let mut best = (1, u64::MAX, num);
    let (whole, part) = (den / num, den % num);
    let (mut quotient, mut remainder) = (0_u64, 0_u64);
    let mut a = 0;
    while a < a_max {
        a += 1;
        // a * den = quotient * num + remainder
        quotient += whole;
        if remainder >= num - part {
            remainder -= num - part;
            quotient += 1;
        } else {
            remainder += part;
        }
        let gap = if remainder == 0 { 0 } else { num - remainder };
        // Smaller relative error: gap / a is what b * num exceeds its share by.
        if (gap as u128) * (best.0 as u128) < (best.2 as u128) * (a as u128) || a == 1 {
            best = (a, quotient + (gap > 0) as u64, gap);
        }
    }
    let (a, b, gap) = best;
    if gap as u128 * 1_000_000 <= b as u128 * num as u128 {
        Some((a, b))
    } else {
        None
    }
}

/// Units for a 32-bit word, rounded towards admitting less.
///
/// Time is seen rounded down to a unit, so between two looks the bucket may believe in up to one unit more
/// than has passed, and in one tick more, which is at most 1/256 unit. Each permit therefore costs `per`
/// units where the quota alone would ask for `per - 257/256`: then not even a single permit after a burst
/// comes early. The price is a rate lower by that share.
pub(crate) const fn narrow(limit: u64, period: u64, burst: u64) -> Result<Scale, ConfigError> {
    /// Fewest units a permit: the rate is then 1/15.9 low.
    const PER_MIN: u64 = 16;
    /// Units a permit that are worth more lateness than they give precision.
    const PER_FINE: u64 = 1_024;

    let common = gcd(limit, period);
    let (num, den) = (limit / common, period / common);
    let range = used_range(32, 32 - GENERATION_BITS);

    let mut late = LATE_MAX;
    let mut per = per_permit(range, num, den, burst, late);
    if per < PER_FINE {
        late = LATE_MIN;
        per = per_permit(range, num, den, burst, late);
    }
    if per < PER_MIN {
        return Err(ConfigError::NarrowTooFast);
    }

    // Units a nanosecond = (per - 257/256) * num / den. A tick is the longest 2^shift ns within 1/256 unit.
    let permit = (per * 256 - 257) as u128 * num as u128;
    let mut shift = 0;
    while shift < 40 && (permit << (shift + 1)) <= den as u128 {
        shift += 1;
    }
    // permit < 2^92, and permit << shift is at most den unless shift is 0: no overflow. At least 2^27: the
    // rounding down here is below a hundred-millionth.
    let speed = (permit << (36 - 8 + shift)) / den as u128;
    Ok(Scale {
        speed: speed as u64,
        shift,
        per,
        horizon: range,
    })
}

/// The most units a permit may cost so that the burst and the lateness fit the range.
const fn per_permit(range: u64, num: u64, den: u64, burst: u64, late: u64) -> u64 {
    let permits = burst as u128 * den as u128 + late as u128 * num as u128;
    (range as u128 * den as u128 / permits) as u64
}

/// Division of timestamps by a constant, as a multiplication.
///
/// With `s = floor(log2 d)` and `m = floor(2^(64+s) / d)`, clamped to 64 bits, `floor(m * n / 2^(64+s))` is
/// the quotient or one less: `m` is short of `2^(64+s) / d` by at most 1, so the product falls short by at
/// most `n / 2^(64+s) < 1`. The remainder tells which.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct Divisor {
    divisor: u64,
    reciprocal: u64,
    shift: u32,
}

impl Divisor {
    /// `divisor` must not be zero.
    pub(crate) const fn new(divisor: u64) -> Self {
        let shift = divisor.ilog2();
        let reciprocal = (1_u128 << (64 + shift)) / divisor as u128;
        Self {
            divisor,
            reciprocal: if reciprocal > u64::MAX as u128 {
                u64::MAX
            } else {
                reciprocal as u64
            },
            shift,
        }
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) const fn div_rem(self, n: u64) -> (u64, u64) {
        let quotient = mul_high(n, self.reciprocal) >> self.shift;
        let remainder = n - quotient * self.divisor;
        if remainder >= self.divisor {
            (quotient + 1, remainder - self.divisor)
        } else {
            (quotient, remainder)
        }
    }
}

/// The upper half of a product.
#[inline]
const fn mul_high(a: u64, b: u64) -> u64 {
    if cfg!(target_pointer_width = "64") {
        ((a as u128 * b as u128) >> 64) as u64
    } else {
        mul_high_by_halves(a, b)
    }
}

/// Where 128-bit products would be a call that computes the lower half as well.
const fn mul_high_by_halves(a: u64, b: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let (a_high, a_low) = (a >> 32, a & LOW);
    let (b_high, b_low) = (b >> 32, b & LOW);
    // (2^32 - 1)^2 + 2 * (2^32 - 1) = 2^64 - 1: no sum here overflows.
    let carry = (a_low * b_low) >> 32;
    let middle = a_low * b_high + carry;
    let other = a_high * b_low + (middle & LOW);
    a_high * b_high + (middle >> 32) + (other >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn divides(n: u64, d: u64) {
        assert_eq!(Divisor::new(d).div_rem(n), (n / d, n % d), "{n} / {d}");
    }

    #[test]
    fn division_at_the_edges() {
        let mut edges = std::vec![
            1,
            2,
            3,
            5,
            7,
            10,
            SECOND,
            60 * SECOND,
            u64::MAX,
            u64::MAX - 1
        ];
        for bit in 0..64 {
            edges.extend([
                1 << bit,
                (1_u64 << bit).wrapping_sub(1),
                (1_u64 << bit).wrapping_add(1),
            ]);
        }
        for &d in edges.iter().filter(|&&d| d > 0) {
            for &n in &edges {
                divides(n, d);
                let multiple = n - n % d;
                divides(multiple, d);
                divides(multiple.saturating_sub(1), d);
            }
        }
    }

    proptest! {
        #[test]
        fn division(n: u64, d in 1_u64.., by in 0_u32..64) {
            divides(n, d);
            divides(n, (d >> by).max(1));
        }

        #[test]
        fn upper_halves(a: u64, b: u64, by in 0_u32..64) {
            for (a, b) in [(a, b), (a >> by, b), (a, b >> by), (u64::MAX, b), (u64::MAX << by, u64::MAX)] {
                let high = ((u128::from(a) * u128::from(b)) >> 64) as u64;
                prop_assert_eq!(mul_high_by_halves(a, b), high);
                prop_assert_eq!(mul_high(a, b), high);
            }
        }

        /// Against every other fraction of that size: none lies nearer below.
        #[test]
        fn best_fraction_below(num in 1_u64..100_000, den in 1_u64..100_000, a_max in 1_u64..200) {
            let nearest = (1..=a_max)
                .map(|a| (a, (a * den).div_ceil(num)))
                .max_by(|x, y| (x.0 * y.1).cmp(&(y.0 * x.1)))
                .unwrap();
            let close = |(a, b): (u64, u64)| (b * num - a * den) * 1_000_000 <= b * num;
            match below(num, den, a_max) {
                Some((a, b)) => {
                    prop_assert_eq!(a * nearest.1, nearest.0 * b);
                    prop_assert!(close((a, b)));
                }
                None => prop_assert!(!close(nearest)),
            }
        }
    }

    #[test]
    fn common_rates_are_exact() {
        for (limit, period, speed, per) in [
            (7, SECOND, 7, SECOND),
            (100, 60 * SECOND, 1, 600_000_000),
            (3, 10 * SECOND, 3, 10 * SECOND),
            (25, 2, 25, 2),
        ] {
            let scale = wide(limit, period, limit).unwrap();
            assert_eq!((scale.speed >> GENERATION_BITS, scale.per), (speed, per));
        }
    }
}
