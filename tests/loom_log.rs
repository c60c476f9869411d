//! Every interleaving of a few threads on an exact log of one to three places, in both widths.
//!
//! `RUSTFLAGS="--cfg tidegate_loom" cargo test --release --features alloc --test loom_log -- --nocapture` prints how
//! many executions each model had.
//!
//! A log says when each permit was taken: `reset_after` of an admission tells its own, and asking for 1, 2, 3.. at the
//! end tells all that are in the ring. In each model the ring is compared with the answers that were given.

#![cfg(tidegate_loom)]

use core::sync::atomic::{AtomicU64 as Counter, Ordering};
use core::time::Duration;

use loom::sync::Arc;
use loom::thread;
use tidegate::{AtomicWord, Limiter, Quota, SlidingLog, Timestamp};

/// How long a model of three threads may take; those of two are always explored to their end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks every execution with at most so many preemptions, and says how many there were.
///
/// `body` says what two threads do; each of them is the spawned one once. Loom compares an exchange with the last access
/// to its cell only. A thread that loads before it exchanges hides so what others have loaded before, and whether they
/// race is only seen if it comes first.
fn explore(name: &str, preemptions: usize, body: impl Fn(bool) + Sync + Send + Copy + 'static) {
    let mut total = 0;
    let begun = std::time::Instant::now();
    for is_swapped in [false, true] {
        total += check(None, preemptions, move || body(is_swapped));
    }
    report(name, total, "all", preemptions, begun.elapsed());
}

/// Explores three threads, for as long as patience lasts.
fn explore_three(name: &str, preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let begun = std::time::Instant::now();
    let total = check(Some(PATIENCE), preemptions, body);
    let took = begun.elapsed();
    let extent = if took < PATIENCE {
        "all"
    } else {
        "stopped there"
    };
    report(name, total, extent, preemptions, took);
}

fn check(
    limit: Option<Duration>,
    preemptions: usize,
    body: impl Fn() + Sync + Send + 'static,
) -> u64 {
    let executions = std::sync::Arc::new(Counter::new(0));
    let counter = executions.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.max_duration = limit;
    model.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        body();
    });
    executions.load(Ordering::Relaxed)
}

fn report(name: &str, executions: u64, extent: &str, preemptions: usize, took: Duration) {
    println!(
        "{name}: {executions} executions, {extent} with up to {preemptions} preemptions, {:.1} s",
        took.as_secs_f64()
    );
    assert!(executions > 5, "{name}: hardly anything ever raced");
}

/// Runs two closures in two threads; the second one here if `is_swapped`.
fn beside<A: 'static, B: 'static>(
    is_swapped: bool,
    one: impl FnOnce() -> A + 'static,
    other: impl FnOnce() -> B + 'static,
) -> (A, B) {
    if is_swapped {
        let spawned = thread::spawn(one);
        let b = other();
        (spawned.join().unwrap(), b)
    } else {
        let spawned = thread::spawn(other);
        let a = one();
        (a, spawned.join().unwrap())
    }
}

trait Width: AtomicWord {
    const NAME: &'static str;
    fn log<const N: usize>(limit: u64) -> SlidingLog<N, Self>;
}

impl Width for u64 {
    const NAME: &'static str = "u64";
    fn log<const N: usize>(limit: u64) -> SlidingLog<N, u64> {
        SlidingLog::new(Quota::per_minute(limit))
    }
}

impl Width for u32 {
    const NAME: &'static str = "u32";
    fn log<const N: usize>(limit: u64) -> SlidingLog<N, u32> {
        SlidingLog::narrow(Quota::per_minute(limit))
    }
}

const MINUTE: u64 = 60;

/// Seconds. Every one used is a multiple of 16, less than an hour: narrow words hold them exactly enough.
fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(1 << 20).saturating_add(Duration::from_secs(secs))
}

type Shared<const N: usize, W> = Arc<Limiter<SlidingLog<N, W>>>;

/// One call, and what came of it: the second to which it is dated.
fn ask<const N: usize, W: Width>(log: &Shared<N, W>, secs: u64, cost: u64) -> Option<u64> {
    let allowed = log.check_n(at(secs), cost).ok()?;
    Some(dated(secs, allowed.reset_after()))
}

fn dated(secs: u64, reset_after: Duration) -> u64 {
    // A narrow word tells up to two of its units more.
    secs + reset_after.as_secs_f64().round() as u64 - MINUTE
}

