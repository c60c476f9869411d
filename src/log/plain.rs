//! An exact log for a single owner, in place: a queue of times.

use super::SlidingLog;
use super::rule::View;
use super::slot::time_bits;
use crate::decision::{Allowed, Denied};
use crate::strategy::{OwnedStrategy, owned};
use crate::time::Timestamp;
use crate::word::Word;

/// What a [`SlidingLog`] keeps for a single owner: `N` words, and where they begin.
#[derive(Clone, Copy, Debug)]
pub struct LogState<const N: usize, W = u64> {
    times: [W; N],
    /// Where the oldest is.
    first: u16,
    len: u16,
}

/// The queue under a limit.
struct Seen<'a, const N: usize, W> {
    state: &'a LogState<N, W>,
    limit: u64,
}

impl<const N: usize, W: Word> View for Seen<'_, N, W> {
    const BITS: u32 = time_bits(N, W::BITS);

    #[inline]
    fn newest(&self) -> Option<u64> {
        self.at(self.limit - 1)
    }

    #[inline]
    fn at(&self, offset: u64) -> Option<u64> {
        let number = offset.checked_sub(self.limit - u64::from(self.state.len))?;
        let time = self.state.times.get(self.state.index(number as usize))?;
        Some(time.widen())
    }
}

impl<const N: usize, W: Word> LogState<N, W> {
    const FRESH: Self = Self {
        times: [W::ZERO; N],
        first: 0,
        len: 0,
    };

    #[inline]
    fn index(&self, number: usize) -> usize {
        let index = usize::from(self.first) + number;
        if index < N { index } else { index - N }
    }

    #[inline]
    fn seen(&self, limit: u64) -> Seen<'_, N, W> {
        Seen { state: self, limit }
    }

    /// Every index is below `N`. The compiler does not know, and so needs no way to panic.
    #[inline]
    fn set(&mut self, index: usize, time: W) {
        if let Some(place) = self.times.get_mut(index) {
            *place = time;
        }
    }

    /// There is room.
    #[inline]
    fn push(&mut self, time: u64) {
        self.set(self.index(usize::from(self.len)), W::truncate(time));
        self.len += 1;
    }

    /// There are so many.
    #[inline]
    fn drop_oldest(&mut self, count: u16) {
        self.first = self.index(usize::from(count)) as u16;
        self.len -= count;
    }

    fn remove(&mut self, number: usize) {
        for number in (0..number).rev() {
            let older = self.times.get(self.index(number)).copied();
            self.set(self.index(number + 1), older.unwrap_or_default());
        }
        self.drop_oldest(1);
    }
}

impl<const N: usize, W: Word> owned::sealed::Sealed for SlidingLog<N, W> {}

impl<const N: usize, W: Word> OwnedStrategy for SlidingLog<N, W> {
    type State = LogState<N, W>;

    #[inline]
    fn fresh(&self) -> LogState<N, W> {
        LogState::FRESH
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.rule.limit
    }

    #[inline]
    fn check_n(
        &self,
        state: &mut LogState<N, W>,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied> {
        let limit = self.rule.limit;
        let admission = self.rule.decide(&state.seen(limit), now, cost)?;
        if cost == 0 {
            return Ok(admission.allowed);
        }
        if admission.on_leftover {
            state.len = 0;
        }
        let room = limit - u64::from(state.len);
        state.drop_oldest(cost.saturating_sub(room) as u16);
        for _ in 0..cost {
            state.push(admission.time);
        }
        Ok(admission.allowed)
    }

    #[inline]
    fn peek_n(&self, state: &LogState<N, W>, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let admission = self.rule.decide(&state.seen(self.rule.limit), now, cost)?;
        Ok(admission.allowed)
    }

    fn refund(&self, state: &mut LogState<N, W>, taken_at: Timestamp, cost: u64) -> bool {
        let limit = self.rule.limit;
        let mut has_changed = false;
        for _ in 0..cost {
            let Some(offset) = self.rule.removable(&state.seen(limit), taken_at) else {
                break;
            };
            state.remove((offset - (limit - u64::from(state.len))) as usize);
            has_changed = true;
        }
        has_changed
    }

    fn idle_after(&self, state: &LogState<N, W>, now: Timestamp) -> core::time::Duration {
        let newest = state.seen(self.rule.limit).newest();
        self.rule.idle_after::<Seen<'_, N, W>>(newest, now)
    }

    fn adopt(&self, old: &Self, state: &mut LogState<N, W>, now: Timestamp) {
        let mut next = LogState::FRESH;
        let seen = state.seen(old.rule.limit);
        for offset in old.rule.used(&seen, self.rule.limit, now) {
            if let Some(time) = seen.at(offset) {
                next.push(self.rule.translated::<Seen<'_, N, W>>(&old.rule, time, now));
            }
        }
        *state = next;
    }
}
