//! The slowest single check of a new key, while a million come in and while the idle ones among them are dropped.

use std::hint::black_box;
use std::time::Duration;

use crate::keys::Key;
use crate::measure::{Spread, Stopwatch};
use crate::rows::Row;
use crate::subject::{Keyed, Load, advance};

const KEYS: u64 = 1_000_000;
/// Longer than any single check should take.
const LONG: Duration = Duration::from_micros(100);

/// What single checks took, in nanoseconds, and how many took long.
pub struct Slowest {
    pub row: &'static str,
    /// Of a million new keys, none idle: the limiter grows.
    pub growing: Spread,
    pub growing_long: f64,
    /// Of two million more, when the first million is idle.
    pub dropping: Spread,
    pub dropping_long: f64,
}

/// The slowest of a number of checks, each timed, and how many took longer than [`LONG`].
fn checks(limiter: &dyn Keyed<u64>, keys: core::ops::Range<u64>) -> (Duration, u64) {
    let (mut slowest, mut long) = (Duration::ZERO, 0);
    let mut watch = Stopwatch::start();
    for key in keys {
        let key = u64::of(key);
        black_box(limiter.check(&key));
        let lap = watch.lap();
        slowest = slowest.max(lap);
        long += u64::from(lap > LONG);
    }
    (slowest, long)
}

/// Measures every row that grows, and ours, so many times.
pub fn slowest(rows: &[Row<u64>], times: usize) -> Vec<Slowest> {
    let mut results = Vec::new();
    for row in rows.iter().filter(|row| row.grows) {
        let mut samples = [const { Vec::new() }; 4];
        for _ in 0..times {
            let limiter = (row.build)(Load::Brief, KEYS as usize);
            let (growing, growing_long) = checks(&*limiter, 0..KEYS);
            // All idle, in whichever clock.
            advance(5_000_000);
            std::thread::sleep(Duration::from_millis(5));
            let (dropping, dropping_long) = checks(&*limiter, KEYS..3 * KEYS);
            let found = [
                growing.as_nanos() as f64,
                growing_long as f64,
                dropping.as_nanos() as f64,
                dropping_long as f64,
            ];
            for (samples, value) in samples.iter_mut().zip(found) {
                samples.push(value);
            }
        }
        let [growing, growing_long, dropping, dropping_long] =
            samples.map(|samples| Spread::of(&samples));
        results.push(Slowest {
            row: row.name,
            growing,
            growing_long: growing_long.median,
            dropping,
            dropping_long: dropping_long.median,
        });
    }
    results
}
