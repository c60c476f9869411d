//! One algorithm and its verdicts.

use anyhow::Result;
use tidegate::Timestamp;

use super::axis::Axis;
use crate::policy::{Kind, Policy};
use crate::replay::Candidate;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admitted,
    /// Admitted, and with it more than the limit in the last period.
    Beyond,
    Refused,
}

/// The most admissions in any one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    pub(crate) count: u64,
    /// The last instant of the first such period.
    pub(crate) at: u64,
}

/// An algorithm, and what it did to each request.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) policy: Policy,
    pub(crate) verdicts: Vec<Verdict>,
    /// When requests were admitted.
    pub(crate) admitted: Vec<u64>,
    pub(crate) most: Most,
    period: u64,
}

/// A stack of marks: so many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) admitted: u64,
    pub(crate) beyond: u64,
    pub(crate) refused: u64,
}

impl Lane {
    /// Plays requests, given in order of time.
    ///
    /// # Errors
    ///
    /// If the algorithm cannot represent the limit.
    pub(crate) fn play(policy: Policy, period: u64, times: &[u64]) -> Result<Self> {
        let mut candidate = Candidate::new(policy, false)?;
        let mut verdicts = Vec::with_capacity(times.len());
        let mut admitted: Vec<u64> = Vec::new();
        let mut most = Most { count: 0, at: 0 };
        // The oldest admission in the last period.
        let mut oldest = 0;
        let mut last = times.first().copied().unwrap_or(0);
        for &time in times {
            let is_admitted = candidate.decide(0, Timestamp::from_nanos(time), time - last);
            last = time;
            if !is_admitted {
                verdicts.push(Verdict::Refused);
                continue;
            }
            admitted.push(time);
            while time - admitted[oldest] >= period {
                oldest += 1;
            }
            let count = (admitted.len() - oldest) as u64;
            if count > most.count {
                most = Most { count, at: time };
            }
            verdicts.push(match count > policy.quota.limit() {
                true => Verdict::Beyond,
                false => Verdict::Admitted,
            });
        }
        Ok(Self {
            policy,
            verdicts,
            admitted,
            most,
            period,
        })
    }

    /// How many requests were refused.
    pub(crate) fn refused(&self) -> u64 {
        (self.verdicts.len() - self.admitted.len()) as u64
    }

    /// Whether some period saw more admissions than the limit.
    pub(crate) fn is_beyond(&self) -> bool {
        self.most.count > self.policy.quota.limit()
    }

    /// The verdicts by the axis' bins.
    pub(crate) fn stacks(&self, times: &[u64], axis: &Axis) -> Vec<Stack> {
        let mut stacks = vec![Stack::default(); axis.len()];
        for (&time, verdict) in times.iter().zip(&self.verdicts) {
            let Some(bin) = axis.bin(time) else { continue };
            let stack = &mut stacks[bin];
            match verdict {
                Verdict::Admitted => stack.admitted += 1,
                Verdict::Beyond => stack.beyond += 1,
                Verdict::Refused => stack.refused += 1,
            }
        }
        stacks
    }

    /// The most admissions in the period up to any instant of each column, of which `place` tells the one that
    /// holds a time, and `None` beyond the last.
    pub(crate) fn running(&self, columns: usize, place: impl Fn(u64) -> Option<usize>) -> Vec<u64> {
        let mut most = vec![0; columns];
        let mut column = 0;
        let mut count = 0_u64;
        let mut leaving = self.admitted.iter().peekable();
        let mut coming = self.admitted.iter().peekable();
        loop {
            // An admission leaves a period after it came: then it counts no more, and so before any that come.
            let leave = leaving
                .peek()
                .and_then(|time| time.checked_add(self.period));
            let come = coming.peek().map(|time| **time);
            let (time, is_coming) = match (leave, come) {
                (Some(leave), Some(come)) if leave <= come => (leave, false),
                (_, Some(come)) => (come, true),
                (Some(leave), None) => (leave, false),
                (None, None) => break,
            };
            let Some(at) = place(time) else { break };
            while column < at {
                column += 1;
                most[column] = count;
            }
            if is_coming {
                coming.next();
                count += 1;
            } else {
                leaving.next();
                count -= 1;
            }
            most[column] = most[column].max(count);
        }
        for later in most.iter_mut().skip(column + 1) {
            *later = count;
        }
        most
    }

    /// Where this algorithm's own windows begin, if they differ from everybody's.
    pub(crate) fn own_windows(&self) -> Vec<u64> {
        let mut begins: Vec<u64> = Vec::new();
        if self.policy.kind == Kind::FixedWindowAnchored {
            for &time in &self.admitted {
                if begins
                    .last()
                    .is_none_or(|begin| time - begin >= self.period)
                {
                    begins.push(time);
                }
            }
        }
        begins
    }
}

impl Stack {
    /// The marks of this stack, if each stands for up to `per` requests.
    pub(crate) fn marks(self, per: u64) -> Self {
        Self {
            admitted: self.admitted.div_ceil(per),
            beyond: self.beyond.div_ceil(per),
            refused: self.refused.div_ceil(per),
        }
    }

