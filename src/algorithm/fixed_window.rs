//! The fixed window: a count, and which window it belongs to.

use core::time::Duration;

use super::Algorithm;
use crate::decision::{Allowed, Basis, Denied, Reason};
use crate::error::{ConfigError, or_panic};
use crate::quota::Quota;
use crate::scale::{Divisor, LATE_MAX, LATE_MIN, used_range};
use crate::time::Timestamp;
use crate::word::Word;

/// Fixed window: at most `limit` permits in each window of one period.
///
/// Aligned windows, made by [`new`](FixedWindow::new), begin at whole multiples of the period since the
/// timestamps' epoch. Anchored ones, made by [`anchored`](FixedWindow::anchored), begin with the first
/// admitted request after the last window has ended.
///
/// Its known flaw is by design: aligned windows admit up to `2 * limit` in a moment around a boundary,
/// `limit` just before and `limit` just after. Anchored windows have the same bound in any one period. If
/// that matters, use a [`SlidingWindow`](crate::SlidingWindow) or a [`TokenBucket`](crate::TokenBucket).
///
/// The state is a count, in as many bits as the limit needs, and the number of the window it belongs to, in
/// all the rest, at least 16; limits that leave fewer are refused.
///
/// # Precision
///
/// Aligned windows are exact in both words. So are anchored ones in `u64`, to the nanosecond as long as period
/// and lateness fill at most a sixteenth of the bits (limit 100: 6 days). Else, and in `u32`, the start is kept
/// in a coarser [`resolution`](Self::resolution): a window is then never shorter than the period, and less
/// than twice the resolution longer. A quota for which that would be more than a sixteenth is refused.
///
/// # Late timestamps and leftovers
///
/// A timestamp from before the window of the state counts in that window, up to
/// [`horizon`](Self::horizon). A state further ahead is taken for a leftover of a clock that has jumped back,
/// and for a fresh one.
///
/// The number wraps. A state left alone for that long may be misread once, as used, never as free: for
/// `u64` and a limit of 100, after 2^53 periods (anchored: 104 days, or 16 times period and lateness); for
/// `u32` and a limit of 100, after 2^21 periods (anchored: 256 times period and lateness).
///
/// ```
/// use core::time::Duration;
/// use tidegate::{FixedWindow, Limiter, Quota, Timestamp};
///
/// static API: Limiter<FixedWindow> = Limiter::new(FixedWindow::anchored(Quota::per_minute(2)));
///
/// assert_eq!(API.check(Timestamp::from_secs(50))?.remaining(), 1);
/// assert_eq!(API.check(Timestamp::from_secs(70))?.remaining(), 0);
/// let denied = API.check(Timestamp::from_secs(80)).unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(30)));
/// # Ok::<(), tidegate::Denied>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FixedWindow<W = u64> {
    limit: u64,
    /// What the number counts: whole periods, or the resolution of an anchored start.
    unit: Divisor,
    /// A window in units: 1, or an anchored period rounded up.
    length: u64,
    anchored: bool,
    count_bits: u32,
    late_ns: u64,
    quota: Quota,
    word: core::marker::PhantomData<W>,
}

/// How far `place` lies after `number`, which wraps at so many bits: by sign extension of their difference.
#[inline]
pub(crate) fn apart(place: u64, number: u64, bits: u32) -> i64 {
    let shift = u64::BITS - bits;
    (place.wrapping_sub(number) << shift) as i64 >> shift
}

/// Bits that a count up to `limit` needs.
pub(crate) const fn bits(limit: u64) -> u32 {
    u64::BITS - limit.leading_zeros()
}

/// Fewest bits of a word that may be left for the window's number.
pub(super) const NUMBER_BITS_MIN: u32 = 16;

/// Periods above this are refused, so that sums of a period and a lateness cannot overflow.
pub(crate) const PERIOD_MAX: u64 = 1 << 62;

