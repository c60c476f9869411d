//! One limiter, allowed and denied, one and two threads, beside the floors of the same run.
//!
//! `cargo bench --bench limiter` prints criterion's report, and then a table of ratios to the floor: the median
//! of alternating runs, since only ratios carry over from one noisy machine to another. The floor is the
//! cheapest thing that could do the job: one load and one compare-exchange on a hot word.

use core::hint::black_box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use tidegate::{FixedWindow, Limiter, Quota, SlidingWindow, Timestamp, TokenBucket};

/// Checks in a row, at timestamps 100 ns apart.
type Loop = Box<dyn Fn(u64) + Sync>;

/// A row: what it is, the loop, and how many threads can tell something about it.
struct Row {
    name: &'static str,
    run: Loop,
}

fn row(name: &'static str, run: impl Fn(u64) + Sync + 'static) -> Row {
    Row {
        name,
        run: Box::new(run),
    }
}

/// A limiter's row. `next` may stop the clock, so that no limit is ever reached, or runs into one at once.
macro_rules! limiter {
    ($name:expr, $algorithm:expr, step: $step:expr) => {{
        // Hidden from the compiler, which would otherwise compute with these very limits.
        let limiter = black_box(Limiter::new($algorithm));
        row($name, move |checks| {
            let mut now = 1_000_000_000_000;
            for _ in 0..checks {
                now += $step;
                black_box(limiter.check(Timestamp::from_nanos(now)).is_ok());
            }
        })
    }};
}

/// What is never used up within a run.
fn plenty() -> Quota {
    Quota::per_second(1_000_000_000)
}

/// What is used up by the first request.
fn scarce() -> Quota {
    Quota::per_day(1)
}

fn floors() -> Vec<Row> {
    let cas = AtomicU64::new(0);
    let narrow = AtomicU32::new(0);
    let add = AtomicU64::new(0);
    let load = AtomicU64::new(0);
    vec![
        row("floor: load + compare-exchange, u64", move |checks| {
            for _ in 0..checks {
                let mut seen = cas.load(Ordering::Relaxed);
                while let Err(current) = cas.compare_exchange_weak(
                    seen,
                    black_box(seen + 1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    seen = current;
                }
            }
        }),
        row("floor: load + compare-exchange, u32", move |checks| {
            for _ in 0..checks {
                let mut seen = narrow.load(Ordering::Relaxed);
                while let Err(current) = narrow.compare_exchange_weak(
                    seen,
                    black_box(seen.wrapping_add(1)),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    seen = current;
                }
            }
        }),
        row("floor: fetch_add", move |checks| {
            for _ in 0..checks {
                add.fetch_add(1, Ordering::Relaxed);
            }
        }),
        row("floor: load", move |checks| {
            for _ in 0..checks {
                black_box(load.load(Ordering::Relaxed));
            }
        }),
    ]
}

fn allowed() -> Vec<Row> {
    vec![
        limiter!("token bucket u64, allowed", TokenBucket::new(plenty()), step: 100),
        limiter!("token bucket u32, allowed", TokenBucket::narrow(Quota::per_second(500)), step: 10_000_000),
        limiter!("fixed window u64, allowed", FixedWindow::new(Quota::per_hour(1 << 40)), step: 100),
        limiter!("fixed window u32, allowed", FixedWindow::narrow(Quota::per_second(4_000)), step: 1_000_000),
        limiter!("anchored window u64, allowed", FixedWindow::anchored(Quota::per_second(1 << 30)), step: 100),
        limiter!("sliding window u64, allowed", SlidingWindow::new(Quota::per_second(4_000_000)), step: 1_000),
        limiter!("sliding window u32, allowed", SlidingWindow::narrow(Quota::per_second(60)), step: 100_000_000),
    ]
}

fn denied() -> Vec<Row> {
    vec![
        limiter!("token bucket u64, denied", TokenBucket::new(scarce()), step: 100),
        limiter!("token bucket u32, denied", TokenBucket::narrow(scarce()), step: 100),
        limiter!("fixed window u64, denied", FixedWindow::new(scarce()), step: 100),
        limiter!("fixed window u32, denied", FixedWindow::narrow(scarce()), step: 100),
        limiter!("anchored window u64, denied", FixedWindow::anchored(scarce()), step: 100),
        limiter!("sliding window u64, denied", SlidingWindow::new(scarce()), step: 100),
        limiter!("sliding window u32, denied", SlidingWindow::narrow(scarce()), step: 100),
    ]
}

/// Nanoseconds a check.
fn time(row: &Row, checks: u64) -> f64 {
    let start = Instant::now();
    (row.run)(checks);
    start.elapsed().as_nanos() as f64 / checks as f64
}

/// Millions of checks a second by two threads on the one limiter.
fn throughput(row: &Row, checks: u64) -> f64 {
    let start = Barrier::new(2);
    let took: Duration = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| {
            scope.spawn(|| {
                start.wait();
                let begin = Instant::now();
                (row.run)(checks);
                begin.elapsed()
            })
        });
        threads
            .map(|thread| thread.join().expect("a bench thread"))
            .into_iter()
            .max()
            .expect("two")
    });
    2.0 * checks as f64 / took.as_secs_f64() / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Alternates all rows, many short runs each, and prints medians beside the floor.
fn table() {
    const ROUNDS: usize = 31;
    const CHECKS: u64 = 200_000;
    let rows: Vec<Row> = floors()
        .into_iter()
        .chain(allowed())
        .chain(denied())
        .collect();
    let mut alone = vec![Vec::new(); rows.len()];
    let mut together = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for (index, row) in rows.iter().enumerate() {
            alone[index].push(time(row, CHECKS));
            together[index].push(throughput(row, CHECKS));
        }
    }
    let alone: Vec<f64> = alone.into_iter().map(median).collect();
    let together: Vec<f64> = together.into_iter().map(median).collect();
    let floor = |name: &str| usize::from(name.contains("u32"));
    println!(
        "\nMedians of {ROUNDS} alternating runs; x is the ratio to the compare-exchange of the same width.\n"
    );
    println!("| one limiter | ns a check | x | two threads, M/s | x |");
    println!("|---|---:|---:|---:|---:|");
    for (index, row) in rows.iter().enumerate() {
        let floor = floor(row.name);
        println!(
            "| {} | {:.2} | {:.2} | {:.1} | {:.2} |",
            row.name,
            alone[index],
            alone[index] / alone[floor],
            together[index],
            together[index] / together[floor],
        );
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    // Under `cargo test --benches` criterion runs everything once; there is nothing to measure then.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    for (group, rows) in [
        ("floor", floors()),
        ("allowed", allowed()),
        ("denied", denied()),
    ] {
        let mut group = criterion.benchmark_group(group);
        group.throughput(Throughput::Elements(1_000));
        for row in &rows {
            group.bench_function(row.name, |bencher| bencher.iter(|| (row.run)(1_000)));
        }
        group.finish();
    }
    if measuring {
        table();
    }
    criterion.final_summary();
}
