//! The sliding-window counter: this window's count, and the last one's, fading.

use core::time::Duration;

use super::Algorithm;
use super::fixed_window::{NUMBER_BITS_MIN, PERIOD_MAX, apart, bits, tolerated};
use crate::decision::{Allowed, Basis, Denied, Reason};
use crate::error::{ConfigError, or_panic};
use crate::quota::Quota;
use crate::scale::Divisor;
use crate::time::Timestamp;
use crate::word::Word;

/// Sliding-window counter: the count of the current aligned window, plus that of the one before it in
/// proportion to how much of it the last period still covers.
///
/// With `e` the time since the current window began, it admits a cost if
/// `previous * (period - e) + (current + cost) * period <= limit * period`. The comparison is made in whole
/// numbers; no weight is ever rounded.
///
/// It assumes that the previous window's requests were spread evenly. If they came in one burst at its end,
/// a stretch of one period can see more than `limit`: the admissions of any one period are below
/// `2 * limit`, and an adversary who knows the windows can come close. An ordinary burst at a boundary is refused.
/// What needs a hard bound in every period should use the exact log.
///
/// The state is two counts, in as many bits each as the limit needs, and the number of the current window in
/// all the rest, at least 16; limits that leave fewer are refused: above 4,194,303 for `u64`, 63 for `u32`. Both
/// words are exact.
///
/// # Late timestamps and leftovers
///
/// A timestamp from before the window of the state is taken as that window's beginning, up to
/// [`horizon`](Self::horizon). A state further ahead is taken for a leftover of a clock that has jumped back,
/// and for a fresh one.
///
/// The number wraps. A state left alone for that long (2^46 periods for `u64` and a limit of 100, at least
/// 2^16 in any case) may be misread once, as used, never as free.
///
/// ```
/// use core::time::Duration;
/// use tidegate::{Limiter, Quota, SlidingWindow, Timestamp};
///
/// static API: Limiter<SlidingWindow> = Limiter::new(SlidingWindow::new(Quota::per_minute(100)));
///
/// assert_eq!(API.check_n(Timestamp::from_secs(30), 50)?.remaining(), 50);
/// // 6 s into the next window: nine tenths of the 50 still count
/// assert_eq!(API.check_n(Timestamp::from_secs(66), 10)?.remaining(), 45);
/// # Ok::<(), tidegate::Denied>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SlidingWindow<W = u64> {
    limit: u64,
    period: Divisor,
    count_bits: u32,
    late_ns: u64,
    quota: Quota,
    word: core::marker::PhantomData<W>,
}