/// The lateness that windows numbered in `number_bits` bits can tolerate: up to an hour, at least a minute.
pub(crate) const fn tolerated(
    word_bits: u32,
    number_bits: u32,
    unit: u64,
    length: u64,
) -> Result<u64, ConfigError> {
    let used = used_range(word_bits, number_bits);
    // The window itself; one unit because a start is rarely a whole unit away, and one that it was rounded up.
    let Some(units) = used.checked_sub(length + 2) else {
        return Err(ConfigError::PeriodTooShort);
    };
    let late = units.saturating_mul(unit);
    if late < LATE_MIN {
        Err(ConfigError::PeriodTooShort)
    } else if late < LATE_MAX {
        Ok(late)
    } else {
        Ok(LATE_MAX)
    }
}

macro_rules! constructors {
    (
        $word:ident,
        $new:ident, $try_new:ident,
        $anchored:ident, $try_anchored:ident,
        $(#[doc = $doc:expr])*
    ) => {
        impl FixedWindow<$word> {
            /// Windows that begin at whole multiples of the period since the epoch of the timestamps,
            $(#[doc = $doc])*
            ///
            /// # Panics
            ///
            /// If the quota cannot be represented; in a `const` or `static` that is a compile error.
            pub const fn $new(quota: Quota) -> Self {
                or_panic!(Self::$try_new(quota))
            }

            /// Windows that begin at whole multiples of the period since the epoch of the timestamps,
            $(#[doc = $doc])*
            ///
            /// # Errors
            ///
            /// If the quota cannot be represented: the limit is too large, or the period too short or too
            /// long for the word.
            pub const fn $try_new(quota: Quota) -> Result<Self, ConfigError> {
                Self::build(quota, false)
            }

            /// Windows that begin with the first admitted request,
            $(#[doc = $doc])*
            ///
            /// # Panics
            ///
            /// If the quota cannot be represented; in a `const` or `static` that is a compile error.
            pub const fn $anchored(quota: Quota) -> Self {
                or_panic!(Self::$try_anchored(quota))
            }

            /// Windows that begin with the first admitted request,
            $(#[doc = $doc])*
            ///
            /// # Errors
            ///
            /// If the quota cannot be represented: the limit is too large, or the period too short or too
            /// long for the word.
            pub const fn $try_anchored(quota: Quota) -> Result<Self, ConfigError> {
                Self::build(quota, true)
            }

            const fn build(quota: Quota, anchored: bool) -> Result<Self, ConfigError> {
                let (limit, period) = (quota.limit(), quota.period_ns());
                let count_bits = bits(limit);
                if count_bits + NUMBER_BITS_MIN > <$word as Word>::PAYLOAD_BITS {
                    return Err(ConfigError::LimitTooLarge);
                }
                if period > PERIOD_MAX {
                    return Err(ConfigError::PeriodTooLong);
                }
                let number_bits = <$word as Word>::PAYLOAD_BITS - count_bits;
                let (unit, length) = if anchored {
                    match resolution(<$word>::BITS, number_bits, period) {
                        Ok(found) => found,
                        Err(error) => return Err(error),
                    }
                } else {
                    (period, 1)
                };
                let late_ns = match tolerated(<$word>::BITS, number_bits, unit, length) {
                    // Rounding up a start puts it ahead by itself, by less than a unit.
                    Ok(late) => late + if anchored { unit } else { 0 },
                    Err(error) => return Err(error),
                };
                Ok(Self {
                    limit,
                    unit: Divisor::new(unit),
                    length,
                    anchored,
                    count_bits,
                    late_ns,
                    quota,
                    word: core::marker::PhantomData,
                })
            }
        }
    };
}

constructors!(u64, new, try_new, anchored, try_anchored,
    /// in a 64-bit word.
);
constructors!(u32, narrow, try_narrow, narrow_anchored, try_narrow_anchored,
    /// in a 32-bit word.
);

/// The finest unit, a power of two nanoseconds, in which a window of `period` and an hour's lateness fit, or
/// a minute's where an hour would cost more than a 256th of the period; and the window's length in it.
pub(crate) const fn resolution(
    word_bits: u32,
    number_bits: u32,
    period: u64,
) -> Result<(u64, u64), ConfigError> {
    let used = used_range(word_bits, number_bits);
    let mut late = LATE_MAX;
    loop {
        let mut unit = 1_u64;
        // One unit for the rounding of the length, two for that of the start.
        while (period + late).div_ceil(unit) + 3 > used {
            unit *= 2;
        }
        let coarseness = period / unit;
        if coarseness >= 256 || (late == LATE_MIN && coarseness >= 32) {
            return Ok((unit, period.div_ceil(unit)));
        }
        if late == LATE_MIN {
            return Err(ConfigError::PeriodTooShort);
        }
        late = LATE_MIN;
    }
}

/// A used state, seen from some instant.
struct Live {
    number: u64,
    count: u64,
}

impl<W: Word> FixedWindow<W> {
    /// The quota it was made from.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Another limit in the same windows, for a tier of clients in one table with this.
    ///
    /// # Errors
    ///
    /// If `limit` is 0, or needs more bits than this one's: make the tiers from the highest.
    pub const fn tier(&self, limit: u64) -> Result<Self, ConfigError> {
        if limit == 0 {
            return Err(ConfigError::ZeroBurst);
        }
        if bits(limit) > self.count_bits {
            return Err(ConfigError::LimitTooLarge);
        }
        let quota = self.quota.with_limit(limit);
        Ok(Self {
            limit,
            quota,
            ..*self
        })
    }

    /// Whether windows begin with the first admitted request.
    pub const fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// In what steps an anchored window's start is kept; the period itself if windows are aligned.
    pub const fn resolution(&self) -> Duration {
        Duration::from_nanos(self.unit.get())
    }

    /// How far ahead of a timestamp a window may begin before its state counts as the leftover of a clock
    /// that has jumped back: between a minute and an hour, and the resolution on top if it is anchored.
    pub const fn horizon(&self) -> Duration {
        Duration::from_nanos(self.late_ns)
    }

    #[inline]
    fn number_mask(&self) -> u64 {
        (1 << (W::PAYLOAD_BITS - self.count_bits)) - 1
    }

    /// The number of a window that begins at this place.
    #[inline]
    fn opening(&self, place: u64, spent: u64) -> u64 {
        // An anchored start is rounded up, so that the window is not shorter than the period.
        let place = place.wrapping_add(u64::from(self.anchored && spent > 0));
        place & self.number_mask()
    }

    /// How many units `place` lies after the window's start; negative before it.
    #[inline]
    fn age(&self, number: u64, place: u64) -> i64 {
        apart(place, number, W::PAYLOAD_BITS - self.count_bits)
    }

    /// Reads a state at `place` units and `spent` nanoseconds.
    #[inline]
    fn live(&self, state: W, place: u64, spent: u64) -> Option<Live> {
        if state == W::ZERO {
            return None;
        }
        let payload = state.payload();
        let number = payload >> self.count_bits;
        let count = payload & ((1 << self.count_bits) - 1);
        let age = self.age(number, place);
        let is_live = if age >= 0 {
            // All given back: an anchored window may begin anew.
            count > 0 && (age as u64) < self.length
        } else {
            // The window begins later than now: how much later? At least one unit, of which less is spent.
            match age.unsigned_abs().checked_mul(self.unit.get()) {
                Some(ahead) => ahead - spent <= self.late_ns,
                None => false,
            }
        };
        is_live.then_some(Live { number, count })
    }

    /// Nanoseconds until the window of a state that [is live](Self::live) ends.
    #[inline]
    fn until_end(&self, number: u64, place: u64, spent: u64) -> u64 {
        let units = (self.length as i64 - self.age(number, place)) as u64;
        units.saturating_mul(self.unit.get()) - spent
    }

    #[inline]
    fn state(&self, number: u64, count: u64) -> W {
        W::from_payload(number << self.count_bits | count)
    }
}

impl<W: Word> Algorithm for FixedWindow<W> {
    type Word = W;

    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn step(&self, state: W, now: Timestamp, cost: u64) -> Result<(W, Allowed), Denied> {
        let (place, spent) = self.unit.div_rem(now.as_nanos());
        let Live { number, count } = self.live(state, place, spent).unwrap_or_else(|| Live {
            number: self.opening(place, spent),
            count: 0,
        });
        let until_end = self.until_end(number, place, spent);
        let basis = |count: u64| Basis::Plain {
            // A count above the limit can only come from a state that somebody else made.
            remaining: self.limit.saturating_sub(count),
            retry: until_end,
            reset: if count == 0 { 0 } else { until_end },
        };
        if cost > self.limit.saturating_sub(count) {
            let reason = if cost > self.limit {
                Reason::TooCostly
            } else {
                Reason::Limited
            };
            return Err(Denied {
                reason,
                limit: self.limit,
                basis: basis(count),
            });
        }
        let allowed = Allowed {
            limit: self.limit,
            basis: basis(count + cost),
            counted: true,
        };
        if cost == 0 {
            return Ok((state, allowed));
        }
        Ok((self.state(number, count + cost), allowed))
    }

    fn refund(&self, state: W, taken_at: Timestamp, cost: u64) -> W {
        let (place, spent) = self.unit.div_rem(taken_at.as_nanos());
        let Some(Live { number, count }) = self.live(state, place, spent) else {
            return state;
        };
        // Only what was taken within this very window is in its count.
        if self.age(number, self.opening(place, spent)) < 0 {
            return state;
        }
        // An empty window keeps its number: a timestamp that is late must not find more than it would have
        // found without all this. Where number and count are zero together, the word says fresh, which is
        // right in the first window of all; when the number has wrapped, one permit is not given back.
        let count = count.saturating_sub(cost);
        let next = self.state(number, count);
        if next == W::ZERO && self.age(number, place) as u64 != place {
            return self.state(number, 1);
        }
        next
    }

    fn idle_after(&self, state: W, now: Timestamp) -> Duration {
        let (place, spent) = self.unit.div_rem(now.as_nanos());
        let nanos = match self.live(state, place, spent) {
            None => 0,
            // Ahead of a late timestamp: idle when it begins.
            Some(Live { number, count: 0 }) => {
                self.age(number, place).unsigned_abs() * self.unit.get() - spent
            }
            Some(Live { number, .. }) => self.until_end(number, place, spent),
        };
        Duration::from_nanos(nanos)
    }

    #[inline]
    fn is_idle(&self, state: W, now: Timestamp) -> bool {
        let (place, spent) = self.unit.div_rem(now.as_nanos());
        self.live(state, place, spent).is_none()
    }

    /// The same windows, and limits that count in equally many bits.
    fn shares_states(&self, other: &Self) -> bool {
        self.unit.get() == other.unit.get()
            && self.length == other.length
            && self.anchored == other.anchored
            && self.count_bits == other.count_bits
            && self.late_ns == other.late_ns
    }

    /// The count stays. An anchored window keeps its start; aligned windows of another period count it in
    /// the one that is current.
    fn adopt(&self, old: &Self, state: W, now: Timestamp) -> W {
        let (place, spent) = old.unit.div_rem(now.as_nanos());
        let Some(Live { number, count }) = old.live(state, place, spent) else {
            return W::ZERO;
        };
        let count = count.min(self.limit);
        if count == 0 {
            return W::ZERO;
        }
        // Nanoseconds from now to the start; in the past unless the state comes from a newer timestamp.
        let age = old.age(number, place);
        let start = if age >= 0 && !self.anchored {
            now.as_nanos()
        } else {
            let back = (age as u64)
                .wrapping_mul(old.unit.get())
                .wrapping_add(spent);
            now.as_nanos().wrapping_sub(back)
        };
        let (place, spent) = self.unit.div_rem(start);
        self.state(self.opening(place, spent), count)
    }
}
