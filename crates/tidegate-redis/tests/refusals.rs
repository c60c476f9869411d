//! Refusals that are remembered.

mod common;

use core::time::Duration;

use common::{HOUR, Host, PATIENCE, all};
use tidegate::Quota;
use tidegate_redis::Limit;

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn remembered_refusals_cost_no_round_trip() {
    let server = Host::start();
    let store = server.store().await;
    for (name, limit) in all(5) {
        let limiter = store.limiter(name, limit).unwrap().remembering(1_000, HOUR);
        assert!(limiter.check_n("a", 5).await.unwrap().is_allowed());
        let first = limiter.check("a").await.unwrap().result().unwrap_err();
        let before = store.stats();
        for _ in 0..1_000 {
            let denied = limiter.check("a").await.unwrap().result().unwrap_err();
            assert_eq!((denied.limit(), denied.remaining()), (5, 0));
            // Told in time, and no later than by the server.
            let (told, at_first) = (denied.retry_after().unwrap(), first.retry_after().unwrap());
            assert!(told <= at_first && told + PATIENCE > at_first);
        }
        let after = store.stats();
        assert_eq!(after.refused, before.refused);
        assert_eq!(after.refused_locally - before.refused_locally, 1_000);
        // Another key, and another cost, are asked for.
        assert!(limiter.check("b").await.unwrap().is_allowed());
        assert!(limiter.check_n("a", 0).await.unwrap().is_allowed());
        // What comes back by this limiter is noticed at once.
        limiter.reset("a").await.unwrap();
        assert!(limiter.check("a").await.unwrap().is_allowed());
        // In batches too.
        assert!(limiter.check_n("a", 4).await.unwrap().is_allowed());
        let twice = [("a", 1), ("b", 1), ("a", 1)];
        let before = store.stats().refused_locally;
        for repeated in [0, 2] {
            let decisions = limiter.check_many(twice).await;
            let decisions: Vec<bool> = decisions
                .into_iter()
                .map(|it| it.unwrap().is_allowed())
                .collect();
            assert_eq!(decisions, [false, true, false]);
            assert_eq!(store.stats().refused_locally - before, repeated);
        }
    }
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_remembered_refusal_ends_in_time() {
    let server = Host::start();
    let store = server.store().await;
    let quota = Quota::new(1, Duration::from_millis(40)).unwrap();
    let limiter = store.limiter("a", Limit::token_bucket(quota)).unwrap();
    let limiter = limiter.remembering(16, HOUR);
    for _ in 0..10 {
        let decision = limiter.check("a").await.unwrap();
        if let Err(denied) = decision.result() {
            tokio::time::sleep(denied.retry_after().unwrap()).await;
            assert!(limiter.check("a").await.unwrap().is_allowed());
        }
    }
    assert!(store.stats().refused > 0);
}
