//! The decision of an exact log, apart from how its admissions are kept.
//!
//! Times are counted in units of `2^shift` nanoseconds, and wrap. An admission is dated up to the next unit, and time is
//! seen rounded down, so a coarse unit never lets anything pass early.

use core::ops::Range;
use core::time::Duration;

use crate::algorithm::{PERIOD_MAX, apart, resolution, tolerated};
use crate::decision::{Allowed, Basis, Denied, Reason};
use crate::error::ConfigError;
use crate::quota::Quota;
use crate::scale::{LATE_MAX, used_range};
use crate::time::Timestamp;

/// The limits of a log, in units of its words.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Rule {
    pub(super) limit: u64,
    /// A unit is `2^shift` ns.
    shift: u32,
    /// In units, rounded up.
    period: u64,
    late_ns: u64,
    pub(super) quota: Quota,
}

/// Admissions, from the oldest of `limit` places to the newest. Places that hold none come first.
pub(super) trait View {
    /// How many bits the times have.
    const BITS: u32;

    /// The newest time of all; the clock of whoever is late.
    fn newest(&self) -> Option<u64>;

    /// When the place was last taken; `offset` is below the limit.
    fn at(&self, offset: u64) -> Option<u64>;

    /// When the newest permit that is in use was taken.
    #[inline]
    fn newest_used(&self) -> Option<u64> {
        self.newest()
    }
}

/// What is to be recorded of a request that passes.
pub(super) struct Admission {
    /// The time it is dated to.
    pub(super) time: u64,
    /// Everything recorded before must be forgotten: a leftover of a clock that has jumped back.
    pub(super) on_leftover: bool,
    pub(super) allowed: Allowed,
}

/// An instant in units.
#[derive(Clone, Copy)]
struct Moment {
    /// Whole units, not wrapped.
    place: u64,
    /// Nanoseconds beyond.
    spent: u64,
}

/// What the newest admission says of all.
enum Standing {
    /// None is in use.
    Free { on_leftover: bool },
    Live {
        newest: u64,
        /// Where a place's age is measured from, `coarse` units after what counts as now.
        point: u64,
        is_late: bool,
    },
}

impl Rule {
    /// For words of which so many bits hold a time.
    pub(super) const fn packed(
        quota: Quota,
        word_bits: u32,
        bits: u32,
    ) -> Result<Self, ConfigError> {
        let (limit, period) = (quota.limit(), quota.period_ns());
        if period > PERIOD_MAX {
            return Err(ConfigError::PeriodTooLong);
        }
        // Nanoseconds are exact, however short the period.
        let (unit, length) = if period + LATE_MAX + 3 <= used_range(word_bits, bits) {
            (1, period)
        } else {
            match resolution(word_bits, bits, period) {
                Ok(found) => found,
                Err(error) => return Err(error),
            }
        };
        let late_ns = match tolerated(word_bits, bits, unit, length) {
            // Rounding up a time puts it ahead by itself, by less than a unit.
            Ok(late) => late + unit - 1,
            Err(error) => return Err(error),
        };
        Ok(Self {
            limit,
            shift: unit.trailing_zeros(),
            period: length,
            late_ns,
            quota,
        })
    }

    /// For words that hold nothing else, in nanoseconds.
    #[cfg(feature = "alloc")]
    pub(super) const fn plain(quota: Quota) -> Result<Self, ConfigError> {
        if quota.period_ns() > PERIOD_MAX {
            return Err(ConfigError::PeriodTooLong);
        }
        Ok(Self {
            limit: quota.limit(),
            shift: 0,
            period: quota.period_ns(),
            late_ns: LATE_MAX,
            quota,
        })
    }

    pub(super) const fn resolution(&self) -> Duration {
        Duration::from_nanos(1 << self.shift)
    }

    pub(super) const fn horizon(&self) -> Duration {
        Duration::from_nanos(self.late_ns)
    }

    #[inline(always)]
    fn moment(&self, now: Timestamp) -> Moment {
        let nanos = now.as_nanos();
        Moment {
            place: nanos >> self.shift,
            spent: nanos & ((1 << self.shift) - 1),
        }
    }

    /// So many units; saturates.
    #[inline]
    fn nanos(&self, units: u64) -> u64 {
        units.min(u64::MAX >> self.shift) << self.shift
    }

