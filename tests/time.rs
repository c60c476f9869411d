//! A wrapping counter extended, and the conversions of other time libraries.

#![cfg(not(tidegate_loom))]

use proptest::prelude::*;
use tidegate::{Ticks, Timestamp};

const HALF: u64 = 1 << 31;
/// How late a reading may be, if nobody is in the midst of a call.
const LATE: u64 = 1 << 30;

/// What the counter shows at an instant.
fn counter(instant: u64) -> u32 {
    instant as u32
}

fn extends(ticks: &Ticks<1_000>, instant: u64) {
    assert_eq!(ticks.extend(counter(instant)), instant, "{ticks:?}");
    assert_eq!(
        ticks.timestamp(counter(instant)),
        Timestamp::from_millis(instant)
    );
}

/// One reading in exactly half a range, for ten wraps, and each time the latest that is still allowed.
#[test]
fn once_in_half_a_range() {
    for start in [0, 1, (1 << 24) - 1, 1 << 24, HALF - 1, HALF, (1 << 32) - 1] {
        let ticks = Ticks::new();
        extends(&ticks, start);
        for turn in 1..20 {
            let newest = start + turn * HALF;
            extends(&ticks, newest);
            extends(&ticks, newest - LATE);
            extends(&ticks, newest);
        }
    }
}

/// The window is where the argument says: a tick before it or behind it is misread.
#[test]
fn the_window() {
    const GRAIN: u64 = 1 << 24;
    let newest = |newest| {
        let ticks = Ticks::new();
        for instant in [HALF, newest] {
            extends(&ticks, instant);
        }
        ticks
    };
    let floor = 2 * HALF;
    for instant in [floor, floor + GRAIN - 1] {
        let (first, last) = (floor - LATE, floor + 3 * LATE - 1);
        extends(&newest(instant), first);
        extends(&newest(instant), last);
        assert_ne!(newest(instant).extend(counter(first - 1)), first - 1);
        assert_ne!(newest(instant).extend(counter(last + 1)), last + 1);
    }
}

/// After 2^56 ticks it starts again at zero.
#[test]
fn the_end_of_the_range() {
    let ticks = Ticks::new();
    let end = 1_u64 << 56;
    let mut instant = 0;
    while instant < end - HALF {
        instant += HALF;
        ticks.extend(counter(instant));
    }
    extends(&ticks, end - 1);
    ticks.extend(counter(end));
    for after in 1..10 {
        extends(&ticks, after);
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
        let ticks = Ticks::new();
        let mut newest = start;
        extends(&ticks, newest);
        for (shorter, ahead, is_late, late, sooner) in steps {
            if is_late {
                // Nobody has a reading from before the first.
                let instant = newest.saturating_sub(late >> sooner).max(start);
                extends(&ticks, instant);
            } else {
                newest += ahead >> shorter;
                extends(&ticks, newest);
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
