//! Any script of calls, on any algorithm and width, beside the exact model, with every law checked.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

#[path = "../../tests/common/mod.rs"]
mod common;

use common::script::{Call, Knobs, play};

/// A class and a number, as the scripts take them.
type Pick = (u8, u64);

fuzz_target!(|input: (u8, [Pick; 4], Vec<(Pick, Pick, u8)>)| -> Corpus {
    let (kind, [limit, period, burst, start], calls) = input;
    let knobs = Knobs {
        kind,
        limit,
        period,
        burst,
        start,
    };
    let Some(mut setup) = knobs.setup() else {
        return Corpus::Reject;
    };
    // The laws look at pairs of admissions: longer scripts cost much and tell little more.
    let calls: Vec<_> = calls
        .into_iter()
        .take(64)
        .map(|(when, cost, what)| Call { when, cost, what })
        .collect();
    play(&mut setup, knobs.start(), &calls);
    Corpus::Keep
});