    /// How high it is.
    pub(crate) fn height(self) -> u64 {
        self.admitted + self.beyond + self.refused
    }

    /// From the bottom to the top.
    pub(crate) fn verdicts(self) -> impl Iterator<Item = Verdict> {
        let of = |verdict, count: u64| core::iter::repeat_n(verdict, count as usize);
        of(Verdict::Admitted, self.admitted)
            .chain(of(Verdict::Beyond, self.beyond))
            .chain(of(Verdict::Refused, self.refused))
    }
}

/// How many requests a mark must stand for, lest a stack be higher than so many; a round number. And how high
/// they are then.
pub(crate) fn marks(lanes: &[Vec<Stack>], height_max: u64) -> (u64, u64) {
    let highest = |per: u64| {
        let stacks = lanes.iter().flatten();
        stacks
            .map(|stack| stack.marks(per).height())
            .max()
            .unwrap_or(0)
    };
    let round = (0..18).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    for per in round {
        let height = highest(per);
        if height <= height_max {
            return (per, height);
        }
    }
    (u64::MAX, highest(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lane(kind: Kind, limit: &str, times: &[u64]) -> Lane {
        let quota = limit.parse().unwrap();
        let policy = Policy {
            kind,
            quota,
            burst: None,
        };
        Lane::play(policy, super::super::traffic::period_of(quota), times).unwrap()
    }

    #[test]
    fn the_count_follows_each_admission() {
        // 2 in 100 ns: windows admit at 98, 99, 100 and 101, and the fifth not.
        let lane = lane(Kind::FixedWindow, "2/100ns", &[98, 99, 100, 101, 102]);
        use Verdict::{Admitted, Beyond, Refused};
        assert_eq!(lane.verdicts, [Admitted, Admitted, Beyond, Beyond, Refused]);
        assert_eq!(lane.most, Most { count: 4, at: 101 });
        assert_eq!((lane.admitted.len(), lane.refused()), (4, 1));
        let axis = Axis::new(100, 0, 300, 300);
        assert_eq!(axis.len(), 300);
        let running = lane.running(300, |time| axis.bin(time));
        assert_eq!(running[97..102], [0, 1, 2, 3, 4]);
        // They leave at 198, 199, 200 and 201; each column shows the most that it saw.
        assert_eq!(running[196..204], [4, 4, 4, 3, 2, 1, 0, 0]);
        assert_eq!(running[299], 0);
    }

    #[test]
    fn own_windows_begin_with_an_admission() {
        let times = [50, 120, 149, 150, 151, 152, 260];
        let anchored = lane(Kind::FixedWindowAnchored, "2/100ns", &times);
        assert_eq!(anchored.own_windows(), [50, 150, 260]);
        assert!(
            lane(Kind::FixedWindow, "2/100ns", &times)
                .own_windows()
                .is_empty()
        );
    }

    #[test]
    fn marks_are_as_few_as_must_be() {
        let stack = |admitted, beyond, refused| Stack {
            admitted,
            beyond,
            refused,
        };
        let lanes = [vec![stack(4, 0, 0), stack(1, 1, 1)], vec![stack(0, 0, 4)]];
        assert_eq!(marks(&lanes, 4), (1, 4));
        assert_eq!(marks(&lanes, 3), (2, 3));
        assert_eq!(marks(&[vec![stack(800, 7, 0)]], 8), (200, 5));
        assert_eq!(stack(3, 1, 2).marks(2), stack(2, 1, 1));
        let order: Vec<Verdict> = stack(1, 1, 1).verdicts().collect();
        assert_eq!(
            order,
            [Verdict::Admitted, Verdict::Beyond, Verdict::Refused]
        );
    }

    proptest! {
        /// Against counting by hand, at each instant.
        #[test]
        fn counts_are_exact(
            mut times in proptest::collection::vec(0_u64..400, 1..80),
            limit in 1_u64..6,
            kind in proptest::sample::select(Kind::ALL.to_vec()),
        ) {
            times.sort_unstable();
            let lane = lane(kind, &format!("{limit}/50ns"), &times);
            let count = |now: u64| {
                let in_period = |time: &&u64| **time <= now && now - **time < 50;
                lane.admitted.iter().filter(in_period).count() as u64
            };
            prop_assert_eq!(lane.most.count, (0..500).map(count).max().unwrap());
            prop_assert_eq!(count(lane.most.at), lane.most.count);
            // A column an instant: what was there, and what has come.
            let running = lane.running(500, |time| (time < 500).then_some(time as usize));
            for (now, most) in (0_u64..).zip(running) {
                let before = if now == 0 { 0 } else { count(now - 1) };
                let leaves = lane.admitted.iter().any(|time| time + 50 == now);
                let comes = lane.admitted.contains(&now);
                match leaves || comes {
                    true => prop_assert_eq!(most, before.max(count(now)), "{}", now),
                    false => prop_assert_eq!(most, before, "{}", now),
                }
            }
            let beyond = lane.verdicts.contains(&Verdict::Beyond);
            prop_assert_eq!(beyond, lane.is_beyond());
            // The log's promise.
            prop_assert!(kind != Kind::SlidingLog || lane.most.count <= limit);
        }
    }
}
