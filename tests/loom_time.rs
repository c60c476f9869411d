//! Every interleaving of contexts that extend readings of one wrapping counter.

#![cfg(tidegate_loom)]

use core::sync::atomic::{AtomicU64 as Counter, Ordering};

use loom::sync::Arc;
use loom::thread;
use tidegate::Ticks;

const HALF: u64 = 1 << 31;
const GRAIN: u64 = 1 << 24;
const WRAP: u64 = 1 << 32;

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

/// Each thread extends its readings in order; every one gets its instant. Then half a range passes after the newest.
fn readings(name: &str, threads: &'static [&'static [u64]]) {
    explore(name, move || {
        let ticks = Arc::new(Ticks::<1_000>::new());
        let extend = |ticks: &Ticks<1_000>, instant: u64| {
            assert_eq!(ticks.extend(instant as u32), instant);
        };
        extend(&ticks, threads[0][0]);
        let others: Vec<_> = threads
            .iter()
            .map(|&instants| {
                let ticks = ticks.clone();
                thread::spawn(move || instants.iter().for_each(|&at| extend(&ticks, at)))
            })
            .collect();
        for other in others {
            other.join().unwrap();
        }
        // Whoever's store came last, the word is good for half a range.
        let newest = threads.iter().copied().flatten().max().unwrap();
        extend(&ticks, newest + HALF);
    });
}

#[test]
fn every_reading_gets_its_instant() {
    readings(
        "before and behind a wrap",
        &[&[WRAP - 1, WRAP + 1], &[WRAP - 2, WRAP]],
    );
    readings(
        "grains apart",
        &[
            &[5 * GRAIN, 9 * GRAIN],
            &[6 * GRAIN, 7 * GRAIN, 12 * GRAIN - 1],
        ],
    );
    // One of them is as late as it may be: nearly a quarter of a range.
    readings(
        "late",
        &[&[WRAP - HALF, WRAP], &[WRAP - HALF / 2 + GRAIN + 1]],
    );
    readings(
        "three contexts",
        &[&[WRAP - 1], &[WRAP + 1], &[WRAP + 3 * GRAIN]],
    );
}

/// The models can fail: later still, and what the late one stores takes the word back too far.
#[test]
#[should_panic(expected = "left == right")]
fn too_late_is_caught() {
    readings("too late", &[&[WRAP - HALF, WRAP], &[WRAP - HALF / 2 - 1]]);
}
