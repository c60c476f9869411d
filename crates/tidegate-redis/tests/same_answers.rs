//! The scripts and the algorithms in-process answer the same to the same timestamps.

mod common;

use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use common::Host;
use proptest::prelude::*;
use tidegate::{
    Allowed, Denied, FixedWindow, Limiter, OwnedStrategy, Quota, Reason, SlidingWindow,
    Strategy as Counting, Timestamp, TokenBucket, VecLog,
};
use tidegate_redis::{Limit, RedisLimiter, RedisStore};

type Outcome = Result<Allowed, Denied>;

trait Local {
    fn check_n(&self, now: Timestamp, cost: u64) -> Outcome;
    fn peek_n(&self, now: Timestamp, cost: u64) -> Outcome;
    fn refund(&self, taken_at: Timestamp, cost: u64);
    fn reset(&self);
}

impl<A: Counting> Local for Limiter<A> {
    fn check_n(&self, now: Timestamp, cost: u64) -> Outcome {
        Limiter::check_n(self, now, cost)
    }

    fn peek_n(&self, now: Timestamp, cost: u64) -> Outcome {
        Limiter::peek_n(self, now, cost)
    }

    fn refund(&self, taken_at: Timestamp, cost: u64) {
        Limiter::refund(self, taken_at, cost);
    }

    fn reset(&self) {
        Limiter::reset(self);
    }
}

struct LocalLog {
    log: VecLog,
    state: RefCell<<VecLog as OwnedStrategy>::State>,
}

impl Local for LocalLog {
    fn check_n(&self, now: Timestamp, cost: u64) -> Outcome {
        self.log.check_n(&mut self.state.borrow_mut(), now, cost)
    }

    fn peek_n(&self, now: Timestamp, cost: u64) -> Outcome {
        self.log.peek_n(&self.state.borrow(), now, cost)
    }

    fn refund(&self, taken_at: Timestamp, cost: u64) {
        self.log
            .refund(&mut self.state.borrow_mut(), taken_at, cost);
    }

    fn reset(&self) {
        self.state.replace(self.log.fresh());
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Bucket,
    Fixed,
    Anchored,
    Sliding,
    Log,
}

/// The same limit here and there; `None` if one of them cannot count it exactly.
fn pair(way: Way, quota: Quota, burst: u64) -> Option<(Box<dyn Local>, Limit)> {
    Some(match way {
        Way::Bucket => {
            let bucket = TokenBucket::try_new_with_burst(quota, burst).ok()?;
            if bucket.shortfall_ppm() > 0 {
                return None;
            }
            let limit = Limit::token_bucket(quota).with_burst(burst);
            (Box::new(Limiter::new(bucket)), limit)
        }
        Way::Fixed => (
            Box::new(Limiter::new(FixedWindow::try_new(quota).ok()?)),
            Limit::fixed_window(quota),
        ),
        Way::Anchored => {
            let window = FixedWindow::try_anchored(quota).ok()?;
            if window.resolution() > Duration::from_nanos(1) {
                return None;
            }
            let limit = Limit::anchored_window(quota);
            (Box::new(Limiter::new(window)), limit)
        }
        Way::Sliding => (
            Box::new(Limiter::new(SlidingWindow::try_new(quota).ok()?)),
            Limit::sliding_window(quota),
        ),
        Way::Log => {
            let log = VecLog::try_new(quota).ok()?;
            let state = RefCell::new(log.fresh());
            let limit = Limit::sliding_log(quota);
            (Box::new(LocalLog { log, state }), limit)
        }
    })
}

fn micros(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000)
}

