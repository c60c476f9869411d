//! Every interleaving of a few threads over several gates, and of leases on one.
//!
//! `RUSTFLAGS="--cfg tidegate_loom" cargo test --release --test loom_gates -- --nocapture` prints how many
//! executions each model had.

#![cfg(tidegate_loom)]

use core::sync::atomic::{AtomicU64 as Counter, Ordering};

use loom::sync::Arc;
use loom::thread;
use tidegate::{
    Algorithm, All, AtomicWord, Beside, FixedWindow, Gate, Lease, Limiter, Quota, Shadow,
    SlidingWindow, Timestamp, TokenBucket,
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

fn left(gate: &impl Gate) -> u64 {
    gate.check_n(T, 0).unwrap().remaining()
}

trait Subject: Algorithm<Word: AtomicWord> + Copy + Send + Sync + 'static {}
impl<A: Algorithm<Word: AtomicWord> + Copy + Send + Sync + 'static> Subject for A {}

/// Two threads go through two gates in opposite order. Each gate admits what it may and no more, and after a
/// refusal nothing is missing anywhere.
fn crossing<A: Subject, B: Subject>(
    name: &str,
    one: impl Fn() -> A + Send + Sync + 'static,
    other: impl Fn() -> B + Send + Sync + 'static,
) {
    let seen = std::sync::Arc::new([const { Counter::new(0) }; 3]);
    let count = seen.clone();
    explore(name, move || {
        let a = Arc::new(Limiter::new(one()));
        let b = Arc::new(Limiter::new(other()));
        let there = {
            let (a, b) = (a.clone(), b.clone());
            thread::spawn(move || All((&*b, &*a)).check(T).is_ok())
        };
        let here = All((&*a, &*b)).check(T).is_ok();
        let admitted = u64::from(here) + u64::from(there.join().unwrap());
        count[admitted as usize].fetch_add(1, Ordering::Relaxed);
        assert!(admitted <= 1, "both passed one permit");
        let lefts = [left(&*a), left(&*b)];
        assert_eq!(lefts, [1 - admitted; 2], "a permit lost, or kept");
    });
    let [neither, one, both] = [0, 1, 2].map(|it: usize| seen[it].load(Ordering::Relaxed));
    println!("  neither passed in {neither}, one in {one}");
    assert!(neither > 0 && one > 0 && both == 0);
}

#[test]
fn opposite_orders() {
    let quota = Quota::per_minute(1);
    crossing(
        "buckets in opposite order",
        move || TokenBucket::new(quota),
        move || TokenBucket::narrow(quota),
    );
    crossing(
        "windows in opposite order",
        move || FixedWindow::anchored(quota),
        move || SlidingWindow::narrow(quota),
    );
}

/// A thread that wants both gates beside threads that want one: what is given back is there for others, once.
#[test]
fn all_beside_single() {
    fn body<A: Subject>(name: &str, make: impl Fn(Quota) -> A + Send + Sync + 'static) {
        explore(
            &format!("{name}, both gates beside users of one"),
            move || {
                let a = Arc::new(Limiter::new(make(Quota::per_minute(2))));
                let b = Arc::new(Limiter::new(make(Quota::per_minute(1))));
                let all = {
                    let (a, b) = (a.clone(), b.clone());
                    thread::spawn(move || All((&*a, &*b)).check(T).is_ok())
                };
                let single = {
                    let b = b.clone();
                    thread::spawn(move || b.check(T).is_ok())
                };
                let here = a.check(T).is_ok();
                assert!(here, "two permits, and two who want one");
                let (all, single) = (all.join().unwrap(), single.join().unwrap());
                assert!(all != single, "the last permit of b");
                assert_eq!(left(&*a), 1 - u64::from(all));
                assert_eq!(left(&*b), 0);
            },
        );
    }
    body("token bucket u64", TokenBucket::new);
    body("token bucket u32", TokenBucket::narrow);
    body("anchored window u64", FixedWindow::anchored);
    body("sliding window u32", SlidingWindow::narrow);
}

/// Two leases on one gate: at most the limit passes, and what was not spent is back when they are dropped.
#[test]
fn two_leases() {
    fn body<A: Subject>(name: &str, make: impl Fn(Quota) -> A + Send + Sync + 'static) {
        explore(&format!("{name}, two leases"), move || {
            let gate = Arc::new(Limiter::new(make(Quota::per_minute(4))));
            let spend = |gate: &Limiter<A>| {
                let mut lease = Lease::new(gate, 2..=2);
                (0..3).filter(|_| lease.check(T).is_ok()).count() as u64
            };
            let there = {
                let gate = gate.clone();
                thread::spawn(move || spend(&gate))
            };
            let admitted = spend(&gate) + there.join().unwrap();
            assert!(admitted <= 4, "{admitted} admitted");
            // Another's idle permit may be missed, but no more than that.
            assert!(admitted >= 3, "only {admitted} admitted");
            assert_eq!(left(&*gate), 4 - admitted, "not everything is back");
        });
    }
    body("token bucket u64", TokenBucket::new);
    body("token bucket u32", TokenBucket::narrow);
    body("fixed window u64", FixedWindow::new);
    body("anchored window u32", FixedWindow::narrow_anchored);
    body("sliding window u64", SlidingWindow::new);
}

/// A lease beside a thread that does without.
#[test]
fn lease_beside_checks() {
    fn body<A: Subject>(name: &str, make: impl Fn(Quota) -> A + Send + Sync + 'static) {
        explore(&format!("{name}, a lease beside checks"), move || {
            let gate = Arc::new(Limiter::new(make(Quota::per_minute(3))));
            let leased = {
                let gate = gate.clone();
                thread::spawn(move || {
                    let mut lease = Lease::new(&*gate, 3..=3);
                    let first = lease.check(T).is_ok();
                    lease.give_back(T);
                    u64::from(first) + u64::from(lease.check(T).is_ok())
                })
            };
            let direct = (0..2).filter(|_| gate.check(T).is_ok()).count() as u64;
            let admitted = direct + leased.join().unwrap();
            assert!((1..=3).contains(&admitted), "{admitted} admitted");
            assert_eq!(left(&*gate), 3 - admitted, "not everything is back");
        });
    }
    body("token bucket u64", TokenBucket::new);
    body("token bucket u32", TokenBucket::narrow);
    body("anchored window u64", FixedWindow::anchored);
}

/// No observation is lost.
#[test]
fn counts() {
    explore("a shadow, and a candidate beside", || {
        let quota = Quota::per_minute(1);
        let gate = Arc::new(Beside::new(
            Limiter::new(TokenBucket::new(quota)),
            Shadow::new(Limiter::new(FixedWindow::narrow_anchored(quota))),
        ));
        let other = {
            let gate = gate.clone();
            thread::spawn(move || gate.check(T).is_ok())
        };
        let here = gate.check(T).is_ok();
        assert!(here != other.join().unwrap());
        let counts = gate.candidate().counts();
        assert_eq!((counts.admitted, counts.limited), (1, 1));
        let counts = gate.counts();
        let agree = counts.both_admit;
        assert_eq!(counts.both_refuse, agree);
        assert_eq!(counts.only_candidate_refuses, 1 - agree);
        assert_eq!(counts.only_enforced_refuses, 1 - agree);
    });
}
