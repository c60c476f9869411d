//! The token bucket, as GCRA: one virtual time.

use core::hint::select_unpredictable;
use core::num::NonZeroU64;
use core::time::Duration;

use super::Algorithm;
use crate::decision::{Allowed, Basis, Denied, Reason};
use crate::error::{ConfigError, or_panic};
use crate::quota::Quota;
use crate::scale::{self, Ramp, Scale};
use crate::time::{Timestamp, saturating_nanos};
use crate::word::{GENERATION_BITS, Word};

/// Token bucket: tokens trickle in continuously at the quota's rate, up to the burst; a request takes its
/// cost in tokens, or is refused.
///
/// It starts full. In any stretch of time `d` it admits at most `burst + limit * d / period`. The burst is
/// the quota's limit unless [`with_burst`](Self::with_burst) says otherwise.
///
/// The state is one number, the virtual time at which the bucket is full again: the Generic Cell Rate
/// Algorithm of ITU-T I.371, in its virtual scheduling form. A decision is one multiplication, a few
/// additions and two comparisons.
///
/// # Precision
///
/// `TokenBucket<u64>`, made by [`new`](TokenBucket::new): time is exact to the nanosecond. The rate is exact
/// if `limit/period` (in nanoseconds) reduces to a numerator of at most 4,096 and filling the burst takes, with a
/// minute to spare, at most 2^56 ns divided by that numerator; else it is the best fraction below, low by at most 10^-6. Rates
/// that allow neither are refused; none up to four permits a microsecond is.
///
/// `TokenBucket<u32>`, made by [`narrow`](TokenBucket::narrow): the burst is exact, the rate is low by a share
/// that [`shortfall_ppm`](Self::shortfall_ppm) tells. It is below 1/900 as long as burst and permits a minute
/// together stay below 1,000, grows to 1/16 at 65,536, and beyond that the quota is refused. It never admits
/// more than the exact bucket would.
///
/// # Late timestamps and leftovers
///
/// A timestamp up to [`horizon`](Self::horizon) older than the newest one finds the bucket emptier, by what
/// has trickled in since. A state further ahead is taken for a leftover of a clock that has jumped back, and
/// for a full bucket.
///
/// Virtual time wraps: after 2^60 ns divided by the numerator for `u64` (36 years for `5/min`, three days at
/// worst), and for `u32` after at least 256 times as long as it takes to fill the burst and a minute. A state
/// that was left alone for a whole number of wraps, give or take a sixteenth (`u32`: a 256th) of one, looks
/// used, at worst empty. That refuses, never admits, and heals within one refill.
/// [`Limiter::sweep`](crate::Limiter::sweep), called once in half a wrap, rules it out.
///
/// At the wrap itself a full-again time of exactly 0, which means fresh, is put off by one unit, towards refusing:
/// one time in a wrap, `remaining` may have told one permit too many.
///
/// ```
/// use core::time::Duration;
/// use tidegate::{Limiter, Quota, Timestamp, TokenBucket};
///
/// static LOGIN: Limiter<TokenBucket> =
///     Limiter::new(TokenBucket::new(Quota::per_minute(6)).with_burst(2));
///
/// let now = Timestamp::from_secs(1);
/// assert_eq!(LOGIN.check(now)?.remaining(), 1);
/// assert_eq!(LOGIN.check(now)?.remaining(), 0);
/// let denied = LOGIN.check(now).unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
/// # Ok::<(), tidegate::Denied>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TokenBucket<W = u64> {
    /// Phase a tick; see the module `scale`.
    speed: u64,
    shift: u32,
    /// What one permit costs. This and the next two are in place, above the generation.
    per: W,
    /// What the whole burst costs: `burst * per`.
    full: W,
    /// How far ahead of now a full-again time may lie: `full` and the tolerated lateness.
    horizon: W,
    /// Not zero, and so never below a cost of 1: `check` need not compare.
    burst: NonZeroU64,
    quota: Quota,
}

