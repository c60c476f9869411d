//! Several limits at once, and limits on trial.

use core::time::Duration;

use proptest::prelude::*;
use tidegate::{
    All, AllDenied, Allowed, Beside, Denied, FixedWindow, Gate, Limiter, Quota, Reason, Shadow,
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

/// A gate that says what it is told to, and counts what it is asked for.
struct Told {
    peek: Option<Denied>,
    check: Option<Denied>,
    taken: core::cell::Cell<i64>,
}

impl Told {
    fn new(peek: Option<Denied>, check: Option<Denied>) -> Self {
        let taken = core::cell::Cell::new(0);
        Self { peek, check, taken }
    }

    fn answer(denied: Option<Denied>) -> Result<Allowed, Denied> {
        denied.map_or(Ok(Allowed::new(10, 5, Duration::from_secs(5))), Err)
    }
}

impl Gate for Told {
    fn check_n(&self, _: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let answer = Self::answer(self.check);
        if answer.is_ok() {
            self.taken.set(self.taken.get() + cost as i64);
        }
        answer
    }

    fn peek_n(&self, _: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        Self::answer(self.peek.filter(|_| cost > 0))
    }

    fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        assert_eq!(taken_at, T);
        self.taken.set(self.taken.get() - cost as i64);
        true
    }
}

fn limited(wait: u64) -> Denied {
    let wait = Duration::from_secs(wait);
    Denied::limited(3, 1, wait, wait * 2)
}

mod all {
    use super::*;

