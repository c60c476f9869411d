//! The exact log in every form and width, beside a list of admissions.

mod common;

use common::log_model::{Form, LogCall, Player, Width, period, start};
use proptest::prelude::*;
use tidegate::{ConfigError, Limiter, Quota, SlidingLog, Timestamp};

fn calls() -> impl Strategy<Value = Vec<LogCall>> {
    let call = any::<((u8, u64), (u8, u64), u8)>().prop_map(|(when, cost, what)| LogCall {
        when,
        cost,
        what,
    });
    prop::collection::vec(call, 1..64)
}

type Knobs = (u64, (u8, u64), (u8, u64));

/// Plays scripts on players that `make` makes, if it can, of a limit of at most `most`.
fn laws<F: Form>(most: u64, make: impl Fn(Quota, u64) -> Option<Player<F>>) {
    let (mut played, mut refused) = (0, 0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: if cfg!(debug_assertions) {
            2_000
        } else {
            20_000
        },
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let counts = core::cell::RefCell::new((&mut played, &mut refused));
    let result = runner.run(
        &(any::<Knobs>(), calls()),
        |((limit, length, begin), calls)| {
            let quota = Quota::new(limit % most + 1, period(length)).unwrap();
            let mut counts = counts.borrow_mut();
            match make(quota, start(begin)) {
                Some(mut player) => {
                    *counts.0 += 1;
                    calls.into_iter().for_each(|call| player.call(call));
                }
                None => *counts.1 += 1,
            }
            Ok(())
        },
    );
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(played > refused, "only {played} played, {refused} refused");
}

macro_rules! forms {
    ($($name:ident: $n:literal, $word:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn shared() {
                laws($n, Player::<Limiter<SlidingLog<$n, $word>>>::shared);
            }

            #[test]
            fn owned() {
                laws($n, Player::<common::log_model::Owned<SlidingLog<$n, $word>>>::owned);
            }
        }
    )*};
}

forms! {
    one_wide: 1, u64;
    one_narrow: 1, u32;
    three_wide: 3, u64;
    three_narrow: 3, u32;
    eight_wide: 8, u64;
    eight_narrow: 8, u32;
    hundred_wide: 100, u64;
    hundred_narrow: 100, u32;
}

#[cfg(feature = "alloc")]
mod on_the_heap {
    use common::log_model::{Numbers, Owned};
    use tidegate::VecLog;

    use super::*;

    #[test]
    fn of_any_limit() {
        for most in [1, 8, 1_000] {
            laws(most, |quota, start| {
                let form = Owned::new(quota, |quota| VecLog::try_new(quota).ok())?;
                let numbers = |form: &Owned<VecLog>| Numbers {
                    limit: form.log.quota().limit(),
                    period_ns: form.log.quota().period().as_nanos() as u64,
                    unit: 1,
                    late_ns: form.log.horizon().as_nanos() as u64,
                    bits: 64,
                    keeps_newest: true,
                };
                Some(Player::new(form, numbers, start))
            });
        }
    }
}

fn secs(secs: u64) -> Timestamp {
    Timestamp::from_secs(secs)
}

#[test]
fn in_a_static() {
    static LOG: Limiter<SlidingLog<3>> = Limiter::new(SlidingLog::new(Quota::per_minute(3)));
    static NARROW: Limiter<SlidingLog<3, u32>> =
        Limiter::new(SlidingLog::narrow(Quota::per_minute(2)));
    assert_eq!(LOG.check(Timestamp::ZERO).unwrap().remaining(), 2);
    assert_eq!(LOG.check_n(secs(30), 2).unwrap().remaining(), 0);
    assert!(LOG.check(secs(59)).is_err());
    assert!(LOG.check(secs(60)).is_ok());
    // The limit is below the capacity.
    assert_eq!(NARROW.check_n(secs(7), 2).unwrap().remaining(), 0);
    assert!(NARROW.check(secs(7)).is_err());
}

#[test]
fn what_cannot_be_held_is_refused() {
    let quota = Quota::per_minute(3);
    assert_eq!(
        SlidingLog::<2>::try_new(quota).unwrap_err(),
        ConfigError::LimitAboveCapacity
    );
    assert!(SlidingLog::<65_534>::try_new(quota).is_ok());
    assert_eq!(
        SlidingLog::<65_535>::try_new(quota).unwrap_err(),
        ConfigError::LogTooLong
    );
    assert!(SlidingLog::<510, u32>::try_narrow(quota).is_ok());
    assert_eq!(
        SlidingLog::<511, u32>::try_narrow(quota).unwrap_err(),
        ConfigError::LogTooLong
    );
    let short = Quota::new(1, core::time::Duration::from_millis(1)).unwrap();
    assert_eq!(
        SlidingLog::<1, u32>::try_narrow(short).unwrap_err(),
        ConfigError::PeriodTooShort
    );
    assert!(SlidingLog::<1>::try_new(short).is_ok());
}

