//! Scripts of calls with awkward timestamps and costs, and the player that checks every law after each.

use core::time::Duration;

use tidegate::{Quota, Reason};

use super::model::Answer;
use super::subject::{Kind, Setup};

/// Raw material of a setup; any bytes make one, though a word may refuse it.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    pub kind: u8,
    pub limit: (u8, u64),
    pub period: (u8, u64),
    pub burst: (u8, u64),
    pub start: (u8, u64),
}

/// Raw material of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub when: (u8, u64),
    pub cost: (u8, u64),
    pub what: u8,
}

const SECOND: u64 = 1_000_000_000;

fn limit((class, seed): (u8, u64)) -> u64 {
    let largest = match class % 8 {
        0 | 1 => 3,
        2 | 3 => 10,
        4 => 100,
        5 => 63,
        6 => 100_000,
        _ => return (seed >> (class / 8 % 64)).max(1),
    };
    seed % largest + 1
}

fn period((class, seed): (u8, u64)) -> u64 {
    match class % 12 {
        0 => SECOND,
        1 => 10 * SECOND,
        2 | 3 => 60 * SECOND,
        4 => 3_600 * SECOND,
        5 => 86_400 * SECOND,
        6 => 30 * 86_400 * SECOND,
        7 => seed % 1_000 + 1,
        8 => SECOND + seed % SECOND,
        9 => (seed % 1_000 + 1) * 1_000_000,
        10 => seed % (100 * SECOND) + 1,
        _ => (seed >> (class / 12 % 64)).max(1),
    }
}

impl Knobs {
    pub fn setup(&self) -> Option<Setup> {
        let kind = Kind::ALL[usize::from(self.kind) % Kind::ALL.len()];
        let limit_now = limit(self.limit);
        let quota = Quota::new(limit_now, Duration::from_nanos(period(self.period))).ok()?;
        let burst = match self.burst.0 % 3 {
            0 => limit_now,
            1 => 1,
            _ => limit((self.burst.0 / 3, self.burst.1)),
        };
        Setup::new(kind, quota, burst)
    }

    pub fn start(&self) -> u64 {
        let seed = self.start.1;
        match self.start.0 % 6 {
            0 => 0,
            1 => seed % 1_000,
            // Since 1970, some day of these decades.
            2 => 1_700_000_000 * SECOND + seed % (1 << 58),
            3 => u64::MAX - seed % (1 << 40),
            4 => (1 << 63) - (1 << 20) + seed % (1 << 21),
            _ => seed,
        }
    }
}

struct Taken {
    at: u64,
    cost: u64,
}

/// Plays a script and checks the laws; panics where one is broken.
pub fn play(setup: &mut Setup, start: u64, calls: &[Call]) {
    let mut player = Player {
        setup,
        state: 0,
        now: start,
        newest: start,
        last_wait: 0,
        taken: Vec::new(),
        refunded: 0,
    };
    for call in calls {
        player.call(*call);
    }
}

struct Player<'a> {
    setup: &'a mut Setup,
    state: u64,
    now: u64,
    /// The newest timestamp that was admitted since the last fresh start.
    newest: u64,
    last_wait: u64,
    /// What was admitted since the last fresh start, and how much of it was given back.
    taken: Vec<Taken>,
    refunded: u64,
}