    /// Rounding leaves an admission's time uncertain by so many units.
    #[inline]
    fn coarse(&self) -> u64 {
        u64::from(self.shift > 0)
    }

    #[inline]
    fn wrapped(place: u64, bits: u32) -> u64 {
        place & (u64::MAX >> (u64::BITS - bits))
    }

    /// The time that an admission now is dated to.
    #[inline(always)]
    fn dated(&self, now: Moment, bits: u32) -> u64 {
        Self::wrapped(now.place.wrapping_add(u64::from(now.spent > 0)), bits)
    }

    #[inline(always)]
    fn standing(&self, newest: Option<u64>, now: Moment, bits: u32) -> Standing {
        let Some(newest) = newest else {
            return Standing::Free { on_leftover: false };
        };
        let age = apart(now.place, newest, bits);
        if age >= 0 {
            if age as u64 >= self.period {
                return Standing::Free { on_leftover: false };
            }
            let point = now.place.wrapping_add(self.coarse());
            return Standing::Live {
                newest,
                point,
                is_late: false,
            };
        }
        // At least one unit ahead, of which less is spent.
        let ahead = self.nanos(age.unsigned_abs()) - now.spent;
        if ahead > self.late_ns {
            return Standing::Free { on_leftover: true };
        }
        Standing::Live {
            newest,
            point: newest,
            is_late: true,
        }
    }

    /// Whether a place is free again. Times are in order, so what seems to lie ahead of `point` has been left alone for
    /// more than half a wrap.
    #[inline(always)]
    fn is_free(&self, place: Option<u64>, point: u64, bits: u32) -> bool {
        match place {
            None => true,
            Some(time) => {
                Self::wrapped(point.wrapping_sub(time), bits) >= self.period + self.coarse()
            }
        }
    }