/// The seconds in the ring, from the oldest: when the first, second, .. permit comes back.
fn in_ring<const N: usize, W: Width>(log: &Shared<N, W>, secs: u64) -> Vec<u64> {
    let used = N as u64 - log.check_n(at(secs), 0).unwrap().remaining();
    let free = N as u64 - used;
    (free + 1..=N as u64)
        .map(|cost| {
            let denied = log.peek_n(at(secs), cost).unwrap_err();
            dated(secs, denied.retry_after().unwrap())
        })
        .collect()
}

/// Admissions as (second, cost): in no minute more than the limit.
fn never_over(admitted: &[(u64, u64)], limit: u64) {
    for &(last, _) in admitted {
        let within: u64 = admitted
            .iter()
            .filter(|it| it.0 <= last && last - it.0 < MINUTE)
            .map(|it| it.1)
            .sum();
        assert!(within <= limit, "{within} admitted within a period");
    }
}

/// The ring holds what was admitted in the minute before `secs`, once.
fn ring_holds<const N: usize, W: Width>(log: &Shared<N, W>, secs: u64, admitted: &[(u64, u64)]) {
    let mut expected: Vec<u64> = admitted
        .iter()
        .filter(|it| secs - it.0 < MINUTE)
        .flat_map(|it| (0..it.1).map(|_| it.0))
        .collect();
    expected.sort_unstable();
    assert_eq!(
        in_ring(log, secs),
        expected,
        "the ring is not what was admitted"
    );
}

type Calls = &'static [(u64, u64)];
type Outcomes = Vec<Option<(u64, u64)>>;

fn play<const N: usize, W: Width>(log: &Shared<N, W>, calls: Calls) -> Outcomes {
    let one = |&(secs, cost): &(u64, u64)| Some((ask(log, secs, cost)?, cost));
    calls.iter().map(one).collect()
}

/// A log of which these have been taken.
fn taken<const N: usize, W: Width>(before: Calls) -> Shared<N, W> {
    let log = Arc::new(Limiter::new(W::log(N as u64)));
    assert_eq!(count(&play(&log, before)), before.len(), "room for all");
    log
}

/// After all is done: what was admitted was right, and is in the ring.
fn settle<const N: usize, W: Width>(
    log: &Shared<N, W>,
    before: Calls,
    outcomes: Outcomes,
    passed: usize,
) {
    assert!(
        count(&outcomes) >= passed,
        "{} passed of {passed}",
        count(&outcomes)
    );
    let mut admitted = before.to_vec();
    admitted.extend(outcomes.into_iter().flatten());
    never_over(&admitted, N as u64);
    let newest = admitted.iter().map(|it| it.0).max().unwrap_or(0);
    ring_holds(log, newest, &admitted);
}

/// Two threads with these calls each, on a log in which some have been taken before; so many pass at least.
fn race<const N: usize, W: Width>(name: &str, before: Calls, calls: [Calls; 2], passed: usize) {
    explore(&format!("{name}, {}", W::NAME), 3, move |is_swapped| {
        let log = taken::<N, W>(before);
        let (one, other) = (log.clone(), log.clone());
        let (mut outcomes, others) = beside(
            is_swapped,
            move || play(&one, calls[0]),
            move || play(&other, calls[1]),
        );
        outcomes.extend(others);
        settle(&log, before, outcomes, passed);
    });
}

/// The same with three.
fn race_of_three<const N: usize, W: Width>(
    name: &str,
    before: Calls,
    calls: [Calls; 3],
    passed: usize,
) {
    explore_three(&format!("{name}, {}", W::NAME), 2, move || {
        let log = taken::<N, W>(before);
        let others: Vec<_> = calls[1..]
            .iter()
            .map(|&calls| {
                let log = log.clone();
                thread::spawn(move || play(&log, calls))
            })
            .collect();
        let mut outcomes = play(&log, calls[0]);
        for other in others {
            outcomes.extend(other.join().unwrap());
        }
        settle(&log, before, outcomes, passed);
    });
}

fn count(outcomes: &[Option<(u64, u64)>]) -> usize {
    outcomes.iter().flatten().count()
}

/// A test of each width.
macro_rules! both {
    ($($name:ident: $body:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn u64() {
                $body::<u64>();
            }

            #[test]
            fn u32() {
                $body::<u32>();
            }
        }
    )*};
}

