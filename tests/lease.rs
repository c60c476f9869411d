//! Leases: what they take, what they give back, and that they never let more pass than their gate promises.

use core::time::Duration;

use proptest::prelude::*;
use tidegate::{
    All, Allowed, FixedWindow, Gate, Lease, LeaseState, Limiter, Quota, Reason, Shadow, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};

const T: Timestamp = Timestamp::from_secs(1_000);
const SECOND: u64 = 1_000_000_000;

fn cases() -> u32 {
    if cfg!(debug_assertions) { 400 } else { 8_000 }
}

fn bucket(quota: Quota) -> Limiter<TokenBucket> {
    Limiter::new(TokenBucket::new(quota))
}

fn left(gate: &impl Gate, now: Timestamp) -> u64 {
    gate.check_n(now, 0).unwrap().remaining()
}

fn after(now: Timestamp, nanos: u64) -> Timestamp {
    now.saturating_add(Duration::from_nanos(nanos))
}

#[test]
fn takes_in_batches_and_gives_back() {
    let gate = bucket(Quota::per_minute(1_000));
    let mut lease = Lease::new(&gate, 1..=64);
    let mut visits = 0;
    for spent in 1..=500 {
        let before = left(&gate, T);
        let allowed = lease.check(T).unwrap();
        visits += u64::from(left(&gate, T) != before);
        assert_eq!(allowed.remaining(), lease.held(T));
        assert_eq!(allowed.limit(), 1_000);
        assert_eq!(left(&gate, T) + lease.held(T), 1_000 - spent);
    }
    assert!(visits < 20, "{visits} visits");
    assert!(lease.held(T) > 0);
    drop(lease);
    assert_eq!(left(&gate, T), 500);
}

/// Down to the last permit, in small batches at the end, and not one more.
#[test]
fn the_last_permits() {
    let gate = Limiter::new(FixedWindow::new(Quota::per_day(300)));
    let mut leases = [(); 3].map(|()| Lease::new(&gate, 1..=64));
    let mut admitted = 0;
    for turn in 0..2_000 {
        admitted += u64::from(leases[turn % 3].check(T).is_ok());
    }
    assert_eq!(admitted, 300);
    let denied = leases[0].check(T).unwrap_err();
    assert_eq!(denied.reason(), Reason::Limited);
    assert_eq!(
        leases[0].check_n(T, 301).unwrap_err().reason(),
        Reason::TooCostly
    );
    assert_eq!(leases[0].check_n(T, 0).unwrap().remaining(), 0);
}

/// Costs of which the lease holds a part are paid with what the gate has too.
#[test]
fn large_costs() {
    let gate = bucket(Quota::per_minute(20));
    let mut lease = Lease::new(&gate, 10..=10);
    assert!(lease.check_n(T, 3).is_ok());
    assert_eq!(lease.held(T), 7);
    assert!(lease.check_n(T, 17).is_ok(), "7 held, and 10 at the gate");
    assert!(lease.check(T).is_err());
    assert_eq!(lease.held(T), 0);
}

#[test]
fn adapts() {
    let gate = Limiter::new(FixedWindow::new(Quota::per_day(10_000_000)));
    let rules = LeaseState::new(2..=256).with_interval(Duration::from_millis(1));
    let mut lease = Lease::with_state(&gate, rules);
    let batch = |lease: &mut Lease<&Limiter<FixedWindow>>, now: &mut Timestamp, step: u64| {
        let mut most = 0;
        for _ in 0..2_000 {
            *now = after(*now, step);
            assert!(lease.check(*now).is_ok());
            most = lease.held(*now);
        }
        // The largest batch that is held within one round.
        for _ in 0..512 {
            *now = after(*now, step);
            assert!(lease.check(*now).is_ok());
            most = most.max(lease.held(*now) + 1);
        }
        most
    };
    let mut now = T;
    assert_eq!(batch(&mut lease, &mut now, 100), 256, "busy");
    assert_eq!(batch(&mut lease, &mut now, 10_000_000), 2, "idle");
    // 20 in a millisecond.
    let medium = batch(&mut lease, &mut now, 50_000);
    assert_eq!(medium, 32, "between");
}

