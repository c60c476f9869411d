//! Memory: what a live key takes, and what an endless stream of new keys does to it.
//!
//! Each measurement runs in a process of its own, so that none finds memory that another left behind.

use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;

use crate::keys::{Key, in_turn};
use crate::measure::{Spread, Stopwatch, allocated, resident, thread_time};
use crate::rows::{self, Row};
use crate::subject::{Load, advance};

/// What a table is made for.
const LIVE: u64 = 1_000_000;
/// Keys between two readings of the clock's worst lap.
const BATCH: usize = 64;
/// The stream: a new key every 20 ns of the limiter's clock, so 100,000 are live at a time.
const APART: u64 = 20;

/// What the process of its own is to do.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Task {
    /// Fill with a million live keys.
    Fill,
    /// Stream keys that never come again.
    Stream,
    /// The same, dropping idle keys a million keys apart.
    StreamSwept,
    /// The same, on a table in which every slot is live.
    StreamFull,
}

/// Bytes a live key, and how many of a million found no room.
pub struct Filled {
    pub row: &'static str,
    pub allocated: f64,
    pub resident: f64,
    pub peak: f64,
    pub refused: f64,
}

/// What a stream of new keys did.
pub struct Streamed {
    pub row: &'static str,
    pub task: Task,
    /// Nanoseconds a key.
    pub nanos: f64,
    /// Most bytes above what was resident at the start.
    pub growth: f64,
    /// Of the slowest batch of 64, in nanoseconds.
    pub worst: f64,
    /// The share that passed.
    pub passed: f64,
}

/// The child's part: does it, and prints the numbers.
pub fn child(task: Task, name: &str, keys: u64) {
    let row = rows::numbers().into_iter().find(|row| row.name == name);
    let row = row.expect("the parent names a row");
    let numbers = match task {
        Task::Fill => fill(&row),
        _ => stream(&row, task, keys),
    };
    let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
    println!("{}", numbers.join(" "));
}

fn fill(row: &Row<u64>) -> [f64; 4] {
    let (allocated_before, resident_before) = (allocated(), resident());
    let limiter = (row.build)(Load::Lasting, LIVE as usize);
    let (mut peak, mut passed, mut filled) = (0, 0, 0);
    in_turn(0, LIVE, row.plain, |keys| {
        passed += limiter.each(keys);
        filled += 1;
        if filled % 16 == 0 {
            peak = peak.max(resident());
        }
    });
    let a_key = |bytes: u64, before: u64| bytes.saturating_sub(before) as f64 / LIVE as f64;
    [
        a_key(allocated(), allocated_before),
        a_key(resident(), resident_before),
        a_key(peak.max(resident()), resident_before),
        (LIVE - passed as u64) as f64,
    ]
}

fn stream(row: &Row<u64>, task: Task, keys: u64) -> [f64; 4] {
    let (load, from) = match task {
        // Four times what it is made for: whoever came late was refused.
        Task::StreamFull => (Load::Lasting, 4 * LIVE),
        _ => (Load::Brief, 0),
    };
    let limiter = (row.build)(load, LIVE as usize);
    in_turn(0, from, false, |keys| {
        limiter.each(keys);
    });

    let before = resident();
    let (mut peak, mut passed, mut worst) = (before, 0, Duration::ZERO);
    let (mut done, mut next_sweep) = (0, LIVE);
    let begun = thread_time();
    let mut watch = Stopwatch::start();
    let mut batch = [0; BATCH];
    while done < keys {
        for (offset, key) in batch.iter_mut().enumerate() {
            *key = u64::of(from + done + offset as u64);
        }
        passed += limiter.each(&batch);
        done += BATCH as u64;
        advance(APART * BATCH as u64);
        if done >= next_sweep {
            next_sweep += LIVE;
            peak = peak.max(resident());
            if task == Task::StreamSwept {
                limiter.sweep();
            }
        }
        worst = worst.max(watch.lap());
    }
    let nanos = (thread_time() - begun).as_nanos() as f64;
    [
        nanos / done as f64,
        (peak.max(resident()) - before) as f64,
        worst.as_nanos() as f64,
        passed as f64 / done as f64,
    ]
}

/// The parent's part: a process for one row and task.
fn spawn(task: Task, name: &str, keys: u64) -> [f64; 4] {
    let task = task.to_possible_value().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--task", task.get_name(), "--rows", name]);
    let output = command.args(["--stream", &keys.to_string()]).output();
    let output = output.expect("this program can be started again");
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
    numbers.try_into().unwrap_or_else(|_| {
        let log = String::from_utf8_lossy(&output.stderr);
        panic!("{name} in its own process: {text}{log}")
    })
}

/// What a live key takes.
pub fn filled(rows: &[Row<u64>]) -> Vec<Filled> {
    let rows = rows
        .iter()
        .filter(|row| !row.is_floor() && !row.approximate);
    rows.map(|row| {
        let [allocated, resident, peak, refused] = spawn(Task::Fill, row.name, 0);
        Filled {
            row: row.name,
            allocated,
            resident,
            peak,
            refused,
        }
    })
    .collect()
}

/// What `keys` keys that never come again do: medians of so many runs, lest one hiccup of the machine be
/// taken for a pause.
pub fn streamed(rows: &[Row<u64>], keys: u64, times: usize) -> Vec<Streamed> {
    let mut results = Vec::new();
    for row in rows.iter().filter(|row| row.grows) {
        let tasks = if row.is_table() {
            [Task::Stream, Task::StreamFull]
        } else {
            [Task::Stream, Task::StreamSwept]
        };
        for task in tasks {
            let runs: Vec<_> = (0..times).map(|_| spawn(task, row.name, keys)).collect();
            let [nanos, growth, worst, passed] = std::array::from_fn(|number| {
                let values: Vec<f64> = runs.iter().map(|run| run[number]).collect();
                Spread::of(&values).median
            });
            results.push(Streamed {
                row: row.name,
                task,
                nanos,
                growth,
                worst,
                passed,
            });
        }
    }
    results
}
