//! Two threads on one hot limiter, each with a lease and without, and what asking several gates costs.
//!
//! `cargo bench --bench lease` prints two tables: medians of alternating runs, since only ratios carry over from one
//! noisy machine to another. Of the runs of two threads only those count in which both ran at once. Timestamps are read once in 16 checks, as a packet loop would.

use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Barrier;
use std::time::Instant;

use tidegate::{
    All, Beside, Clock, FixedWindow, Lease, Limiter, Quota, Shadow, SlidingWindow, Strategy,
    Timestamp, TokenBucket,
};

/// Checks for one timestamp.
const BATCH: u64 = 16;

/// Calls `check` so often, and counts what passes.
fn turns(checks: u64, clock: &Clock, mut check: impl FnMut(Timestamp) -> bool) -> u64 {
    let mut passed = 0;
    for _ in 0..checks / BATCH {
        let now = clock.now();
        for _ in 0..BATCH {
            passed += u64::from(black_box(check(now)));
        }
    }
    passed
}

/// What two threads did.
#[derive(Clone, Copy)]
struct Run {
    /// The share of the time in which both were at it.
    overlap: f64,
    /// Millions of checks a second.
    rate: f64,
    /// Of them, how many passed.
    passed: f64,
}

/// `one` is what each thread does: so many checks, and how many passed.
fn two_threads(checks: u64, one: impl Fn(u64) -> u64 + Sync) -> Run {
    let (asleep, ready) = (Barrier::new(2), AtomicU32::new(0));
    let [one, other] = std::thread::scope(|scope| {
        [(); 2]
            .map(|()| {
                scope.spawn(|| {
                    asleep.wait();
                    // Awake: from here on the start is a matter of nanoseconds.
                    ready.fetch_add(1, Ordering::Relaxed);
                    while ready.load(Ordering::Relaxed) < 2 {
                        core::hint::spin_loop();
                    }
                    let begin = Instant::now();
                    let passed = one(checks);
                    (begin, Instant::now(), passed)
                })
            })
            .map(|thread| thread.join().expect("a bench thread"))
    });
    let took = one.1.max(other.1) - one.0.min(other.0);
    let both = one
        .1
        .min(other.1)
        .saturating_duration_since(one.0.max(other.0));
    let all = 2.0 * checks as f64;
    Run {
        overlap: both.as_secs_f64() / took.as_secs_f64(),
        rate: all / took.as_secs_f64() / 1e6,
        passed: (one.2 + other.2) as f64 / all,
    }
}

/// Runs until both threads were at it nearly all the time: on a machine that does something else as well they are
/// often run one after the other, and then nothing is contended.
fn at_once(run: impl Fn() -> Run) -> Option<Run> {
    (0..50).map(|_| run()).find(|run| run.overlap > 0.9)
}

/// One limiter, shared: bare, and with a lease for each thread.
struct Row {
    name: &'static str,
    bare: Box<dyn Fn(u64) -> Run>,
    leased: Box<dyn Fn(u64) -> Run>,
}

fn row<A: Strategy + Copy + Send + Sync + 'static>(name: &'static str, algorithm: A) -> Row {
    let bare = move |checks| {
        let clock = Clock::new();
        let gate = black_box(Limiter::new(algorithm));
        two_threads(checks, |checks| {
            turns(checks, &clock, |now| gate.check(now).is_ok())
        })
    };
    let leased = move |checks| {
        let clock = Clock::new();
        let gate = black_box(Limiter::new(algorithm));
        two_threads(checks, |checks| {
            let mut lease = Lease::new(&gate, 1..=65_536);
            turns(checks, &clock, |now| lease.check(now).is_ok())
        })
    };
    Row {
        name,
        bare: Box::new(bare),
        leased: Box::new(leased),
    }
}

