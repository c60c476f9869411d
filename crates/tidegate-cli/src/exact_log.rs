//! The exact sliding log: remembers each of the last `limit` admissions.
//!
//! For one owner, on the heap.

use std::collections::VecDeque;

use tidegate::{Quota, Timestamp};

/// Admits if fewer than `limit` admissions lie in `(t - period, t]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExactLog {
    limit: usize,
    period_ns: u64,
}

/// One key's admissions, oldest first; at most `limit`, and none when fresh.
pub(crate) type LogState = VecDeque<u64>;

impl ExactLog {
    /// A log that admits what the quota says.
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            limit: usize::try_from(quota.limit()).unwrap_or(usize::MAX),
            period_ns: Timestamp::from_duration(quota.period()).as_nanos(),
        }
    }

    /// Whether one request passes at `now`; if so, it is remembered. A time before the newest admission is
    /// taken as that admission's.
    pub(crate) fn admit(&self, state: &mut LogState, now: Timestamp) -> bool {
        let newest = state.back().copied().unwrap_or(0);
        let now = now.as_nanos().max(newest);
        while state
            .front()
            .is_some_and(|&oldest| now - oldest >= self.period_ns)
        {
            state.pop_front();
        }
        if state.len() >= self.limit {
            return false;
        }
        state.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_open_interval() {
        let log = ExactLog::new("2/10ns".parse().unwrap());
        let mut state = LogState::new();
        let mut admit = |at| log.admit(&mut state, Timestamp::from_nanos(at));
        assert!(admit(5));
        assert!(admit(10));
        assert!(!admit(14));
        // 5 is out of (5, 15].
        assert!(admit(15));
        assert!(!admit(19));
        // Late: counts as 15.
        assert!(!admit(3));
        assert!(admit(20));
    }

    #[test]
    fn a_late_admission_is_dated_to_the_newest() {
        let log = ExactLog::new("2/10ns".parse().unwrap());
        let mut state = LogState::new();
        let mut admit = |at| log.admit(&mut state, Timestamp::from_nanos(at));
        assert!(admit(100));
        assert!(admit(1));
        assert!(!admit(109));
        assert!(admit(110));
        assert!(admit(110));
        assert!(!admit(110));
    }
}
