//! What holds whatever is done to a key.

mod common;

use core::time::Duration;

use common::Server;
use proptest::prelude::*;
use tidegate::{Quota, Timestamp};
use tidegate_redis::{ErrorKind, Limit, RedisLimiter, RedisStore, Request};

const WAYS: [fn(Quota) -> Limit; 5] = [
    Limit::token_bucket,
    Limit::fixed_window,
    Limit::anchored_window,
    Limit::sliding_window,
    Limit::sliding_log,
];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn quota(limit: u64, secs: u64) -> Quota {
    Quota::new(limit, Duration::from_secs(secs)).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Check(u64),
    Peek(u64),
    /// Of what was taken by the check before so many others.
    Refund(usize, u64),
    /// Of what nobody has taken.
    RefundOther(i64, u64),
    Reset,
}

/// By which of two limits, how much later, and what.
type Steps = Vec<(usize, i64, Step)>;

fn steps(pauses: core::ops::Range<i64>) -> impl Strategy<Value = Steps> {
    let step = prop_oneof![
        8 => (0_u64..12).prop_map(Step::Check),
        1 => (0_u64..12).prop_map(Step::Peek),
        3 => (0_usize..5, 0_u64..12).prop_map(|(back, cost)| Step::Refund(back, cost)),
        1 => (-9_000_000_i64..9_000_000, 0_u64..12).prop_map(|(off, cost)| Step::RefundOther(off, cost)),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec((0_usize..2, pauses, step), 1..40)
}

async fn left(limiter: &RedisLimiter, now: Timestamp) -> u64 {
    let decision = limiter.peek_at("k", 0, now).await.unwrap();
    decision.result().unwrap().remaining()
}

/// A key of state that did not expire would stay for ever.
#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn every_key_expires() {
    let server = Server::start();
    let runtime = runtime();
    let store = runtime.block_on(server.store());
    let connection = core::cell::RefCell::new(server.connection());
    let limits = (1_u64..10, 1_u64..20, 1_u64..10, 1_u64..20);
    let cases = (
        0..WAYS.len(),
        limits,
        steps(-2_000_000..9_000_000),
        any::<bool>(),
    );
    proptest!(config(), |((way, (a, b, c, d), steps, is_servers) in cases)| {
        runtime.block_on(async {
            let two = [(a, b), (c, d)].map(|(limit, secs)| {
                store.limiter("ttl", WAYS[way](quota(limit, secs))).unwrap()
            });
            let mut now = 1_800_000_000_000_000_u64;
            let mut taken = Vec::new();
            for (which, pause, step) in steps {
                now = now.saturating_add_signed(pause);
                let (limiter, at) = (&two[which], Timestamp::from_micros(now));
                match step {
                    Step::Check(cost) => {
                        let decision = if is_servers {
                            limiter.check_n("k", cost).await.unwrap()
                        } else {
                            limiter.check_at("k", cost, at).await.unwrap()
                        };
                        taken.push(decision.taken_at());
                    }
                    Step::Peek(cost) => drop(limiter.peek_at("k", cost, at).await.unwrap()),
                    Step::Refund(back, cost) => {
                        if let Some(place) = taken.len().checked_sub(back + 1) {
                            limiter.refund_at("k", taken[place], cost, at).await.unwrap();
                        }
                    }
                    Step::RefundOther(off, cost) => {
                        let taken = Timestamp::from_micros(now.saturating_add_signed(off));
                        limiter.refund_at("k", taken, cost, at).await.unwrap();
                    }
                    Step::Reset => limiter.reset("k").await.unwrap(),
                }
                let mut connection = connection.borrow_mut();
                let keys: Vec<String> = redis::cmd("KEYS").arg("*:ttl:*").query(&mut *connection).unwrap();
                for key in keys {
                    let ttl: i64 = redis::cmd("PTTL").arg(&key).query(&mut *connection).unwrap();
                    // -2 is none any more, -1 is for ever.
                    prop_assert_ne!(ttl, -1, "{} {:?}", key, step);
                    // A day beyond what was used, at most: 2 periods of 20 seconds, and late by some steps.
                    prop_assert!(ttl < 86_400_000 + 600_000, "{} {:?}", ttl, step);
                }
            }
            two[0].reset("k").await.unwrap();
            Ok(())
        })?;
    });
}

