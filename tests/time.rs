//! A wrapping counter extended, and the conversions of other time libraries.

#![cfg(not(tidegate_loom))]

use proptest::prelude::*;
use tidegate::{AtomicWord, Ticks, Timestamp};

const HALF: u64 = 1 << 31;
/// How late a reading may be.
const LATE: u64 = HALF - (1 << 24);

/// What the counter shows at an instant.
fn counter(instant: u64) -> u32 {
    instant as u32
}

fn extends<W: AtomicWord>(ticks: &Ticks<1_000, W>, instant: u64) {
    assert_eq!(ticks.extend(counter(instant)), instant, "{ticks:?}");
    assert_eq!(
        ticks.timestamp(counter(instant)),
        Timestamp::from_millis(instant)
    );
}

/// One reading in exactly half a range, for ten wraps, and each time the latest that is still allowed.
#[test]
fn once_in_half_a_range() {
    fn body<W: AtomicWord>() {
        for start in [0, 1, (1 << 24) - 1, 1 << 24, HALF - 1, HALF, (1 << 32) - 1] {
            let ticks = Ticks::<1_000, W>::new();
            extends(&ticks, start);
            for turn in 1..20 {
                let newest = start + turn * HALF;
                extends(&ticks, newest);
                extends(&ticks, newest - LATE);
                extends(&ticks, newest);
            }
        }
    }
    body::<u32>();
    body::<u64>();
}

/// The bounds that the docs give are the bounds: at the worst place in a grain, a tick more is misread.
#[test]
fn the_bounds_are_tight() {
    const GRAIN: u64 = 1 << 24;
    let newest = |newest| {
        let ticks: Ticks<1_000> = Ticks::new();
        extends(&ticks, HALF);
        extends(&ticks, newest);
        ticks
    };
    let end_of_a_grain = 2 * HALF + GRAIN - 1;
    extends(&newest(end_of_a_grain), end_of_a_grain + HALF);
    let too_far = end_of_a_grain + HALF + 1;
    assert_ne!(newest(end_of_a_grain).extend(counter(too_far)), too_far);

    let start_of_a_grain = 2 * HALF;
    extends(&newest(start_of_a_grain), start_of_a_grain - LATE);
    let too_late = start_of_a_grain - LATE - 1;
    assert_ne!(newest(start_of_a_grain).extend(counter(too_late)), too_late);
}

/// After 2^56 ticks the narrow word starts again at zero; the wide one goes on.
#[test]
fn the_end_of_the_range() {
    let (narrow, wide): (Ticks<1_000>, Ticks<1_000, u64>) = (Ticks::new(), Ticks::new());
    let end = 1_u64 << 56;
    let mut instant = 0;
    while instant < end - HALF {
        // Only the newest reading counts, so most of the way can be skipped in strides of half a range.
        instant += HALF;
        narrow.extend(counter(instant));
        wide.extend(counter(instant));
    }
    extends(&narrow, end - 1);
    extends(&wide, end - 1);
    narrow.extend(counter(end));
    for after in 1..10 {
        assert_eq!(narrow.extend(counter(end + after)), after);
        extends(&wide, end + after);
    }
}

proptest! {
    /// Main loop, tasks and interrupts: readings at any pace up to the bound, handed over in any order up to the
    /// bound. Every one gets its own instant.
    #[test]
    fn readings_late_and_early(
        start in 0_u64..1 << 32,
        steps in prop::collection::vec((0_u32..32, 0_u64..=HALF, any::<bool>(), 0_u64..=LATE, 0_u32..32), 1..200),
    ) {
        let (narrow, wide): (Ticks<1_000>, Ticks<1_000, u64>) = (Ticks::new(), Ticks::new());
        let mut newest = start;
        extends(&narrow, newest);
        extends(&wide, newest);
        for (shorter, ahead, is_late, late, sooner) in steps {
            if is_late {
                // Nobody has a reading from before the first.
                let instant = newest.saturating_sub(late >> sooner).max(start);
                extends(&narrow, instant);
                extends(&wide, instant);
            } else {
                newest += ahead >> shorter;
                extends(&narrow, newest);
                extends(&wide, newest);
            }
        }
    }
}

