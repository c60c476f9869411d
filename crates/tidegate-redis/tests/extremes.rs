//! Limits at the edge of what is counted exactly, beside a model in whole numbers of any size.

mod common;

use core::time::Duration;

use common::Host;
use proptest::prelude::*;
use tidegate::{Quota, Reason, Timestamp};
use tidegate_redis::{Decision, Limit, RedisLimiter, RedisStore};

/// 35 years, in microseconds.
const LONGEST: u64 = 1 << 50;
/// In 2180: so long before 2^53 microseconds that what is counted until then, at most 70 years ahead, stays below.
const LATEST: u64 = 210 * 31_557_600_000_000;

#[derive(Clone, Copy, Debug)]
enum Way {
    Bucket,
    Fixed,
    Anchored,
    Sliding,
    Log,
}

const WAYS: [Way; 5] = [
    Way::Bucket,
    Way::Fixed,
    Way::Anchored,
    Way::Sliding,
    Way::Log,
];

impl Way {
    fn limit(self, quota: Quota) -> Limit {
        match self {
            Self::Bucket => Limit::token_bucket(quota),
            Self::Fixed => Limit::fixed_window(quota),
            Self::Anchored => Limit::anchored_window(quota),
            Self::Sliding => Limit::sliding_window(quota),
            Self::Log => Limit::sliding_log(quota),
        }
    }
}

