//! Every interleaving of a few threads on one cell, for every algorithm and width.
//!
//! `RUSTFLAGS="--cfg tidegate_loom" cargo test --release --test loom -- --nocapture` prints how many
//! executions each model had.

#![cfg(tidegate_loom)]

use core::sync::atomic::{AtomicU64 as Counter, Ordering};

use loom::sync::Arc;
use loom::thread;
use tidegate::{
    Algorithm, AtomicWord, FixedWindow, Limiter, Quota, SlidingWindow, Timestamp, TokenBucket,
};

const T: Timestamp = Timestamp::from_secs(1_000);

/// Checks every execution of `body`, and says how many there were.
fn explore(name: &str, body: impl Fn() + Sync + Send + 'static) {
    let executions = std::sync::Arc::new(Counter::new(0));
    let counter = executions.clone();
    loom::model(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} executions");
    assert!(executions > 1, "{name}: nothing ever raced");
}

/// Runs a body over every algorithm and width.
macro_rules! for_each_algorithm {
    ($limit:expr, $body:ident) => {{
        let quota = Quota::per_minute($limit);
        $body("token bucket u64", move || TokenBucket::new(quota));
        $body("token bucket u32", move || TokenBucket::narrow(quota));
        $body("fixed window u64", move || FixedWindow::new(quota));
        $body("fixed window u32", move || FixedWindow::narrow(quota));
        $body("anchored window u64", move || FixedWindow::anchored(quota));
        $body("anchored window u32", move || {
            FixedWindow::narrow_anchored(quota)
        });
        $body("sliding window u64", move || SlidingWindow::new(quota));
        $body("sliding window u32", move || SlidingWindow::narrow(quota));
    }};
}

trait Subject: Algorithm<Word: AtomicWord> + Copy + Send + Sync + 'static {}
impl<A: Algorithm<Word: AtomicWord> + Copy + Send + Sync + 'static> Subject for A {}

/// The state after these calls in a row.
fn sequential<A: Subject>(algorithm: A, calls: &[(Timestamp, u64)]) -> A::Word {
    calls.iter().fold(A::Word::default(), |state, &(at, cost)| {
        algorithm
            .step(state, at, cost)
            .map_or(state, |(next, _)| next)
    })
}

fn last_permit<A: Subject>(
    name: &str,
    make: impl Fn() -> A + Send + Sync + 'static,
    threads: usize,
) {
    explore(
        &format!("{name}, {threads} threads for the last of 2"),
        move || {
            let algorithm = make();
            let limiter = Arc::new(Limiter::new(algorithm));
            assert!(limiter.check(T).is_ok());
            let racers: Vec<_> = (0..threads)
                .map(|_| {
                    let limiter = limiter.clone();
                    thread::spawn(move || limiter.check(T).is_ok())
                })
                .collect();
            let admitted = racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .filter(|&admitted| admitted)
                .count();
            assert_eq!(admitted, 1);
            assert_eq!(limiter.state(), sequential(algorithm, &[(T, 1), (T, 1)]));
        },
    );
}

#[test]
fn two_for_the_last_permit() {
    fn body<A: Subject>(name: &str, make: impl Fn() -> A + Send + Sync + 'static) {
        last_permit(name, make, 2);
    }
    for_each_algorithm!(2, body);
}

#[test]
fn three_for_the_last_permit() {
    fn body<A: Subject>(name: &str, make: impl Fn() -> A + Send + Sync + 'static) {
        last_permit(name, make, 3);
    }
    for_each_algorithm!(2, body);
}

/// Timestamps that differ, a boundary between them: no debit is lost, whoever comes first.
#[test]
fn different_clocks() {
    fn body<A: Subject>(name: &str, make: impl Fn() -> A + Send + Sync + 'static) {
        explore(&format!("{name}, different clocks"), move || {
            let algorithm = make();
            let limiter = Arc::new(Limiter::new(algorithm));
            let stamps = [Timestamp::from_secs(1_019), Timestamp::from_secs(1_020)];
            let other = {
                let limiter = limiter.clone();
                thread::spawn(move || limiter.check(stamps[0]).is_ok())
            };
            let here = limiter.check(stamps[1]).is_ok();
            assert!(other.join().unwrap() && here, "two of three");
            let orders = [
                [(stamps[0], 1), (stamps[1], 1)],
                [(stamps[1], 1), (stamps[0], 1)],
            ];
            let state = limiter.state();
            assert!(
                orders
                    .iter()
                    .any(|calls| sequential(algorithm, calls) == state)
            );
        });
    }
    for_each_algorithm!(3, body);
}

/// Costs that do not both fit: one is admitted whole, the other not at all.
#[test]
fn all_or_nothing() {
    fn body<A: Subject>(name: &str, make: impl Fn() -> A + Send + Sync + 'static) {
        explore(&format!("{name}, all or nothing"), move || {
            let algorithm = make();
            let limiter = Arc::new(Limiter::new(algorithm));
            let other = {
                let limiter = limiter.clone();
                thread::spawn(move || limiter.check_n(T, 2).is_ok())
            };
            let here = limiter.check_n(T, 3).is_ok();
            let there = other.join().unwrap();
            assert!(here != there);
            let cost = if here { 3 } else { 2 };
            assert_eq!(limiter.state(), sequential(algorithm, &[(T, cost)]));
        });
    }
    for_each_algorithm!(4, body);
}

