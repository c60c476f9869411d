//! Inputs that broke other limiters, with the right answers, compiled into the image.

use core::time::Duration;

use tidegate::{
    ConfigError, FixedWindow, OwnedStrategy, Quota, Reason, SlidingLog, SlidingWindow, Timestamp,
    TokenBucket,
};

use Kind::{
    Anchored, FixedWindow as Fixed, SlidingLog as Log, SlidingWindow as Sliding,
    TokenBucket as Bucket,
};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const DAY: u64 = 86_400 * S;

/// Which limiter a case is for.
#[derive(Clone, Copy)]
enum Kind {
    TokenBucket,
    FixedWindow,
    Anchored,
    SlidingWindow,
    SlidingLog,
}

/// What happens to one fresh limiter.
struct Case {
    name: &'static str,
    kind: Kind,
    limit: u64,
    period: u64,
    burst: u64,
    /// How often the steps are gone through.
    rounds: u32,
    steps: &'static [Step],
    /// Admissions over all of it.
    at_most: Option<u64>,
}

const fn case(
    name: &'static str,
    kind: Kind,
    limit: u64,
    period: u64,
    steps: &'static [Step],
) -> Case {
    Case {
        name,
        kind,
        limit,
        period,
        burst: limit,
        rounds: 1,
        steps,
        at_most: None,
    }
}

impl Case {
    const fn with_burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    const fn rounds(self, rounds: u32) -> Self {
        Self { rounds, ..self }
    }

    const fn at_most(self, admissions: u64) -> Self {
        let at_most = Some(admissions);
        Self { at_most, ..self }
    }
}

/// Requests of one cost, so many, so far apart, and what must come of them, where it matters.
#[derive(Clone, Copy)]
struct Step {
    at: u64,
    cost: u64,
    times: u64,
    every: u64,
    admits: Option<u64>,
    /// Of the first denial.
    reason: Option<Reason>,
    /// Of the first denial.
    retry: Option<u64>,
    /// After the last request.
    leaves: Option<u64>,
}

const fn at(at: u64) -> Step {
    Step {
        at,
        cost: 1,
        times: 1,
        every: 0,
        admits: None,
        reason: None,
        retry: None,
        leaves: None,
    }
}