#[cfg(feature = "fugit")]
mod fugit_conversions {
    use super::*;
    use fugit::{Duration, Instant, MonotonicInstant, kind};

    fn agree<const NOM: u64, const DENOM: u64>(ticks: u64, nanos: u64) {
        let (nom, denom) = (u128::from(NOM) * 1_000_000_000, u128::from(DENOM));
        let saturated = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        let from = Timestamp::from_nanos(saturated(u128::from(ticks) * nom / denom));
        let up = saturated((u128::from(nanos) * denom).div_ceil(nom));
        let at = Timestamp::from_nanos(nanos);

        assert_eq!(
            Timestamp::from(Instant::<u64, NOM, DENOM, kind::Monotonic>::from_ticks(
                ticks
            )),
            from
        );
        assert_eq!(
            Timestamp::from(Instant::<u64, NOM, DENOM, kind::Wrapping>::from_ticks(
                ticks
            )),
            from
        );
        assert_eq!(
            Timestamp::from(Duration::<u64, NOM, DENOM>::from_ticks(ticks)),
            from
        );
        assert_eq!(MonotonicInstant::<u64, NOM, DENOM>::from(at).as_ticks(), up);
        assert_eq!(Duration::<u64, NOM, DENOM>::from(at).as_ticks(), up);

        let narrow = ticks as u32;
        let from = Timestamp::from_nanos(saturated(u128::from(narrow) * nom / denom));
        assert_eq!(
            Timestamp::from(MonotonicInstant::<u32, NOM, DENOM>::from_ticks(narrow)),
            from
        );
        assert_eq!(
            Timestamp::from(Duration::<u32, NOM, DENOM>::from_ticks(narrow)),
            from
        );

        // Rounded up there and down here: never before.
        let there = MonotonicInstant::<u64, NOM, DENOM>::from(at);
        if there.as_ticks() < u64::MAX {
            assert!(Timestamp::from(there) >= at, "{there:?} {at:?}");
        }
    }

    proptest! {
        #[test]
        fn every_base(ticks: u64, nanos: u64, by in 0_u32..64) {
            let (ticks, nanos) = (ticks >> by, nanos >> by);
            agree::<1, 1_000>(ticks, nanos);
            agree::<1, 1_000_000>(ticks, nanos);
            agree::<1, 1_000_000_000>(ticks, nanos);
            agree::<1, 1_000_000_000_000>(ticks, nanos);
            agree::<1, 32_768>(ticks, nanos);
            agree::<1, 12_000_000>(ticks, nanos);
            agree::<1, 168_000_000>(ticks, nanos);
            agree::<60, 1>(ticks, nanos);
            agree::<3_600, 1>(ticks, nanos);
            agree::<4, 44_100>(ticks, nanos);
        }
    }
}

#[cfg(feature = "embassy-time")]
mod embassy_conversions {
    use super::*;
    use embassy_time::{Duration, Instant, TICK_HZ};

    proptest! {
        #[test]
        fn both_ways(ticks: u64, nanos: u64, by in 0_u32..64) {
            let (ticks, nanos) = (ticks >> by, nanos >> by);
            let saturated = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
            let hz = u128::from(TICK_HZ);
            let from = Timestamp::from_nanos(saturated(u128::from(ticks) * 1_000_000_000 / hz));
            prop_assert_eq!(Timestamp::from(Instant::from_ticks(ticks)), from);
            prop_assert_eq!(Timestamp::from(Duration::from_ticks(ticks)), from);

            let at = Timestamp::from_nanos(nanos);
            let up = saturated((u128::from(nanos) * hz).div_ceil(1_000_000_000));
            prop_assert_eq!(Instant::from(at).as_ticks(), up);
            prop_assert_eq!(Duration::from(at).as_ticks(), up);
            prop_assert!(Timestamp::from(Instant::from(at)) >= at);
        }
    }
}
