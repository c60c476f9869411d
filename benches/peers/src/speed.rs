//! How fast: nanoseconds a check, and checks a second by two threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::keys::{Key, Sequence, in_turn};
use crate::measure::{Spread, thread_time, together};
use crate::rows::{FLOOR, Row};
use crate::subject::{CHUNK, Keyed, Load, now, set_clock};

/// How a row is driven.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    OneByOne,
    /// One by one, and every one denied.
    Denied,
    /// A fence after every check.
    Isolated,
    /// So many at a time.
    Batches(usize),
    TwoThreads,
}

/// What was measured of one row in one mode.
pub struct Cell {
    pub row: &'static str,
    /// How many keys, and which.
    pub keys: &'static str,
    pub mode: Mode,
    /// Nanoseconds a check, or millions of checks a second by two threads.
    pub value: Spread,
    /// To the floor of the same round.
    pub ratio: Spread,
}

/// How long and how often.
#[derive(Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    pub slice: Duration,
}

/// A row with its limiter.
pub struct Entrant<K> {
    row: Row<K>,
    limiter: Box<dyn Keyed<K>>,
    /// Where in the sequence it goes on.
    at: AtomicUsize,
    /// Its own time: other rows' turns do not age its states.
    clock: AtomicU64,
}

/// The rows that can hold `n` keys, each filled with them.
pub fn enter<K: Key>(rows: Vec<Row<K>>, load: Load, n: u64) -> Vec<Entrant<K>> {
    let rows = rows.into_iter().filter(|row| n <= row.most_keys);
    rows.map(|row| {
        let limiter = (row.build)(load, n as usize);
        in_turn(0, n, row.plain, |keys| {
            limiter.each(keys);
        });
        Entrant {
            row,
            limiter,
            at: AtomicUsize::new(0),
            clock: AtomicU64::new(now()),
        }
    })
    .collect()
}

impl<K: Key> Entrant<K> {
    /// Moves the clock on by what the most popular key needs back before the next thousand checks.
    ///
    /// At 2.5 ms a permit, since 500 a second is the most that the narrow words hold together with a burst
    /// that outlasts a chunk. No faster either: their time wraps after some hours.
    fn tick(&self, sequence: &Sequence<K>) {
        let step = (sequence.top * CHUNK as f64 * 2_500_000.0) as u64;
        set_clock(self.clock.fetch_add(step, Relaxed) + step);
    }

    /// The next thousand keys, in one way or another; how many passed.
    fn chunk(&self, mode: Mode, sequence: &Sequence<K>) -> Option<usize> {
        let keys = sequence.get(self.row.plain);
        let at = self.at.fetch_add(CHUNK, Relaxed) % keys.len();
        let keys = &keys[at..at + CHUNK];
        self.tick(sequence);
        match mode {
            Mode::OneByOne | Mode::Denied => Some(self.limiter.each(keys)),
            Mode::Isolated => Some(self.limiter.isolated(keys)),
            Mode::Batches(size) => self.limiter.batches(keys, size),
            Mode::TwoThreads => unreachable!("driven by its own threads"),
        }
    }

    /// One timed slice of one thread: checks, nanoseconds of processor time each, and how many passed.
    fn alone(
        &self,
        mode: Mode,
        sequence: &Sequence<K>,
        length: Duration,
    ) -> Option<(usize, f64, usize)> {
        let (begun, before) = (Instant::now(), thread_time());
        let (mut checks, mut passed) = (0, 0);
        while begun.elapsed() < length {
            passed += self.chunk(mode, sequence)?;
            checks += CHUNK;
        }
        let took = (thread_time() - before).as_nanos() as f64;
        Some((checks, took / checks as f64, passed))
    }

    fn in_two_threads(&self, sequence: &Sequence<K>, length: Duration) -> f64 {
        let keys = sequence.get(self.row.plain);
        // Each thread has half of the sequence to itself, and both use every key.
        let half = keys.len() / 2;
        let begin = self.at.load(Relaxed);
        let places = [AtomicUsize::new(begin), AtomicUsize::new(begin)];
        let rate = together(length, |thread| {
            let at = places[thread].fetch_add(CHUNK, Relaxed) % half + thread * half;
            self.tick(sequence);
            self.limiter.each(&keys[at..at + CHUNK]);
            CHUNK
        });
        self.at.fetch_add(places[0].load(Relaxed) - begin, Relaxed);
        rate
    }

    /// A limiter that does not do the job is not to be compared; tell whoever reads the table.
    fn verify(
        &self,
        keys: &str,
        mode: Mode,
        checks: usize,
        passed: usize,
        wrong: &mut Vec<String>,
    ) {
        let share = passed as f64 / checks as f64;
        let fine = match mode {
            Mode::Denied => share < 0.01,
            _ => share > 0.99,
        };
        if !fine && !self.row.is_floor() && !self.row.approximate {
            let name = self.row.name;
            let complaint = format!(
                "{name}, {keys}, {mode:?}: {:.1} % of the checks passed",
                100.0 * share
            );
            if !wrong.contains(&complaint) {
                wrong.push(complaint);
            }
        }
    }
}

/// Measures every entrant in every mode, round after round, so that a noisy minute hits all of them.
pub fn race<K: Key>(
    entrants: &[Entrant<K>],
    keys: &'static str,
    sequence: &Sequence<K>,
    modes: &[Mode],
    effort: Effort,
    wrong: &mut Vec<String>,
) -> Vec<Cell> {
    let mut samples = vec![vec![Vec::new(); modes.len()]; entrants.len()];
    for _ in 0..effort.rounds {
        for (entrant, samples) in entrants.iter().zip(&mut samples) {
            // The caches are full of the row before.
            let _ = entrant.alone(modes[0], sequence, effort.slice / 2);
            for (&mode, samples) in modes.iter().zip(samples) {
                if mode == Mode::TwoThreads {
                    samples.push(entrant.in_two_threads(sequence, effort.slice));
                } else if let Some((checks, nanos, passed)) =
                    entrant.alone(mode, sequence, effort.slice)
                {
                    entrant.verify(keys, mode, checks, passed, wrong);
                    samples.push(nanos);
                }
            }
        }
    }
    let floor = entrants
        .iter()
        .position(|entrant| entrant.row.name == FLOOR);
    let floor = &samples[floor.expect("the floor is never left out")];
    let mut cells = Vec::new();
    for (entrant, samples) in entrants.iter().zip(&samples) {
        for (place, &mode) in modes.iter().enumerate() {
            let values = &samples[place];
            if values.is_empty() {
                continue;
            }
            let ratios: Vec<f64> = values
                .iter()
                .zip(&floor[place])
                .map(|(value, floor)| value / floor)
                .collect();
            cells.push(Cell {
                row: entrant.row.name,
                keys,
                mode,
                value: Spread::of(values),
                ratio: Spread::of(&ratios),
            });
        }
    }
    cells
}