/// In a rolling deployment, two limits of one name alternate: together they admit, at any instant, no more than the
/// larger of them, and give back no more than was taken.
#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn two_limits_of_one_name() {
    let server = Server::start();
    let runtime = runtime();
    let store = runtime.block_on(server.store());
    // Limits and bursts of one rate as well as of several.
    let pairs = prop_oneof![
        (1_u64..12, 1_u64..12).prop_map(|(a, b)| (quota(a, 1_000_000), quota(b, 1_000_000))),
        (1_u64..12, 1_u64..12)
            .prop_map(|(a, b)| (quota(a, 1_000_000 * a), quota(b, 1_000_000 * b))),
        (1_u64..12, 1_u64..12).prop_map(|(a, b)| (quota(a, 7_000_000), quota(b, 900_000))),
    ];
    let cases = (0..WAYS.len(), pairs, steps(0..1));
    proptest!(config(), |((way, (one, other), steps) in cases)| {
        runtime.block_on(async {
            let two = [one, other].map(|quota| store.limiter("two", WAYS[way](quota)).unwrap());
            let most = one.limit().max(other.limit());
            let now = Timestamp::from_secs(1_800_000_000);
            let (mut used, mut taken) = (0, Vec::new());
            for (which, _, step) in steps {
                let limiter = &two[which];
                match step {
                    Step::Check(cost) => {
                        let decision = limiter.check_at("k", cost, now).await.unwrap();
                        if decision.is_allowed() && cost > 0 {
                            used += cost;
                            taken.push((decision.taken_at(), cost));
                        }
                    }
                    Step::Refund(back, _) => {
                        if let Some(place) = taken.len().checked_sub(back + 1) {
                            let (at, cost) = taken.remove(place);
                            if limiter.refund_at("k", at, cost, now).await.unwrap() {
                                used -= cost;
                            }
                        }
                    }
                    Step::Reset => {
                        limiter.reset("k").await.unwrap();
                        (used, taken) = (0, Vec::new());
                    }
                    Step::Peek(_) | Step::RefundOther(..) => {}
                }
                prop_assert!(used <= most, "{} of {}", used, most);
                for (limiter, quota) in two.iter().zip([one, other]) {
                    let left = left(limiter, now).await;
                    prop_assert!(left <= quota.limit().saturating_sub(used), "{} left, {} used", left, used);
                }
            }
            two[0].reset("k").await.unwrap();
            Ok(())
        })?;
    });
}

async fn two(store: &RedisStore, way: usize, most: [u64; 2]) -> [RedisLimiter; 2] {
    let name = format!("now-{way}");
    most.map(|most| {
        let limit = WAYS[way](quota(most, 1_000_000));
        store.limiter(&name, limit).unwrap()
    })
}

/// The budget of the larger is not made anew by the smaller one, which has admitted nothing or little of it.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_smaller_limit_forgets_nothing() {
    let server = Server::start();
    let store = server.store().await;
    // At the beginning of a window.
    let now = Timestamp::from_secs(1_800_000_000);
    let before = Timestamp::from_secs(1_799_000_001);
    for way in 0..WAYS.len() {
        let [small, large] = two(&store, way, [10, 1_000]).await;
        let taken = large.check_at("k", 1_000, now).await.unwrap();
        assert!(taken.is_allowed());
        assert!(!small.check_at("k", 1, now).await.unwrap().is_allowed());
        // One goes back, by whomever.
        let one = small.refund_at("k", taken.taken_at(), 1, now).await;
        assert!(one.unwrap());
        assert_eq!(left(&large, now).await, 1, "way {way}");
        assert_eq!(left(&small, now).await, 0, "way {way}");
        small.reset("k").await.unwrap();
    }
    // One rate, two bursts.
    let rate = Limit::token_bucket(quota(1, 60));
    let small = store.limiter("burst", rate.with_burst(10)).unwrap();
    let large = store.limiter("burst", rate.with_burst(1_000)).unwrap();
    assert!(large.check_at("k", 1_000, now).await.unwrap().is_allowed());
    assert!(!small.check_at("k", 1, now).await.unwrap().is_allowed());
    assert_eq!(left(&large, now).await, 0);

    // What the last window had admitted still weighs for the larger when the smaller has admitted some.
    let [small, large] = two(&store, 3, [10, 1_000]).await;
    assert!(
        large
            .check_at("k", 1_000, before)
            .await
            .unwrap()
            .is_allowed()
    );
    // With a hundredth of the window to go, a hundredth of it weighs: 10 of 1,000, and nothing of 10.
    let late = Timestamp::from_secs(1_800_990_000);
    assert!(small.check_at("k", 1, late).await.unwrap().is_allowed());
    assert_eq!(left(&large, late).await, 989);
}