/// The constructors, which differ between the words in name and scale alone.
macro_rules! constructors {
    (
        $word:ident,
        $new:ident, $try_new:ident,
        $new_with_burst:ident, $try_new_with_burst:ident,
        $scale:path,
        $(#[doc = $doc:expr])*
    ) => {
        impl TokenBucket<$word> {
            $(#[doc = $doc])*
            /// The burst is the quota's limit.
            ///
            /// # Panics
            ///
            /// If the quota cannot be represented; in a `const` or `static` that is a compile error.
            pub const fn $new(quota: Quota) -> Self {
                or_panic!(Self::$try_new(quota))
            }

            $(#[doc = $doc])*
            /// The burst is the quota's limit.
            ///
            /// # Errors
            ///
            /// If the quota cannot be represented: see *Precision* above.
            pub const fn $try_new(quota: Quota) -> Result<Self, ConfigError> {
                Self::$try_new_with_burst(quota, quota.limit())
            }

            $(#[doc = $doc])*
            /// For a quota whose limit would be too large a burst.
            ///
            /// # Panics
            ///
            /// If `burst` is 0, or it or the quota cannot be represented; in a `const` or `static` that is a
            /// compile error.
            pub const fn $new_with_burst(quota: Quota, burst: u64) -> Self {
                or_panic!(Self::$try_new_with_burst(quota, burst))
            }

            /// The same rate with another burst.
            ///
            /// # Panics
            ///
            /// If `burst` is 0 or cannot be represented; in a `const` or `static` that is a compile error.
            #[must_use]
            pub const fn with_burst(self, burst: u64) -> Self {
                or_panic!(self.try_with_burst(burst))
            }

            /// The same rate with another burst.
            ///
            /// # Errors
            ///
            /// If `burst` is 0 or cannot be represented.
            pub const fn try_with_burst(self, burst: u64) -> Result<Self, ConfigError> {
                Self::$try_new_with_burst(self.quota, burst)
            }

            $(#[doc = $doc])*
            /// For a quota whose limit would be too large a burst.
            ///
            /// # Errors
            ///
            /// If `burst` is 0, or it or the quota cannot be represented: see *Precision* above.
            pub const fn $try_new_with_burst(
                quota: Quota,
                burst: u64,
            ) -> Result<Self, ConfigError> {
                let Some(count) = NonZeroU64::new(burst) else {
                    return Err(ConfigError::ZeroBurst);
                };
                let Scale {
                    speed,
                    shift,
                    per,
                    horizon,
                } = match $scale(quota.limit(), quota.period_ns(), burst) {
                    Ok(scale) => scale,
                    Err(error) => return Err(error),
                };
                Ok(Self {
                    speed,
                    shift,
                    per: (per << GENERATION_BITS) as $word,
                    full: ((burst * per) << GENERATION_BITS) as $word,
                    horizon: (horizon << GENERATION_BITS) as $word,
                    burst: count,
                    quota,
                })
            }
        }
    };
}

constructors!(
    u64, new, try_new, new_with_burst, try_new_with_burst, scale::wide,
    /// A token bucket in a 64-bit word.
);
constructors!(
    u32, narrow, try_narrow, narrow_with_burst, try_narrow_with_burst, scale::narrow,
    /// A token bucket in a 32-bit word.
);

impl<W: Word> TokenBucket<W> {
    /// The quota it was made from.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Other limits on the scale of this bucket, for a tier of clients in one table with it.
    ///
    /// The price of a permit is rounded up to a whole unit of this bucket's scale.
    ///
    /// # Errors
    ///
    /// If that makes the rate low by more than a millionth (`u32`: a sixteenth); if filling the burst takes longer
    /// than filling this bucket's and half the lateness; or if `burst` is 0. Make the tiers from the one that
    /// takes longest to fill.
    pub fn tier(&self, quota: Quota, burst: u64) -> Result<Self, ConfigError> {
        let Some(count) = NonZeroU64::new(burst) else {
            return Err(ConfigError::ZeroBurst);
        };
        // Units a permit: this bucket's, times how much slower the other quota is, rounded up.
        let (mine, other) = (self.quota, quota);
        let slower = (
            u128::from(mine.limit()) * u128::from(other.period_ns()),
            u128::from(mine.period_ns()) * u128::from(other.limit()),
        );
        let units = u128::from(self.per.widen() >> GENERATION_BITS);
        let scaled = units
            .checked_mul(slower.0)
            .ok_or(ConfigError::BurstTooLong)?;
        // A narrow word's price has a unit and a fraction on top, for time that it cannot see. A faster quota
        // scales that down with the rest, so it gets its own.
        let is_faster = slower.0 < slower.1;
        let unseen = if W::BITS != 64 && is_faster { 2 } else { 0 };
        let per = scaled.div_ceil(slower.1) + unseen;
        // Above its exact share by so much: less than a unit, and what was put on top.
        let rounding = (slower.1 - scaled % slower.1) % slower.1;
        let excess = rounding.saturating_add(unseen.saturating_mul(slower.1));
        let coarsest = if W::BITS == 64 { 1_000_000 } else { 16 };
        if excess.saturating_mul(coarsest) > scaled {
            return Err(ConfigError::RateTooFine);
        }
        // As long as filling this bucket and half its lateness, which leaves the other half.
        let late = (self.horizon.widen() - self.full.widen()) / 2;
        let most = u128::from((self.horizon.widen() - late) >> GENERATION_BITS);
        let full = per
            .checked_mul(u128::from(burst))
            .filter(|&full| full <= most);
        let full = full.ok_or(ConfigError::BurstTooLong)? as u64;
        Ok(Self {
            per: W::truncate((per as u64) << GENERATION_BITS),
            full: W::truncate(full << GENERATION_BITS),
            burst: count,
            quota,
            ..*self
        })
    }

    /// The most tokens it holds.
    pub const fn burst(&self) -> u64 {
        self.burst.get()
    }

    /// How late a timestamp may be, and how far the clock may jump back, before a state counts as a leftover:
    /// the time it takes to fill the bucket, and between a minute and an hour on top.
    ///
    /// While reservations are outstanding, their wait is taken off it.
    pub fn horizon(&self) -> Duration {
        Duration::from_nanos(self.ramp(Timestamp::ZERO).nanos(self.horizon.widen()))
    }

    /// By how many millionths the rate is lower than the quota's, rounded up. 0 is exact.
    pub fn shortfall_ppm(&self) -> u32 {
        // Compare limit / period with speed / (2^shift * per). The two differ by a sixteenth at most, and
        // speed * period is below 2^93, so neither product overflows.
        let per = u128::from(self.per.widen()) << (64 - W::BITS);
        let asked = (u128::from(self.quota.limit()) << self.shift) * per;
        let kept = u128::from(self.speed) * u128::from(self.quota.period_ns());
        ((asked - kept) * 1_000_000).div_ceil(asked) as u32
    }

    /// Debt in units at `at`: how far the full-again time lies ahead. 0 is a full bucket.
    #[inline]
    fn debt(&self, state: W, at: W) -> W {
        self.used(state, at).unwrap_or(W::ZERO)
    }

    /// The same, if the state is used at all.
    #[inline]
    fn used(&self, state: W, at: W) -> Option<W> {
        let ahead = state.wrapping_sub(at);
        // Zero is fresh by decree, wherever it happens to lie. A time in the past is, in wrapping arithmetic,
        // one that is very far ahead.
        (ahead <= self.horizon && state != W::ZERO).then_some(ahead)
    }

    #[inline]
    fn at(&self, now: Timestamp) -> W {
        W::from_phase(W::ticks(now.as_nanos(), self.shift).wrapping_mul(self.speed))
    }

    /// The state that is `debt` ahead of `at`.
    #[inline]
    fn ahead(at: W, debt: W) -> W {
        Self::nonzero(at.wrapping_add(debt))
    }

    /// Zero means fresh: a full-again time that happens to be zero is put off by one unit.
    #[inline]
    fn nonzero(state: W) -> W {
        if state == W::ZERO { W::UNIT } else { state }
    }

    #[inline]
    fn ramp(&self, now: Timestamp) -> Ramp {
        Ramp {
            now: now.as_nanos(),
            speed: self.speed,
            // Below 64 by construction.
            shift: self.shift as u8,
            hidden: W::HIDDEN,
        }
    }

    #[inline]
    fn basis(&self, now: Timestamp, debt: W, excess: W) -> Basis {
        Basis::Bucket {
            debt: debt.widen(),
            excess: excess.widen(),
            per: self.per.widen(),
            ramp: self.ramp(now),
        }
    }

    #[inline]
    fn allowed(&self, now: Timestamp, debt: W) -> Allowed {
        Allowed {
            limit: self.burst.get(),
            basis: self.basis(now, debt, W::ZERO),
            counted: true,
        }
    }

    #[inline]
    fn denied(&self, now: Timestamp, reason: Reason, debt: W, excess: W) -> Denied {
        Denied {
            reason,
            limit: self.burst.get(),
            basis: self.basis(now, debt, excess),
        }
    }

    /// The pure step of [`Limiter::reserve`](crate::Limiter::reserve): takes the cost even if it must be
    /// waited for, and tells the wait.
    ///
    /// Waits are limited to half the tolerated lateness, at least 30 s, whatever `max_wait` says.
    ///
    /// # Errors
    ///
    /// `Limited` if the wait would exceed `max_wait`, with the time after which it would not; `TooCostly` if
    /// the cost exceeds the burst.
    pub fn reserve_step(
        &self,
        state: W,
        now: Timestamp,
        cost: u64,
        max_wait: Duration,
    ) -> Result<(W, Duration), Denied> {
        let at = self.at(now);
        let debt = self.debt(state, at);
        if cost > self.burst.get() {
            return Err(self.denied(now, Reason::TooCostly, debt, W::ZERO));
        }
        if cost == 0 {
            return Ok((state, Duration::ZERO));
        }
        // At most horizon + full: no wrap.
        let want = debt.wrapping_add(self.per.wrapping_mul(W::truncate(cost)));
        let excess = want.saturating_sub(self.full);
        let wait = self.ramp(now).nanos(excess.widen());
        let late = self.horizon.wrapping_sub(self.full);
        let longest = self.ramp(Timestamp::ZERO).nanos(late.widen()) / 2;
        let longest = longest.min(saturating_nanos(max_wait));
        if wait > longest {
            return Err(Denied::limited(
                self.burst.get(),
                self.allowed(now, debt).remaining(),
                Duration::from_nanos(wait - longest),
                self.allowed(now, debt).reset_after(),
            ));
        }
        Ok((Self::ahead(at, want), Duration::from_nanos(wait)))
    }
}

impl<W: Word> TokenBucket<W> {
    /// The step; `base` chooses where the price is added.
    #[inline(always)]
    fn step_from(
        &self,
        state: W,
        now: Timestamp,
        cost: u64,
        base: impl FnOnce(bool, W) -> W,
    ) -> Result<(W, Allowed), Denied> {
        let at = self.at(now);
        if cost == 0 {
            return Ok((state, self.allowed(now, self.debt(state, at))));
        }
        if cost > self.burst.get() {
            return Err(self.denied(now, Reason::TooCostly, self.debt(state, at), W::ZERO));
        }
        // cost <= burst, so the price is at most `full`; debt is at most `horizon`. Their sum is a small part
        // of the word's range: no wrap.
        let price = self.per.wrapping_mul(W::truncate(cost));
        let base = base(self.used(state, at).is_some(), at);
        let debt = base.wrapping_sub(at);
        if debt > self.full.wrapping_sub(price) {
            let excess = debt.wrapping_add(price).wrapping_sub(self.full);
            return Err(self.denied(now, Reason::Limited, debt, excess));
        }
        let next = Self::nonzero(base.wrapping_add(price));
        Ok((next, self.allowed(now, next.wrapping_sub(at))))
    }
}

impl<W: Word> Algorithm for TokenBucket<W> {
    type Word = W;

    #[inline]
    fn limit(&self) -> u64 {
        self.burst.get()
    }

    #[inline(always)]
    fn step(&self, state: W, now: Timestamp, cost: u64) -> Result<(W, Allowed), Denied> {
        // A branch, and not a choice of values, so that the processor can guess it: back-to-back decisions
        // then wait for each other's compare-exchange alone, and not for this arithmetic as well.
        self.step_from(
            state,
            now,
            cost,
            |is_used, at| if is_used { state } else { at },
        )
    }

    #[inline(always)]
    fn step_keyed(&self, state: W, now: Timestamp, cost: u64) -> Result<(W, Allowed), Denied> {
        // Whether it is this one's second request of late or its first is anybody's guess.
        self.step_from(state, now, cost, |is_used, at| {
            select_unpredictable(is_used, state, at)
        })
    }

    #[inline]
    fn refund(&self, state: W, taken_at: Timestamp, cost: u64) -> W {
        let at = self.at(taken_at);
        let debt = self.debt(state, at);
        if debt == W::ZERO {
            return state;
        }
        let back = self
            .per
            .wrapping_mul(W::truncate(cost.min(self.burst.get())));
        // Not before `taken_at`: then it was full at most. Nor the fresh state, even if full: a timestamp
        // that is late must not find more than it would have found without all this.
        Self::ahead(at, debt.saturating_sub(back))
    }

    fn idle_after(&self, state: W, now: Timestamp) -> Duration {
        let debt = self.debt(state, self.at(now));
        Duration::from_nanos(self.ramp(now).nanos(debt.widen()))
    }

    #[inline]
    fn is_idle(&self, state: W, now: Timestamp) -> bool {
        // As `debt` is zero, without a branch: a table asks this of one slot after another, and the answer is
        // anybody's guess. Nothing ahead wraps to the most there can be.
        let ahead = state.wrapping_sub(self.at(now));
        (ahead.wrapping_sub(W::UNIT) >= self.horizon) | (state == W::ZERO)
    }

    /// The same scale of time, and a burst that this one's horizon has room for: see [`TokenBucket::tier`].
    fn shares_states(&self, other: &Self) -> bool {
        self.speed == other.speed && self.shift == other.shift && self.horizon >= other.horizon
    }

    fn adopt(&self, old: &Self, state: W, now: Timestamp) -> W {
        let debt = old.debt(state, old.at(now));
        // What the old bucket lacked, at most the new burst, and what was reserved beyond.
        let translate = |units: W| -> u128 {
            (u128::from(units.widen()) * u128::from(self.per.widen()))
                .div_ceil(u128::from(old.per.widen()))
        };
        let lacking = translate(debt.min(old.full)).min(u128::from(self.full.widen()));
        let reserved = translate(debt.saturating_sub(old.full));
        let debt = (lacking + reserved).min(u128::from(self.horizon.widen())) as u64;
        // Rounding up must not touch the generation.
        let mask = W::UNIT.widen() - 1;
        let debt = W::truncate((debt.saturating_add(mask) & !mask).min(self.horizon.widen()));
        if debt == W::ZERO {
            return W::ZERO;
        }
        Self::ahead(self.at(now), debt)
    }
}
