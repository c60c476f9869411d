//! Every interleaving of a few threads on a table of very few slots, in both widths.
//!
//! `RUSTFLAGS="--cfg tidegate_loom" cargo test --release --features alloc --test loom_table -- --nocapture`
//! prints how many executions each model had. A line has two slots here, so that rare paths are common.
//!
//! In each: nobody is admitted beyond its limit, no key has two committed slots, and what a key was admitted is
//! what its state says, once.

#![cfg(all(tidegate_loom, feature = "alloc"))]

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64 as Counter, Ordering};
use core::time::Duration;

use loom::sync::Arc;
use loom::thread;
use tidegate::{Algorithm, AtomicWord, BoxTable, OnFull, Quota, Reason, Timestamp, TokenBucket};

/// Keys are their own hashes, so that a test can put them where it wants.
#[derive(Clone, Copy)]
struct Identity;

struct Same(u64);

impl BuildHasher for Identity {
    type Hasher = Same;

    fn build_hasher(&self) -> Same {
        Same(0)
    }
}

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A key whose first line is `line` of two (or the only one), and which prefers slot `slot`.
const fn key(name: u64, line: u64, slot: u64) -> u64 {
    name << 40 | line << 31 | slot
}

type Shared<W> = Arc<BoxTable<TokenBucket<W>, Identity>>;

trait Width: AtomicWord {
    const NAME: &'static str;
    fn bucket(limit: u64) -> TokenBucket<Self>;
}

impl Width for u64 {
    const NAME: &'static str = "u64";
    fn bucket(limit: u64) -> TokenBucket<u64> {
        TokenBucket::new(Quota::per_minute(limit))
    }
}

impl Width for u32 {
    const NAME: &'static str = "u32";
    fn bucket(limit: u64) -> TokenBucket<u32> {
        TokenBucket::narrow(Quota::per_minute(limit))
    }
}

fn table<W: Width>(limit: u64, lines: usize) -> Shared<W>
where
    TokenBucket<W>: Algorithm<Word = W>,
{
    Arc::new(BoxTable::with_lines(W::bucket(limit), lines, Identity))
}

/// How long a model of three threads may take; those of two are always explored to their end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks every execution with at most `preemptions` of them, and says how many there were.
fn explore(name: &str, preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    explore_for(None, name, preemptions, body);
}

fn explore_for(
    limit: Option<Duration>,
    name: &str,
    preemptions: usize,
    body: impl Fn() + Sync + Send + 'static,
) {
    let executions = std::sync::Arc::new(Counter::new(0));
    let counter = executions.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.max_duration = limit;
    let begun = std::time::Instant::now();
    model.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let executions = executions.load(Ordering::Relaxed);
    let took = begun.elapsed();
    let extent = match limit {
        Some(limit) if took >= limit => "stopped there",
        _ => "all",
    };
    println!(
        "{name}: {executions} executions, {extent} with up to {preemptions} preemptions, {:.1} s",
        took.as_secs_f64()
    );
    assert!(executions > 3, "{name}: hardly anything ever raced");
}