impl Step {
    const fn of(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    const fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    const fn every(self, every: u64) -> Self {
        Self { every, ..self }
    }

    const fn admits(self, admissions: u64) -> Self {
        let admits = Some(admissions);
        Self { admits, ..self }
    }

    const fn because(self, reason: Reason) -> Self {
        let reason = Some(reason);
        Self { reason, ..self }
    }

    const fn retry(self, nanos: u64) -> Self {
        let retry = Some(nanos);
        Self { retry, ..self }
    }

    const fn leaves(self, remaining: u64) -> Self {
        let leaves = Some(remaining);
        Self { leaves, ..self }
    }
}

#[rustfmt::skip]
static CASES: &[Case] = &[
    case("late-stamp-no-double-credit", Bucket, 1_000, S, &[at(100 * MS).times(9).admits(9), at(0), at(100 * MS).times(3)]).with_burst(10).at_most(10),
    case("alternating-stamps", Bucket, 1_000, S, &[at(100 * MS), at(90 * MS)]).with_burst(10).rounds(20).at_most(20),
    case("late-stamp-recovers", Bucket, 10, S, &[at(S).times(5).admits(5), at(300 * MS), at(S).admits(1)]).at_most(10),
    case("first-call-at-zero", Log, 3, 3_600 * S, &[at(0).times(4).admits(3).retry(3_600 * S)]),
    case("long-idle-does-not-go-negative", Bucket, 1_000_000, DAY, &[at(0).of(1_000_000).admits(1), at(43_200 * S).of(500_000).admits(1), at(43_200 * S).admits(0)]),
    case("idle-for-a-week", Bucket, 10, S, &[at(0).times(10).admits(10), at(7 * DAY).times(11).admits(10)]),
    case("idle-for-ten-years", Bucket, 100, 60 * S, &[at(5 * S).times(100).admits(100), at(3_650 * DAY).times(101).admits(100).retry(600 * MS)]),
    case("large-limit", Bucket, 980_000_000, 10 * S, &[at(0).of(980_000_000).admits(1), at(10 * S).of(980_000_000).admits(1), at(10 * S).admits(0)]),
    case("faster-than-one-per-nanosecond", Bucket, 1_000_000_001, S, &[at(0).of(1_000_000_001).admits(1), at(0).admits(0), at(2).admits(1)]),
    case("rate-not-a-whole-number-of-ms", Bucket, 120_000, 60 * S, &[at(0).times(2).admits(1).retry(500_000), at(500_000).times(2).admits(1)]).with_burst(1),
    case("polling-does-not-lose-the-fraction", Bucket, 10, S, &[at(0).times(10).admits(10), at(MS).times(99).every(MS).admits(0), at(100 * MS).times(2).admits(1)]),
    case("three-per-ten-seconds-is-exact", Bucket, 3, 10 * S, &[at(0).times(4).admits(3).retry(3_333_333_334), at(3_333_333_333).admits(0).retry(1), at(3_333_333_334).admits(1), at(10 * S).times(2).admits(2), at(10 * S).admits(0)]),
    case("wait-never-rounds-to-zero", Bucket, 3, 1, &[at(0).times(2).admits(1).retry(1)]).with_burst(1),
    case("retry-after-is-the-remainder", Anchored, 5, 60 * S, &[at(0).times(5).admits(5), at(2 * S).admits(0).retry(58 * S)]),
    case("log-resets-from-the-oldest", Log, 2, 60 * S, &[at(0).admits(1), at(10 * S).admits(1), at(20 * S).admits(0).retry(40 * S), at(60 * S).times(2).admits(1)]),
    case("cost-above-burst-is-never", Bucket, 3, S, &[at(0).of(4).admits(0).because(Reason::TooCostly), at(0).of(3).admits(1)]),
    case("cost-of-exactly-the-burst", Bucket, 10, S, &[at(0).of(11).admits(0).because(Reason::TooCostly), at(0).of(10).admits(1), at(0).admits(0).because(Reason::Limited).retry(100 * MS)]),
    case("no-spurious-extra", Bucket, 1_200, 60 * S, &[at(0).times(1_200).admits(1_200), at(250 * MS).times(6).admits(5)]),
    case("token-bucket-first-period", Bucket, 60, 60 * S, &[at(0).times(60).admits(60), at(S).times(59).every(S).admits(59)]),
    case("sliding-log-first-period", Log, 60, 60 * S, &[at(0).times(60).admits(60), at(S).times(59).every(S).admits(0)]),
    case("denials-are-not-counted", Log, 2, 10 * S, &[at(0).admits(1), at(S).admits(1), at(2 * S).times(8).every(S).admits(0), at(10 * S).admits(1)]),
    case("limit-one-sliding-window", Sliding, 1, 60 * S, &[at(59 * S).admits(1), at(61 * S).admits(0), at(119 * S).admits(0), at(120 * S).admits(1)]),
    case("limit-one-on-a-fresh-key", Sliding, 1, 10 * S, &[at(3 * S).admits(1)]),
    case("remaining-counts-the-previous-window", Sliding, 100, 60 * S, &[at(30 * S).times(50).admits(50), at(66 * S).times(10).admits(10).leaves(45)]),
    case("previous-window-forgotten-after-two", Sliding, 10, S, &[at(500 * MS).times(10).admits(10), at(2_600 * MS).times(11).admits(10)]),
    case("anchored-window-is-not-renewed", Anchored, 5, 60 * S, &[at(0).times(4).every(15 * S).admits(4), at(59 * S).admits(1), at(59 * S).admits(0), at(60 * S).admits(1)]),
    case("idle-credit-is-capped", Bucket, 1, S, &[at(0).admits(1), at(30 * S).times(2).admits(1)]),
    case("thirty-day-window", Anchored, 2, 30 * DAY, &[at(0).times(2).admits(2), at(30 * DAY - 1).admits(0).retry(1), at(30 * DAY).admits(1)]),
    case("many-in-one-clock-tick", Bucket, 5_000, S, &[at(7 * MS).times(6).admits(5).retry(200_000)]).with_burst(5),
    case("boundary-burst-fixed-window", Fixed, 10, 60 * S, &[at(59_900 * MS).times(11).admits(10), at(60_100 * MS).times(11).admits(10)]),
    case("boundary-burst-sliding-log", Log, 10, 60 * S, &[at(59_900 * MS).times(11).admits(10), at(60_100 * MS).admits(0).retry(59_800 * MS)]),
    case("three-in-ten-seconds-every-two", Anchored, 3, 10 * S, &[at(0).times(3).every(2 * S).admits(3), at(6 * S).admits(0).retry(4 * S), at(8 * S).admits(0).retry(2 * S), at(10 * S).times(3).every(2 * S).admits(3), at(16 * S).admits(0), at(18 * S).admits(0)]),
];

/// What a run over all cases came to.
#[derive(Default)]
pub struct Summary {
    pub cases: u32,
    /// Each word in which a case was played.
    pub played: u32,
    pub failed: u32,
}

/// Plays every case in 64-bit words, which any core can hold in ordinary memory, and where the narrow word can hold the
/// limits, in that as well. What is rounded there never admits more than the exact one.
pub fn play_all(mut report: impl FnMut(&str, Mistake)) -> Summary {
    let mut summary = Summary::default();
    for case in CASES {
        summary.cases += 1;
        match case.play_in_both() {
            Ok(played) => summary.played += played,
            Err(mistake) => {
                summary.failed += 1;
                report(case.name, mistake);
            }
        }
    }
    summary
}

/// What went wrong.
#[derive(Debug)]
pub enum Mistake {
    /// The limits were refused.
    Limits,
    /// This step came out otherwise.
    Step(usize),
    /// Too many were admitted over all.
    Total,
    /// More than in the wide word.
    Narrow,
}

/// Whether a word keeps to the case's answers, or to no more admissions than those.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    Exact,
    Rounded,
}