    /// How many of the places before `end` are free, if those before `start` are.
    #[inline(always)]
    fn count_free<V: View>(&self, view: &V, start: u64, end: u64, point: u64) -> u64 {
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_free(view.at(middle), point, V::BITS) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Nanoseconds until a place that was taken at `time` is free; 0 if it is.
    #[inline(always)]
    fn wait(&self, time: u64, now: Moment, bits: u32) -> u64 {
        let age = apart(now.place, time, bits);
        let units = (self.period as i64).saturating_sub(age).max(0) as u64;
        self.nanos(units).saturating_sub(now.spent)
    }

    /// May so many permits be taken now?
    #[inline(always)]
    pub(super) fn decide<V: View>(
        &self,
        view: &V,
        now: Timestamp,
        cost: u64,
    ) -> Result<Admission, Denied> {
        let now = self.moment(now);
        let limit = self.limit;
        let allowed = |remaining, next, reset| Allowed {
            limit,
            basis: Basis::Log {
                remaining,
                next,
                retry: 0,
                reset,
            },
            counted: true,
        };
        match self.standing(view.newest(), now, V::BITS) {
            Standing::Free { on_leftover } => {
                if cost > limit {
                    return Err(self.denied(Reason::TooCostly, limit, 0, 0, 0));
                }
                let time = self.dated(now, V::BITS);
                let reset = if cost == 0 {
                    0
                } else {
                    self.wait(time, now, V::BITS)
                };
                Ok(Admission {
                    time,
                    on_leftover,
                    allowed: allowed(limit - cost, reset, reset),
                })
            }
            Standing::Live {
                newest,
                point,
                is_late,
            } => {
                let last = match cost {
                    0 => None,
                    _ if cost > limit => return Err(self.refused(view, now, point, cost, 0)),
                    _ => view.at(cost - 1),
                };
                if let Some(time) = last
                    && !self.is_free(last, point, V::BITS)
                {
                    let retry = self.wait(time, now, V::BITS);
                    return Err(self.refused(view, now, point, cost, retry));
                }
                let free = self.count_free(view, cost, limit, point);
                let time = if is_late {
                    newest
                } else {
                    self.dated(now, V::BITS)
                };
                let reset = if cost > 0 {
                    self.wait(time, now, V::BITS)
                } else {
                    self.reset_ns(view, now, point)
                };
                // The oldest in use, which is this one if there are no others.
                let next = match view.at(free.min(limit - 1)) {
                    Some(oldest) if free < limit => self.wait(oldest, now, V::BITS),
                    _ => reset,
                };
                Ok(Admission {
                    time,
                    on_leftover: false,
                    allowed: allowed(free - cost, next, reset),
                })
            }
        }
    }

    #[inline(always)]
    fn reset_ns<V: View>(&self, view: &V, now: Moment, point: u64) -> u64 {
        match view.newest_used() {
            Some(time) if !self.is_free(Some(time), point, V::BITS) => {
                self.wait(time, now, V::BITS)
            }
            _ => 0,
        }
    }

    #[inline(always)]
    fn refused<V: View>(&self, view: &V, now: Moment, point: u64, cost: u64, retry: u64) -> Denied {
        let reason = if cost > self.limit {
            Reason::TooCostly
        } else {
            Reason::Limited
        };
        let (remaining, next) = if cost == 1 {
            (0, retry)
        } else {
            // Of a cost that does not pass, the last place is not free.
            let free = self.count_free(view, 0, self.limit.min(cost), point);
            let oldest = view.at(free.min(self.limit - 1));
            (free, oldest.map_or(0, |it| self.wait(it, now, V::BITS)))
        };
        let reset = self.reset_ns(view, now, point);
        self.denied(reason, remaining, next, retry, reset)
    }

    #[inline(always)]
    fn denied(&self, reason: Reason, remaining: u64, next: u64, retry: u64, reset: u64) -> Denied {
        Denied {
            reason,
            limit: self.limit,
            basis: Basis::Log {
                remaining,
                next,
                retry,
                reset,
            },
        }
    }

    /// The place to give back of what was taken at `taken_at`: the oldest not older than that. A late admission is dated
    /// later than its own timestamp, so the place may be an older one than was taken, but never a newer.
    ///
    /// None if a period has passed since: then the place may be somebody else's by now.
    pub(super) fn removable<V: View>(&self, view: &V, taken_at: Timestamp) -> Option<u64> {
        let taken = self.dated(self.moment(taken_at), V::BITS);
        let since = apart(view.newest()?, taken, V::BITS);
        if since < 0 || since as u64 >= self.period {
            return None;
        }
        let mut found = None;
        for offset in (0..self.limit).rev() {
            match view.at(offset) {
                Some(time) if apart(time, taken, V::BITS) >= 0 => found = Some(offset),
                _ => break,
            }
        }
        found
    }

    /// Whether what was taken at `time` is free at `then`, which is not before it.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(super) fn has_expired(&self, time: u64, then: u64) -> bool {
        self.is_free(Some(time), then, u64::BITS)
    }

    /// Nanoseconds until nothing is in use.
    pub(super) fn idle_after<V: View>(&self, newest: Option<u64>, now: Timestamp) -> Duration {
        let now = self.moment(now);
        Duration::from_nanos(match self.standing(newest, now, V::BITS) {
            Standing::Free { .. } => 0,
            Standing::Live { newest, .. } => self.wait(newest, now, V::BITS),
        })
    }

    /// The places in use, and of those the `most` newest.
    pub(super) fn used<V: View>(&self, view: &V, most: u64, now: Timestamp) -> Range<u64> {
        let used = match self.standing(view.newest(), self.moment(now), V::BITS) {
            Standing::Free { .. } => 0,
            Standing::Live { point, .. } => {
                self.limit - self.count_free(view, 0, self.limit, point)
            }
        };
        self.limit - used.min(most)..self.limit
    }

    /// A time of `old`, seen at `now`, in units of this.
    pub(super) fn translated<V: View>(&self, old: &Self, time: u64, now: Timestamp) -> u64 {
        let seen = old.moment(now);
        let ahead = apart(time, seen.place, V::BITS)
            .wrapping_mul(1 << old.shift)
            .wrapping_sub(seen.spent as i64);
        let here = self.moment(now);
        // From the start of the unit that now is in. Shifting rounds down, before that start too.
        let ahead = ahead.wrapping_add(here.spent as i64);
        let then = Moment {
            place: here.place.wrapping_add((ahead >> self.shift) as u64),
            spent: ahead as u64 & ((1 << self.shift) - 1),
        };
        self.dated(then, V::BITS)
    }
}