impl Player<'_> {
    fn call(&mut self, call: Call) {
        self.now = self.when(call.when);
        let cost = self.cost(call.cost);
        self.forget_what_may_alias();
        self.notice_jumps();
        match call.what % 8 {
            0 => self.refund(call.cost.1),
            1 => self.peek(cost),
            _ => self.check(cost),
        }
    }

    fn when(&self, (class, seed): (u8, u64)) -> u64 {
        let period = self.setup.quota.period().as_nanos() as u64;
        let permit = period / self.setup.quota.limit();
        let boundary =
            |n: u64| (self.now - self.now % period).saturating_add(n.saturating_mul(period));
        let later = |by: u64| self.now.saturating_add(by);
        match class % 20 {
            0..=3 => self.now,
            4 => later(1),
            5 => later(seed % 1_000),
            6 => later(permit),
            7 => later(permit.saturating_sub(1)),
            8 => later(seed % permit.saturating_add(2)),
            9 | 10 => later(seed % period.saturating_add(2)),
            11 => later(seed % period.saturating_mul(3).saturating_add(2)),
            12 => boundary(1 + seed % 2),
            13 => boundary(1 + seed % 2).saturating_sub(1),
            14 => later(self.last_wait),
            15 => later(self.last_wait.saturating_sub(1)),
            // Late by up to a minute, which every limiter tolerates.
            16 => self
                .newest
                .saturating_sub(seed % (60 * SECOND))
                .min(self.now),
            17 => later(seed >> (class / 20 * 5)),
            18 => self.now.saturating_sub(seed >> (class / 20 * 5)),
            _ => seed,
        }
    }

    fn cost(&self, (class, seed): (u8, u64)) -> u64 {
        let limit = self.setup.burst;
        match class % 12 {
            0 => 0,
            1 => limit,
            2 => limit.saturating_add(1),
            3 => limit / 2,
            4 => seed % limit + 1,
            5 => 2,
            6 => seed,
            7 => u64::MAX,
            _ => 1,
        }
    }

    /// The docs allow a state that is about a whole wrap away to be misread, and tell to sweep before. So
    /// do it, and begin anew.
    fn forget_what_may_alias(&mut self) {
        if self.may_alias(self.now) {
            if let Some(model) = &mut self.setup.model {
                model.reset();
            }
            self.begin_anew();
            self.state = 0;
        }
    }

    fn may_alias(&self, t: u64) -> bool {
        match &self.setup.model {
            Some(model) => model.may_alias(t),
            // Without a model: horizon is a known part of a wrap (1/256 for the narrow word, up to 1/16).
            None => {
                let ratio = if self.setup.subject.payload_bits() == 28 {
                    255
                } else {
                    15
                };
                let safe = self.setup.horizon.as_nanos() * ratio;
                u128::from(self.newest.abs_diff(t)) > safe
            }
        }
    }

    fn begin_anew(&mut self) {
        self.taken.clear();
        self.refunded = 0;
        self.newest = self.now;
    }

    /// Law 8 speaks of lateness that is tolerated, and any limiter tolerates a minute. Beyond, the laws hold
    /// for each side of the jump; and as long as a state of the far side may be near the horizon, only for
    /// single calls.
    fn notice_jumps(&mut self) {
        let late = self.newest.saturating_sub(self.now);
        if late > 60 * SECOND {
            self.taken.clear();
            self.refunded = 0;
        }
        let surely_leftover = (self.setup.horizon + self.setup.quota.period() * 2).as_nanos() * 2;
        if u128::from(late) > surely_leftover {
            self.begin_anew();
        }
    }

    fn check(&mut self, cost: u64) {
        let before = self.state;
        let answer = self.ask(before, self.now, cost);
        if let Some(model) = &mut self.setup.model {
            assert_eq!(answer.1, model.check(self.now, cost), "the exact model");
        }
        if let (Some(next), _) = answer {
            if cost > 0 {
                assert_ne!(next, before, "an admission changes the word");
                assert_ne!(next, 0, "zero is fresh");
                self.taken.push(Taken { at: self.now, cost });
                self.newest = self.newest.max(self.now);
            } else {
                assert_eq!(next, before, "cost 0 changes nothing");
            }
            self.state = next;
        }
        self.last_wait = answer
            .1
            .retry_ns
            .map_or(0, |wait| u64::try_from(wait).unwrap_or(u64::MAX));
        self.never_over();
        self.retry_is_exact(before, cost, &answer.1);
        self.next_is_exact(before, cost);
        self.remaining_is_exact(self.state, &answer.1);
        self.idle_is_fresh();
    }

    fn peek(&mut self, cost: u64) {
        let (next, answer) = self.ask(self.state, self.now, cost);
        self.remaining_is_exact(next.unwrap_or(self.state), &answer);
        self.retry_is_exact(self.state, cost, &answer);
    }

    /// One step, and everything its decision tells.
    fn ask(&self, state: u64, now: u64, cost: u64) -> (Option<u64>, Answer) {
        let limit = self.setup.subject.limit();
        let (next, answer) = match self.setup.subject.step(state, now, cost) {
            Ok((next, allowed)) => (
                Some(next),
                Answer {
                    refused: None,
                    limit: allowed.limit(),
                    remaining: allowed.remaining(),
                    retry_ns: None,
                    reset_ns: allowed.reset_after().as_nanos(),
                },
            ),
            Err(denied) => (
                None,
                Answer {
                    refused: Some(denied.reason()),
                    limit: denied.limit(),
                    remaining: denied.remaining(),
                    retry_ns: denied.retry_after().map(|wait| wait.as_nanos()),
                    reset_ns: denied.reset_after().as_nanos(),
                },
            ),
        };
        assert_eq!(answer.limit, limit);
        assert!(answer.remaining <= limit);
        // Law 6.
        let too_costly = answer.refused == Some(Reason::TooCostly);
        assert_eq!(too_costly, cost > limit, "too costly is never");
        assert_eq!(
            answer.retry_ns.is_some(),
            answer.refused == Some(Reason::Limited)
        );
        (next, answer)
    }

    /// Law 3, and that the wait is never zero.
    fn retry_is_exact(&self, state: u64, cost: u64, answer: &Answer) {
        let Some(wait) = answer.retry_ns else { return };
        assert!(wait > 0, "a wait of nothing");
        let Ok(wait) = u64::try_from(wait) else {
            return;
        };
        let Some(then) = self.now.checked_add(wait) else {
            return;
        };
        // A saturated wait is a lower bound.
        if wait == u64::MAX {
            return;
        }
        assert_eq!(
            self.ask(state, then, cost).1.refused,
            None,
            "denied after the wait it was told, {wait} ns"
        );
        assert_eq!(
            self.ask(state, then - 1, cost).1.refused,
            Some(Reason::Limited),
            "admitted 1 ns before the wait it was told, {wait} ns"
        );
    }

    /// The next permit comes when a request for one more than remain is told to come back, and that is exact.
    fn next_is_exact(&self, state: u64, cost: u64) {
        let step = |cost| self.setup.subject.step(state, self.now, cost);
        let (_, peeked) = step(0).expect("cost 0 passes");
        let one_more = peeked.remaining().saturating_add(1);
        let expected = match step(one_more) {
            Err(denied) => denied.retry_after(),
            Ok(_) => panic!("one more than remaining"),
        };
        assert_eq!(peeked.next_after(), expected);
        if let Err(denied) = step(cost) {
            assert_eq!(denied.next_after(), expected);
        }
    }

    /// Law 4, of an answer and the state that it left behind.
    fn remaining_is_exact(&self, mut state: u64, answer: &Answer) {
        let (now, left) = (self.now, answer.remaining);
        if left > 0 {
            assert!(self.ask(state, now, left).0.is_some(), "all at once");
        }
        for taken in 0..left.min(20) {
            let (next, answer) = self.ask(state, now, 1);
            let next = next.unwrap_or_else(|| panic!("denied after {taken} of {left}"));
            let expected = left - taken - 1;
            if answer.remaining != expected {
                // The one exception that the token bucket's docs make: its full-again time would have been the
                // word 0, which means fresh, and was put off by one unit.
                assert!(
                    matches!(self.setup.kind, Kind::Bucket | Kind::NarrowBucket)
                        && next == 1
                        && answer.remaining + 1 == expected,
                    "{} instead of {expected} left",
                    answer.remaining
                );
                return;
            }
            state = next;
        }
        if left <= 20 {
            assert!(
                self.ask(state, now, 1).1.refused.is_some(),
                "one more than the {left} remaining"
            );
        }
    }

    /// Law 5, and that `idle_after` tells when.
    fn idle_is_fresh(&self) {
        let subject = &self.setup.subject;
        let (state, now) = (self.state, self.now);
        let after = subject.idle_after(state, now);
        assert_eq!(subject.is_idle(state, now), after.is_zero());
        let Ok(after) = u64::try_from(after.as_nanos()) else {
            return;
        };
        // A saturated time is a lower bound.
        let Some(idle_at) = now.checked_add(after).filter(|_| after < u64::MAX) else {
            return;
        };
        // The leftover of a clock that has jumped back counts as idle, until the clock comes near it again.
        if self.newest.saturating_sub(now) > 60 * SECOND {
            return;
        }
        if after > 0 {
            assert!(!subject.is_idle(state, idle_at - 1), "not 1 ns earlier");
        }
        assert!(subject.is_idle(state, idle_at));
        for then in [0, 1, after / 2, after] {
            let then = idle_at.saturating_add(then);
            for cost in [0, 1, self.setup.burst] {
                assert_eq!(
                    self.ask(state, then, cost).1,
                    self.ask(0, then, cost).1,
                    "idle is fresh"
                );
            }
        }
    }

    /// Law 10.
    fn refund(&mut self, seed: u64) {
        let Some(index) = (seed as usize).checked_rem(self.taken.len()) else {
            return;
        };
        let Taken { at, cost } = self.taken[index];
        if self.may_alias(at) {
            return;
        }
        let cost = if seed & 0x100 == 0 {
            cost
        } else {
            cost.div_ceil(2)
        };
        let left = |state| self.ask(state, self.now, 0).1.remaining;
        let before = left(self.state);
        let next = self.setup.subject.refund(self.state, at, cost);
        let after = left(next);
        assert!(after >= before, "a refund takes nothing");
        assert!(after - before <= cost, "at most what was taken");
        if let Some(model) = &mut self.setup.model {
            model.refund(at, cost);
            assert_eq!(model.is_fresh(), next == 0);
        }
        self.state = next;
        self.refunded = self.refunded.saturating_add(cost);
        // It stays in the list, even if nothing is left of it: its timestamp was seen.
        self.taken[index].cost -= cost;
        self.never_over();
    }

    /// Law 1, in every stretch between two admissions, by their timestamps. What was given back may have been
    /// taken again.
    fn never_over(&self) {
        match self.setup.kind {
            Kind::Bucket | Kind::NarrowBucket => self.bucket_never_over(),
            _ => {
                // Nothing can be said of one window's requests once a late one was counted in the next, but
                // for the model. These bounds hold regardless of its definition.
                let in_order = self.taken.is_sorted_by_key(|taken| taken.at);
                if in_order {
                    self.windows_never_over();
                }
            }
        }
    }

    fn bucket_never_over(&self) {
        let quota = self.setup.quota;
        let (limit, period) = (u128::from(quota.limit()), quota.period().as_nanos());
        for first in &self.taken {
            for last in &self.taken {
                let Some(stretch) = last.at.checked_sub(first.at) else {
                    continue;
                };
                let admitted: u128 = self
                    .taken
                    .iter()
                    .filter(|taken| (first.at..=last.at).contains(&taken.at))
                    .map(|taken| u128::from(taken.cost))
                    .sum();
                let above = admitted
                    .saturating_sub(u128::from(self.setup.burst) + u128::from(self.refunded));
                // above <= limit * stretch / period
                let fits = match above.checked_mul(period) {
                    Some(above) => limit
                        .checked_mul(u128::from(stretch))
                        .is_none_or(|allowed| above <= allowed),
                    None => above / limit <= u128::from(stretch) / period + 1,
                };
                assert!(fits, "{admitted} admitted in {stretch} ns");
            }
        }
    }

    fn windows_never_over(&self) {
        let period = self.setup.quota.period().as_nanos() as u64;
        let limit = u128::from(self.setup.quota.limit());
        let within = |from: u64, to: u64| -> u128 {
            self.taken
                .iter()
                .filter(|taken| (from..=to).contains(&taken.at))
                .map(|taken| u128::from(taken.cost))
                .sum()
        };
        for first in &self.taken {
            // No period, wherever it begins, sees more than two limits.
            let any = within(first.at, first.at.saturating_add(period - 1));
            assert!(any <= 2 * limit + u128::from(self.refunded));
            if matches!(self.setup.kind, Kind::Aligned | Kind::NarrowAligned) {
                let start = first.at - first.at % period;
                let one = within(start, start.saturating_add(period - 1));
                assert!(one <= limit + u128::from(self.refunded));
            }
        }
    }
}
