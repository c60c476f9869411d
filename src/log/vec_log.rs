//! An exact log for a single owner, on the heap.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::rule::{Rule, View};
use crate::decision::{Allowed, Denied};
use crate::error::{ConfigError, or_panic};
use crate::quota::Quota;
use crate::strategy::{OwnedStrategy, owned};
use crate::time::Timestamp;

/// The exact log of a single owner whose limit is only known at run time, and may be large.
///
/// At most `limit` permits in any `(t - period, t]`, as a [`SlidingLog`](crate::SlidingLog), in nanoseconds. This is the
/// configuration; a [`VecLogState`] is what is kept for one limiter or one key, by the methods of [`OwnedStrategy`].
///
/// # Cost
///
/// A state is 40 bytes, and on the heap 8 for each permit in use, doubled when they are full; like every collection it
/// grows by allocating. A decision takes as many steps as the limit has bits, and an admission drops what has expired.
///
/// # Late timestamps and leftovers
///
/// A timestamp older than the newest counts as that, up to one hour older. Beyond, the log is taken for the leftover of a
/// clock that has jumped back, and for a fresh one.
///
/// ```
/// use tidegate::{OwnedStrategy, Timestamp, VecLog};
///
/// let log = VecLog::new("1000/h".parse()?);
/// let mut client = log.fresh();
/// assert_eq!(log.check_n(&mut client, Timestamp::from_secs(1), 990).unwrap().remaining(), 10);
/// let denied = log.check_n(&mut client, Timestamp::from_secs(61), 11).unwrap_err();
/// assert_eq!(denied.retry_after().unwrap().as_secs(), 3_540);
/// # Ok::<(), tidegate::ParseQuotaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct VecLog {
    rule: Rule,
}

/// What a [`VecLog`] keeps.
#[derive(Clone, Debug, Default)]
pub struct VecLogState {
    /// From the oldest; at most as many as the limit.
    times: VecDeque<u64>,
    /// The newest there has been, even if it was given back: what had expired by then has been dropped, so nobody may be
    /// judged by an earlier time.
    newest: u64,
}

struct Seen<'a> {
    state: &'a VecLogState,
    limit: u64,
}

impl View for Seen<'_> {
    const BITS: u32 = u64::BITS;

    #[inline]
    fn newest(&self) -> Option<u64> {
        // Without any, the epoch says no more than nothing does.
        let is_fresh = self.state.newest == 0 && self.state.times.is_empty();
        (!is_fresh).then_some(self.state.newest)
    }

    #[inline]
    fn at(&self, offset: u64) -> Option<u64> {
        let number = offset.checked_sub(self.limit - self.state.times.len() as u64)?;
        self.state.times.get(number as usize).copied()
    }

    #[inline]
    fn newest_used(&self) -> Option<u64> {
        self.state.times.back().copied()
    }
}

impl VecLog {
    /// An exact log of this quota.
    ///
    /// # Panics
    ///
    /// If the period is longer than 146 years; in a `const` or `static` that is a compile error.
    pub const fn new(quota: Quota) -> Self {
        or_panic!(Self::try_new(quota))
    }

    /// An exact log of this quota.
    ///
    /// # Errors
    ///
    /// If the period is longer than 146 years.
    pub const fn try_new(quota: Quota) -> Result<Self, ConfigError> {
        match Rule::plain(quota) {
            Ok(rule) => Ok(Self { rule }),
            Err(error) => Err(error),
        }
    }

    /// The quota it was made from.
    pub const fn quota(&self) -> Quota {
        self.rule.quota
    }

    /// How far ahead of a timestamp the newest admission may be before the log counts as the leftover of a clock that has
    /// jumped back: an hour.
    pub const fn horizon(&self) -> Duration {
        self.rule.horizon()
    }

    #[inline]
    fn seen<'a>(&self, state: &'a VecLogState) -> Seen<'a> {
        Seen {
            state,
            limit: self.rule.limit,
        }
    }
}

impl owned::sealed::Sealed for VecLog {}

impl OwnedStrategy for VecLog {
    type State = VecLogState;

    #[inline]
    fn fresh(&self) -> VecLogState {
        VecLogState::default()
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.rule.limit
    }

    #[inline]
    fn check_n(
        &self,
        state: &mut VecLogState,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied> {
        let admission = self.rule.decide(&self.seen(state), now, cost)?;
        if cost == 0 {
            return Ok(admission.allowed);
        }
        let time = admission.time;
        if admission.on_leftover {
            state.times.clear();
        }
        // Time only moves on from here, but for a fresh start.
        while let Some(&oldest) = state.times.front()
            && self.rule.has_expired(oldest, time)
        {
            state.times.pop_front();
        }
        for _ in 0..cost {
            state.times.push_back(time);
        }
        state.newest = time;
        Ok(admission.allowed)
    }

    #[inline]
    fn peek_n(&self, state: &VecLogState, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let admission = self.rule.decide(&self.seen(state), now, cost)?;
        Ok(admission.allowed)
    }

    fn refund(&self, state: &mut VecLogState, taken_at: Timestamp, cost: u64) -> bool {
        let mut has_changed = false;
        for _ in 0..cost {
            let Some(offset) = self.rule.removable(&self.seen(state), taken_at) else {
                break;
            };
            let number = offset - (self.rule.limit - state.times.len() as u64);
            state.times.remove(number as usize);
            has_changed = true;
        }
        has_changed
    }

    fn idle_after(&self, state: &VecLogState, now: Timestamp) -> Duration {
        let seen = self.seen(state);
        if self
            .rule
            .idle_after::<Seen<'_>>(seen.newest(), now)
            .is_zero()
        {
            return Duration::ZERO;
        }
        // Until then, admissions are dated to the newest, even if that was given back.
        let newest = Timestamp::from_nanos(state.newest);
        let used = self.rule.idle_after::<Seen<'_>>(seen.newest_used(), now);
        newest.saturating_duration_since(now).max(used)
    }

    fn adopt(&self, old: &Self, state: &mut VecLogState, now: Timestamp) {
        let used = old.rule.used(&old.seen(state), self.rule.limit, now);
        if used.is_empty() {
            *state = VecLogState::default();
        } else {
            let kept = (used.end - used.start) as usize;
            state.times.drain(..state.times.len() - kept);
        }
    }
}
