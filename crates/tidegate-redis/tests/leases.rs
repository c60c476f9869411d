//! Leases: never over whoever else takes and gives back, and nothing lost that could be kept.

#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::time::Duration;
use std::time::Instant;

use common::{PATIENCE, Server};
use tidegate::{LeaseState, Quota};
use tidegate_redis::{ErrorKind, Limit, RedisLimiter};

const HOUR: Duration = Duration::from_secs(3_600);

async fn left(limiter: &RedisLimiter) -> u64 {
    let decision = limiter.peek_n("k", 0).await.unwrap();
    decision.result().unwrap().remaining()
}

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
        while 1_000_000 - left(&limiter).await > lease.held() + calls {
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
