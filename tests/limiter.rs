//! The atomic shell, from outside.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use tidegate::{
    Algorithm, AtomicWord, FixedWindow, Limiter, Quota, Reason, SlidingWindow, Timestamp,
    TokenBucket,
};

const T: Timestamp = Timestamp::from_secs(1_000);

/// Runs a body over every algorithm and width, each with a limit of `$limit` a minute.
macro_rules! for_each_algorithm {
    ($limit:expr, $body:expr) => {{
        let quota = Quota::per_minute($limit);
        $body(Limiter::new(TokenBucket::new(quota)));
        $body(Limiter::new(TokenBucket::narrow(quota)));
        $body(Limiter::new(FixedWindow::new(quota)));
        $body(Limiter::new(FixedWindow::narrow(quota)));
        $body(Limiter::new(FixedWindow::anchored(quota)));
        $body(Limiter::new(FixedWindow::narrow_anchored(quota)));
        $body(Limiter::new(SlidingWindow::new(quota)));
        if $limit <= 63 {
            $body(Limiter::new(SlidingWindow::narrow(quota)));
        }
    }};
}

/// 400 threads' worth of simultaneous requests against a limit of 100 admit exactly 100.
#[test]
fn four_hundred_at_once() {
    fn race<A: Algorithm<Word: AtomicWord> + Sync>(limiter: Limiter<A>) {
        let admitted = AtomicU64::new(0);
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..50 {
                        if limiter.check(T).is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 100);
        assert!(limiter.check(T).is_err());
    }
    for_each_algorithm!(100, race);
}

/// Permits are conserved when threads take and give back at once.
#[test]
fn a_sliding_window_takes_back_what_its_last_window_counted_however_long_ago() {
    let day = SlidingWindow::new(Quota::per_day(10));
    let limiter = Limiter::new(day);
    let hours = |hours: u64| Timestamp::from_secs(hours * 3_600);
    assert!(limiter.check_n(hours(2), 6).is_ok());
    // A day later, half past the next window: half of them weigh.
    assert_eq!(limiter.check_n(hours(36), 1).unwrap().remaining(), 6);
    assert!(limiter.refund(hours(2), 4));
    assert_eq!(limiter.check_n(hours(36), 1).unwrap().remaining(), 7);
    // Not what an even older window has counted, nor a later one.
    assert!(!limiter.refund(hours(60), 1));
    assert!(limiter.check_n(hours(60), 1).is_ok());
    assert!(!limiter.refund(hours(2), 1));
}

#[test]
fn refunds_race_with_checks() {
    fn race<A: Algorithm<Word: AtomicWord> + Sync>(limiter: Limiter<A>) {
        const THREADS: u64 = 4;
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        if limiter.check_n(T, 1 + round % 3).is_ok() {
                            limiter.refund(T, 1 + round % 3);
                        }
                    }
                    // What each keeps in the end.
                    limiter.check_n(T, 5).unwrap();
                });
            }
        });
        let left = limiter.check_n(T, 0).unwrap().remaining();
        assert_eq!(left, 60 - THREADS * 5);
    }
    for_each_algorithm!(60, race);
}

#[test]
fn every_operation() {
    fn all<A: Algorithm<Word: AtomicWord> + Copy>(mut limiter: Limiter<A>, other: A) {
        let fresh = limiter.state();
        assert_eq!(fresh, A::Word::default());

        // Peeking says what a check would, and changes nothing; nor does cost 0.
        let peeked = limiter.peek(T).unwrap();
        assert_eq!(limiter.state(), fresh);
        assert_eq!(limiter.check_n(T, 0).unwrap().remaining(), 10);
        assert_eq!(limiter.state(), fresh);
        assert_eq!(limiter.check(T).unwrap(), peeked);
        assert_eq!((peeked.limit(), peeked.remaining()), (10, 9));

        // All or nothing.
        let used = limiter.state();
        let denied = limiter.check_n(T, 10).unwrap_err();
        assert_eq!((denied.reason(), denied.remaining()), (Reason::Limited, 9));
        assert_eq!(limiter.peek_n(T, 10).unwrap_err(), denied);
        assert_eq!(
            limiter.check_n(T, 11).unwrap_err().reason(),
            Reason::TooCostly
        );
        assert_eq!(limiter.state(), used, "a denial stores nothing");
        assert_eq!(limiter.check_n(T, 9).unwrap().remaining(), 0);

        // Giving back, never above full.
        assert!(limiter.refund(T, 4));
        assert_eq!(limiter.check_n(T, 0).unwrap().remaining(), 4);
        assert!(limiter.refund(T, u64::MAX));
        assert_eq!(limiter.check_n(T, 0).unwrap().remaining(), 10);
        assert!(!limiter.refund(T, 1), "nothing to give back");

        // Forgetting, and waiting.
        limiter.check_n(T, 10).unwrap();
        limiter.reset();
        assert_eq!(limiter.state(), fresh);
        limiter.check_n(T, 5).unwrap();
        assert!(!limiter.sweep(T), "in use");
        let rested = T.saturating_add(Duration::from_secs(121));
        assert!(limiter.sweep(rested));
        assert_eq!(limiter.state(), fresh);
        assert!(limiter.sweep(rested), "fresh is idle");

        // Going on from a saved state, and under other limits.
        limiter.check_n(T, 4).unwrap();
        limiter.retune(other, T);
        assert_eq!(limiter.check_n(T, 0).unwrap().remaining(), 16);
        let saved = limiter.state();
        assert_eq!(limiter.check_n(T, 16).unwrap().remaining(), 0);
        let restored = Limiter::with_state(*limiter.algorithm(), saved);
        assert_eq!(restored.check_n(T, 16).unwrap().remaining(), 0);
        assert!(restored.check(T).is_err());
    }

    let (ten, twenty) = (Quota::per_minute(10), Quota::per_minute(20));
    macro_rules! each {
        ($($new:path),*) => { $(all(Limiter::new($new(ten)), $new(twenty));)* };
    }
    each!(
        TokenBucket::new,
        TokenBucket::narrow,
        FixedWindow::new,
        FixedWindow::narrow,
        FixedWindow::anchored,
        FixedWindow::narrow_anchored,
        SlidingWindow::new,
        SlidingWindow::narrow
    );
}

