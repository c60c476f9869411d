//! The ten laws and the exact model, over every algorithm and word width, random and extreme.

mod common;

use common::script::{Call, Knobs, play};
use common::subject::Kind;
use proptest::prelude::*;

fn knobs(kind: u8) -> impl Strategy<Value = Knobs> {
    any::<[(u8, u64); 4]>().prop_map(move |[limit, period, burst, start]| Knobs {
        kind,
        limit,
        period,
        burst,
        start,
    })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = any::<((u8, u64), (u8, u64), u8)>().prop_map(|(when, cost, what)| Call {
        when,
        cost,
        what,
    });
    prop::collection::vec(call, 1..48)
}

/// One property per algorithm and width, so that each gets its full number of cases.
fn laws(kind: Kind) {
    let index = Kind::ALL.iter().position(|&it| it == kind).unwrap() as u8;
    let mut refused = 0;
    let mut played = 0;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        // Overflow shows in debug, numbers of cases in release.
        cases: if cfg!(debug_assertions) {
            3_000
        } else {
            50_000
        },
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let count = core::cell::RefCell::new((&mut played, &mut refused));
    let result = runner.run(&(knobs(index), calls()), |(knobs, calls)| {
        let mut count = count.borrow_mut();
        match knobs.setup() {
            Some(mut setup) => {
                *count.0 += 1;
                play(&mut setup, knobs.start(), &calls);
            }
            None => *count.1 += 1,
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{kind:?}: {error}");
    }
    // Most words hold most quotas: else the property would be about nothing.
    assert!(
        played * 4 > refused,
        "{kind:?}: only {played} played, {refused} refused"
    );
}

#[test]
fn token_bucket() {
    laws(Kind::Bucket);
}

#[test]
fn token_bucket_narrow() {
    laws(Kind::NarrowBucket);
}

#[test]
fn fixed_window_aligned() {
    laws(Kind::Aligned);
}

#[test]
fn fixed_window_aligned_narrow() {
    laws(Kind::NarrowAligned);
}

#[test]
fn fixed_window_anchored() {
    laws(Kind::Anchored);
}

#[test]
fn fixed_window_anchored_narrow() {
    laws(Kind::NarrowAnchored);
}

#[test]
fn sliding_window() {
    laws(Kind::Sliding);
}

#[test]
fn sliding_window_narrow() {
    laws(Kind::NarrowSliding);
}