/// The largest rings that words can number: nothing overflows into its neighbour.
#[test]
fn the_longest_rings() {
    fn fill<const N: usize, W: Width>(limit: u64) {
        let log = Limiter::new(W::log::<N>(Quota::per_minute(limit)).unwrap());
        for lap in 1..40 {
            let now = secs(lap * 1_000);
            assert_eq!(log.check(now).unwrap().remaining(), limit - 1);
            assert!(log.check_n(now, limit - 2).is_ok());
            assert!(log.refund(now, 1));
            assert_eq!(log.check_n(now, 2).unwrap().remaining(), 0);
            assert!(log.check(now).is_err());
        }
    }
    fill::<510, u32>(510);
    fill::<65_534, u64>(65_534);
}

/// Threads on a few places, for thousands of laps, with clocks that are apart: in no period is more admitted than the
/// limit, by the times that the log itself tells.
#[test]
fn threads() {
    use core::sync::atomic::{AtomicU64, Ordering};

    fn run<const N: usize, W: Width>(period_ms: u64, with_refunds: bool) {
        const THREADS: u64 = 4;
        let period = core::time::Duration::from_millis(period_ms);
        let quota = Quota::new(N as u64, period).unwrap();
        let log = Limiter::new(W::log::<N>(quota).unwrap());
        let unit = log.algorithm().resolution().as_nanos() as u64;
        let period_ns = (period.as_nanos() as u64).next_multiple_of(unit);
        // A clock that each look moves on, so that time passes and nobody waits for it. In all less than the horizon:
        // however long a thread is suspended, it is late, and no more than that.
        let clock = AtomicU64::new(0);
        let looks: u64 = if cfg!(debug_assertions) {
            20_000
        } else {
            200_000
        };
        let step = log.algorithm().horizon().as_nanos() as u64 / (THREADS * looks + 10);
        let work = |thread: u64| {
            let mut admitted = Vec::new();
            for look in 0..looks {
                let now = clock.fetch_add(step, Ordering::Relaxed);
                let stamp = Timestamp::from_nanos(now.saturating_sub((look + thread) % 3 * step));
                let cost = 1 + look % N as u64;
                if let Ok(allowed) = log.check_n(stamp, cost) {
                    let free_at = stamp.saturating_add(allowed.reset_after()).as_nanos();
                    admitted.push((free_at - period_ns, cost));
                    if with_refunds && look % 3 == 0 {
                        log.refund(stamp, cost);
                    }
                }
            }
            admitted
        };
        let mut admitted: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..THREADS)
                .map(|it| scope.spawn(move || work(it)))
                .collect();
            threads
                .into_iter()
                .flat_map(|it| it.join().unwrap())
                .collect()
        });
        let laps = THREADS * looks * step / period_ns;
        let total: u64 = admitted.iter().map(|it| it.1).sum();
        assert!(total > laps * N as u64 / 2, "{total} in {laps} laps");
        if !with_refunds {
            admitted.sort_unstable();
            let (mut from, mut within) = (0, 0);
            for &(at, cost) in &admitted {
                within += cost;
                while at - admitted[from].0 >= period_ns {
                    within -= admitted[from].1;
                    from += 1;
                }
                assert!(within <= N as u64, "{within} of {N} in a period");
            }
        }
        // The ring has come through it whole: a period later, N pass, and no more.
        let end = Timestamp::from_nanos(clock.load(Ordering::Relaxed));
        let later = end.saturating_add(2 * period);
        assert_eq!(log.check_n(later, 0).unwrap().remaining(), N as u64);
        for left in (0..N as u64).rev() {
            assert_eq!(log.check(later).unwrap().remaining(), left);
        }
        assert!(log.check(later).is_err());
    }
    for with_refunds in [false, true] {
        run::<1, u64>(500, with_refunds);
        run::<3, u64>(500, with_refunds);
        run::<3, u32>(10_000, with_refunds);
        run::<8, u64>(500, with_refunds);
    }
}