fn rows() -> Vec<Row> {
    let million = |millions: u64| Quota::per_second(millions * 1_000_000);
    vec![
        row(
            "token bucket, 1,000 M/s: never reached",
            TokenBucket::new(million(1_000)),
        ),
        row(
            "token bucket, 100 M/s: within the burst",
            TokenBucket::new(million(100)).with_burst(10_000_000),
        ),
        row(
            "token bucket, 10 M/s: reached",
            TokenBucket::new(million(10)).with_burst(100_000),
        ),
        row(
            "token bucket, 1 M/s: most are refused",
            TokenBucket::new(million(1)).with_burst(1_000),
        ),
        row(
            "fixed window, 1,000 M/s: never reached",
            FixedWindow::new(million(1_000)),
        ),
        row(
            "sliding window, 4 M/s: within the window",
            SlidingWindow::new(million(4)),
        ),
    ]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn leases(rounds: usize, checks: u64) {
    println!("| two threads on one limiter | bare, M/s | passed | leases, M/s | passed | ratio |");
    println!("|---|---:|---:|---:|---:|---:|");
    for row in rows() {
        let mut bare = Vec::new();
        let mut leased = Vec::new();
        for _ in 0..rounds {
            bare.extend(at_once(|| (row.bare)(checks)));
            leased.extend(at_once(|| (row.leased)(checks)));
        }
        if bare.is_empty() || leased.is_empty() {
            println!("| {} | two threads never ran at once | | | | |", row.name);
            continue;
        }
        let rate = |runs: &[Run]| median(runs.iter().map(|run| run.rate).collect());
        let passed = |runs: &[Run]| 100.0 * median(runs.iter().map(|run| run.passed).collect());
        let (slow, fast) = (rate(&bare), rate(&leased));
        println!(
            "| {} | {slow:.1} | {:.0} % | {fast:.1} | {:.0} % | {:.1} |",
            row.name,
            passed(&bare),
            passed(&leased),
            fast / slow
        );
    }
}

/// Nanoseconds a check, alone.
fn alone(rounds: usize, checks: u64) {
    let plenty = Quota::per_second(1_000_000_000);
    let bucket = || black_box(Limiter::new(TokenBucket::new(plenty)));
    let window = || black_box(Limiter::new(FixedWindow::new(Quota::per_hour(1 << 40))));
    let scarce = || black_box(Limiter::new(TokenBucket::new(Quota::per_day(1))));
    let (a, b, c) = (bucket(), window(), scarce());
    let (in_shadow, beside) = (Shadow::new(bucket()), Beside::new(bucket(), window()));
    let gates: [&dyn tidegate::Gate; 2] = [&a, &b];
    type Check<'a> = Box<dyn Fn(Timestamp) -> bool + 'a>;
    let rows: [(&str, Check); 11] = [
        ("one limiter", Box::new(|now| a.check(now).is_ok())),
        (
            "two limiters, one after the other",
            Box::new(|now| a.check(now).is_ok() && b.check(now).is_ok()),
        ),
        (
            "`All` of two",
            Box::new(|now| All((&a, &b)).check(now).is_ok()),
        ),
        (
            "`All` of two, `admits`",
            Box::new(|now| All((&a, &b)).admits(now, 1)),
        ),
        (
            "`All` of two, `admits`, the second refuses",
            Box::new(|now| All((&a, &c)).admits(now, 1)),
        ),
        (
            "`All` of two `dyn Gate`",
            Box::new(|now| All(&gates[..]).check(now).is_ok()),
        ),
        (
            "`All` of two, the first refuses",
            Box::new(|now| All((&c, &a)).check(now).is_ok()),
        ),
        (
            "`All` of two, the second refuses",
            Box::new(|now| All((&a, &c)).check(now).is_ok()),
        ),
        ("`Shadow`", Box::new(|now| in_shadow.check(now).is_ok())),
        ("`Beside`", Box::new(|now| beside.check(now).is_ok())),
        ("nothing but the loop", Box::new(|_| true)),
    ];
    let _ = c.check(Timestamp::from_secs(1_000));
    let mut times = rows.each_ref().map(|_| Vec::new());
    for _ in 0..rounds {
        for ((_, check), times) in rows.iter().zip(&mut times) {
            let begin = Instant::now();
            let mut now = 1_000_000_000_000;
            for _ in 0..checks {
                now += 100;
                black_box(check(Timestamp::from_nanos(now)));
            }
            times.push(begin.elapsed().as_nanos() as f64 / checks as f64);
        }
    }
    println!("\n| one thread, through a `dyn Fn` | ns a check |");
    println!("|---|---:|");
    for ((name, _), times) in rows.iter().zip(times) {
        println!("| {name} | {:.2} |", median(times));
    }
}

fn main() {
    // Under `cargo test --benches` everything runs once; there is nothing to measure then.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let (rounds, checks) = if measuring {
        (31, 1 << 18)
    } else {
        (1, 1 << 10)
    };
    leases(rounds, checks);
    alone(rounds, checks / 4);
}