/// A test of each width.
macro_rules! both {
    ($(#[$attribute:meta])* $name:ident, $body:ident) => {
        $(#[$attribute])*
        mod $name {
            #[test]
            fn u64() {
                super::$body::<u64>();
            }

            #[test]
            fn u32() {
                super::$body::<u32>();
            }
        }
    };
}

const EARLY: Timestamp = Timestamp::from_secs(1_000);
/// When what was used up early is back, and more.
const LATER: Timestamp = Timestamp::from_secs(1_200);
const LIMIT: u64 = 2;

/// What is left of a key's limit, once all threads are done.
fn left<W: Width>(table: &Shared<W>, key: u64, now: Timestamp) -> u64 {
    table.check_n(&key, now, 0).unwrap().remaining()
}

/// The invariants of a key that was admitted so many times at one instant.
fn settled<W: Width>(table: &Shared<W>, key: u64, now: Timestamp, admitted: u64) {
    assert!(admitted <= LIMIT, "{admitted} admitted");
    assert!(table.committed_slots(&key) <= 1, "two slots of one key");
    assert_eq!(
        left(table, key, now),
        LIMIT - admitted,
        "a debit lost, or made twice"
    );
}

fn spawn<W: Width, T: 'static>(
    table: &Shared<W>,
    body: impl FnOnce(Shared<W>) -> T + 'static,
) -> thread::JoinHandle<T> {
    let table = table.clone();
    thread::spawn(move || body(table))
}

fn one<W: Width>(table: &Shared<W>, key: u64, now: Timestamp) -> u64 {
    u64::from(table.check(&key, now).is_ok())
}

/// One new key, asked for at once.
fn same_new_key<W: Width>() {
    const A: u64 = key(1, 0, 0);
    for lines in [1, 2] {
        explore(
            &format!("{} same new key, {lines} lines", W::NAME),
            3,
            move || {
                let table = table::<W>(LIMIT, lines);
                let other = spawn(&table, |table| table.check_n(&A, EARLY, 2).is_ok());
                let here = table.check_n(&A, EARLY, 2).is_ok();
                assert!(here != other.join().unwrap(), "one of two gets it all");
                settled(&table, A, EARLY, 2);
                assert_eq!(table.len_live(EARLY), 1);
            },
        );
    }
}
both!(same_new_key_at_once, same_new_key);

/// One new key, three threads.
fn three_same_new_key<W: Width>() {
    const A: u64 = key(1, 0, 0);
    explore_for(
        Some(PATIENCE),
        &format!("{} same new key, three threads", W::NAME),
        2,
        || {
            let table = table::<W>(LIMIT, 1);
            let others = [(); 2].map(|()| spawn(&table, |table| one(&table, A, EARLY)));
            let here = one(&table, A, EARLY);
            let admitted = here
                + others
                    .map(|other| other.join().unwrap())
                    .iter()
                    .sum::<u64>();
            assert_eq!(admitted, LIMIT);
            settled(&table, A, EARLY, admitted);
        },
    );
}
both!(same_new_key_by_three, three_same_new_key);

/// One new key; to the late thread only one victim is idle, to the other both are, and it prefers the other.
fn different_victims<W: Width>() {
    const X: u64 = key(1, 0, 0);
    const Y: u64 = key(2, 0, 1);
    const NEW: u64 = key(3, 0, 1);
    // X is idle from EARLY + 30 s on, Y from EARLY + 90 s.
    const LATE: Timestamp = Timestamp::from_secs(1_040);
    const NOW: Timestamp = Timestamp::from_secs(1_095);
    explore(&format!("{} different victims", W::NAME), 3, || {
        let table = table::<W>(LIMIT, 1);
        assert_eq!(one(&table, X, EARLY), 1);
        assert_eq!(one(&table, Y, Timestamp::from_secs(1_060)), 1);
        let other = spawn(&table, |table| one(&table, NEW, LATE));
        let here = one(&table, NEW, NOW);
        let admitted = here + other.join().unwrap();
        assert!(table.committed_slots(&NEW) <= 1, "two slots of one key");
        // Punctual, it gets in. The late one finds the debit of the other 55 s, nearly two permits, ahead.
        assert_eq!(here, 1);
        assert!(admitted <= 2);
        let used = LIMIT - left(&table, NEW, NOW);
        assert!(
            used <= admitted && (admitted == 0 || used > 0),
            "{used} of {admitted}"
        );
    });
}
both!(same_new_key_with_different_victims, different_victims);

/// An idle key is evicted while it asks itself.
fn owner_against_newcomer<W: Width>() {
    const OLD: u64 = key(1, 0, 0);
    const LIVE: u64 = key(2, 0, 1);
    const NEW: u64 = key(3, 0, 0);
    explore(
        &format!("{} eviction against the owner's request", W::NAME),
        3,
        || {
            let table = table::<W>(LIMIT, 1);
            assert_eq!(one(&table, OLD, EARLY), 1);
            assert_eq!(one(&table, LIVE, LATER), 1);
            let newcomer = spawn(&table, |table| one(&table, NEW, LATER));
            let owner = one(&table, OLD, LATER);
            let newcomer = newcomer.join().unwrap();
            // One slot for two: one of them at least gets it.
            assert!(owner + newcomer >= 1);
            for (key, admitted) in [(OLD, owner), (NEW, newcomer), (LIVE, 1)] {
                settled(&table, key, LATER, admitted);
            }
        },
    );
}
both!(eviction_against_the_owners_request, owner_against_newcomer);

/// The same, and a second newcomer: take-back races a third key.
fn take_back_against_third<W: Width>() {
    const OLD: u64 = key(1, 0, 0);
    const LIVE: u64 = key(2, 0, 1);
    const NEW: [u64; 2] = [key(3, 0, 0), key(4, 0, 0)];
    explore_for(
        Some(PATIENCE),
        &format!("{} take-back against a third key", W::NAME),
        2,
        || {
            let table = table::<W>(LIMIT, 1);
            assert_eq!(one(&table, OLD, EARLY), 1);
            assert_eq!(one(&table, LIVE, LATER), 1);
            let newcomers = NEW.map(|key| spawn(&table, move |table| one(&table, key, LATER)));
            let owner = one(&table, OLD, LATER);
            let newcomers = newcomers.map(|newcomer| newcomer.join().unwrap());
            assert!(owner + newcomers[0] + newcomers[1] >= 1);
            for (key, admitted) in [(OLD, owner), (NEW[0], newcomers[0]), (NEW[1], newcomers[1])] {
                settled(&table, key, LATER, admitted);
            }
            settled(&table, LIVE, LATER, 1);
        },
    );
}
both!(take_back_against_a_third_key, take_back_against_third);

/// Two new keys, one slot.
fn two_newcomers<W: Width>() {
    const LIVE: u64 = key(2, 0, 1);
    const NEW: [u64; 2] = [key(3, 0, 0), key(4, 0, 0)];
    explore(
        &format!("{} two newcomers for one slot", W::NAME),
        3,
        || {
            let table = table::<W>(LIMIT, 1);
            assert_eq!(one(&table, LIVE, EARLY), 1);
            let other = spawn(&table, |table| table.check(&NEW[1], EARLY).map(drop));
            let here = table.check(&NEW[0], EARLY).map(drop);
            let there = other.join().unwrap();
            let admitted = [here, there].map(|answer| match answer {
                Ok(()) => 1,
                Err(denied) => {
                    assert_eq!(denied.reason(), Reason::TableFull);
                    0
                }
            });
            assert_eq!(admitted[0] + admitted[1], 1, "one slot, one key");
            for (key, admitted) in NEW.into_iter().zip(admitted) {
                settled(&table, key, EARLY, admitted);
            }
            settled(&table, LIVE, EARLY, 1);
            assert_eq!(table.len_live(EARLY), 2);
        },
    );
}
both!(two_newcomers_for_one_slot, two_newcomers);

/// Two keys with their lines the other way round, in a table with room for both.
fn crossing<W: Width>() {
    const A: u64 = key(1, 0, 0);
    const B: u64 = key(2, 1, 0);
    explore(&format!("{} two keys, two lines", W::NAME), 2, || {
        let table = table::<W>(LIMIT, 2);
        let other = spawn(&table, |table| {
            one(&table, A, EARLY) + one(&table, B, EARLY)
        });
        let a = one(&table, B, EARLY) + one(&table, A, EARLY);
        assert_eq!(a + other.join().unwrap(), 4);
        settled(&table, A, EARLY, 2);
        settled(&table, B, EARLY, 2);
    });
}
both!(two_keys_in_two_lines, crossing);

/// A refund of a key that is being evicted gives to nobody else.
fn refund_against_eviction<W: Width>() {
    const OLD: u64 = key(1, 0, 0);
    const LIVE: u64 = key(2, 0, 1);
    const NEW: u64 = key(3, 0, 0);
    explore(&format!("{} refund against eviction", W::NAME), 3, || {
        let table = table::<W>(LIMIT, 1);
        assert_eq!(one(&table, OLD, EARLY), 1);
        assert_eq!(one(&table, LIVE, LATER), 1);
        let refund = spawn(&table, |table| table.refund(&OLD, EARLY, 1));
        let newcomer = table.check_n(&NEW, LATER, 2).is_ok();
        refund.join().unwrap();
        assert!(newcomer, "an idle key makes room");
        settled(&table, NEW, LATER, 2);
        settled(&table, LIVE, LATER, 1);
        assert!(table.committed_slots(&OLD) <= 1);
    });
}
both!(refund_racing_with_eviction, refund_against_eviction);

/// A full table refuses, and stays as it is; then a permit comes back and one gets in.
fn full<W: Width>() {
    const LIVE: [u64; 2] = [key(1, 0, 0), key(2, 0, 1)];
    const NEW: u64 = key(3, 0, 0);
    explore(&format!("{} full table", W::NAME), 3, || {
        let table = table::<W>(LIMIT, 1);
        for key in LIVE {
            assert_eq!(one(&table, key, EARLY), 1);
        }
        let newcomer = spawn(&table, |table| {
            table.check(&NEW, EARLY).unwrap_err().reason()
        });
        let owner = one(&table, LIVE[0], EARLY);
        assert_eq!(newcomer.join().unwrap(), Reason::TableFull);
        settled(&table, LIVE[0], EARLY, 1 + owner);
        settled(&table, LIVE[1], EARLY, 1);
        settled(&table, NEW, EARLY, 0);
    });
}
both!(full_table, full);

/// A key that is given back to while it comes is live for everybody: a third finds no room, even if the refund has seen
/// the new tag beside the old state.
fn full_beside_a_refund<W: Width>() {
    const LIVE: u64 = key(2, 0, 1);
    const NEW: u64 = key(3, 0, 0);
    const LATE: u64 = key(4, 0, 0);
    explore(&format!("{} full beside a refund", W::NAME), 3, || {
        let table = table::<W>(LIMIT, 1);
        assert_eq!(one(&table, LIVE, EARLY), 1);
        let refund = spawn(&table, |table| table.refund(&NEW, EARLY, 1));
        assert!(table.check_n(&NEW, EARLY, 2).is_ok());
        let late = table.check(&LATE, EARLY).map(drop);
        assert_eq!(late.unwrap_err().reason(), Reason::TableFull);
        let given_back = u64::from(refund.join().unwrap());
        settled(&table, NEW, EARLY, 2 - given_back);
        settled(&table, LIVE, EARLY, 1);
        settled(&table, LATE, EARLY, 0);
    });
}
both!(full_table_beside_a_refund, full_beside_a_refund);

/// Under `Evict` a live key may lose its debits, but nobody gets another's, and no key has two slots.
fn evict<W: Width>() {
    const LIVE: [u64; 2] = [key(1, 0, 0), key(2, 0, 1)];
    const NEW: u64 = key(3, 0, 0);
    explore(&format!("{} evicting a live key", W::NAME), 3, || {
        let table = BoxTable::with_lines(W::bucket(LIMIT), 1, Identity).on_full(OnFull::Evict);
        let table = Arc::new(table);
        for key in LIVE {
            assert_eq!(one(&table, key, EARLY), 1);
        }
        let newcomer = spawn(&table, |table| one(&table, NEW, EARLY));
        let owner = one(&table, LIVE[0], EARLY);
        assert_eq!((newcomer.join().unwrap(), owner), (1, 1));
        assert!(table.full_counts().evicted >= 1);
        for key in [LIVE[0], LIVE[1], NEW] {
            assert!(table.committed_slots(&key) <= 1);
            assert!(LIMIT - left(&table, key, EARLY) <= 2);
        }
        assert!(left(&table, NEW, EARLY) >= 1);
    });
}
both!(evicting_a_live_key, evict);

/// Sweeping beside a newcomer and an owner changes no answer.
fn sweep<W: Width>() {
    const OLD: u64 = key(1, 0, 0);
    const NEW: u64 = key(3, 0, 0);
    explore(&format!("{} sweep", W::NAME), 3, || {
        let table = table::<W>(LIMIT, 1);
        assert_eq!(one(&table, OLD, EARLY), 1);
        let sweeper = spawn(&table, |table| table.sweep(LATER));
        let new = one(&table, NEW, LATER);
        let old = one(&table, OLD, LATER);
        sweeper.join().unwrap();
        assert_eq!((old, new), (1, 1));
        settled(&table, OLD, LATER, 1);
        settled(&table, NEW, LATER, 1);
    });
}
both!(sweep_beside_requests, sweep);