/// As fast as a token bucket fills, and all at once with a window.
#[test]
fn unspent_permits_lapse() {
    let smooth = bucket(Quota::per_second(10));
    let mut lease = Lease::new(&smooth, 8..=8);
    lease.check(T).unwrap();
    let held = |lease: &Lease<_>, millis: u64| lease.held(after(T, millis * 1_000_000));
    assert_eq!(
        [0, 99, 101, 201, 799, 800].map(|at| held(&lease, at)),
        [7, 7, 6, 5, 0, 0]
    );
    lease.check(after(T, 350_000_000)).unwrap();
    assert_eq!(held(&lease, 350), 3);
    assert_eq!(lease.give_back(after(T, 350_000_000)), 3);
    assert_eq!(lease.give_back(after(T, 350_000_000)), 0);

    let window = Limiter::new(FixedWindow::new(Quota::per_second(10)));
    let mut lease = Lease::new(&window, 8..=8);
    let late = after(T, 900_000_000);
    lease.check(late).unwrap();
    assert_eq!(lease.held(after(late, 99_999_999)), 7);
    assert_eq!(lease.held(after(late, 100_000_000)), 0);

    let sliding = Limiter::new(SlidingWindow::new(Quota::per_second(10)));
    let mut lease = Lease::new(&sliding, 8..=8);
    lease.check(late).unwrap();
    assert_eq!(lease.held(after(late, 99_999_999)), 7);
    assert_eq!(lease.held(after(late, 100_000_000)), 0);

    // Of several gates, whichever lets them lapse sooner.
    let smooth = bucket(Quota::per_second(10));
    let window = Limiter::new(FixedWindow::new(Quota::per_second(10)));
    let mut lease = Lease::new(All((&smooth, &window)), 8..=8);
    lease.check(after(T, 500_000_000)).unwrap();
    assert_eq!(lease.held(after(T, 500_000_000)), 7);
    assert_eq!(lease.held(after(T, 700_000_001)), 5);
    assert_eq!(lease.held(after(T, 999_999_999)), 3);
    assert_eq!(lease.held(after(T, 1_000_000_000)), 0);
    assert_eq!(lease.give_back(after(T, 700_000_001)), 5);
    assert_eq!(left(&window, T), 7, "two have lapsed under the other");
}

/// At 12.5 permits a nanosecond, times that are told in whole ones must be rounded to the safe side.
#[test]
fn permits_of_less_than_a_nanosecond() {
    let quota = Quota::new(25, Duration::from_nanos(2)).unwrap();
    let gate = Limiter::new(TokenBucket::new_with_burst(quota, 10_000));
    let mut lease = Lease::new(&gate, 1_010..=1_010);
    lease.check(T).unwrap();
    // 1,010 take 80.8 ns to come back.
    assert!(lease.held(after(T, 80)) <= 10);
    assert!(lease.held(after(T, 40)) > 480 && lease.held(after(T, 40)) <= 510);
}

/// What is too old to be spent goes back: a window's permits are not lost by that.
#[test]
fn max_age() {
    let window = Limiter::new(FixedWindow::new(Quota::per_day(100)));
    let rules = LeaseState::new(20..=20).with_max_age(Duration::from_secs(1));
    let mut lease = Lease::with_state(&window, rules);
    lease.check(T).unwrap();
    assert_eq!(lease.held(after(T, SECOND)), 19);
    assert_eq!(lease.held(after(T, SECOND + 1)), 0);
    lease.check(after(T, SECOND)).unwrap();
    assert_eq!(left(&window, T), 80);
    lease.check(after(T, SECOND + 1)).unwrap();
    assert_eq!(lease.held(after(T, SECOND + 1)), 19, "a batch of its own");
    assert_eq!(left(&window, T), 100 - 2 - 20);
    drop(lease);
    assert_eq!(left(&window, T), 97);
}

/// What was taken later is not spent earlier; a clock that has jumped back goes on with a batch of its own.
#[test]
fn late_and_jumped_back() {
    let gate = bucket(Quota::per_minute(60));
    let mut lease = Lease::new(&gate, 10..=10);
    lease.check(T).unwrap();
    let late = T.saturating_sub(Duration::from_secs(1));
    assert_eq!((lease.held(late), lease.held(T)), (0, 9));
    lease.check(late).unwrap();
    assert_eq!((lease.held(T), left(&gate, T)), (9, 49));
    assert_eq!(lease.give_back(late), 9);

    let now = Timestamp::from_secs(100_000);
    lease.check(now).unwrap();
    let jumped = now.saturating_sub(Duration::from_secs(7_200));
    lease.check(jumped).unwrap();
    assert_eq!((lease.held(jumped), left(&gate, jumped)), (9, 50));
    drop(lease);
    assert_eq!(left(&gate, jumped), 59);
}

/// A shadow that would have refused has taken nothing, so there is nothing to hold.
#[test]
fn over_a_shadow() {
    let shadow = Shadow::new(Limiter::new(FixedWindow::new(Quota::per_day(10))));
    let mut lease = Lease::new(&shadow, 4..=4);
    for _ in 0..30 {
        assert!(lease.check(T).is_ok());
    }
    drop(lease);
    assert!(left(shadow.gate(), T) <= 10);
}

#[test]
#[should_panic(expected = "the least is 1")]
fn batches_of_nothing() {
    let _ = LeaseState::new(0..=4);
}

