//! A flood of made-up clients, against a table of fixed capacity and against a map that grows.
//!
//! ```text
//! cargo run --release --example flood --features std
//! ```
//!
//! Both limit each client to 5 requests a day. A few thousand clients have used theirs up when an
//! attacker begins to send every request as a client never seen before. The map keeps a word for each, the
//! least that it can; the table counts as many as it has room for. What memory the process has is read from
//! `/proc/self/statm`, where there is one.

use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use tidegate::{Algorithm, BoxTable, Clock, OnFull, Quota, Timestamp, TokenBucket};

const DAILY: TokenBucket = TokenBucket::new(Quota::per_day(5));
/// Clients that were there before the flood.
const CLIENTS: u64 = 4_096;
/// Clients from this number on are made up.
const MADE_UP: u64 = 1 << 32;
const STEP: u64 = 1_000_000;
const STEPS: u64 = 12;
/// The map is stopped here, should it come to that.
const ENOUGH: u64 = 2 << 30;

/// What both are to the flood.
trait Store {
    fn passes(&mut self, client: u64, now: Timestamp) -> bool;
}

impl Store for BoxTable<TokenBucket> {
    fn passes(&mut self, client: u64, now: Timestamp) -> bool {
        self.check(&client, now).is_ok()
    }
}

impl Store for HashMap<u64, u64> {
    fn passes(&mut self, client: u64, now: Timestamp) -> bool {
        let state = self.entry(client).or_default();
        match DAILY.step(*state, now, 1) {
            Ok((next, _)) => {
                *state = next;
                true
            }
            Err(_) => false,
        }
    }
}

/// Memory that the process has, in bytes; `None` where the system does not say.
fn resident() -> Option<u64> {
    let fields = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = fields.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}

struct Reading {
    sent: u64,
    grown: Option<u64>,
    took: Duration,
}

struct Outcome {
    readings: Vec<Reading>,
    /// Of the clients whose budget was used up before the flood: how many got a request through again.
    refreshed: usize,
    used_up: usize,
}

fn flood(store: &mut impl Store) -> Outcome {
    let clock = Clock::new();
    let before = resident();
    let mut used_up = Vec::new();
    for client in 0..CLIENTS {
        let passed = (0..6).filter(|_| store.passes(client, clock.now())).count();
        if passed == 5 {
            used_up.push(client);
        }
    }

    let mut readings = Vec::new();
    for step in 0..STEPS {
        let begun = Instant::now();
        let now = clock.now();
        for number in step * STEP..(step + 1) * STEP {
            store.passes(MADE_UP + number, now);
        }
        let took = begun.elapsed();
        let grown = resident()
            .zip(before)
            .map(|(now, then)| now.saturating_sub(then));
        readings.push(Reading {
            sent: (step + 1) * STEP,
            grown,
            took,
        });
        if grown.is_some_and(|grown| grown > ENOUGH) {
            break;
        }
    }
    let again = |client: &&u64| store.passes(**client, clock.now());
    Outcome {
        refreshed: used_up.iter().filter(again).count(),
        used_up: used_up.len(),
        readings,
    }
}

fn print(name: &str, outcome: &Outcome, most: u64) {
    println!("{name}");
    println!("  new clients   memory grown by   a decision");
    for reading in &outcome.readings {
        let (size, bar) = match reading.grown {
            Some(grown) => {
                let mebibytes = grown as f64 / f64::from(1 << 20);
                let width = (grown * 40 / most.max(1)) as usize;
                (format!("{mebibytes:.1} MiB"), "#".repeat(width))
            }
            None => ("unknown".to_owned(), String::new()),
        };
        println!(
            "{:>9} M {:>19} {:>9} ns  {bar}",
            reading.sent / 1_000_000,
            size,
            reading.took.as_nanos() as u64 / STEP,
        );
    }
    println!(
        "  {} of {} clients who had used up their day's budget got another request through\n",
        outcome.refreshed, outcome.used_up
    );
}

fn main() {
    // The table first: what the map leaves behind in the allocator must not hide what the table needs.
    let mut table = BoxTable::with_capacity(DAILY, 2 * CLIENTS as usize).on_full(OnFull::Deny);
    let ours = flood(&mut table);
    let full = table.full_counts();
    let (slots, size) = (table.capacity(), table.capacity() * 16 / 1024);
    drop(table);
    let theirs = flood(&mut HashMap::new());

    let grown = |outcome: &Outcome| outcome.readings.iter().filter_map(|it| it.grown).max();
    let most = grown(&ours).max(grown(&theirs)).unwrap_or(0);
    println!("Every request comes from a client never seen before.\n");
    let title = format!("A table of {slots} slots, {size} KiB, made before the flood");
    print(&title, &ours, most);
    print("A HashMap with a word for each client", &theirs, most);
    println!(
        "The table refused {} new clients for want of room. OnFull::Allow would have let them pass, uncounted.",
        full.denied
    );
}