both! {
    last: last_permit;
    laps: around_a_lap;
    whole: all_or_nothing;
    three: three_at_once;
    refund: refund_against_check;
    refunds: refund_against_refund;
    given_back: take_and_give_back;
    reset: reset_against_check;
    reset_lap: lap_past_a_reset;
    reset_refund: reset_against_refund;
    jump_back: a_jump_back;
    sweep: sweep_against_check;
    peek: peek_beside_checks;
    retune: retune_beside_checks;
}

/// Equal timestamps, and one permit left: one of them gets it, since the ring is full in the end.
fn last_permit<W: Width>() {
    race::<1, W>("1 place, two for it", &[], [&[(0, 1)], &[(0, 1)]], 1);
    race::<2, W>(
        "2 places, two for the last",
        &[(0, 1)],
        [&[(0, 1)], &[(0, 1)]],
        1,
    );
    race::<3, W>(
        "3 places, two for the last",
        &[(0, 2)],
        [&[(0, 1)], &[(0, 1)]],
        1,
    );
}

/// Both sides of a lap: the ring is full, and some of it has expired for one thread and not for the other.
fn around_a_lap<W: Width>() {
    let calls: [Calls; 2] = [&[(64, 1), (64, 1)], &[(64, 1), (128, 1)]];
    race::<1, W>("1 place, laps", &[(0, 1)], calls, 2);
    let calls: [Calls; 2] = [&[(64, 1), (80, 1)], &[(48, 1), (80, 1)]];
    race::<2, W>("2 places, across a lap", &[(0, 1), (16, 1)], calls, 2);
    let calls: [Calls; 2] = [&[(96, 1), (128, 1)], &[(16, 1)]];
    race::<2, W>("2 places, a late one", &[(0, 1), (64, 1)], calls, 1);
    let calls: [Calls; 2] = [&[(64, 1), (80, 1)], &[(80, 1), (64, 1)]];
    race::<3, W>("3 places, skewed", &[(0, 1), (16, 1), (32, 1)], calls, 2);
}

/// More than one permit at once: all or nothing.
fn all_or_nothing<W: Width>() {
    race::<3, W>("3 places, 2 and 2", &[], [&[(0, 2)], &[(0, 2)]], 1);
    race::<3, W>("3 places, 3 and 1", &[], [&[(0, 3)], &[(0, 1)]], 1);
    race::<3, W>("3 places, 2 and 1", &[], [&[(0, 2)], &[(0, 1)]], 2);
    // Nobody is refused because of a claim that is half filled.
    race::<5, W>("5 places, 2 and 2", &[(0, 1)], [&[(0, 2)], &[(0, 2)]], 2);
    let calls: [Calls; 2] = [&[(80, 2)], &[(64, 1), (80, 1)]];
    race::<2, W>(
        "2 places, 2 and 1 across a lap",
        &[(0, 1), (16, 1)],
        calls,
        1,
    );
    // A lap passes a fill that has stalled.
    let calls: [Calls; 2] = [&[(64, 2)], &[(64, 1), (128, 2)]];
    race::<2, W>("2 places, 2 and a lap", &[], calls, 2);
    let calls: [Calls; 2] = [&[(64, 2), (128, 2)], &[(64, 2), (64, 1)]];
    race::<3, W>("3 places, 2 and 2 across laps", &[(0, 2)], calls, 2);
}

fn three_at_once<W: Width>() {
    let calls: [Calls; 3] = [&[(0, 1)], &[(0, 1)], &[(0, 1)]];
    race_of_three::<2, W>("2 places, three for the last", &[(0, 1)], calls, 1);
    let calls: [Calls; 3] = [&[(64, 2)], &[(64, 1)], &[(80, 2)]];
    race_of_three::<3, W>("3 places, 2, 1 and 2 across a lap", &[(0, 3)], calls, 1);
}