#[test]
#[should_panic(expected = "fewer than the least")]
#[allow(clippy::reversed_empty_ranges, reason = "that is the point")]
fn batches_of_no_size() {
    let _ = LeaseState::new(4..=3);
}

/// No timestamp, cost or answer makes the accounting panic or hold more than was taken.
#[test]
fn total() {
    let big = [0, 1, 2, 1 << 20, u64::MAX - 1, u64::MAX];
    for max_age in big {
        for taken in big {
            for reset in big {
                for remaining in [0, 5, u64::MAX] {
                    let mut state = LeaseState::new(1..=u64::MAX)
                        .with_max_age(Duration::from_nanos(max_age))
                        .with_interval(Duration::from_nanos(reset));
                    let reset = Duration::from_nanos(reset);
                    for allowed in [
                        Allowed::new(u64::MAX, remaining, reset),
                        Allowed::in_window(u64::MAX, remaining, reset),
                    ] {
                        for at in big.map(Timestamp::from_nanos) {
                            state.granted(at, taken, 1, &allowed);
                            for now in big.map(Timestamp::from_nanos) {
                                let held = state.held(now);
                                assert!(!state.is_late(now) || held == 0);
                                assert!(held <= taken.saturating_sub(1));
                                assert!(state.clone().spend(now, held) || held == 0);
                                assert!(
                                    !state.clone().spend(now, held.saturating_add(1))
                                        || held == u64::MAX
                                );
                                assert!(
                                    state
                                        .clone()
                                        .give_back(now)
                                        .is_none_or(|(then, rest)| then == at && rest <= taken)
                                );
                                assert!(state.wanted(now, 3) >= 3);
                                let _ = state.allowed(now).reset_after();
                            }
                            state.refused();
                        }
                    }
                }
            }
        }
    }
}

/// What somebody does with one gate.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A lease, how late its timestamp is, and the cost.
    Spend(usize, u64, u64),
    GiveBack(usize),
    /// Drop the lease right after it was asked, and make another.
    Renew(usize),
    /// Past all leases, and possibly given back at once.
    Direct(u64, bool),
}

fn acts(late: u64) -> impl Strategy<Value = Vec<(u64, Act)>> {
    let pause = prop_oneof![
        3 => Just(0_u64),
        3 => 1_u64..1 << 22,
        3 => 1_u64 << 22..1 << 28,
        1 => 0_u64..1 << 33,
    ];
    let act = prop_oneof![
        8 => (0_usize..3, 0..=late, 1_u64..4).prop_map(|(who, late, cost)| Act::Spend(who, late, cost)),
        1 => (0_usize..3).prop_map(Act::GiveBack),
        1 => (0_usize..3).prop_map(Act::Renew),
        3 => (1_u64..6, any::<bool>()).prop_map(|(cost, back)| Act::Direct(cost, back)),
    ];
    prop::collection::vec((pause, act), 1..200)
}

/// Plays the acts; returns what passed, and when.
fn play(gate: &dyn Gate, acts: &[(u64, Act)], rules: &LeaseState) -> Vec<(u64, u64)> {
    let mut leases = [(); 3].map(|()| Lease::with_state(gate, rules.clone()));
    let mut now = T;
    let mut passed = Vec::new();
    for &(pause, act) in acts {
        now = after(now, pause);
        match act {
            Act::Spend(who, late, cost) => {
                let at = now.saturating_sub(Duration::from_nanos(late));
                if leases[who].check_n(at, cost).is_ok() {
                    passed.push((at.as_nanos(), cost));
                }
            }
            Act::GiveBack(who) => {
                leases[who].give_back(now);
            }
            Act::Renew(who) => {
                if leases[who].check(now).is_ok() {
                    passed.push((now.as_nanos(), 1));
                }
                leases[who] = Lease::with_state(gate, rules.clone());
            }
            Act::Direct(cost, back) => {
                if gate.check_n(now, cost).is_ok() {
                    if back {
                        gate.refund(now, cost);
                    } else {
                        passed.push((now.as_nanos(), cost));
                    }
                }
            }
        }
    }
    passed
}

/// Admitted cost in any stretch of time is at most the burst and what trickles in.
fn never_over_a_bucket(passed: &[(u64, u64)], limit: u64, period: u64, burst: u64) {
    for begin in 0..passed.len() {
        let mut sum = 0;
        for &(at, cost) in &passed[begin..] {
            sum += u128::from(cost);
            let stretch = u128::from(at - passed[begin].0);
            let bound = u128::from(burst) * u128::from(period) + u128::from(limit) * stretch;
            assert!(sum * u128::from(period) <= bound, "{sum} in {stretch} ns");
        }
    }
}