macro_rules! constructors {
    ($word:ident, $new:ident, $try_new:ident, $(#[doc = $doc:expr])*) => {
        impl SlidingWindow<$word> {
            $(#[doc = $doc])*
            ///
            /// # Panics
            ///
            /// If the quota cannot be represented; in a `const` or `static` that is a compile error.
            pub const fn $new(quota: Quota) -> Self {
                or_panic!(Self::$try_new(quota))
            }

            $(#[doc = $doc])*
            ///
            /// # Errors
            ///
            /// If the quota cannot be represented: the limit is too large, or the period too short or too
            /// long for the word.
            pub const fn $try_new(quota: Quota) -> Result<Self, ConfigError> {
                let count_bits = bits(quota.limit());
                if 2 * count_bits + NUMBER_BITS_MIN > <$word as Word>::PAYLOAD_BITS {
                    return Err(ConfigError::LimitTooLarge);
                }
                if quota.period_ns() > PERIOD_MAX {
                    return Err(ConfigError::PeriodTooLong);
                }
                let number_bits = <$word as Word>::PAYLOAD_BITS - 2 * count_bits;
                // A state counts in its own window and in the next.
                match tolerated(<$word>::BITS, number_bits, quota.period_ns(), 2) {
                    Ok(late_ns) => Ok(Self {
                        limit: quota.limit(),
                        period: Divisor::new(quota.period_ns()),
                        count_bits,
                        late_ns,
                        quota,
                        word: core::marker::PhantomData,
                    }),
                    Err(error) => Err(error),
                }
            }
        }
    };
}

constructors!(u64, new, try_new,
    /// A sliding window in a 64-bit word.
);
constructors!(u32, narrow, try_narrow,
    /// A sliding window in a 32-bit word.
);

/// A state, brought forward to some instant.
#[derive(Clone, Copy)]
struct View {
    number: u64,
    previous: u64,
    current: u64,
    /// Nanoseconds of the window that are still to come, at most the period.
    rest: u64,
    /// Nanoseconds until the window begins, if it has not.
    ahead: u64,
}

impl<W: Word> SlidingWindow<W> {
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

    /// How far ahead of a timestamp a window may begin before its state counts as the leftover of a clock
    /// that has jumped back: between a minute and an hour.
    pub const fn horizon(&self) -> Duration {
        Duration::from_nanos(self.late_ns)
    }

    #[inline]
    fn number_bits(&self) -> u32 {
        W::PAYLOAD_BITS - 2 * self.count_bits
    }

    /// What the state says, at the beginning of its window.
    #[inline]
    fn kept(&self, state: W) -> View {
        let payload = state.payload();
        let count_mask = (1 << self.count_bits) - 1;
        View {
            number: payload >> (2 * self.count_bits),
            previous: payload >> self.count_bits & count_mask,
            current: payload & count_mask,
            rest: self.period.get(),
            ahead: 0,
        }
    }

    #[inline]
    fn view(&self, state: W, now: Timestamp) -> View {
        let period = self.period.get();
        let (place, spent) = self.period.div_rem(now.as_nanos());
        let number_mask = (1 << self.number_bits()) - 1;
        let fresh = View {
            number: place & number_mask,
            previous: 0,
            current: 0,
            rest: period - spent,
            ahead: 0,
        };
        if state == W::ZERO {
            return fresh;
        }
        let View {
            number,
            previous,
            current,
            ..
        } = self.kept(state);
        let age = apart(place, number, self.number_bits());
        match age {
            0 => View {
                previous,
                current,
                ..fresh
            },
            1 => View {
                previous: current,
                ..fresh
            },
            2.. => fresh,
            _ => {
                let ahead = age
                    .unsigned_abs()
                    .checked_mul(period)
                    .map(|ahead| ahead - spent);
                match ahead {
                    Some(ahead) if ahead <= self.late_ns => View {
                        number,
                        previous,
                        current,
                        rest: period,
                        ahead,
                    },
                    _ => fresh,
                }
            }
        }
    }

    #[inline]
    fn state(&self, view: &View) -> W {
        let counts = view.previous << self.count_bits | view.current;
        W::from_payload(view.number << (2 * self.count_bits) | counts)
    }

    #[inline]
    fn basis(&self, view: &View, cost: u64) -> Basis {
        // Counts have at most 22 bits, and only a cost within the limit is ever looked at.
        Basis::Sliding {
            previous: view.previous as u32,
            current: view.current as u32,
            cost: cost as u32,
            end: view.ahead + view.rest,
            period: self.period.get(),
        }
    }

    #[inline]
    fn allowed(&self, view: &View) -> Allowed {
        Allowed {
            limit: self.limit,
            basis: self.basis(view, 0),
            counted: true,
        }
    }
}

impl<W: Word> Algorithm for SlidingWindow<W> {
    type Word = W;

    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn step(&self, state: W, now: Timestamp, cost: u64) -> Result<(W, Allowed), Denied> {
        let view = self.view(state, now);
        let free = self.limit.saturating_sub(view.current);
        let weight = u128::from(view.previous) * u128::from(view.rest);
        let fits = cost == 0
            || cost <= free && weight <= u128::from(free - cost) * u128::from(self.period.get());
        if !fits {
            let reason = if cost > self.limit {
                Reason::TooCostly
            } else {
                Reason::Limited
            };
            return Err(Denied {
                reason,
                limit: self.limit,
                basis: self.basis(&view, cost),
            });
        }
        if cost == 0 {
            return Ok((state, self.allowed(&view)));
        }
        let next = View {
            current: view.current + cost,
            ..view
        };
        Ok((self.state(&next), self.allowed(&next)))
    }

    fn refund(&self, state: W, taken_at: Timestamp, cost: u64) -> W {
        if state == W::ZERO {
            return state;
        }
        let mut view = self.kept(state);
        let (place, _) = self.period.div_rem(taken_at.as_nanos());
        // However long ago: unlike a decision, this never adds anything.
        match apart(place, view.number, self.number_bits()) {
            0 => view.current = view.current.saturating_sub(cost),
            // Taken in what has become the previous window.
            -1 => view.previous = view.previous.saturating_sub(cost),
            _ => return state,
        }
        // Empty counts keep their number: a timestamp that is late must not find more than it would have
        // found without all this. Where all three are zero, the word says fresh, which is right in the first
        // window of all; when the number has wrapped, one permit is not given back.
        let next = self.state(&view);
        if next == W::ZERO && taken_at.as_nanos() >= self.period.get() {
            view.current = 1;
            return self.state(&view);
        }
        next
    }

    fn idle_after(&self, state: W, now: Timestamp) -> Duration {
        let view = self.view(state, now);
        if view.previous == 0 && view.current == 0 {
            return Duration::from_nanos(view.ahead);
        }
        self.allowed(&view).reset_after()
    }

    #[inline]
    fn is_idle(&self, state: W, now: Timestamp) -> bool {
        let view = self.view(state, now);
        view.current == 0 && view.previous == 0 && view.ahead == 0
    }

    /// The same windows, and limits that count in equally many bits.
    fn shares_states(&self, other: &Self) -> bool {
        self.period.get() == other.period.get()
            && self.count_bits == other.count_bits
            && self.late_ns == other.late_ns
    }

    /// Counts of the same period stay as they are, up to the limit. Of another period, what still weighs is
    /// counted in the window that is current.
    fn adopt(&self, old: &Self, state: W, now: Timestamp) -> W {
        let view = old.view(state, now);
        let (previous, current) = if self.period.get() == old.period.get() {
            (view.previous, view.current)
        } else {
            (0, old.limit.saturating_sub(old.allowed(&view).remaining()))
        };
        if previous == 0 && current == 0 {
            return W::ZERO;
        }
        let (place, _) = self.period.div_rem(now.as_nanos().wrapping_add(view.ahead));
        self.state(&View {
            number: place & ((1 << self.number_bits()) - 1),
            previous: previous.min(self.limit),
            current: current.min(self.limit),
            ..view
        })
    }
}