    #[test]
    fn all_or_nothing() {
        let small = bucket(Quota::per_minute(2));
        let large = Limiter::new(FixedWindow::anchored(Quota::per_minute(10)));
        let gates = All((&large, &small));
        let allowed = gates.check(T).unwrap();
        assert_eq!((allowed.limit(), allowed.remaining()), (2, 1));
        assert_eq!(allowed.reset_after(), Duration::from_secs(60));
        assert_eq!(gates.peek(T).unwrap().remaining(), 0);
        assert!(gates.check(T).is_ok());

        let states = (small.state(), large.state());
        let refused = gates.check(T).unwrap_err();
        assert_eq!((refused.index(), refused.reason()), (1, Reason::Limited));
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(30)));
        assert_eq!((refused.limit(), refused.remaining()), (2, 0));
        assert_eq!(refused.reset_after(), Duration::from_secs(60));
        assert_eq!(gates.peek(T).unwrap_err(), refused);
        assert_eq!((small.state(), large.state()), states, "nothing is stored");

        let message = "rate limited, retry after 30s, by gate 1";
        assert_eq!(refused.to_string(), message);
        let gate: &dyn Gate = &gates;
        let denied = gate.check(T).unwrap_err();
        assert_eq!((denied, denied), (refused.denied(), refused.into()));
        assert_eq!(gate.check_n(T, 0).unwrap().remaining(), 0);

        assert!(gate.refund(T, 2));
        assert_eq!((left(&small, T), left(&large, T)), (2, 10));
        assert!(gate.enforces());
    }

    /// The longest wait of those that refuse; none if waiting is no cure for one of them.
    #[test]
    fn the_answer_of_several_refusals() {
        let slow = bucket(Quota::per_hour(4));
        let quick = bucket(Quota::per_minute(4));
        for gate in [&slow, &quick] {
            gate.check_n(T, 4).unwrap();
        }
        for gates in [[&slow, &quick], [&quick, &slow]] {
            let refused = All(gates).check(T).unwrap_err();
            assert_eq!(refused.index(), 0);
            assert_eq!(refused.retry_after(), Some(Duration::from_secs(900)));
            assert_eq!(refused.reset_after(), Duration::from_secs(3_600));
        }
        let large = bucket(Quota::per_minute(9));
        let refused = All((&large, &quick, &slow)).check_n(T, 5).unwrap_err();
        assert_eq!((refused.index(), refused.reason()), (1, Reason::TooCostly));
        assert_eq!((refused.retry_after(), refused.remaining()), (None, 0));
    }

    /// What a peek does not foresee: permits are taken, and given back with their timestamp.
    #[test]
    fn unforeseen_refusals_give_back() {
        let full = Denied::too_costly(3, 0, Duration::ZERO);
        let fine = || Told::new(None, None);
        let (a, b, c) = (fine(), Told::new(None, Some(full)), fine());
        let later = Told::new(Some(limited(7)), None);
        let refused = All((&a, &b, &c)).check_n(T, 3).unwrap_err();
        assert_eq!((refused.index(), refused.retry_after()), (1, None));
        assert_eq!((a.taken.get(), c.taken.get()), (0, 0));

        // A peek that refuses while another thread gives back: the known refusal stands.
        let refused = All((&a, &later, &b)).check(T).unwrap_err();
        assert_eq!(refused.index(), 1);
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(7)));
        assert_eq!((a.taken.get(), later.taken.get()), (0, 0));
        assert!(All((&a, &c)).check_n(T, 2).is_ok());
        assert_eq!((a.taken.get(), c.taken.get()), (2, 2));
    }

    /// Slices, arrays, vectors, boxes, mixed kinds, and gates of gates.
    #[test]
    fn every_kind_of_collection() {
        let make = || {
            (
                bucket(Quota::per_minute(3)),
                Limiter::new(SlidingWindow::narrow(Quota::per_minute(5))),
            )
        };
        fn three<T: tidegate::Gates>(all: All<T>) {
            for remaining in [2, 1, 0] {
                assert_eq!(all.check(T).unwrap().remaining(), remaining);
            }
            assert_eq!(all.check(T).unwrap_err().index(), 0);
        }
        let (a, b) = make();
        three(All((&a, &b)));
        let (a, b) = make();
        three(All((All((&a,)), &b)));
        let (a, b) = make();
        let array: [&dyn Gate; 2] = [&a, &b];
        three(All(&array[..]));
        let (a, b) = make();
        three(All([&a as &dyn Gate, &b]));
        three(All([
            bucket(Quota::per_minute(3)),
            bucket(Quota::per_day(9)),
        ]));
        let many = || bucket(Quota::per_minute(7));
        three(All((
            bucket(Quota::per_minute(3)),
            many(),
            many(),
            many(),
            many(),
            many(),
            many(),
            Limiter::new(FixedWindow::narrow(Quota::per_minute(4))),
        )));

        let none: [&dyn Gate; 0] = [];
        let allowed = All(none).check_n(T, u64::MAX).unwrap();
        assert_eq!(allowed.remaining(), u64::MAX);
        assert!(!All(none).enforces());
    }

    #[cfg(all(feature = "std", any(feature = "ahash", feature = "foldhash")))]
    #[test]
    fn a_full_table_beside_others() {
        use tidegate::BoxTable;

        let global = bucket(Quota::per_minute(1_000));
        let table = BoxTable::with_capacity(TokenBucket::new(Quota::per_minute(1)), 4);
        let mut full = 0;
        for key in 0..100 {
            match All((&global, table.at(&key))).check(T) {
                Ok(_) => {}
                Err(refused) => {
                    assert_eq!((refused.index(), refused.reason()), (1, Reason::TableFull));
                    assert_eq!(refused.retry_after(), None);
                    full += 1;
                }
            }
        }
        assert!(full > 0);
        assert_eq!(left(&global, T), 1_000 - (100 - full));
        let boxed: Vec<Box<dyn Gate>> = vec![Box::new(global), Box::new(table.at(&0))];
        assert_eq!(All(boxed).check(T).unwrap_err().index(), 1);
    }

    #[test]
    fn what_every_gate_says() {
        let a = bucket(Quota::per_minute(2));
        let b = bucket(Quota::per_minute(5));
        let watched = Shadow::new(bucket(Quota::per_minute(1)));
        let gates = All((&a, &watched, &b));
        let ask = || {
            let mut said = Vec::new();
            let answer = gates.check_each(T, 1, |index, decision| {
                said.push((
                    index,
                    decision.map(|it| it.remaining()).map_err(|it| it.reason()),
                ));
            });
            (answer.map_err(|refused| refused.index()).is_ok(), said)
        };
        assert_eq!(ask(), (true, vec![(0, Ok(1)), (1, Ok(0)), (2, Ok(4))]));
        assert_eq!(ask(), (true, vec![(0, Ok(0)), (1, Ok(0)), (2, Ok(3))]));
        let last = vec![(0, Err(Reason::Limited)), (1, Ok(0)), (2, Ok(3))];
        assert_eq!(ask(), (false, last));
    }

    /// What only watches is asked when all others have admitted, and is never refunded.
    #[test]
    fn shadows_come_last() {
        let watched = Shadow::new(bucket(Quota::per_minute(2)));
        let real = bucket(Quota::per_minute(3));
        let gates = All((&watched, &real));
        let admitted = (0..9).filter(|_| gates.check(T).is_ok()).count();
        assert_eq!(admitted, 3);
        let counts = watched.counts();
        assert_eq!((counts.admitted, counts.limited), (2, 1));
        assert_eq!(gates.check(T).unwrap_err().index(), 1);
        let gate: &dyn Gate = &gates;
        assert!(gate.refund(T, 3));
        assert_eq!(left(watched.gate(), T), 0, "it may not have counted these");
        assert!(!All((&watched,)).enforces());
        assert!(All((&watched, &All((&real,)))).enforces());
    }

    #[test]
    fn errors() {
        fn fails(gates: &All<(&Limiter<TokenBucket>,)>) -> Result<(), Denied> {
            gates.check_n(T, 9)?;
            Ok(())
        }
        let gate = bucket(Quota::per_minute(5));
        assert_eq!(
            fails(&All((&gate,))).unwrap_err().reason(),
            Reason::TooCostly
        );
        fn is_error<E: core::error::Error>() {}
        is_error::<AllDenied>();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

        /// Beside limiters that are asked one by one: the same admissions, and after a refusal nothing is
        /// missing anywhere; waits and numbers are exact.
        #[test]
        fn as_one_by_one(
            limits in [1_u64..6, 1..6, 1..6],
            calls in prop::collection::vec((0_u64..30 * SECOND, 0_u64..7), 1..40),
        ) {
            let make = || (
                bucket(Quota::per_minute(limits[0])),
                Limiter::new(FixedWindow::anchored(Quota::per_minute(limits[1]))),
                Limiter::new(SlidingWindow::new(Quota::per_minute(limits[2]))),
            );
            let (a, b, c) = make();
            let (x, y, z) = make();
            let plain: [&dyn Gate; 3] = [&x, &y, &z];
            let all = All((&a, &b, &c));
            let mut now = T;
            for (pause, cost) in calls {
                now = after(now, pause);
                let refusing: Vec<_> =
                    (0..3).filter(|&it| plain[it].peek_n(now, cost).is_err()).collect();
                let peeked = all.peek_n(now, cost);
                let (p, q, r) = (a.state(), b.state(), c.state());
                let copies = (
                    Limiter::with_state(*a.algorithm(), p),
                    Limiter::with_state(*b.algorithm(), q),
                    Limiter::with_state(*c.algorithm(), r),
                );
                let passes = All((&copies.0, &copies.1, &copies.2)).admits(now, cost);
                let answer = all.check_n(now, cost);
                prop_assert_eq!(&peeked, &answer);
                prop_assert_eq!(passes, answer.is_ok());
                prop_assert_eq!((copies.0.state(), copies.2.state()), (a.state(), c.state()));
                prop_assert_eq!(answer.is_ok(), refusing.is_empty());
                if answer.is_ok() {
                    for gate in plain {
                        gate.check_n(now, cost).unwrap();
                    }
                }
                let standing: Vec<_> =
                    plain.iter().map(|gate| gate.check_n(now, 0).unwrap()).collect();
                let fewest = standing.iter().map(Allowed::remaining).min();
                let longest = standing.iter().map(Allowed::reset_after).max();
                // One more passes all of them after that, and not before.
                let (next, remaining) = match answer {
                    Ok(allowed) => (allowed.next_after(), allowed.remaining()),
                    Err(refused) => (refused.next_after(), refused.remaining()),
                };
                if let Some(wait) = next {
                    let then = now.saturating_add(wait);
                    let early = then.saturating_sub(Duration::from_nanos(1));
                    prop_assert!(all.peek_n(then, remaining + 1).is_ok());
                    prop_assert!(all.peek_n(early, remaining + 1).is_err());
                } else {
                    prop_assert_eq!(Some(&remaining), limits.iter().min());
                }
                match answer {
                    Ok(allowed) => {
                        prop_assert_eq!(Some(allowed.remaining()), fewest);
                        prop_assert_eq!(Some(allowed.reset_after()), longest);
                    }
                    Err(refused) => {
                        prop_assert_eq!(refused.index(), refusing[0]);
                        prop_assert_eq!(Some(refused.remaining()), fewest);
                        prop_assert_eq!(Some(refused.reset_after()), longest);
                        match refused.retry_after() {
                            Some(wait) => {
                                let then = now.saturating_add(wait);
                                let early = then.saturating_sub(Duration::from_nanos(1));
                                prop_assert!(all.peek_n(then, cost).is_ok());
                                prop_assert!(all.peek_n(early, cost).is_err());
                            }
                            None => prop_assert!(limits.iter().any(|&limit| cost > limit)),
                        }
                    }
                }
                prop_assert_eq!((a.state(), b.state(), c.state()), (x.state(), y.state(), z.state()));
            }
        }
    }
}