fn count_in(passed: &[(u64, u64)], window: impl Fn(u64) -> bool) -> u64 {
    let inside = passed.iter().filter(|(at, _)| window(*at));
    inside.map(|(_, cost)| cost).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_over(
        acts in acts(0),
        limit in 1_u64..60,
        burst in 1_u64..60,
        min in 1_u64..12,
        more in 0_u64..40,
        age in prop::option::of(0_u64..SECOND),
    ) {
        let quota = Quota::per_second(limit);
        let mut rules = LeaseState::new(min..=min + more).with_interval(Duration::from_millis(50));
        if let Some(age) = age {
            rules = rules.with_max_age(Duration::from_nanos(age));
        }
        let wide = Limiter::new(TokenBucket::new(quota).with_burst(burst));
        never_over_a_bucket(&play(&wide, &acts, &rules), limit, SECOND, burst);
        let narrow = Limiter::new(TokenBucket::narrow(quota).with_burst(burst));
        never_over_a_bucket(&play(&narrow, &acts, &rules), limit, SECOND, burst);

        let window = Limiter::new(FixedWindow::new(quota));
        let passed = play(&window, &acts, &rules);
        for &(at, _) in &passed {
            prop_assert!(count_in(&passed, |it| it / SECOND == at / SECOND) <= limit);
        }

        // The sliding rule, at every admission, with the counts as they were spent.
        let sliding = Limiter::new(SlidingWindow::new(quota));
        let passed = play(&sliding, &acts, &rules);
        for last in 0..passed.len() {
            let (at, _) = passed[last];
            let (number, rest) = (at / SECOND, SECOND - at % SECOND);
            let so_far = &passed[..=last];
            let previous = count_in(so_far, |it| it / SECOND + 1 == number);
            let current = count_in(so_far, |it| it / SECOND == number);
            prop_assert!(previous * rest + current * SECOND <= limit * SECOND);
        }

        // A log counts for a period from the instant of the permit: over by what is held at most, and by nothing
        // if nothing is kept from one timestamp to the next.
        let strict = rules.clone().with_max_age(Duration::ZERO);
        for (rules, over) in [(rules.clone(), 3 * (min + more)), (strict, 0)] {
            let log = Limiter::new(SlidingLog::<60>::new(quota));
            let passed = play(&log, &acts, &rules);
            for &(at, _) in &passed {
                let period = count_in(&passed, |it| it <= at && it + SECOND > at);
                prop_assert!(period <= limit + over, "{period} in a period");
            }
        }

        // Several at once: each of them.
        let (a, b) = (
            Limiter::new(TokenBucket::new(quota).with_burst(burst)),
            Limiter::new(FixedWindow::new(Quota::per_second(limit + 3))),
        );
        let passed = play(&All((&a, &b)), &acts, &rules);
        never_over_a_bucket(&passed, limit, SECOND, burst);
        for &(at, _) in &passed {
            prop_assert!(count_in(&passed, |it| it / SECOND == at / SECOND) <= limit + 3);
        }
    }

    /// Late timestamps earn nothing here either, as long as nothing is given back with one: the law holds by the
    /// timestamps that were given.
    #[test]
    fn late_is_not_over(acts in acts(SECOND), limit in 1_u64..60, burst in 1_u64..60, min in 1_u64..12) {
        let quota = Quota::per_second(limit);
        let rules = LeaseState::new(min..=40);
        let gate = Limiter::new(TokenBucket::new(quota).with_burst(burst));
        let acts: Vec<_> = acts
            .into_iter()
            .map(|(pause, act)| match act {
                Act::Spend(who, late, _) => (pause, Act::Spend(who, late, 1)),
                Act::Direct(cost, _) => (pause, Act::Direct(cost, false)),
                Act::GiveBack(who) | Act::Renew(who) => (pause, Act::Spend(who, 0, 1)),
            })
            .collect();
        let mut passed = play(&gate, &acts, &rules);
        passed.sort_unstable();
        never_over_a_bucket(&passed, limit, SECOND, burst);
    }

    /// A lease that is always there for the only caller refuses nothing that the gate would have admitted, but for
    /// permits that lapse in a fraction.
    #[test]
    fn hardly_ever_under(acts in acts(0), limit in 1_u64..60) {
        let gate = Limiter::new(FixedWindow::new(Quota::per_second(limit)));
        let plain = Limiter::new(FixedWindow::new(Quota::per_second(limit)));
        let mut lease = Lease::new(&gate, 1..=16);
        let mut now = T;
        for (pause, act) in acts {
            now = after(now, pause);
            if let Act::Spend(_, _, cost) = act {
                prop_assert_eq!(lease.check_n(now, cost).is_ok(), plain.check_n(now, cost).is_ok());
            }
        }
    }
}
