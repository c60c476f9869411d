//! Decisions whose instructions `ci/instructions.sh` has counted.
//!
//! `tidegate-instructions` lists its rows; `tidegate-instructions ROW N` makes N decisions of that kind, each in a
//! call of a function named `measured_*`. What is asked to prepare them goes through the same function, which is then the
//! only caller of what it measures, as in most programs, and is the same for every N: two runs tell what one
//! decision costs. Nothing here depends on a clock, an address or chance.

use core::hint::black_box;
use core::time::Duration;
use std::process::ExitCode;

use tidegate::{
    Algorithm, Allowed, AtomicWord, BoxTable, Denied, FixedWindow, Limiter, Quota, Seeded,
    SlidingLog, SlidingWindow, Timestamp, TokenBucket,
};

const NOW: Timestamp = Timestamp::from_secs(1_000_000);
/// Keys that are live at once, in twice as many slots.
const LIVE: u64 = 1024;

/// One decision of each kind, or a batch of them. Called and not inlined: what is counted is the call's own
/// bookkeeping, and no loop's.
mod measured {
    use super::*;

    macro_rules! limiters {
        ($($name:ident: $algorithm:ty;)*) => {
            $(#[unsafe(no_mangle)]
            #[inline(never)]
            pub(super) fn $name(limiter: &Limiter<$algorithm>, now: Timestamp) -> bool {
                limiter.check(now).is_ok()
            })*
        };
    }

    limiters! {
        measured_bucket_wide: TokenBucket;
        measured_bucket_narrow: TokenBucket<u32>;
        measured_fixed: FixedWindow;
        measured_sliding: SlidingWindow;
        measured_log_8: SlidingLog<8>;
        measured_log_64: SlidingLog<64>;
    }

    macro_rules! tables {
        ($($one:ident, $many:ident: $word:ty;)*) => {
            $(#[unsafe(no_mangle)]
            #[inline(never)]
            pub(super) fn $one(table: &Clients<$word>, key: u64, now: Timestamp) -> bool {
                table.check(&key, now).is_ok()
            }

            #[unsafe(no_mangle)]
            #[inline(never)]
            pub(super) fn $many(table: &Clients<$word>, keys: &[u64], now: Timestamp) -> u64 {
                let mut passed = 0;
                table.check_many(keys, now, tally(&mut passed));
                passed
            })*
        };
    }

    tables! {
        measured_table_wide, measured_batch_wide: u64;
        measured_table_narrow, measured_batch_narrow: u32;
    }
}

use measured::*;

type Clients<W> = BoxTable<TokenBucket<W>>;

/// Outside of `measured`: a closure that is not inlined must not look like a decision of its own.
fn tally(passed: &mut u64) -> impl FnMut(usize, Result<Allowed, Denied>) {
    |_, decision| *passed += u64::from(decision.is_ok())
}

/// How many of `n` decisions pass.
fn ask(n: u64, mut decide: impl FnMut(u64, Timestamp) -> bool) -> u64 {
    (0..n)
        .map(|index| u64::from(decide(index, black_box(NOW))))
        .sum()
}

type Decide<A> = fn(&Limiter<A>, Timestamp) -> bool;

/// A limiter with permits to spare.
fn allowed<A: Algorithm<Word: AtomicWord>>(n: u64, algorithm: A, decide: Decide<A>) {
    let limiter = Limiter::new(algorithm);
    let passed = ask(n, |_, now| decide(black_box(&limiter), now));
    assert_eq!(passed, n);
}

/// A limiter of one permit, which has been taken.
fn denied<A: Algorithm<Word: AtomicWord>>(n: u64, algorithm: A, decide: Decide<A>) {
    let limiter = Limiter::new(algorithm);
    assert!(decide(&limiter, NOW));
    let passed = ask(n, |_, now| decide(black_box(&limiter), now));
    assert_eq!(passed, 0);
}

/// A full log, of which the oldest permit comes back at each decision.
fn log_allowed<const N: usize>(n: u64, decide: Decide<SlidingLog<N>>) {
    let period = Duration::from_secs(60);
    let quota = Quota::new(N as u64, period).expect("neither is zero");
    let limiter = Limiter::new(SlidingLog::new(black_box(quota)));
    let passed = (0..n as u32)
        .filter(|&index| {
            let now = NOW.saturating_add(period / N as u32 * index);
            decide(black_box(&limiter), black_box(now))
        })
        .count() as u64;
    assert_eq!(passed, n);
}

/// A log all of whose permits have been taken.
fn log_denied<const N: usize>(n: u64, decide: Decide<SlidingLog<N>>) {
    let limiter = Limiter::new(SlidingLog::new(black_box(Quota::per_hour(N as u64))));
    assert_eq!(ask(N as u64, |_, now| decide(&limiter, now)), N as u64);
    assert_eq!(ask(n, |_, now| decide(black_box(&limiter), now)), 0);
}

/// A table in which every one of the live keys has been seen once.
fn seen<W: AtomicWord>(bucket: TokenBucket<W>, decide: One<W>) -> Clients<W> {
    let table = empty(bucket);
    assert_eq!(ask(LIVE, |key, now| decide(&table, key, now)), LIVE);
    assert_eq!(table.len_live(NOW) as u64, LIVE);
    table
}

fn empty<W: AtomicWord>(bucket: TokenBucket<W>) -> Clients<W> {
    // Half a line of 64 bytes are states.
    let slots = 32 / size_of::<W>();
    let lines = 2 * LIVE as usize / slots;
    let table = BoxTable::with_lines(bucket, lines, Seeded::new([1, 2]));
    assert_eq!(table.capacity() as u64, 2 * LIVE);
    table
}

