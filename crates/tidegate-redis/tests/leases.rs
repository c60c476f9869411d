//! Leases: never over whoever else takes and gives back, and nothing lost that could be kept.

#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::time::Duration;
use std::time::Instant;

use common::{HOUR, Host, PATIENCE, Server, all, left, wait_until};
use tidegate::{LeaseState, Quota, Reason};
use tidegate_redis::{ErrorKind, Limit};

/// How many pass, when tasks on three machines hold leases, spend them, let them age, and give them back; and the time by
/// the server's clock before and after, in microseconds.
async fn storm(server: &Server, limit: Limit) -> (u64, u64, u64) {
    let store = server.store().await;
    let limiter = store.limiter("storm", limit).unwrap();
    let time = async || {
        let decision = limiter.peek("other").await.unwrap();
        decision.server_time().as_nanos() / 1_000
    };
    let before = time().await;
    let until = Instant::now() + Duration::from_millis(1_500);
    let mut tasks = Vec::new();
    for machine in 0..3_u64 {
        let store = server.store().await;
        let limiter = store.limiter("storm", limit).unwrap();
        let state = LeaseState::new(1..=64).with_interval(Duration::from_millis(20));
        let lease = limiter.lease_with("k", state, Duration::from_millis(100));
        for task in 0..4_u64 {
            let lease = lease.clone();
            tasks.push(tokio::spawn(async move {
                let (mut passed, mut turn) = (0, machine + task);
                while Instant::now() < until {
                    turn = turn
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    match turn >> 59 {
                        0 => tokio::time::sleep(Duration::from_millis(1 + (turn >> 40) % 40)).await,
                        1 => drop(lease.give_back().await.unwrap()),
                        // Given up in the middle, perhaps after it was counted; and perhaps not.
                        2 => {
                            let pause = Duration::from_micros((turn >> 40) % 300);
                            let check = tokio::time::timeout(pause, lease.check());
                            passed += u64::from(matches!(check.await, Ok(Ok(Ok(_)))));
                        }
                        _ => {
                            let cost = 1 + (turn >> 50) % 3;
                            if lease.check_n(cost).await.unwrap().is_ok() {
                                passed += cost;
                            }
                            tokio::task::yield_now().await;
                        }
                    }
                }
                passed
            }));
        }
    }
    let mut passed = 0;
    for task in tasks {
        passed += task.await.unwrap();
    }
    (passed, before, time().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn never_over_while_a_bucket_refills() {
    let server = Server::start();
    let quota = Quota::per_second(2_000);
    let limit = Limit::token_bucket(quota).with_burst(100);
    let (passed, before, after) = storm(&server, limit).await;
    let most = 100 + (after - before) * 2_000 / 1_000_000;
    assert!(passed <= most, "{passed} of {most}");
    assert!(passed > 500, "{passed} of {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn never_over_while_windows_pass() {
    let server = Server::start();
    let period = 250_000;
    let quota = Quota::new(300, Duration::from_micros(period)).unwrap();
    let (passed, before, after) = storm(&server, Limit::fixed_window(quota)).await;
    let most = 300 * (after / period - before / period + 1);
    assert!(passed <= most, "{passed} of {most}");
    assert!(passed > 500, "{passed} of {most}");
}

/// A request that is given up while the server counts a batch for it takes along no more than itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_request_given_up_loses_no_batch() {
    let server = Server::start();
    let store = server.store().await;
    let quota = Quota::new(1_000_000, 1_000 * HOUR).unwrap();
    let ways = [Limit::token_bucket, Limit::fixed_window, Limit::sliding_log];
    for (place, way) in ways.into_iter().enumerate() {
        let limiter = store
            .limiter(&format!("given-up-{place}"), way(quota))
            .unwrap();
        let lease = limiter.lease_with("k", LeaseState::new(64..=64), HOUR);
        let mut calls = 0;
        // Until it holds a batch, and then nothing again.
        while lease.held() == 0 {
            assert!(lease.check().await.unwrap().is_ok());
            calls += 1;
        }
        while lease.held() > 0 {
            assert!(lease.check().await.unwrap().is_ok());
            calls += 1;
        }
        let _: () = server.command(&["CLIENT", "PAUSE", "200", "ALL"]);
        let check = tokio::time::timeout(Duration::from_millis(20), lease.check());
        assert!(check.await.is_err());
        calls += 1;
        let begun = Instant::now();
        while 1_000_000 - left(&limiter, "k").await > lease.held() + calls {
            assert!(
                begun.elapsed() < PATIENCE,
                "way {place}: {} held",
                lease.held()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(lease.held() > 0);
    }
}

/// Somebody who only asks leases finds out too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_dead_server_is_found_by_leases() {
    let server = Server::start();
    let store = server.builder().connect().await.unwrap();
    let limiter = store
        .limiter("a", Limit::token_bucket(Quota::per_day(1_000)))
        .unwrap();
    let lease = limiter.lease("k", 1..=1);
    assert!(lease.check().await.unwrap().is_ok());
    let _: () = server.command(&["CLIENT", "PAUSE", "600000", "ALL"]);
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let lease = lease.clone();
            tokio::spawn(async move {
                let begun = Instant::now();
                while lease.check().await.unwrap_err().kind() != ErrorKind::Down {
                    assert!(begun.elapsed() < PATIENCE);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn leases_spend_exactly_the_limit_and_give_the_rest_back() {
    let server = Host::start();
    let store = server.store().await;
    for (name, limit) in all(10_000) {
        let limiter = store.limiter(name, limit).unwrap();
        let scripts = || -> u64 {
            let stats = server.each::<String>(&["INFO", "commandstats"]).concat();
            let lines = stats
                .lines()
                .filter(|it| it.starts_with("cmdstat_evalsha:"));
            let calls = lines.filter_map(|it| it.split(['=', ',']).nth(1));
            calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
        };
        let before = scripts();
        // Two machines, and many tasks on each.
        let leases = [limiter.lease("a", 1..=256), limiter.lease("a", 1..=256)];
        let tasks: Vec<_> = (0..60)
            .map(|task| {
                let lease = leases[task % 2].clone();
                tokio::spawn(async move {
                    let mut passed = 0;
                    for _ in 0..200 {
                        passed += u64::from(lease.check().await.unwrap().is_ok());
                    }
                    passed
                })
            })
            .collect();
        let mut passed = 0;
        for task in tasks {
            passed += task.await.unwrap();
        }
        // 12,000 were asked for. What the other holds when one is refused may lie idle.
        assert!(passed <= 10_000, "{name}");
        let held: u64 = leases.iter().map(|lease| lease.held()).sum();
        let rest = left(&limiter, "a").await;
        assert_eq!(passed + held + rest, 10_000, "{name}");
        assert!(passed > 9_000, "{name}: {passed}");
        let asked = scripts() - before;
        assert!(asked < 1_500, "{name}: {asked} scripts");

        // What is not spent is back when the leases are gone.
        drop(leases);
        wait_until("what was held", async || {
            passed + left(&limiter, "a").await == 10_000
        })
        .await;
        assert_eq!(store.stats().refunds_lost, 0);
    }
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn leases_give_back_what_nobody_spends() {
    let server = Host::start();
    let store = server.store().await;
    for (name, limit) in all(1_000) {
        let limiter = store.limiter(name, limit).unwrap();
        let state = LeaseState::new(64..=64);
        let lease = limiter.lease_with("a", state, Duration::from_millis(50));
        // The first batch may be no more than the cost; then a quarter of what is left is a batch.
        let mut spent = 0;
        while lease.held() == 0 {
            assert!(lease.check().await.unwrap().is_ok());
            spent += 1;
        }
        wait_until("what was held", async || {
            left(&limiter, "a").await == 1_000 - spent
        })
        .await;
        // And on it goes.
        assert!(lease.check().await.unwrap().is_ok());
        lease.give_back().await.unwrap();
        let rest = left(&limiter, "a").await;
        assert_eq!(rest, 1_000 - spent - 1);
    }
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_lease_repeats_a_refusal() {
    let server = Host::start();
    let store = server.store().await;
    let limiter = store.limiter("a", all(3)[0].1).unwrap();
    let lease = limiter.lease("k", 1..=64);
    for _ in 0..3 {
        assert!(lease.check().await.unwrap().is_ok());
    }
    let denied = lease.check().await.unwrap().unwrap_err();
    let refused = store.stats().refused;
    for _ in 0..100 {
        let again = lease.check().await.unwrap().unwrap_err();
        assert!(again.retry_after() <= denied.retry_after());
    }
    assert_eq!(store.stats().refused, refused);
    assert_eq!(store.stats().refused_locally, 100);
    let never = lease.check_n(4).await.unwrap().unwrap_err();
    assert_eq!(never.reason(), Reason::TooCostly);
}