mod shadow {
    use super::*;

    /// The gate of a shadow behaves as if it were enforced.
    #[test]
    fn as_if_enforced() {
        let alone = bucket(Quota::per_minute(3));
        let shadow = Shadow::new(bucket(Quota::per_minute(3)));
        let mut refused = 0;
        for step in 0..50 {
            let now = after(T, step * 7 * SECOND);
            let answer = alone.check(now);
            let shadowed = shadow.check(now).unwrap();
            assert_eq!(shadowed.is_counted(), answer.is_ok());
            refused += u64::from(answer.is_err());
            let (remaining, reset) = match answer {
                Ok(allowed) => (allowed.remaining(), allowed.reset_after()),
                Err(denied) => (denied.remaining(), denied.reset_after()),
            };
            assert_eq!(
                (shadowed.remaining(), shadowed.reset_after()),
                (remaining, reset)
            );
            assert_eq!(shadow.gate().state(), alone.state());
        }
        let counts = shadow.counts();
        assert_eq!((counts.admitted, counts.limited), (50 - refused, refused));
        assert!(refused > 0 && refused < 50);
        assert_eq!(counts.refused(), refused);
    }

    #[test]
    fn reasons_and_refunds() {
        let shadow = Shadow::new(bucket(Quota::per_minute(3)));
        let gate: &dyn Gate = &shadow;
        assert!(!gate.enforces());
        assert!(gate.peek_n(T, 9).is_ok() && gate.check_n(T, 0).is_ok());
        assert_eq!(
            shadow.counts(),
            tidegate::ShadowCounts::default(),
            "nothing to count"
        );
        assert_eq!(
            shadow.observe(T, 4).unwrap_err().reason(),
            Reason::TooCostly
        );
        assert!(gate.check_n(T, 3).unwrap().is_counted());
        let uncounted = gate.check(T).unwrap();
        assert!(!uncounted.is_counted());
        assert_eq!(uncounted.limit(), 3);
        assert!(gate.refund(T, 1));
        assert_eq!(left(shadow.gate(), T), 1);
        let counts = shadow.counts();
        assert_eq!(
            (
                counts.admitted,
                counts.limited,
                counts.too_costly,
                counts.table_full
            ),
            (1, 1, 1, 0)
        );
        let full = Shadow::new(Told::new(None, Some(limited(1))));
        assert!(full.check(T).is_ok());
        assert!(format!("{shadow:?}").contains("too_costly: 1"));
    }

