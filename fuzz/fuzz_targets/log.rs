//! Any calls on an exact log of few places, in either width, shared and owned, beside a list of admissions.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/mod.rs"]
mod common;

use common::log_model::{Form, LogCall, Owned, Player, period, start};
use tidegate::{Limiter, Quota, SlidingLog};

fn play<F: Form>(player: Option<Player<F>>, calls: &[LogCall]) {
    if let Some(mut player) = player {
        for &call in calls {
            player.call(call);
        }
    }
}

type Input = (
    [u8; 2],
    (u8, u64),
    (u8, u64),
    Vec<((u8, u64), (u8, u64), u8)>,
);

fuzz_target!(|input: Input| {
    let ([kind, limit], length, begin, calls) = input;
    let calls: Vec<_> = calls
        .into_iter()
        .map(|(when, cost, what)| LogCall { when, cost, what })
        .collect();
    let begin = start(begin);

    macro_rules! run {
        ($places:literal, $word:ty) => {{
            let limit = u64::from(limit) % $places + 1;
            let quota = Quota::new(limit, period(length)).expect("neither is zero");
            play(
                Player::<Limiter<SlidingLog<$places, $word>>>::shared(quota, begin),
                &calls,
            );
            play(
                Player::<Owned<SlidingLog<$places, $word>>>::owned(quota, begin),
                &calls,
            );
        }};
    }
    match kind % 6 {
        0 => run!(1, u64),
        1 => run!(1, u32),
        2 => run!(3, u64),
        3 => run!(3, u32),
        4 => run!(9, u64),
        _ => run!(9, u32),
    }
});