type One<W> = fn(&Clients<W>, u64, Timestamp) -> bool;
type Many<W> = fn(&Clients<W>, &[u64], Timestamp) -> u64;

fn hits<W: AtomicWord>(n: u64, bucket: TokenBucket<W>, decide: One<W>, expected: u64) {
    let table = seen(bucket, decide);
    let passed = ask(n, |index, now| decide(black_box(&table), index % LIVE, now));
    assert_eq!(passed, expected);
}

fn batches<W: AtomicWord>(n: u64, bucket: TokenBucket<W>, decide: Many<W>) {
    let table = empty(bucket);
    let keys: Vec<u64> = (0..LIVE).collect();
    assert_eq!(decide(&table, &keys, NOW), LIVE);
    assert_eq!(n % LIVE, 0, "whole batches");
    let passed: u64 = (0..n / LIVE)
        .map(|_| decide(black_box(&table), black_box(&keys), black_box(NOW)))
        .sum();
    assert_eq!(passed, n);
}

/// Keys never seen before, at such a pace that half of the slots are live all the while.
fn inserts<W: AtomicWord>(n: u64, bucket: TokenBucket<W>, decide: One<W>) {
    let table = empty(bucket);
    let pace = Duration::from_secs(1) / LIVE as u32;
    let at = |key: u64| NOW.saturating_add(pace * key as u32);
    // Until every slot has been used, so that what follows replaces idle keys. A few find no room.
    const BEFORE: u64 = 16 * LIVE;
    let passed = (0..BEFORE)
        .filter(|&key| decide(&table, key, at(key)))
        .count() as u64;
    assert!(BEFORE - passed <= BEFORE / 200, "{passed} of {BEFORE}");
    let passed = (BEFORE..BEFORE + n)
        .filter(|&key| decide(black_box(&table), key, at(key)))
        .count() as u64;
    assert!(n - passed <= n / 200, "{passed} of {n}");
    let live = table.len_live(at(BEFORE + n)) as u64;
    assert!(live.abs_diff(LIVE) < LIVE / 50, "{live} live");
}

/// More permits than any row asks for, and as many as a narrow bucket counts well.
fn plenty() -> Quota {
    black_box(Quota::per_minute(20_000))
}

/// The same for each key of a table.
fn some() -> Quota {
    black_box(Quota::per_minute(500))
}

/// A permit that does not come back.
fn one() -> Quota {
    black_box(Quota::per_hour(1))
}

/// A permit that comes back while as many keys are inserted as shall be live.
fn soon() -> Quota {
    black_box(Quota::per_second(1))
}

type Row = (&'static str, fn(u64));

#[rustfmt::skip]
const ROWS: [Row; 22] = [
    ("token-bucket-u64-allowed", |n| allowed(n, TokenBucket::new(plenty()), measured_bucket_wide)),
    ("token-bucket-u64-denied", |n| denied(n, TokenBucket::new(one()), measured_bucket_wide)),
    ("token-bucket-u32-allowed", |n| allowed(n, TokenBucket::narrow(plenty()), measured_bucket_narrow)),
    ("token-bucket-u32-denied", |n| denied(n, TokenBucket::narrow(one()), measured_bucket_narrow)),
    ("fixed-window-u64-allowed", |n| allowed(n, FixedWindow::new(plenty()), measured_fixed)),
    ("fixed-window-u64-denied", |n| denied(n, FixedWindow::new(one()), measured_fixed)),
    ("anchored-window-u64-allowed", |n| allowed(n, FixedWindow::anchored(plenty()), measured_fixed)),
    ("anchored-window-u64-denied", |n| denied(n, FixedWindow::anchored(one()), measured_fixed)),
    ("sliding-window-u64-allowed", |n| allowed(n, SlidingWindow::new(plenty()), measured_sliding)),
    ("sliding-window-u64-denied", |n| denied(n, SlidingWindow::new(one()), measured_sliding)),
    ("log-of-8-u64-allowed", |n| log_allowed(n, measured_log_8)),
    ("log-of-8-u64-denied", |n| log_denied(n, measured_log_8)),
    ("log-of-64-u64-allowed", |n| log_allowed(n, measured_log_64)),
    ("log-of-64-u64-denied", |n| log_denied(n, measured_log_64)),
    ("table-u64-hit-allowed", |n| hits(n, TokenBucket::new(some()), measured_table_wide, n)),
    ("table-u64-hit-denied", |n| hits(n, TokenBucket::new(one()), measured_table_wide, 0)),
    ("table-u64-insert", |n| inserts(n, TokenBucket::new(soon()), measured_table_wide)),
    ("table-u64-batch", |n| batches(n, TokenBucket::new(some()), measured_batch_wide)),
    ("table-u32-hit-allowed", |n| hits(n, TokenBucket::narrow(some()), measured_table_narrow, n)),
    ("table-u32-hit-denied", |n| hits(n, TokenBucket::narrow(one()), measured_table_narrow, 0)),
    ("table-u32-insert", |n| inserts(n, TokenBucket::narrow(soon()), measured_table_narrow)),
    ("table-u32-batch", |n| batches(n, TokenBucket::narrow(some()), measured_batch_narrow)),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        for (name, _) in ROWS {
            println!("{name}");
        }
        return ExitCode::SUCCESS;
    };
    let n = arguments.next().and_then(|text| text.parse().ok());
    match (ROWS.iter().find(|row| row.0 == name), n) {
        (Some(row), Some(n)) => {
            row.1(n);
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: tidegate-instructions [ROW N]");
            ExitCode::FAILURE
        }
    }
}