/// A permit given back is there for exactly one other, before or after; and it is the one that was taken.
fn refund_against_check<W: Width>() {
    fn body<const N: usize, W: Width>(name: &str, before: Calls, back: u64, calls: Calls) {
        // Of what is shifted by more than one place, three preemptions take minutes.
        let preemptions = if N < 3 { 3 } else { 2 };
        explore(
            &format!("{name}, {}", W::NAME),
            preemptions,
            move |is_swapped| {
                let log = taken::<N, W>(before);
                let (one, other) = (log.clone(), log.clone());
                let (has_given, outcomes) = beside(
                    is_swapped,
                    move || one.refund(at(back), 1),
                    move || play(&other, calls),
                );
                let mut admitted = before.to_vec();
                if has_given {
                    let given = admitted.iter_mut().find(|it| it.0 == back).unwrap();
                    given.1 -= 1;
                }
                admitted.extend(outcomes.into_iter().flatten());
                never_over(&admitted, N as u64);
                let newest = admitted.iter().filter(|it| it.1 > 0).map(|it| it.0).max();
                ring_holds(&log, newest.unwrap_or(0), &admitted);
            },
        );
    }
    body::<1, W>("1 place, refund", &[(0, 1)], 0, &[(0, 1)]);
    body::<2, W>(
        "2 places, refund of the older",
        &[(0, 1), (16, 1)],
        0,
        &[(16, 1)],
    );
    let newer: Calls = &[(16, 1), (64, 1)];
    body::<2, W>(
        "2 places, refund of the newer",
        &[(0, 1), (16, 1)],
        16,
        newer,
    );
    let before: Calls = &[(0, 1), (16, 1), (32, 1)];
    body::<3, W>("3 places, refund of the newest", before, 32, &[(32, 1)]);
    body::<3, W>(
        "3 places, refund of the middle, and 2",
        before,
        16,
        &[(64, 2)],
    );
    let before: Calls = &[(0, 1), (0, 1), (32, 1)];
    body::<3, W>(
        "3 places, refund beside a lap",
        before,
        32,
        &[(64, 2), (64, 1)],
    );
}

/// Two give back at once: both are given back.
fn refund_against_refund<W: Width>() {
    fn body<const N: usize, W: Width>(name: &str, before: Calls, backs: [u64; 2]) {
        explore(&format!("{name}, {}", W::NAME), 2, move |is_swapped| {
            let log = taken::<N, W>(before);
            let (one, other) = (log.clone(), log.clone());
            let given = beside(
                is_swapped,
                move || one.refund(at(backs[0]), 1),
                move || other.refund(at(backs[1]), 1),
            );
            assert_eq!(given, (true, true));
            let is_left = |it: &&(u64, u64)| !backs.contains(&it.0);
            let left: Vec<_> = before.iter().filter(is_left).copied().collect();
            ring_holds(&log, 32, &left);
        });
    }
    body::<2, W>("2 places, both given back", &[(0, 1), (16, 1)], [16, 0]);
    let before: Calls = &[(0, 1), (16, 1), (32, 1)];
    body::<3, W>("3 places, the two older given back", before, [16, 0]);
    body::<3, W>("3 places, the two outer given back", before, [32, 0]);
}

/// Taken and given back by two at once, with one timestamp: all is free in the end, and never too much was given.
fn take_and_give_back<W: Width>() {
    explore(
        &format!("1 place, taken and given back, {}", W::NAME),
        2,
        |is_swapped| {
            let log = taken::<1, W>(&[]);
            let work = |log: Shared<1, W>| {
                move || {
                    if ask(&log, 0, 1).is_some() {
                        assert!(log.refund(at(0), 1));
                    }
                }
            };
            beside(is_swapped, work(log.clone()), work(log.clone()));
            ring_holds(&log, 0, &[]);
            assert_eq!(ask(&log, 0, 1), Some(0));
            assert_eq!(ask(&log, 0, 1), None);
        },
    );
}

/// Whatever was taken before a reset is forgotten, and nothing that was taken after.
fn reset_against_check<W: Width>() {
    fn body<const N: usize, W: Width>(name: &str, before: Calls, cost: u64) {
        explore(&format!("{name}, {}", W::NAME), 3, move |is_swapped| {
            let log = taken::<N, W>(before);
            let (one, other) = (log.clone(), log.clone());
            let (here, there) = beside(
                is_swapped,
                move || ask(&one, 32, cost),
                move || {
                    other.reset();
                    ask(&other, 32, 1)
                },
            );
            let ring = in_ring(&log, 32);
            // Nothing but what these two were admitted; of the first, unless that came before the reset.
            assert!(ring.iter().all(|&secs| secs == 32), "left over: {ring:?}");
            let own = u64::from(there.is_some());
            let most = own + here.map_or(0, |_| cost);
            let len = ring.len() as u64;
            assert!(len == own || len == most, "{len} of {own} or {most}");
            // Only what was taken after the reset can have left no room.
            assert!(there.is_some() || len == N as u64);
        });
    }
    body::<1, W>("1 place, reset", &[(0, 1)], 1);
    body::<2, W>("2 places, reset", &[(0, 1), (16, 1)], 2);
    body::<3, W>("3 places, reset", &[(0, 1), (16, 1)], 1);
}

