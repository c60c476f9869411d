//! Laws 7, 8 and 9, the rounding of the narrow words, and changing limits: what the scripts do not cover.

mod common;

use core::time::Duration;

use common::script::Knobs;
use common::subject::{Kind, Setup};
use proptest::prelude::*;
use tidegate::{
    Algorithm, ConfigError, FixedWindow, Quota, Reason, SlidingWindow, Timestamp, TokenBucket,
};

const SECOND: u64 = 1_000_000_000;

fn any_setup() -> impl Strategy<Value = Setup> {
    any::<(u8, [(u8, u64); 4])>()
        .prop_map(|(kind, [limit, period, burst, start])| Knobs {
            kind,
            limit,
            period,
            burst,
            start,
        })
        .prop_filter_map("the word cannot hold it", |knobs| knobs.setup())
}

impl core::fmt::Debug for Setup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} {} burst {}", self.kind, self.quota, self.burst)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 5_000 } else { 100_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Law 7: any word at all, not only those that a step makes.
    #[test]
    fn total(setup in any_setup(), state: u64, now: u64, cost: u64, shift in 0_u32..64) {
        let subject = &setup.subject;
        let state = state & (u64::MAX >> (64 - subject.payload_bits()));
        for cost in [0, 1, cost, cost >> shift, u64::MAX] {
            match subject.step(state, now, cost) {
                Ok((_, allowed)) => {
                    prop_assert!(cost <= setup.burst);
                    prop_assert!(allowed.remaining() <= setup.burst);
                    let _ = (allowed.reset_after(), format!("{allowed:?}"));
                }
                Err(denied) => {
                    prop_assert!(cost > 0);
                    prop_assert_eq!(denied.reason() == Reason::TooCostly, cost > setup.burst);
                    prop_assert!(denied.remaining() <= setup.burst);
                    let _ = (denied.retry_after(), denied.reset_after(), format!("{denied} {denied:?}"));
                }
            }
            subject.refund(state, now, cost);
        }
        let idle = subject.is_idle(state, now);
        prop_assert_eq!(idle, subject.idle_after(state, now).is_zero());
    }

    /// Law 8: with a newest timestamp seen, a call that is late by up to a minute is admitted only if a
    /// punctual one is, and is refused at most what its lateness is worth.
    #[test]
    fn late_earns_nothing(
        setup in any_setup(),
        start in (0_u64..1 << 62).prop_map(|start| start + 60 * SECOND),
        late in 0..=60 * SECOND,
        taken: u64,
        asked: u64,
    ) {
        let subject = &setup.subject;
        let taken = taken % setup.burst + 1;
        let asked = asked % setup.burst + 1;
        let (state, _) = subject.step(0, start, taken).unwrap();
        let punctual = subject.step(state, start, asked);
        let tardy = subject.step(state, start - late, asked);
        match (punctual, tardy) {
            (Err(punctual), Ok(_)) => {
                prop_assert!(false, "refused on time ({punctual:?}), admitted {late} ns late");
            }
            (Err(punctual), Err(tardy)) => {
                let late = Duration::from_nanos(late);
                prop_assert!(tardy.retry_after() <= punctual.retry_after().map(|wait| wait + late));
            }
            (Ok((on_time, allowed)), Ok((tardy, _))) => {
                prop_assert_eq!(on_time, tardy, "the debit is the same");
                let later = subject.step(tardy, start, 0).unwrap().1;
                prop_assert_eq!(later.remaining(), allowed.remaining());
            }
            // Worth it: waiting as long as it is late is enough.
            (Ok(_), Err(tardy)) => {
                prop_assert!(tardy.retry_after().unwrap() <= Duration::from_nanos(late));
            }
        }
    }

    /// Law 9: after a jump back beyond the horizon a used-up limiter is fresh at the next call; after any
    /// jump nobody waits longer than the horizon and what was to be waited for anyway.
    #[test]
    fn a_clock_that_jumps_back_heals(setup in any_setup(), now: u64, back: u64, shift in 0_u32..64) {
        let subject = &setup.subject;
        let (state, _) = subject.step(0, now, setup.burst).unwrap();
        let then = now.saturating_sub(back >> shift);
        let jump = u128::from(now - then);
        let period = setup.quota.period().as_nanos();
        let horizon = setup.horizon.as_nanos();
        // A whole wrap back looks like no jump at all, or a smaller one.
        let wrap_is_far = jump <= horizon * 14;
        match subject.step(state, then, 1) {
            Ok((next, _)) if wrap_is_far => {
                prop_assert_eq!(subject.step(0, then, 1).unwrap().0, next);
                prop_assert!(jump > u128::from(60 * SECOND));
            }
            Ok(_) => {}
            Err(denied) => {
                let wait = denied.retry_after().unwrap().as_nanos();
                prop_assert!(wait <= horizon + 2 * period + 2 * u128::from(SECOND) + period / 8,
                    "locked out for {wait} ns");
            }
        }
        if jump > horizon + 2 * period && wrap_is_far {
            prop_assert!(subject.step(state, then, setup.burst).is_ok());
        }
    }

    /// The narrow bucket's one-sided law, from below: after a burst, greedy polling gets the next permits no
    /// later than the documented shortfall and one resolution allow. (From above: `laws`.)
    #[test]
    fn narrow_bucket_is_hardly_slower(
        limit in 1_u64..60_000,
        period in prop::sample::select(vec![1, 10, 60, 3_600, 86_400, 30 * 86_400]),
        burst in 1_u64..2_000,
        now in 0_u64..1 << 60,
        polls in 1_usize..50,
    ) {
        let quota = Quota::new(limit, Duration::from_secs(period)).unwrap();
        let Ok(bucket) = TokenBucket::try_narrow_with_burst(quota, burst) else {
            let per_minute = burst as f64 + limit as f64 * 60.0 / period as f64;
            prop_assert!(per_minute > 60_000.0, "{per_minute} refused");
            return Ok(());
        };
        let per_minute = burst as f64 + limit as f64 * 60.0 / period as f64;
        prop_assert!(bucket.shortfall_ppm() <= 1_000_000 / 15);
        if per_minute < 1_000.0 {
            prop_assert!(bucket.shortfall_ppm() <= 1_000_000 / 900);
        }
        let resolution = bucket.horizon().as_nanos() as f64 / f64::from(1 << 20);
        let (mut state, _) = bucket.step(0, Timestamp::from_nanos(now), burst).unwrap();
        let mut at = now;
        for polled in 1..=polls {
            let wait = bucket.step(state, Timestamp::from_nanos(at), 1).unwrap_err().retry_after();
            at += wait.unwrap().as_nanos() as u64;
            state = bucket.step(state, Timestamp::from_nanos(at), 1).unwrap().0;
            let exact = polled as f64 * (period * SECOND) as f64 / limit as f64;
            let slowest = exact / (1.0 - f64::from(bucket.shortfall_ppm()) / 1e6) + resolution;
            let took = (at - now) as f64;
            prop_assert!(took >= exact - 1.0, "{took} before {exact}");
            prop_assert!(took <= slowest + 1.0, "{took} after {slowest}, exact {exact}");
        }
    }

    /// The wide bucket's approximation: within a millionth below, and refused only above 4 a microsecond.
    #[test]
    fn wide_bucket_is_within_a_millionth(
        limit in 1_u64..1 << 40,
        period in 1_u64..1 << 50,
        burst in 1_u64..1_000,
    ) {
        let quota = Quota::new(limit, Duration::from_nanos(period)).unwrap();
        match TokenBucket::try_new_with_burst(quota, burst) {
            Ok(bucket) => prop_assert!(bucket.shortfall_ppm() <= 1),
            Err(ConfigError::RateTooFine) => {
                prop_assert!(limit as f64 / period as f64 > 4e-3);
            }
            Err(ConfigError::BurstTooLong) => {
                prop_assert!(burst as f64 * period as f64 / limit as f64 > (1_u64 << 55) as f64);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    /// A tier on the scale of another bucket: its burst is exact, and after it a permit comes no earlier than the
    /// tier's own quota says, whether it is the faster or the slower one; later by what the docs allow.
    #[test]
    fn tiers_are_never_over(
        base in 1_u64..3_000,
        limit in 1_u64..3_000,
        burst in 1_u64..200,
        now in 0_u64..1 << 60,
        polls in 1_u64..20,
    ) {
        let base = Quota::per_minute(base);
        let quota = Quota::per_minute(limit);
        let exact = |polled: u64| (polled * 60 * SECOND).div_ceil(limit);
        macro_rules! check {
            ($base:expr, $coarsest:expr) => {
                if let Ok(tier) = $base.tier(quota, burst) {
                    prop_assert!($base.shares_states(&tier));
                    let at = |nanos: u64| Timestamp::from_nanos(nanos);
                    let (mut state, _) = tier.step(0, at(now), burst).unwrap();
                    let mut then = now;
                    for polled in 1..=polls {
                        let denied = tier.step(state, at(then), 1).unwrap_err();
                        then += denied.retry_after().unwrap().as_nanos() as u64;
                        state = tier.step(state, at(then), 1).unwrap().0;
                        let took = then - now;
                        prop_assert!(took >= exact(polled), "{took} before {}", exact(polled));
                        let late = exact(polled) / $coarsest * 2 + 2 * SECOND;
                        prop_assert!(took <= exact(polled) + late, "{took} after {}", exact(polled));
                    }
                    prop_assert!(tier.shortfall_ppm() <= 2 * 1_000_000 / $coarsest as u32 + 1);
                }
            };
        }
        check!(TokenBucket::new(base), 1_000_000);
        if let Ok(narrow) = TokenBucket::try_narrow(base) {
            check!(narrow, 16);
        }
    }

    /// Changing limits: what was used stays used, in permits, for every algorithm and width.
    #[test]
    fn adopt_keeps_what_was_used(
        kind in 0_usize..8,
        before in 1_u64..60,
        after in 1_u64..60,
        used: u64,
        periods in prop::sample::select(vec![(60, 60), (20, 20), (60, 3_600), (3_600, 60)]),
        now in 0_u64..1 << 60,
    ) {
        let quotas = [(before, periods.0), (after, periods.1)]
            .map(|(limit, secs)| Quota::new(limit, Duration::from_secs(secs)).unwrap());
        let used = used % (before + 1);
        let now = Timestamp::from_nanos(now);
        let left = match Kind::ALL[kind] {
            Kind::Bucket => adopted(quotas.map(TokenBucket::new), used, now),
            Kind::NarrowBucket => adopted(quotas.map(TokenBucket::narrow), used, now),
            Kind::Aligned => adopted(quotas.map(FixedWindow::new), used, now),
            Kind::NarrowAligned => adopted(quotas.map(FixedWindow::narrow), used, now),
            Kind::Anchored => adopted(quotas.map(FixedWindow::anchored), used, now),
            Kind::NarrowAnchored => adopted(quotas.map(FixedWindow::narrow_anchored), used, now),
            Kind::Sliding => adopted(quotas.map(SlidingWindow::new), used, now),
            Kind::NarrowSliding => adopted(quotas.map(SlidingWindow::narrow), used, now),
        };
        prop_assert_eq!(left, after.saturating_sub(used));
    }
}

/// Uses `used` under the first limits, and tells what is left right after the change to the second.
fn adopted<A: Algorithm>([old, new]: [A; 2], used: u64, now: Timestamp) -> u64 {
    let fresh = A::Word::default();
    let (state, _) = old.step(fresh, now, used).unwrap();
    let state = new.adopt(&old, state, now);
    new.step(state, now, 0).unwrap().1.remaining()
}

/// The design's own example: a rate raised from 10 to 1000 per 20 s leaves nobody waiting out the old one.
#[test]
fn a_raised_rate_counts_at_once() {
    let quotas = [10, 1_000].map(|limit| Quota::new(limit, Duration::from_secs(20)).unwrap());
    let [old, new] = quotas.map(TokenBucket::new);
    let now = Timestamp::from_secs(100);
    let (state, _) = old.step(0, now, 10).unwrap();
    let state = new.adopt(&old, state, now);
    assert_eq!(new.step(state, now, 990).unwrap().1.remaining(), 0);
    let (state, _) = new.step(state, now, 990).unwrap();
    let denied = new.step(state, now, 1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(20)));

    // What was reserved ahead stays reserved, in permits.
    let (state, wait) = old
        .reserve_step(0, now, 10, Duration::ZERO)
        .and_then(|(state, _)| old.reserve_step(state, now, 5, Duration::from_secs(60)))
        .unwrap();
    assert_eq!(wait, Duration::from_secs(10));
    let state = new.adopt(&old, state, now);
    assert_eq!(new.step(state, now, 0).unwrap().1.remaining(), 985);
}

/// The documented bounds of the words, both sides of each.
#[test]
fn refused_at_the_documented_bounds() {
    let day = Quota::per_day;
    assert!(FixedWindow::try_new(day((1 << 44) - 1)).is_ok());
    assert_eq!(
        FixedWindow::try_new(day(1 << 44)).unwrap_err(),
        ConfigError::LimitTooLarge
    );
    assert!(SlidingWindow::try_new(day(4_194_303)).is_ok());
    assert_eq!(
        SlidingWindow::try_new(day(4_194_304)).unwrap_err(),
        ConfigError::LimitTooLarge
    );
    assert!(FixedWindow::try_narrow(day(4_095)).is_ok());
    assert!(FixedWindow::try_narrow(day(4_096)).is_err());
    assert!(SlidingWindow::try_narrow(day(63)).is_ok());
    assert!(SlidingWindow::try_narrow(day(64)).is_err());

    assert!(TokenBucket::try_narrow(Quota::per_minute(32_768)).is_ok());
    assert_eq!(
        TokenBucket::try_narrow(Quota::per_minute(32_770)).unwrap_err(),
        ConfigError::NarrowTooFast
    );
    let days = |days: u64| Quota::new(1, Duration::from_secs(days * 86_400)).unwrap();
    assert!(TokenBucket::try_new(days(833)).is_ok());
    assert_eq!(
        TokenBucket::try_new(days(835)).unwrap_err(),
        ConfigError::BurstTooLong
    );
    assert_eq!(
        TokenBucket::new(days(1)).try_with_burst(0).unwrap_err(),
        ConfigError::ZeroBurst
    );
    let years = Quota::new(1, Duration::from_secs(147 * 365 * 86_400)).unwrap();
    assert_eq!(
        FixedWindow::try_new(years).unwrap_err(),
        ConfigError::PeriodTooLong
    );
    let millisecond = Quota::new(100, Duration::from_millis(1)).unwrap();
    assert!(FixedWindow::try_new(millisecond).is_ok());
    assert_eq!(
        FixedWindow::try_narrow(millisecond).unwrap_err(),
        ConfigError::PeriodTooShort
    );
}

/// The lengths of wraps that the docs state, and that a state misread after one refuses, and heals.
#[test]
fn what_a_wrap_does() {
    let bucket = TokenBucket::new(Quota::per_minute(5));
    let wrap = 1_u64 << 60;
    let (state, _) = bucket.step(0, Timestamp::from_secs(1), 5).unwrap();
    let then = Timestamp::from_nanos(SECOND + wrap);
    let denied = bucket.step(state, then, 1).unwrap_err();
    assert!(denied.retry_after().unwrap() <= Duration::from_secs(12));
    assert!(bucket.is_idle(state, Timestamp::from_nanos(SECOND + wrap / 2)));

    let window = FixedWindow::narrow(Quota::per_minute(100));
    let (state, _) = window.step(0, Timestamp::from_secs(1), 100).unwrap();
    let wrap = (1 << 21) * 60;
    assert!(
        window
            .step(state, Timestamp::from_secs(1 + wrap), 1)
            .is_err()
    );
    assert!(
        window
            .step(state, Timestamp::from_secs(61 + wrap), 1)
            .is_ok()
    );
}