    #[cfg(all(feature = "std", any(feature = "ahash", feature = "foldhash")))]
    #[test]
    fn a_full_table() {
        use tidegate::BoxTable;

        let table = BoxTable::with_capacity(TokenBucket::new(Quota::per_minute(1)), 4);
        let mut full = 0;
        for key in 0..100 {
            let shadow = Shadow::new(table.at(&key));
            assert!(shadow.check(T).is_ok());
            full += shadow.counts().table_full;
        }
        assert_eq!(full, table.full_counts().denied);
        assert!(full > 0);
    }

    #[test]
    fn beside() {
        let both = Beside::new(
            bucket(Quota::per_minute(2)),
            Limiter::new(FixedWindow::anchored(Quota::per_minute(3))),
        );
        let gate: &dyn Gate = &both;
        let admitted = (0..5).filter(|_| gate.check(T).is_ok()).count();
        assert_eq!(admitted, 2);
        let counts = both.counts();
        assert_eq!((counts.both_admit, counts.only_enforced_refuses), (2, 1));
        assert_eq!((counts.both_refuse, counts.only_candidate_refuses), (2, 0));
        // Half a minute on, only the bucket has something.
        let now = after(T, 30 * SECOND);
        assert!(gate.peek(now).is_ok());
        assert!(gate.check(now).is_ok());
        assert_eq!(both.counts().only_candidate_refuses, 1);
        assert!(gate.check_n(now, 0).is_ok() && gate.enforces());
        assert_eq!(
            both.counts().to_string(),
            "both admit 2, only the candidate refuses 1, only the enforced refuses 1, both refuse 2"
        );
        assert!(gate.refund(now, 1));
        assert_eq!(left(both.enforced(), now), 1);
        assert_eq!(
            left(both.candidate(), now),
            0,
            "it had not counted that one"
        );

        // A candidate that is a shadow itself refuses what its gate would.
        let nested = Beside::new(
            bucket(Quota::per_minute(2)),
            Shadow::new(bucket(Quota::per_minute(1))),
        );
        assert!(nested.check(T).is_ok() && nested.check(T).is_ok());
        assert_eq!(nested.counts().only_candidate_refuses, 1);
    }