/// A reset that stalls while others finish it takes nothing of what they take then, a lap later.
fn lap_past_a_reset<W: Width>() {
    explore(
        &format!("1 place, a lap past a reset, {}", W::NAME),
        3,
        |is_swapped| {
            let log = taken::<1, W>(&[(0, 1)]);
            let (one, other) = (log.clone(), log.clone());
            let ((), outcomes) = beside(
                is_swapped,
                move || one.reset(),
                move || play(&other, &[(32, 1), (96, 1)]),
            );
            // That the first passed shows that the reset had been.
            if outcomes[0].is_some() {
                assert!(outcomes[1].is_some());
                ring_holds(&log, 96, &[(96, 1)]);
            }
        },
    );
}

fn reset_against_refund<W: Width>() {
    explore(
        &format!("2 places, reset against refund, {}", W::NAME),
        3,
        |is_swapped| {
            let log = taken::<2, W>(&[(0, 1), (16, 1)]);
            let (one, other) = (log.clone(), log.clone());
            beside(
                is_swapped,
                move || one.reset(),
                move || other.refund(at(16), 1),
            );
            ring_holds(&log, 16, &[]);
            assert_eq!(ask(&log, 16, 2), Some(16));
            assert_eq!(ask(&log, 16, 1), None);
        },
    );
}

/// A clock has jumped back: what lies ahead is forgotten once, and what comes after is counted once.
fn a_jump_back<W: Width>() {
    explore(
        &format!("2 places, a jump back, {}", W::NAME),
        2,
        |is_swapped| {
            let log = taken::<2, W>(&[]);
            let ahead = log.algorithm().horizon().as_secs() + 256;
            assert!(log.check_n(at(ahead - ahead % 16), 2).is_ok());
            let (one, other) = (log.clone(), log.clone());
            let (here, there) = beside(
                is_swapped,
                move || ask(&one, 16, 1),
                move || ask(&other, 16, 2),
            );
            assert!(here.is_some() != there.is_some(), "{here:?} and {there:?}");
            let cost = if here.is_some() { 1 } else { 2 };
            ring_holds(&log, 16, &[(16, cost)]);
        },
    );
}

/// Sweeping an idle log beside a request loses nothing.
fn sweep_against_check<W: Width>() {
    explore(&format!("2 places, sweep, {}", W::NAME), 3, |is_swapped| {
        let log = taken::<2, W>(&[(0, 2)]);
        let (one, other) = (log.clone(), log.clone());
        let (_, there) = beside(
            is_swapped,
            move || one.sweep(at(64)),
            move || ask(&other, 64, 1),
        );
        assert_eq!(there, Some(64));
        ring_holds(&log, 64, &[(64, 1)]);
    });
}

/// A reader sees what some prefix of the calls makes.
fn peek_beside_checks<W: Width>() {
    explore(&format!("3 places, peek, {}", W::NAME), 3, |is_swapped| {
        let log = taken::<3, W>(&[]);
        let (one, other) = (log.clone(), log.clone());
        let left = |log: &Shared<3, W>| log.check_n(at(0), 0).unwrap().remaining();
        let (outcomes, seen) = beside(
            is_swapped,
            move || play(&one, &[(0, 2), (0, 1)]),
            move || [left(&other), left(&other)],
        );
        assert_eq!(count(&outcomes), 2);
        assert!(seen.iter().all(|left| [0, 1, 3].contains(left)), "{seen:?}");
        assert!(seen[1] <= seen[0], "{seen:?}");
        ring_holds(&log, 0, &[(0, 3)]);
    });
}

/// The copy that a change of limits makes is one state of the ring.
fn retune_beside_checks<W: Width>() {
    explore(&format!("3 places, retune, {}", W::NAME), 3, |is_swapped| {
        let log = taken::<3, W>(&[(0, 1)]);
        let (one, other) = (log.clone(), log.clone());
        let (outcomes, copy) = beside(
            is_swapped,
            move || play(&one, &[(0, 2)]),
            move || other.retuned(W::log(3), at(0)),
        );
        assert_eq!(count(&outcomes), 1);
        let copied = in_ring(&Arc::new(copy), 0).len();
        assert!([1, 3].contains(&copied), "{copied} of 1 or 3");
    });
}
