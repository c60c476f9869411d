//! Any calls on a tiny table of any algorithm and width, beside an exact map.

#![no_main]

use core::time::Duration;

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/mod.rs"]
mod common;

use common::table_model::{Beside, Call, Limits, Raw};
use tidegate::{
    Algorithm, AtomicWord, FixedWindow, OnFull, Quota, SlidingWindow, Table, TokenBucket,
};

fn play<A, const LINES: usize>(limits: [Limits<A>; 2], on_full: OnFull, calls: &[Call])
where
    A: Algorithm<Word: AtomicWord> + Copy,
{
    let table = Table::<A, LINES, Raw>::with_hasher(limits[0].table, Raw);
    let keys = table.capacity() * 2;
    let mut beside = Beside::new(table, on_full, limits, 60_000_000_000, keys);
    for &call in calls {
        beside.play(call);
    }
}

fuzz_target!(|input: ([u8; 4], Vec<(u8, u8, u8, u8)>)| {
    let ([kind, lines, on_full, limit], calls) = input;
    let calls: Vec<_> = calls
        .into_iter()
        .map(|(what, key, cost, when)| Call {
            what,
            key: u16::from(key),
            cost,
            when,
        })
        .collect();
    let on_full = [OnFull::Deny, OnFull::Allow, OnFull::Evict][usize::from(on_full) % 3];
    // Table's and tier's: of windows they must count in equally many bits.
    let (limit, tier) = [(1, 1), (3, 2), (7, 5), (60, 33)][usize::from(limit) % 4];
    let quota = |limit, minutes: u64| {
        Quota::new(limit, Duration::from_secs(60 * minutes)).expect("a valid quota")
    };

    macro_rules! run {
        ($limits:expr) => {{
            let limits = [$limits(1), $limits(3)];
            match lines % 3 {
                0 => play::<_, 1>(limits, on_full, &calls),
                1 => play::<_, 2>(limits, on_full, &calls),
                _ => play::<_, 3>(limits, on_full, &calls),
            }
        }};
    }
    macro_rules! bucket {
        ($new:path) => {
            run!(|minutes| {
                let table = $new(quota(limit, minutes));
                let tier = table
                    .tier(quota(tier, minutes), tier)
                    .expect("fills sooner");
                Limits { table, tier }
            })
        };
    }
    macro_rules! window {
        ($new:path) => {
            run!(|minutes| Limits {
                table: $new(quota(limit, minutes)),
                tier: $new(quota(tier, minutes)),
            })
        };
    }
    match kind % 8 {
        0 => bucket!(TokenBucket::new),
        1 => bucket!(TokenBucket::narrow),
        2 => window!(FixedWindow::new),
        3 => window!(FixedWindow::narrow),
        4 => window!(FixedWindow::anchored),
        5 => window!(FixedWindow::narrow_anchored),
        6 => window!(SlidingWindow::new),
        _ => window!(SlidingWindow::narrow),
    }
});