    #[test]
    fn threads_lose_no_count() {
        static SHADOW: Shadow<Limiter<TokenBucket>> =
            Shadow::new(Limiter::new(TokenBucket::new(Quota::per_day(1_000))));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| assert!(SHADOW.check(T).is_ok())));
            }
        });
        let counts = SHADOW.counts();
        assert_eq!((counts.admitted, counts.limited), (1_000, 1_000));
    }
}

#[test]
fn answers_of_a_store_elsewhere_tell_when_the_next_permit_comes() {
    let (next, reset) = (Duration::from_millis(100), Duration::from_millis(700));
    let allowed = Allowed::new(10, 3, reset);
    assert_eq!(allowed.next_after(), Some(reset));
    let allowed = allowed.with_next_after(next);
    assert_eq!(allowed.next_after(), Some(next));
    assert_eq!((allowed.remaining(), allowed.reset_after()), (3, reset));
    // Nothing is to come.
    let full = Allowed::new(10, 10, Duration::ZERO).with_next_after(Duration::ZERO);
    assert_eq!(full.next_after(), None);

    let retry = Duration::from_millis(300);
    let denied = Denied::limited(10, 2, retry, reset).with_next_after(next);
    assert_eq!(denied.next_after(), Some(next));
    assert_eq!(denied.retry_after(), Some(retry));
    assert_eq!((denied.remaining(), denied.reset_after()), (2, reset));
    let never = Denied::too_costly(10, 2, reset).with_next_after(next);
    assert_eq!(
        (never.retry_after(), never.next_after()),
        (None, Some(next))
    );
}