fn quota(limit: u64, micros: u64) -> Quota {
    Quota::new(limit, Duration::from_micros(micros)).unwrap()
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What is counted, by the definitions.
enum Model {
    /// When it is full again, in microseconds times `num`.
    Bucket {
        num: u128,
        den: u128,
        full_at: u128,
    },
    Window {
        start: u128,
        count: u128,
        is_anchored: bool,
    },
    Sliding {
        unit: u128,
        start: u128,
        previous: u128,
        current: u128,
    },
    Log(Vec<(u128, u128)>),
}

/// Whether it passes, how many more would, and when it does.
type Told = (Option<Reason>, u128, Option<u128>);

struct Counted {
    model: Model,
    most: u128,
    period: u128,
}

impl Counted {
    fn new(way: Way, limit: u64, period: u64, burst: u64) -> Self {
        let (limit, period) = (u128::from(limit), u128::from(period));
        let model = match way {
            Way::Bucket => {
                let common = gcd(limit, period);
                Model::Bucket {
                    num: limit / common,
                    den: period / common,
                    full_at: 0,
                }
            }
            Way::Fixed | Way::Anchored => Model::Window {
                start: 0,
                count: 0,
                is_anchored: matches!(way, Way::Anchored),
            },
            Way::Sliding => {
                let mut unit = 1;
                while limit * (period / unit) >= 1 << 53 {
                    unit *= 10;
                }
                Model::Sliding {
                    unit,
                    start: 0,
                    previous: 0,
                    current: 0,
                }
            }
            Way::Log => Model::Log(Vec::new()),
        };
        let most = match way {
            Way::Bucket => u128::from(burst),
            _ => limit,
        };
        Self {
            model,
            most,
            period,
        }
    }

    fn told(&self, fits: bool, cost: u128, left: u128, retry: u128) -> Told {
        if cost > self.most {
            (Some(Reason::TooCostly), left, None)
        } else if fits {
            (None, left, None)
        } else {
            (Some(Reason::Limited), left, Some(retry))
        }
    }

    fn check(&mut self, now: u128, cost: u128) -> Told {
        let (most, period) = (self.most, self.period);
        match &mut self.model {
            Model::Bucket { num, den, full_at } => {
                let (num, den) = (*num, *den);
                let debt = full_at.saturating_sub(now * num);
                let full = most * den;
                let fits = debt + cost * den <= full;
                let after = if fits { debt + cost * den } else { debt };
                if fits {
                    *full_at = now * num + after;
                }
                let retry = (debt + cost * den).saturating_sub(full).div_ceil(num);
                self.told(fits, cost, (full - after) / den, retry)
            }
            Model::Window {
                start,
                count,
                is_anchored,
            } => {
                if *count == 0 || now - *start >= period {
                    *start = if *is_anchored {
                        now
                    } else {
                        now - now % period
                    };
                    *count = 0;
                }
                let fits = *count + cost <= most;
                if fits {
                    *count += cost;
                }
                let (left, retry) = (most - *count, *start + period - now);
                self.told(fits, cost, left, retry)
            }
            Model::Sliding {
                unit,
                start,
                previous,
                current,
            } => {
                let fresh = now - now % period;
                match fresh - *start {
                    0 => {}
                    age if age == period => (*previous, *current) = (*current, 0),
                    _ => (*previous, *current) = (0, 0),
                }
                *start = fresh;
                let unit = *unit;
                let whole = period / unit;
                // Here by searching: the first instant, in units, that fits, with the windows as they then are.
                let (a, b) = (*previous, *current);
                let weighs = |elapsed: u128, cost: u128| {
                    let (a, b, elapsed) = if elapsed >= period {
                        (b, 0, elapsed - period)
                    } else {
                        (a, b, elapsed)
                    };
                    elapsed >= period
                        || b + cost <= most
                            && a * (whole - elapsed / unit) <= (most - b - cost) * whole
                };
                let elapsed = now - fresh;
                // A time that is not a whole unit counts as the unit that it is in.
                let fits = cost == 0 || weighs(elapsed, cost);
                let retry = if fits || cost > most {
                    0
                } else {
                    let (mut low, mut high) = (elapsed, 2 * period);
                    while low + 1 < high {
                        let middle = u128::midpoint(low, high);
                        if weighs(middle, cost) {
                            high = middle;
                        } else {
                            low = middle;
                        }
                    }
                    high - elapsed
                };
                if fits {
                    *current += cost;
                }
                // What really passes, with time not rounded, is at least what passes here.
                if fits && cost > 0 {
                    assert!(a * (period - elapsed) <= (most - *current) * period);
                }
                let used = *current + (a * (whole - elapsed / unit)).div_ceil(whole);
                let left = most.saturating_sub(used);
                self.told(fits, cost, left, retry)
            }
            Model::Log(entries) => {
                entries.retain(|(at, _)| at + period > now);
                let used: u128 = entries.iter().map(|it| it.1).sum();
                let fits = used + cost <= most;
                if fits && cost > 0 {
                    entries.push((now, cost));
                }
                let left = most - if fits { used + cost } else { used };
                let mut lacks = (used + cost).saturating_sub(most);
                let mut retry = 0;
                for (at, n) in entries.iter() {
                    if lacks > 0 {
                        retry = at + period - now;
                        lacks = lacks.saturating_sub(*n);
                    }
                }
                self.told(fits, cost, left, retry)
            }
        }
    }
}

fn told(decision: Decision) -> Told {
    match decision.result() {
        Ok(it) => (None, it.remaining().into(), None),
        Err(it) => (
            Some(it.reason()),
            it.remaining().into(),
            it.retry_after().map(|it| it.as_micros()),
        ),
    }
}

/// The largest number that is accepted.
fn largest(is_legal: impl Fn(u64) -> bool) -> Option<u64> {
    if !is_legal(1) {
        return None;
    }
    let (mut low, mut high) = (1, u64::MAX);
    while low + 1 < high {
        let middle = u64::midpoint(low, high);
        if is_legal(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    None,
    Some(u64),
    /// As long as the last refusal said, and so many microseconds more or less.
    Retry(i64),
    Periods(u64, i64),
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Exactly(u64),
    /// So many less than all.
    AllBut(u64),
    /// One of so many parts.
    Part(u64),
    Left,
}

#[derive(Clone, Debug)]
struct Case {
    way: Way,
    limit: u64,
    period: u64,
    /// For the bucket: so many less than the most that is accepted.
    below: u64,
    /// Whether the limit, too, is the most that is accepted.
    is_most: bool,
    start: u64,
    steps: Vec<(Pause, Cost)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let limits = prop_oneof![
        Just(1_u64),
        Just(7),
        Just(999_983),
        Just(1_000_000),
        Just(37_000_003),
        1_u64..1 << 40,
    ];
    let periods = prop_oneof![
        Just(1_u64),
        Just(1_000),
        Just(1_000_000),
        Just(86_400_000_000),
        Just(LONGEST),
        Just(LONGEST - 1),
        Just(1_125_899_000_000_000),
        1_u64..LONGEST,
        (1_u64..1_000_000_000).prop_map(|secs| secs * 1_000_000),
    ];
    let pauses = prop_oneof![
        2 => Just(Pause::None),
        2 => (1_u64..3_000_000).prop_map(Pause::Some),
        3 => (-1_i64..2).prop_map(Pause::Retry),
        2 => (0_u64..3, -2_i64..3).prop_map(|(n, off)| Pause::Periods(n, off)),
        1 => (1..LONGEST).prop_map(Pause::Some),
    ];
    let costs = prop_oneof![
        3 => Just(Cost::Exactly(1)),
        1 => Just(Cost::Exactly(0)),
        1 => Just(Cost::Exactly(u64::MAX)),
        2 => (0_u64..3).prop_map(Cost::AllBut),
        3 => (2_u64..5).prop_map(Cost::Part),
        2 => Just(Cost::Left),
    ];
    let starts = prop_oneof![
        4 => 1_700_000_000_000_000_u64..2_000_000_000_000_000,
        1 => 0_u64..10_000_000,
    ];
    (
        prop::sample::select(&WAYS[..]),
        (limits, periods, 0_u64..2, any::<bool>(), starts),
        prop::collection::vec((pauses, costs), 1..30),
    )
        .prop_map(
            |(way, (limit, period, below, is_most, start), steps)| Case {
                way,
                limit,
                period,
                below,
                is_most,
                start,
                steps,
            },
        )
}

async fn run(store: &RedisStore, case: &Case, key: u64) -> Result<(), TestCaseError> {
    let Case {
        way,
        mut limit,
        period,
        ..
    } = *case;
    let is_legal = |limit: Limit| store.limiter("extreme", limit).is_ok();
    let mut burst = limit;
    if let Way::Bucket = way {
        let quota = quota(limit, period);
        let Some(most) = largest(|burst| is_legal(way.limit(quota).with_burst(burst))) else {
            return Err(TestCaseError::reject("no burst is legal"));
        };
        burst = most.saturating_sub(case.below).max(1);
    } else {
        let Some(most) = largest(|limit| is_legal(way.limit(quota(limit, period)))) else {
            return Err(TestCaseError::reject("no limit is legal"));
        };
        if case.is_most || limit > most {
            limit = most;
        }
        burst = burst.min(limit);
    }
    let kept = way.limit(quota(limit, period));
    let kept = match way {
        Way::Bucket => kept.with_burst(burst),
        _ => kept,
    };
    let there: RedisLimiter = store.limiter("extreme", kept).unwrap();
    let mut here = Counted::new(way, limit, period, burst);
    let most = here.most as u64;
    let mut now = case.start;
    let (mut retry, mut left) = (0, most);
    let key = key.to_string();
    for (place, (pause, cost)) in case.steps.iter().enumerate() {
        let later = match *pause {
            Pause::None => now,
            Pause::Some(pause) => now + pause,
            Pause::Retry(off) => (now + retry).saturating_add_signed(off),
            Pause::Periods(n, off) => (now + n * period).saturating_add_signed(off),
        };
        now = later.clamp(now, LATEST);
        let cost = match *cost {
            Cost::Exactly(cost) => cost,
            Cost::AllBut(n) => most.saturating_sub(n),
            Cost::Part(n) => most.div_ceil(n),
            Cost::Left => left,
        };
        // A log of a million is there once, below.
        let cost = match way {
            Way::Log if cost <= most => cost.min(5_000),
            _ => cost,
        };
        let decision = there
            .check_at(&key, cost, Timestamp::from_micros(now))
            .await
            .unwrap();
        let expected = here.check(now.into(), cost.into());
        prop_assert_eq!(
            told(decision),
            expected,
            "step {}: {} of {} per {}",
            place,
            cost,
            limit,
            period
        );
        retry = expected.2.unwrap_or(0) as u64;
        left = expected.1 as u64;
    }
    there.reset(&key).await.unwrap();
    Ok(())
}

#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn limits_at_the_edge() {
    let server = Host::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = runtime.block_on(server.store());
    let config = ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let keys = core::cell::Cell::new(0_u64);
    proptest!(config, |(case in cases())| {
        keys.set(keys.get() + 1);
        runtime.block_on(run(&store, &case, keys.get()))?;
    });
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_log_of_a_million() {
    let server = Host::start();
    let store = server.store().await;
    let limit = Limit::sliding_log(quota(1_000_000, 3_600_000_000));
    let limiter = store.limiter("a", limit).unwrap();
    let start = 1_800_000_000_000_000;
    let at = Timestamp::from_micros;
    // The first half at once, the rest a microsecond after the other.
    let first = limiter.check_at("k", 500_000, at(start)).await.unwrap();
    assert_eq!(first.result().unwrap().remaining(), 500_000);
    for n in 1..=1_000 {
        let decision = limiter.check_at("k", 500, at(start + n)).await.unwrap();
        assert!(decision.is_allowed());
    }
    let now = start + 2_000;
    let denied = limiter.check_at("k", 1, at(now)).await.unwrap();
    let retry = denied.result().unwrap_err().retry_after().unwrap();
    assert_eq!(retry, Duration::from_micros(3_600_000_000 - 2_000));
    let denied = limiter.check_at("k", 501_000, at(now)).await.unwrap();
    let retry = denied.result().unwrap_err().retry_after().unwrap();
    assert_eq!(retry, Duration::from_micros(3_600_000_000 + 2 - 2_000));
    // What was taken last goes back, and no more.
    let last = at(start + 1_000);
    assert!(limiter.refund_at("k", last, 700, at(now)).await.unwrap());
    let left = limiter.peek_at("k", 0, at(now)).await.unwrap();
    assert_eq!(left.result().unwrap().remaining(), 500);
    // From the middle: what is left of the first half is older.
    let middle = at(start + 1);
    let refund = limiter.refund_at("k", middle, 499_000, at(now)).await;
    assert!(refund.unwrap());
    // Each searches the list; one for each time that is different would keep the server for a quarter of a minute.
    let stats = server.each::<String>(&["INFO", "commandstats"]).concat();
    let searches: Vec<&str> = stats
        .lines()
        .filter(|it| it.starts_with("cmdstat_lrem:"))
        .collect();
    assert!(
        searches.len() == 1 && searches[0].starts_with("cmdstat_lrem:calls=2,"),
        "{searches:?}"
    );
    let left = limiter.peek_at("k", 0, at(now)).await.unwrap();
    assert_eq!(left.result().unwrap().remaining(), 499_500);
    // When the first half is old, it makes room at once.
    let later = at(start + 3_600_000_000);
    let decision = limiter.check_at("k", 999_500, later).await.unwrap();
    assert_eq!(decision.result().unwrap().remaining(), 0);
    assert!(!limiter.check_at("k", 1, later).await.unwrap().is_allowed());
}