/// Nothing is ever known of a key at the beginning of time.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn time_begins_at_zero() {
    let server = Server::start();
    let store = server.store().await;
    for (place, way) in WAYS.into_iter().enumerate() {
        let limiter = store
            .limiter(&format!("zero-{place}"), way(quota(2, 60)))
            .unwrap();
        for (micros, is_allowed) in [(0, true), (1, true), (2, false), (59_000_000, place == 0)] {
            let decision = limiter
                .check_at("k", 1, Timestamp::from_micros(micros))
                .await
                .unwrap();
            assert_eq!(decision.is_allowed(), is_allowed, "way {place} at {micros}");
        }
    }
}

/// What a server that is asked by `check_at` alone keeps beyond idleness is documented; by its own clock it is nothing.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn keys_are_kept_until_everything_is_back() {
    let server = Server::start();
    let store = server.store().await;
    for (place, way) in WAYS.into_iter().enumerate() {
        let limiter = store
            .limiter(&format!("kept-{place}"), way(quota(5, 100)))
            .unwrap();
        for cost in [1, 4] {
            let decision = limiter.check_n("k", cost).await.unwrap();
            let reset = decision.result().unwrap().reset_after();
            let keys: Vec<String> = server.command(&["KEYS", &format!("*:kept-{place}:*")]);
            let ends: u64 = server.command(&["PEXPIRETIME", &keys[0]]);
            let idle = decision.server_time().since_epoch() + reset;
            let ends = Duration::from_millis(ends);
            assert!(
                ends >= idle && ends < idle + Duration::from_secs(1),
                "way {place}"
            );
        }
    }
}

/// A server whose clock is set back by up to an hour still knows what was used; by more, it begins anew, and nobody is
/// kept out until the clock is where it was.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn clocks_that_are_set() {
    let server = Server::start();
    let store = server.store().await;
    let at = |minutes: i64| {
        // At the beginning of a minute, and of an hour.
        let secs = 1_800_000_000_u64.saturating_add_signed(60 * minutes);
        Timestamp::from_secs(secs)
    };
    for (place, way) in WAYS.into_iter().enumerate() {
        let limiter = store
            .limiter(&format!("set-{place}"), way(quota(2, 60)))
            .unwrap();
        let passes = async |minutes, cost| {
            let decision = limiter.check_at("k", cost, at(minutes)).await.unwrap();
            decision.is_allowed()
        };
        assert!(passes(0, 2).await);
        assert!(!passes(-30, 1).await, "way {place}");
        assert!(!passes(-59, 1).await, "way {place}");
        // By more than an hour, however long that is.
        assert!(passes(-90, 2).await, "way {place}");
        assert!(!passes(-90, 1).await, "way {place}");
        assert!(passes(-1_000_000, 2).await, "way {place}");
        assert!(!passes(-1_000_000, 1).await, "way {place}");
        // And on, by any time.
        assert!(passes(1_000_000, 2).await, "way {place}");
        assert!(!passes(1_000_000, 1).await, "way {place}");
    }
}

/// A decision that fails has counted nothing, wherever it failed.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn all_or_nothing_when_it_fails() {
    let server = Server::start();
    let store = server.store().await;
    let now = Timestamp::from_secs(1_800_000_000);
    let limiters: Vec<RedisLimiter> = WAYS
        .into_iter()
        .enumerate()
        .map(|(place, way)| {
            let limit = way(quota(5, 1_000_000));
            store.limiter(&format!("each-{place}"), limit).unwrap()
        })
        .collect();
    let requests: Vec<Request<'_>> = limiters.iter().map(|it| Request::new(it, "k")).collect();
    for decision in store.check_all_at(&requests, now).await.unwrap() {
        assert!(decision.is_allowed());
    }
    let untouched = async || {
        for limiter in &limiters {
            assert_eq!(left(limiter, now).await, 4, "{limiter:?}");
        }
    };
    // Somebody else's key, at each place.
    for (place, limiter) in limiters.iter().enumerate() {
        let keys: Vec<String> = server.command(&["KEYS", &format!("*:each-{place}:*")]);
        let name = &keys[0];
        let _: () = server.command(&["RENAME", name, "aside"]);
        let _: u64 = server.command(&["SADD", name, "somebody's"]);
        let error = store.check_all_at(&requests, now).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Server, "{limiter:?}");
        let _: () = server.command(&["RENAME", "aside", name]);
        untouched().await;
    }
    // No memory to write, now that all have been read.
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = store.check_all_at(&requests, now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    untouched().await;
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    // One that refuses.
    assert!(
        limiters[4]
            .check_at("k", 4, now)
            .await
            .unwrap()
            .is_allowed()
    );
    let decisions = store.check_all_at(&requests, now).await.unwrap();
    assert_eq!(decisions.iter().filter(|it| it.is_allowed()).count(), 4);
    for limiter in &limiters[..4] {
        assert_eq!(left(limiter, now).await, 4, "{limiter:?}");
    }
}
