//! Inputs that broke other limiters, with the right answers: as facts of our own, and from the shared list
//! where that is present.

mod common;

use core::time::Duration;

use common::subject::{Kind, Setup};
use serde_json::Value;
use tidegate::{Allowed, Denied, Limiter, OwnedStrategy, Quota, Reason, SlidingLog, Timestamp};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const DAY: u64 = 86_400 * S;

/// `repeat` requests of `cost` at one instant, and what must come of them, where it matters.
#[derive(Clone, Debug)]
struct Step {
    at: u64,
    cost: u64,
    repeat: u64,
    admitted: Option<u64>,
    reason: Option<Reason>,
    retry_ns: Option<u64>,
    remaining: Option<u64>,
}

fn at(at: u64) -> Step {
    Step {
        at,
        cost: 1,
        repeat: 1,
        admitted: None,
        reason: None,
        retry_ns: None,
        remaining: None,
    }
}

impl Step {
    fn of(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    fn times(self, repeat: u64) -> Self {
        Self { repeat, ..self }
    }

    fn admits(self, admitted: u64) -> Self {
        Self {
            admitted: Some(admitted),
            ..self
        }
    }

    fn retry(self, nanos: u64) -> Self {
        Self {
            retry_ns: Some(nanos),
            ..self
        }
    }

    fn because(self, reason: Reason) -> Self {
        Self {
            reason: Some(reason),
            ..self
        }
    }

    fn leaves(self, remaining: u64) -> Self {
        Self {
            remaining: Some(remaining),
            ..self
        }
    }
}

/// Plays the steps on one fresh limiter.
fn play(name: &str, setup: &Setup, steps: &[Step], at_most: Option<u64>) {
    let mut state = 0;
    let name = format!("{name} {:?}", setup.kind);
    play_on(&name, steps, at_most, |at, cost| {
        let (next, allowed) = setup.subject.step(state, at, cost)?;
        state = next;
        Ok(allowed)
    });
}

/// Plays the steps on fresh logs: one that threads share, and those of a single owner.
fn log(name: &str, limit: u64, period: u64, steps: &[Step], at_most: Option<u64>) {
    /// At least the largest limit of a case.
    const N: usize = 128;
    let quota = Quota::new(limit, Duration::from_nanos(period)).unwrap();
    let log = SlidingLog::<N>::try_new(quota).unwrap();
    let shared = Limiter::new(log);
    play_on(&format!("{name} shared"), steps, at_most, |at, cost| {
        shared.check_n(Timestamp::from_nanos(at), cost)
    });
    let mut owned = log.fresh();
    play_on(&format!("{name} owned"), steps, at_most, |at, cost| {
        log.check_n(&mut owned, Timestamp::from_nanos(at), cost)
    });
    #[cfg(feature = "alloc")]
    {
        let log = tidegate::VecLog::try_new(quota).unwrap();
        let mut state = log.fresh();
        play_on(
            &format!("{name} on the heap"),
            steps,
            at_most,
            |at, cost| log.check_n(&mut state, Timestamp::from_nanos(at), cost),
        );
    }
}

fn play_on(
    name: &str,
    steps: &[Step],
    at_most: Option<u64>,
    mut check: impl FnMut(u64, u64) -> Result<Allowed, Denied>,
) {
    let mut total = 0;
    for (index, step) in steps.iter().enumerate() {
        let place = format!("{name}, step {index}: {step:?}");
        let mut admitted = 0;
        let mut denied = None;
        let mut remaining = 0;
        for _ in 0..step.repeat {
            match check(step.at, step.cost) {
                Ok(allowed) => {
                    assert!(denied.is_none(), "{place}: admitted after a denial");
                    admitted += 1;
                    remaining = allowed.remaining();
                }
                Err(error) => {
                    remaining = error.remaining();
                    denied.get_or_insert(error);
                }
            }
        }
        total += admitted;
        if let Some(wanted) = step.admitted {
            assert_eq!(admitted, wanted, "{place}");
        }
        if let Some(wanted) = step.reason {
            assert_eq!(denied.map(|it| it.reason()), Some(wanted), "{place}");
        }
        if let Some(wanted) = step.retry_ns {
            let retry = denied.and_then(|it| it.retry_after());
            assert_eq!(retry, Some(Duration::from_nanos(wanted)), "{place}");
        }
        if let Some(wanted) = step.remaining {
            assert_eq!(remaining, wanted, "{place}");
        }
    }
    if let Some(at_most) = at_most {
        assert!(
            total <= at_most,
            "{name}: {total} admitted, {at_most} at most"
        );
    }
}

fn setup(kind: Kind, limit: u64, period: u64, burst: u64) -> Setup {
    let quota = Quota::new(limit, Duration::from_nanos(period)).unwrap();
    Setup::new(kind, quota, burst).unwrap()
}

/// A token bucket in a 64-bit word.
fn bucket(name: &str, limit: u64, period: u64, burst: u64, steps: &[Step]) {
    play(
        name,
        &setup(Kind::Bucket, limit, period, burst),
        steps,
        None,
    );
}

/// Windows, in both words: they are exact in both.
fn windows(name: &str, kinds: [Kind; 2], limit: u64, period: u64, steps: &[Step]) {
    for kind in kinds {
        play(name, &setup(kind, limit, period, limit), steps, None);
    }
}

#[test]
fn time_goes_backwards() {
    for kind in [Kind::Bucket, Kind::NarrowBucket] {
        let fast = setup(kind, 100, S, 10);
        let steps = [
            at(100 * MS).times(9).admits(9),
            at(0),
            at(100 * MS).times(3),
        ];
        play("a late stamp earns nothing", &fast, &steps, Some(10));

        let alternating: Vec<_> = (0..40).map(|n| at((100 - n % 2 * 10) * MS)).collect();
        play("back and forth", &fast, &alternating, Some(11));
    }
    bucket(
        "the state was not rewound",
        10,
        S,
        10,
        &[at(S).times(5).admits(5), at(300 * MS), at(S).admits(1)],
    );
}

#[test]
fn sums_do_not_overflow() {
    bucket(
        "a million a day",
        1_000_000,
        DAY,
        1_000_000,
        &[
            at(0).of(1_000_000).admits(1),
            at(DAY / 2).of(500_000).admits(1),
            at(DAY / 2).admits(0),
        ],
    );
    bucket(
        "ten years later",
        100,
        60 * S,
        100,
        &[
            at(5 * S).times(100).admits(100),
            at(3_650 * DAY).times(101).admits(100).retry(600 * MS),
        ],
    );
    bucket(
        "nearly a thousand million",
        980_000_000,
        10 * S,
        980_000_000,
        &[
            at(0).of(980_000_000).admits(1),
            at(10 * S).of(980_000_000).admits(1),
            at(10 * S).admits(0),
        ],
    );
    let anchored = [Kind::Anchored; 2];
    windows(
        "thirty days exceed a 32-bit count of milliseconds",
        anchored,
        2,
        30 * DAY,
        &[
            at(0).times(2).admits(2),
            at(30 * DAY - 1).admits(0).retry(1),
            at(30 * DAY).admits(1),
        ],
    );
}

#[test]
fn nothing_is_rounded_away() {
    bucket(
        "more than one a nanosecond",
        1_000_000_001,
        S,
        1_000_000_001,
        &[
            at(0).of(1_000_000_001).admits(1),
            at(0).admits(0),
            at(2).admits(1),
        ],
    );
    bucket(
        "half a millisecond each",
        120_000,
        60 * S,
        1,
        &[
            at(0).times(2).admits(1).retry(500_000),
            at(500_000).times(2).admits(1),
        ],
    );
    bucket(
        "a third of 10 s each",
        3,
        10 * S,
        3,
        &[
            at(0).times(4).admits(3).retry(3_333_333_334),
            at(3_333_333_333).admits(0).retry(1),
            at(3_333_333_334).admits(1),
            at(10 * S).times(2).admits(2),
            at(10 * S).admits(0),
        ],
    );
    bucket(
        "a wait is never nothing",
        3,
        1,
        1,
        &[at(0).times(2).admits(1).retry(1)],
    );
    let mut polling = vec![at(0).times(10).admits(10)];
    polling.extend((1..100).map(|ms| at(ms * MS).admits(0)));
    polling.push(at(100 * MS).admits(1));
    bucket("polling loses no fraction", 10, S, 10, &polling);
    bucket(
        "a coarse clock",
        5_000,
        S,
        5,
        &[at(7 * MS).times(6).admits(5).retry(200_000)],
    );
}

#[test]
fn bursts_and_costs() {
    bucket(
        "above the burst is never",
        3,
        S,
        3,
        &[
            at(0).of(4).admits(0).because(Reason::TooCostly),
            at(0).of(3).admits(1),
            at(0).admits(0).because(Reason::Limited).retry(333_333_334),
        ],
    );
    bucket(
        "five come back in a quarter of a second",
        1_200,
        60 * S,
        1_200,
        &[
            at(0).times(1_200).admits(1_200),
            at(250 * MS).times(6).admits(5),
        ],
    );
    let mut first_period = vec![at(0).times(60).admits(60)];
    first_period.extend((1..60).map(|second| at(second * S).admits(1)));
    bucket("burst and refill", 60, 60 * S, 60, &first_period);
    bucket(
        "idle credit is capped",
        1,
        S,
        1,
        &[at(0).admits(1), at(30 * S).times(2).admits(1)],
    );
}

#[test]
fn sliding_windows_are_not_truncated() {
    let sliding = [Kind::Sliding, Kind::NarrowSliding];
    windows(
        "limit one",
        sliding,
        1,
        60 * S,
        &[
            at(59 * S).admits(1),
            at(61 * S).admits(0),
            at(119 * S).admits(0).retry(S),
            at(120 * S).admits(1),
        ],
    );
    windows(
        "limit one, fresh",
        sliding,
        1,
        10 * S,
        &[at(3 * S).admits(1)],
    );
    windows(
        "the previous window counts",
        [Kind::Sliding; 2],
        100,
        60 * S,
        &[
            at(30 * S).times(50).admits(50),
            at(66 * S).times(10).admits(10).leaves(45),
        ],
    );
    windows(
        "forgotten after two",
        sliding,
        10,
        S,
        &[
            at(500 * MS).times(10).admits(10),
            at(2_600 * MS).times(11).admits(10),
        ],
    );
}

#[test]
fn windows_begin_and_end_when_they_should() {
    windows(
        "what is left of the window",
        [Kind::Anchored; 2],
        5,
        60 * S,
        &[at(0).times(5).admits(5), at(2 * S).admits(0).retry(58 * S)],
    );
    let renewed = [0, 15, 30, 45, 59].map(|second| at(second * S).admits(1));
    let mut steps = renewed.to_vec();
    steps.extend([at(59 * S).admits(0), at(60 * S).admits(1)]);
    windows(
        "requests do not renew it",
        [Kind::Anchored; 2],
        5,
        60 * S,
        &steps,
    );
    windows(
        "three in ten seconds, one every two",
        [Kind::Anchored; 2],
        3,
        10 * S,
        &[
            at(0).admits(1),
            at(2 * S).admits(1),
            at(4 * S).admits(1),
            at(6 * S).admits(0).retry(4 * S),
            at(8 * S).admits(0).retry(2 * S),
            at(10 * S).times(3).admits(3),
            at(16 * S).admits(0),
        ],
    );
}

/// With 10 per minute: 10 just before a boundary, and one just after.
#[test]
fn the_boundary_burst() {
    let burst = [
        at(59_900 * MS).times(11).admits(10),
        at(60_100 * MS).times(1).admits(1),
    ];
    let aligned = [Kind::Aligned, Kind::NarrowAligned];
    windows("admitted, by design", aligned, 10, 60 * S, &burst);
    let refused = [burst[0].clone(), at(60_100 * MS).times(1).admits(0)];
    let sliding = [Kind::Sliding, Kind::NarrowSliding];
    windows("refused", sliding, 10, 60 * S, &refused);
    for kind in [Kind::Bucket, Kind::NarrowBucket] {
        play("refused", &setup(kind, 10, 60 * S, 10), &refused, None);
    }
}

#[test]
fn logs_are_exact() {
    log(
        "three an hour",
        3,
        3_600 * S,
        &[at(0).times(4).admits(3).retry(3_600 * S)],
        None,
    );
    log(
        "two a minute, and a late one",
        2,
        60 * S,
        &[
            at(0).admits(1),
            at(10 * S).admits(1),
            at(20 * S).admits(0).retry(40 * S),
            at(5 * S).admits(0).retry(55 * S),
            at(60 * S).times(2).admits(1).retry(10 * S),
        ],
        None,
    );
    let mut minute = vec![at(0).times(60).admits(60)];
    minute.extend((1..60).map(|second| at(second * S).admits(0)));
    minute.push(at(60 * S).times(61).admits(60));
    log(
        "all at once, and again a minute later",
        60,
        60 * S,
        &minute,
        None,
    );
    log(
        "nothing gained at a boundary",
        10,
        60 * S,
        &[
            at(59_900 * MS).times(11).admits(10),
            at(60_100 * MS).admits(0).retry(59_800 * MS),
        ],
        None,
    );
    log(
        "the period is half open",
        2,
        10,
        &[
            at(5).admits(1),
            at(10).admits(1),
            at(14).admits(0),
            at(15).admits(1),
            at(19).admits(0),
            at(3).admits(0),
            at(20).admits(1),
        ],
        None,
    );
    log(
        "a late one is dated to the newest",
        2,
        10,
        &[
            at(100).admits(1),
            at(1).admits(1),
            at(109).admits(0),
            at(110).times(3).admits(2),
        ],
        None,
    );
    log(
        "some at once",
        5,
        60 * S,
        &[
            at(0).of(6).admits(0).because(Reason::TooCostly),
            at(0).of(3).admits(1).leaves(2),
            at(S).of(3).admits(0).because(Reason::Limited).retry(59 * S),
            at(S).of(2).admits(1).leaves(0),
            at(60 * S).of(4).admits(0).retry(S),
            at(60 * S).of(3).admits(1).leaves(0),
        ],
        None,
    );
}

/// The shared list.
#[test]
fn shared_cases() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/cases/cases.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("no shared cases here; the facts above stand for them");
        return;
    };
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let (mut played, mut logs) = (0, 0);
    for case in &cases {
        let name = case["id"].as_str().unwrap();
        let limiter = &case["limiter"];
        let kind = match limiter["algorithm"].as_str().unwrap() {
            "token-bucket" => Kind::Bucket,
            "fixed-window" => Kind::Aligned,
            "fixed-window-anchored" => Kind::Anchored,
            "sliding-window" => Kind::Sliding,
            "sliding-log" => {
                let (limit, period) = (&limiter["limit"], &limiter["period_ns"]);
                let total = case["total_at_most"].as_u64();
                let (limit, period) = (limit.as_u64().unwrap(), period.as_u64().unwrap());
                log(name, limit, period, &steps(name, case), total);
                logs += 1;
                continue;
            }
            other => panic!("{name}: unknown algorithm {other}"),
        };
        let limit = limiter["limit"].as_u64().unwrap();
        let period = limiter["period_ns"].as_u64().unwrap();
        let burst = limiter["burst"].as_u64().unwrap_or(limit);
        let total = case["total_at_most"].as_u64();
        play(
            name,
            &setup(kind, limit, period, burst),
            &steps(name, case),
            total,
        );
        played += 1;
    }
    println!("{} of {} shared cases played", played + logs, cases.len());
    assert!(played >= 20, "only {played} played");
    assert!(logs >= 5, "only {logs} of logs");
}

fn steps(name: &str, case: &Value) -> Vec<Step> {
    case["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| Step {
            at: step["at_ns"].as_u64().unwrap(),
            cost: step["cost"].as_u64().unwrap_or(1),
            repeat: step["repeat"].as_u64().unwrap_or(1),
            admitted: step["allow"].as_u64(),
            reason: step["reason"].as_str().map(|text| match text {
                "limited" => Reason::Limited,
                "too-costly" => Reason::TooCostly,
                other => panic!("{name}: unknown reason {other}"),
            }),
            retry_ns: step["retry_after_ns"].as_u64(),
            remaining: step["remaining"].as_u64(),
        })
        .collect()
}
