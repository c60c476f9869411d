//! Every interleaving of contexts that extend readings of one wrapping counter.

#![cfg(tidegate_loom)]

use core::sync::atomic::{AtomicU64 as Counter, Ordering};

use loom::sync::Arc;
use loom::thread;
use tidegate::{AtomicWord, Ticks};

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
fn readings<W: AtomicWord>(name: &str, threads: &'static [&'static [u64]]) {
    explore(name, move || {
        let ticks = Arc::new(Ticks::<1_000, W>::new());
        let extend = |ticks: &Ticks<1_000, W>, instant: u64| {
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
        // Whoever was overtaken, the word is as new as the newest reading, and so is good for half a range.
        let newest = threads.iter().copied().flatten().max().unwrap();
        extend(&ticks, newest + HALF);
    });
}

fn all<W: AtomicWord>() {
    readings::<W>(
        "before and behind a wrap",
        &[&[WRAP - 1, WRAP + 1], &[WRAP - 2, WRAP]],
    );
    readings::<W>(
        "grains apart",
        &[
            &[5 * GRAIN, 9 * GRAIN],
            &[6 * GRAIN, 7 * GRAIN, 12 * GRAIN - 1],
        ],
    );
    readings::<W>(
        "half a range apart",
        &[&[WRAP - HALF, WRAP], &[WRAP - GRAIN, WRAP + GRAIN]],
    );
}

#[test]
fn narrow() {
    all::<u32>();
    readings::<u32>(
        "three contexts",
        &[&[WRAP - 1, WRAP], &[WRAP + 1], &[WRAP + 3 * GRAIN]],
    );
}

#[test]
fn wide() {
    all::<u64>();
}

/// The models can fail: stored instead of exchanged, the newest reading is forgotten.
#[test]
#[should_panic(expected = "forgotten")]
fn storing_forgets() {
    use loom::sync::atomic::{AtomicU32, Ordering};

    loom::model(|| {
        let newest = Arc::new(AtomicU32::new(1));
        let extend = |newest: &AtomicU32, grain: u32| {
            if grain > newest.load(Ordering::Relaxed) {
                newest.store(grain, Ordering::Relaxed);
            }
        };
        let other = {
            let newest = newest.clone();
            thread::spawn(move || extend(&newest, 2))
        };
        extend(&newest, 9);
        other.join().unwrap();
        assert_eq!(newest.load(Ordering::Relaxed), 9, "forgotten");
    });
}