#[test]
fn reserve_paces() {
    fn pace<W: AtomicWord>(bucket: TokenBucket<W>) {
        let limiter = Limiter::new(bucket);
        let patience = Duration::from_secs(3);
        let mut waits = Vec::new();
        let refused = loop {
            match limiter.reserve(T, 1, patience) {
                Ok(wait) => waits.push(wait.as_millis()),
                Err(denied) => break denied,
            }
        };
        assert!(
            waits[..2].iter().all(|&wait| wait == 0),
            "the burst is free"
        );
        let spaced: Vec<_> = waits[2..].iter().map(|wait| wait / 1_000).collect();
        // The narrow word is a little slower than one a second, so the third second may not fit.
        assert!(
            spaced.starts_with(&[1, 2]) && spaced.len() <= 3,
            "{waits:?}"
        );

        // Refused without taking anything, with an exact wait.
        let state = limiter.state();
        let retry = refused.retry_after().unwrap();
        assert!(limiter.reserve(T, 1, patience).is_err());
        let just = T.saturating_add(retry);
        let early = T.saturating_add(retry - Duration::from_nanos(1));
        assert!(limiter.reserve(early, 1, patience).is_err());
        assert_eq!(limiter.state(), state);
        assert!(limiter.reserve(just, 1, patience).is_ok());

        // A reservation ahead refuses everybody else until then, and can be called off.
        let denied = limiter.check(T).unwrap_err();
        assert_eq!(denied.remaining(), 0);
        assert!(denied.retry_after().unwrap() > Duration::from_secs(2));
        assert!(limiter.refund(T, u64::MAX));
        assert_eq!(limiter.reserve(T, 0, patience), Ok(Duration::ZERO));
        assert_eq!(
            limiter.reserve(T, 3, Duration::MAX).unwrap_err().reason(),
            Reason::TooCostly
        );

        // Half the lateness is the most that can be reserved, and it leaves the other half.
        limiter.reset();
        let ahead = core::iter::from_fn(|| limiter.reserve(T, 2, Duration::MAX).ok()).last();
        assert!(ahead.unwrap() >= Duration::from_secs(28));
        let late = T.saturating_sub(Duration::from_secs(29));
        assert!(limiter.check(late).is_err(), "late, not a leftover");
    }
    pace(TokenBucket::new(Quota::per_second(1)).with_burst(2));
    pace(TokenBucket::narrow(Quota::per_second(1)).with_burst(2));
}

/// A denial is an error like any other.
#[test]
fn denials_are_errors() {
    fn fails() -> Result<(), Box<dyn core::error::Error>> {
        let limiter = Limiter::new(FixedWindow::anchored(Quota::per_minute(1)));
        limiter.check(T)?;
        limiter.check(T)?;
        Ok(())
    }
    let message = fails().unwrap_err().to_string();
    assert_eq!(message, "rate limited, retry after 60s");
}

/// Decisions are small enough to be returned freely; clippy warns its users from 128 bytes on.
#[test]
fn sizes() {
    assert!(size_of::<tidegate::Denied>() <= 64);
    assert!(size_of::<Result<tidegate::Allowed, tidegate::Denied>>() <= 72);
    assert!(size_of::<Limiter<TokenBucket>>() <= 72);
    assert!(size_of::<Limiter<TokenBucket<u32>>>() <= 64);
}

/// Usable as a `static`.
#[test]
fn statics() {
    static WIDE: Limiter<TokenBucket> =
        Limiter::new(TokenBucket::new(Quota::per_second(7)).with_burst(3));
    static NARROW: Limiter<TokenBucket<u32>> =
        Limiter::new(TokenBucket::narrow_with_burst(Quota::per_day(1_000_000), 3));
    static ANCHORED: Limiter<FixedWindow> = Limiter::new(FixedWindow::anchored(Quota::per_hour(9)));
    static SLIDING: Limiter<SlidingWindow<u32>> =
        Limiter::new(SlidingWindow::narrow(Quota::per_minute(50)));
    assert_eq!(WIDE.check(T).unwrap().remaining(), 2);
    assert_eq!(NARROW.check(T).unwrap().remaining(), 2);
    assert_eq!(ANCHORED.check(T).unwrap().remaining(), 8);
    assert_eq!(SLIDING.check(T).unwrap().remaining(), 49);
}
