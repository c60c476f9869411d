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

    /// Whether one request passes at `now`; if so, it is remembered, and if not, the error is the nanoseconds
    /// until it would. A time before the newest admission is taken as that admission's.
    pub(crate) fn admit(&self, state: &mut LogState, now: Timestamp) -> Result<(), u64> {
        let asked = now.as_nanos();
        let newest = state.back().copied().unwrap_or(0);
        let now = asked.max(newest);
        while state
            .front()
            .is_some_and(|&oldest| now - oldest >= self.period_ns)
        {
            state.pop_front();
        }
        match state.front() {
            Some(&oldest) if state.len() >= self.limit => {
                Err(oldest.saturating_add(self.period_ns) - asked)
            }
            _ => {
                state.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_open_interval() {
        let log = ExactLog::new("2/10ns".parse().unwrap());
        let mut state = LogState::new();
        let mut admit = |at| log.admit(&mut state, Timestamp::from_nanos(at)).is_ok();
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
        let mut admit = |at| log.admit(&mut state, Timestamp::from_nanos(at)).is_ok();
        assert!(admit(100));
        assert!(admit(1));
        assert!(!admit(109));
        assert!(admit(110));
        assert!(admit(110));
        assert!(!admit(110));
    }

    /// Plays one of the shared list's steps: so many requests at one instant, how many of them pass, and the wait
    /// that the first refused one is told.
    fn play(log: ExactLog, state: &mut LogState, at: u64, repeat: u64) -> (u64, Option<u64>) {
        let mut wait = None;
        let mut admitted = 0;
        for _ in 0..repeat {
            match log.admit(state, Timestamp::from_nanos(at)) {
                Ok(()) => admitted += 1,
                Err(nanos) => {
                    wait.get_or_insert(nanos);
                }
            }
        }
        (admitted, wait)
    }

    const S: u64 = 1_000_000_000;

    /// What broke other exact logs.
    #[test]
    fn facts() {
        let log = |text: &str| (ExactLog::new(text.parse().unwrap()), LogState::new());

        let (hourly, mut state) = log("3/h");
        assert_eq!(play(hourly, &mut state, 0, 4), (3, Some(3_600 * S)));

        let (two, mut state) = log("2/min");
        assert_eq!(play(two, &mut state, 0, 1), (1, None));
        assert_eq!(play(two, &mut state, 10 * S, 1), (1, None));
        assert_eq!(play(two, &mut state, 20 * S, 1), (0, Some(40 * S)));
        // Late by 15 s: so much longer.
        assert_eq!(play(two, &mut state, 5 * S, 1), (0, Some(55 * S)));
        assert_eq!(play(two, &mut state, 60 * S, 2), (1, Some(10 * S)));

        let (sixty, mut state) = log("60/min");
        assert_eq!(play(sixty, &mut state, 0, 60).0, 60);
        for second in 1..60 {
            assert_eq!(play(sixty, &mut state, second * S, 1).0, 0);
        }
        assert_eq!(play(sixty, &mut state, 60 * S, 61).0, 60);

        let (ten, mut state) = log("10/min");
        assert_eq!(play(ten, &mut state, 59_900_000_000, 11).0, 10);
        assert_eq!(
            play(ten, &mut state, 60_100_000_000, 1),
            (0, Some(59_800_000_000))
        );
    }

    /// The shared list, where it is present.
    #[test]
    fn shared_cases() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/cases/cases.json"
        );
        let Ok(text) = std::fs::read_to_string(path) else {
            println!("no shared cases here; the facts above stand for them");
            return;
        };
        let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let mut played = 0;
        for case in &cases {
            let limiter = &case["limiter"];
            if limiter["algorithm"] != "sliding-log" {
                continue;
            }
            let log = ExactLog {
                limit: limiter["limit"].as_u64().unwrap() as usize,
                period_ns: limiter["period_ns"].as_u64().unwrap(),
            };
            let mut state = LogState::new();
            for step in case["steps"].as_array().unwrap() {
                let at = step["at_ns"].as_u64().unwrap();
                let repeat = step["repeat"].as_u64().unwrap_or(1);
                let (admitted, wait) = play(log, &mut state, at, repeat);
                if let Some(wanted) = step["allow"].as_u64() {
                    assert_eq!(admitted, wanted, "{}: {step}", case["id"]);
                }
                if let Some(wanted) = step["retry_after_ns"].as_u64() {
                    assert_eq!(wait, Some(wanted), "{}: {step}", case["id"]);
                }
            }
            played += 1;
        }
        assert!(played >= 5, "only {played} played");
    }
}