/// Everything that an answer tells, in the server's unit of time.
fn told(outcome: Outcome) -> (Option<Reason>, u64, u64, u128, Option<u128>, Option<u128>) {
    match outcome {
        Ok(it) => (
            None,
            it.limit(),
            it.remaining(),
            micros(it.reset_after()),
            it.next_after().map(micros),
            None,
        ),
        Err(it) => (
            Some(it.reason()),
            it.limit(),
            it.remaining(),
            micros(it.reset_after()),
            it.next_after().map(micros),
            it.retry_after().map(micros),
        ),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    Peek(u64),
    /// What was taken by the check before so many others.
    Refund(usize),
    Reset,
}

#[derive(Clone, Debug)]
struct Sequence {
    way: Way,
    quota: Quota,
    burst: u64,
    start: u64,
    /// How time goes on, in microseconds, and what is done then.
    steps: Vec<(i64, Step)>,
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![
        Just(Way::Bucket),
        Just(Way::Fixed),
        Just(Way::Anchored),
        Just(Way::Sliding),
        Just(Way::Log),
    ]
}

fn quotas() -> impl Strategy<Value = (Quota, u64)> {
    let periods = prop_oneof![
        Just(1_000_u64),
        Just(1_000_000),
        Just(7_000_003),
        Just(10_000_000),
        Just(60_000_000),
        Just(3_600_000_000),
        Just(86_400_000_000),
        1_000_u64..10_000_000,
    ];
    let limits = prop_oneof![4 => 1_u64..12, 1 => 12_u64..3_000];
    (
        periods,
        limits,
        prop_oneof![Just(None), (1_u64..40).prop_map(Some)],
    )
        .prop_map(|(period, limit, burst)| {
            let quota = Quota::new(limit, Duration::from_micros(period)).unwrap();
            (quota, burst.unwrap_or(limit))
        })
}

/// How far time goes on: nothing, a little, about a permit, about a period, long.
fn pauses(quota: Quota, is_late: bool) -> BoxedStrategy<i64> {
    let period = quota.period().as_micros() as i64;
    let permit = period / quota.limit() as i64;
    let forward = prop_oneof![
        3 => Just(0),
        2 => 0..permit.max(1) + 2,
        2 => permit - 1..permit + 2,
        2 => 0..period + 2,
        1 => period - 1..period + 2,
        1 => 0..3 * period,
        1 => 0..1_000_000_000_i64,
    ];
    if is_late {
        // Up to the lateness that every limiter tolerates.
        prop_oneof![2 => forward, 1 => -50_000_000_i64..0, 1 => -permit - 2..0].boxed()
    } else {
        forward.prop_map(|pause| pause.max(0)).boxed()
    }
}

fn sequences(is_late: bool) -> impl Strategy<Value = Sequence> {
    (ways(), quotas()).prop_flat_map(move |(way, (quota, burst))| {
        let most = match way {
            Way::Bucket => burst,
            _ => quota.limit(),
        };
        let costs = prop_oneof![6 => Just(1_u64), 1 => Just(0), 3 => 1..most + 2, 1 => Just(most), 1 => any::<u64>()];
        let checks = costs.clone().prop_map(Step::Check);
        let peeks = costs.prop_map(Step::Peek);
        let step = if is_late {
            prop_oneof![5 => checks, 1 => peeks].boxed()
        } else {
            prop_oneof![12 => checks, 2 => peeks, 3 => (0_usize..6).prop_map(Step::Refund), 1 => Just(Step::Reset)].boxed()
        };
        let start = 1_700_000_000_000_000_u64..2_000_000_000_000_000;
        (start, prop::collection::vec((pauses(quota, is_late), step), 1..40)).prop_map(
            move |(start, steps)| Sequence {
                way,
                quota,
                burst,
                start,
                steps,
            },
        )
    })
}

static KEYS: AtomicU64 = AtomicU64::new(0);

fn key() -> String {
    KEYS.fetch_add(1, Ordering::Relaxed).to_string()
}

async fn run(store: &RedisStore, sequence: &Sequence) -> Result<(), TestCaseError> {
    let Some((here, limit)) = pair(sequence.way, sequence.quota, sequence.burst) else {
        return Err(TestCaseError::reject("not exact"));
    };
    let there: RedisLimiter = store.limiter("same", limit).unwrap();
    let key = key();
    let mut time = sequence.start;
    // When, where the clock then was for the server, and how much.
    let mut taken = Vec::new();
    for (place, (pause, step)) in sequence.steps.iter().enumerate() {
        time = time.saturating_add_signed(*pause);
        let now = Timestamp::from_micros(time);
        match step {
            Step::Check(cost) => {
                let decision = there.check_at(&key, *cost, now).await.unwrap();
                let outcome = here.check_n(now, *cost);
                prop_assert_eq!(told(decision.result()), told(outcome), "step {}", place);
                prop_assert_eq!(decision.server_time(), now);
                if outcome.is_ok() && *cost > 0 {
                    taken.push((now, decision.taken_at(), *cost));
                }
            }
            Step::Peek(cost) => {
                let decision = there.peek_at(&key, *cost, now).await.unwrap();
                let outcome = here.peek_n(now, *cost);
                prop_assert_eq!(told(decision.result()), told(outcome), "step {}", place);
            }
            Step::Refund(back) => {
                if let Some(place) = taken.len().checked_sub(back + 1) {
                    let (when, at, cost) = taken.remove(place);
                    here.refund(when, cost);
                    there.refund_at(&key, at, cost, now).await.unwrap();
                }
            }
            Step::Reset => {
                here.reset();
                there.reset(&key).await.unwrap();
                taken.clear();
            }
        }
    }
    there.reset(&key).await.unwrap();
    Ok(())
}

fn all_are_answered_alike(is_late: bool) {
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
    proptest!(config, |(sequence in sequences(is_late))| {
        runtime.block_on(run(&store, &sequence))?;
    });
}

#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn in_order() {
    all_are_answered_alike(false);
}

#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn late_timestamps() {
    all_are_answered_alike(true);
}