use Precision::{Exact, Rounded};

impl Case {
    /// In how many words the case was played.
    fn play_in_both(&self) -> Result<u32, Mistake> {
        let quota = Quota::new(self.limit, Duration::from_nanos(self.period));
        let quota = quota.map_err(|_| Mistake::Limits)?;
        let burst = self.burst;
        match self.kind {
            Kind::TokenBucket => {
                let narrow = TokenBucket::try_narrow_with_burst(quota, burst);
                self.compare(
                    TokenBucket::try_new_with_burst(quota, burst),
                    narrow,
                    Rounded,
                )
            }
            Kind::FixedWindow => {
                let narrow = FixedWindow::try_narrow(quota);
                self.compare(FixedWindow::try_new(quota), narrow, Exact)
            }
            Kind::Anchored => {
                let narrow = FixedWindow::try_narrow_anchored(quota);
                self.compare(FixedWindow::try_anchored(quota), narrow, Rounded)
            }
            Kind::SlidingWindow => {
                let narrow = SlidingWindow::try_narrow(quota);
                self.compare(SlidingWindow::try_new(quota), narrow, Exact)
            }
            Kind::SlidingLog => {
                let narrow = SlidingLog::<64, u32>::try_narrow(quota);
                self.compare(SlidingLog::<64>::try_new(quota), narrow, Rounded)
            }
        }
    }

    fn compare<A: OwnedStrategy, B: OwnedStrategy>(
        &self,
        wide: Result<A, ConfigError>,
        narrow: Result<B, ConfigError>,
        precision: Precision,
    ) -> Result<u32, Mistake> {
        let wide = wide.map_err(|_| Mistake::Limits)?;
        let most = self.play(&wide, Exact)?;
        let Ok(narrow) = narrow else {
            return Ok(1);
        };
        if self.play(&narrow, precision)? > most {
            return Err(Mistake::Narrow);
        }
        Ok(2)
    }

    /// How many were admitted.
    fn play<A: OwnedStrategy>(&self, limits: &A, precision: Precision) -> Result<u64, Mistake> {
        let mut state = limits.fresh();
        let mut total = 0;
        for _ in 0..self.rounds {
            for (index, step) in self.steps.iter().enumerate() {
                let admitted = step.play(limits, &mut state, precision);
                total += admitted.ok_or(Mistake::Step(index))?;
            }
        }
        match self.at_most {
            Some(most) if total > most => Err(Mistake::Total),
            _ => Ok(total),
        }
    }
}

impl Step {
    /// How many were admitted; none if that or something else is not as it must be.
    fn play<A: OwnedStrategy>(
        &self,
        limits: &A,
        state: &mut A::State,
        precision: Precision,
    ) -> Option<u64> {
        let mut admitted = 0;
        let mut denied = None;
        let mut remaining = 0;
        for request in 0..self.times {
            let now = Timestamp::from_nanos(self.at + request * self.every);
            match limits.check_n(state, now, self.cost) {
                Ok(allowed) => {
                    // At one instant, those admitted are the first.
                    if self.every == 0 && denied.is_some() {
                        return None;
                    }
                    admitted += 1;
                    remaining = allowed.remaining();
                }
                Err(refusal) => {
                    remaining = refusal.remaining();
                    denied.get_or_insert(refusal);
                }
            }
        }
        let is_right = |wanted: Option<u64>, found: u64| wanted.is_none_or(|it| it == found);
        let retry = denied.as_ref().and_then(|it| it.retry_after());
        let retry = retry.map_or(0, |wait| wait.as_nanos() as u64);
        let reason = denied.as_ref().map(|it| it.reason());
        let as_told = is_right(self.admits, admitted)
            && is_right(self.retry, retry)
            && is_right(self.leaves, remaining)
            && (self.reason.is_none() || self.reason == reason);
        (as_told || precision == Rounded).then_some(admitted)
    }
}