/// A reader sees only states that some prefix of the calls makes, and changes none.
#[test]
fn peek_beside_checks() {
    fn body<A: Subject>(name: &str, make: impl Fn() -> A + Send + Sync + 'static) {
        explore(&format!("{name}, peek beside checks"), move || {
            let algorithm = make();
            let limiter = Arc::new(Limiter::new(algorithm));
            let reader = {
                let limiter = limiter.clone();
                thread::spawn(move || {
                    let first = limiter.check_n(T, 0).unwrap().remaining();
                    let then = limiter.peek(T).map_or(0, |allowed| allowed.remaining() + 1);
                    (first, then)
                })
            };
            assert!(limiter.check(T).is_ok());
            assert!(limiter.check(T).is_ok());
            let (first, then) = reader.join().unwrap();
            assert!(first <= 2 && then <= first, "{first} and then {then} left");
            assert_eq!(limiter.state(), sequential(algorithm, &[(T, 1), (T, 1)]));
        });
    }
    for_each_algorithm!(2, body);
}

/// A permit given back is there for exactly one other, before or after.
#[test]
fn refund_against_check() {
    fn body<A: Subject>(name: &str, make: impl Fn() -> A + Send + Sync + 'static) {
        explore(&format!("{name}, refund against check"), move || {
            let algorithm = make();
            let limiter = Arc::new(Limiter::new(algorithm));
            assert!(limiter.check_n(T, 2).is_ok());
            let giver = {
                let limiter = limiter.clone();
                thread::spawn(move || assert!(limiter.refund(T, 1)))
            };
            let taker = {
                let limiter = limiter.clone();
                thread::spawn(move || limiter.check(T).is_ok())
            };
            giver.join().unwrap();
            let taken = taker.join().unwrap();
            let used = 1 + u64::from(taken);
            assert_eq!(limiter.check_n(T, 0).unwrap().remaining(), 2 - used);
            assert_eq!(limiter.state(), sequential(algorithm, &[(T, used)]));
        });
    }
    for_each_algorithm!(2, body);
}

/// Resetting and sweeping beside a check lose nothing but what a reset is for.
#[test]
fn sweep_against_check() {
    fn body<A: Subject>(name: &str, make: impl Fn() -> A + Send + Sync + 'static) {
        explore(&format!("{name}, sweep against check"), move || {
            let algorithm = make();
            let limiter = Arc::new(Limiter::new(algorithm));
            let rested = Timestamp::from_secs(2_000);
            assert!(limiter.check_n(T, 2).is_ok());
            let sweeper = {
                let limiter = limiter.clone();
                thread::spawn(move || limiter.sweep(rested))
            };
            assert!(limiter.check(rested).is_ok());
            sweeper.join().unwrap();
            assert_eq!(limiter.state(), sequential(algorithm, &[(rested, 1)]));
        });
    }
    for_each_algorithm!(2, body);
}

/// Two reservations never get the same slot of time.
#[test]
fn reservations_queue() {
    fn pace<W: AtomicWord>(name: &str, make: fn() -> TokenBucket<W>) {
        explore(&format!("{name}, reservations"), move || {
            let limiter = Arc::new(Limiter::new(make()));
            let patience = core::time::Duration::from_secs(60);
            let other = {
                let limiter = limiter.clone();
                thread::spawn(move || limiter.reserve(T, 1, patience).unwrap())
            };
            let here = limiter.reserve(T, 1, patience).unwrap();
            let there = other.join().unwrap();
            let (first, second) = (here.min(there), here.max(there));
            assert!(
                first.is_zero() && second.as_secs() >= 10,
                "{first:?} {second:?}"
            );
        });
    }
    pace("token bucket u64", || {
        TokenBucket::new(Quota::per_minute(6)).with_burst(1)
    });
    pace("token bucket u32", || {
        TokenBucket::narrow(Quota::per_minute(6)).with_burst(1)
    });
}

/// The models can fail: what people write by hand, read, decide, write, admits both.
#[test]
#[should_panic(expected = "both admitted")]
fn read_decide_write_is_caught() {
    use loom::sync::atomic::AtomicU64;

    loom::model(|| {
        let algorithm = TokenBucket::new(Quota::per_minute(1));
        let cell = Arc::new(AtomicU64::new(0));
        let check = move |cell: &AtomicU64| {
            let state = cell.load(Ordering::Relaxed);
            match algorithm.step(state, T, 1) {
                Ok((next, _)) => {
                    cell.store(next, Ordering::Relaxed);
                    true
                }
                Err(_) => false,
            }
        };
        let other = {
            let cell = cell.clone();
            thread::spawn(move || check(&cell))
        };
        let here = check(&cell);
        let there = other.join().unwrap();
        assert!(!(here && there), "both admitted");
    });
}
