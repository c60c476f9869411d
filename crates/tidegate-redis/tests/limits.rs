//! What limiters on a server do, by the server's own clock.

mod common;

use core::time::Duration;

use common::{HOUR, Host, PATIENCE, Server, all, left, wait_until};
use tidegate::{Quota, Reason, Timestamp};
use tidegate_redis::{ErrorKind, Limit, RedisLimiter, RedisStore, Request};

fn limiters(store: &RedisStore, limit: u64) -> Vec<RedisLimiter> {
    all(limit)
        .into_iter()
        .map(|(name, limit)| store.limiter(name, limit).unwrap())
        .collect()
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn check_peek_refund_and_reset() {
    let server = Host::start();
    let store = server.store().await;
    for limiter in limiters(&store, 5) {
        let peeked = limiter.peek("a").await.unwrap().result().unwrap();
        assert_eq!((peeked.limit(), peeked.remaining()), (5, 4), "{limiter:?}");
        let taken = limiter.check_n("a", 3).await.unwrap();
        assert_eq!(taken.result().unwrap().remaining(), 2);
        // By the server's clock: the same machine's, here.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let apart = now.unwrap().abs_diff(taken.server_time().since_epoch());
        assert!(apart < PATIENCE, "{apart:?}");

        let denied = limiter.check_n("a", 3).await.unwrap().result().unwrap_err();
        assert_eq!((denied.reason(), denied.remaining()), (Reason::Limited, 2));
        assert!(denied.retry_after().unwrap() > Duration::ZERO);
        let never = limiter.check_n("a", 6).await.unwrap().result().unwrap_err();
        assert_eq!(
            (never.reason(), never.retry_after()),
            (Reason::TooCostly, None)
        );
        let zero = limiter.check_n("a", 0).await.unwrap().result().unwrap();
        assert_eq!(zero.remaining(), 2);
        let huge = limiter.check_n("a", u64::MAX).await.unwrap();
        assert!(!huge.is_allowed());

        assert!(limiter.refund("a", taken.taken_at(), 2).await.unwrap());
        assert_eq!(left(&limiter, "a").await, 4);
        // Not more than was taken.
        assert!(limiter.refund("a", taken.taken_at(), 100).await.unwrap());
        assert!(!limiter.refund("a", taken.taken_at(), 1).await.unwrap());
        assert_eq!(left(&limiter, "a").await, 5);

        assert!(limiter.check_n("a", 5).await.unwrap().is_allowed());
        assert!(limiter.check("b").await.unwrap().is_allowed());
        assert!(!limiter.check("a").await.unwrap().is_allowed());
        limiter.reset("a").await.unwrap();
        assert!(limiter.check("a").await.unwrap().is_allowed());
        assert_eq!(left(&limiter, "b").await, 4);
    }
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn several_limits_all_or_nothing() {
    let server = Host::start();
    let store = server.store().await;
    let limiters = limiters(&store, 5);
    // On a cluster, different keys lie on different servers, unless they are told not to.
    let limiters: Vec<RedisLimiter> = limiters.into_iter().map(|it| it.with_tag("us")).collect();
    let tight = store
        .limiter(
            "tight",
            Limit::fixed_window(Quota::new(2, 1_000 * HOUR).unwrap()),
        )
        .unwrap()
        .with_tag("us");
    let mut requests: Vec<Request<'_>> = limiters
        .iter()
        .map(|limiter| Request::new(limiter, "a"))
        .collect();
    requests.push(Request::new(&tight, "other"));
    for left in [1, 0] {
        let decisions = store.check_all(&requests).await.unwrap();
        assert!(decisions.iter().all(|it| it.is_allowed()));
        assert_eq!(decisions[5].result().unwrap().remaining(), left);
    }
    for _ in 0..3 {
        let decisions = store.check_all(&requests).await.unwrap();
        assert!(!decisions[5].is_allowed());
        for decision in &decisions[..5] {
            // As they stand: nothing was counted.
            assert_eq!(decision.result().unwrap().remaining(), 3);
        }
    }
    let peeked = store.peek_all(&requests[..5]).await.unwrap();
    assert!(
        peeked
            .iter()
            .all(|it| it.result().unwrap().remaining() == 2)
    );

    assert_eq!(store.check_all(&[]).await.unwrap(), []);
    // One key of several limiters lies on one server.
    let (one, two) = (&self::limiters(&store, 5)[0], &self::limiters(&store, 5)[1]);
    for key in ["a", "b", "c", "", "}"] {
        let both = [Request::new(one, key), Request::new(two, key)];
        let decisions = store.check_all(&both).await.unwrap();
        assert!(decisions.iter().all(|it| it.is_allowed()));
    }
    if server.is_cluster() {
        let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
        let apart: Vec<Request<'_>> = keys.iter().map(|key| Request::new(one, key)).collect();
        assert_eq!(
            store.check_all(&apart).await.unwrap_err().kind(),
            ErrorKind::CrossSlot
        );
    }
    let twice = [requests[0], requests[0].with_cost(2)];
    assert_eq!(
        store.check_all(&twice).await.unwrap_err().kind(),
        ErrorKind::SameKey
    );
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn batches_decide_one_after_the_other() {
    let server = Host::start();
    let store = server.store().await;
    for limiter in limiters(&store, 3) {
        let keys = (0..1_000).map(|number| (format!("{}", number / 5), 1));
        let decisions = limiter.check_many(keys).await;
        assert_eq!(decisions.len(), 1_000);
        for (place, decision) in decisions.into_iter().enumerate() {
            // Three of the five of each key.
            assert_eq!(
                decision.unwrap().is_allowed(),
                place % 5 < 3,
                "{limiter:?} {place}"
            );
        }
        assert!(
            limiter
                .check_many(Vec::<(&str, u64)>::new())
                .await
                .is_empty()
        );
    }
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn idle_keys_are_gone_and_used_ones_stay() {
    let server = Host::start();
    let store = server.store().await;
    let quota = Quota::new(2, Duration::from_millis(300)).unwrap();
    let limits = [
        ("bucket", Limit::token_bucket(quota)),
        ("fixed", Limit::fixed_window(quota)),
        ("anchored", Limit::anchored_window(quota)),
        ("sliding", Limit::sliding_window(quota)),
        ("log", Limit::sliding_log(quota)),
    ];
    for (name, limit) in limits {
        let limiter = store.limiter(name, limit).unwrap();
        for key in 0..10 {
            assert!(limiter.check(key.to_string()).await.unwrap().is_allowed());
        }
    }
    // One more, and the name of the server.
    assert!(
        store
            .limiter("log", all(5)[4].1)
            .unwrap()
            .check("used")
            .await
            .unwrap()
            .is_allowed()
    );
    // Nobody asks for them: the server drops what has expired by itself, some time later.
    let kept = || server.each::<u64>(&["DBSIZE"]).iter().sum::<u64>();
    wait_until("the expiry", async || kept() <= 2).await;
    let used = store.limiter("log", all(5)[4].1).unwrap();
    assert_eq!(left(&used, "used").await, 4);
}

/// The expiry is never before a key is idle: with time from elsewhere, it is a day later.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_slower_clock_loses_nothing() {
    let server = Host::start();
    let store = server.store().await;
    let quota = Quota::new(1, Duration::from_millis(1)).unwrap();
    let now = Timestamp::from_secs(1_800_000_000);
    for (name, limit) in [
        ("bucket", Limit::token_bucket(quota)),
        ("anchored", Limit::anchored_window(quota)),
        ("log", Limit::sliding_log(quota)),
    ] {
        let limiter = store.limiter(name, limit).unwrap();
        assert!(limiter.check_at("a", 1, now).await.unwrap().is_allowed());
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(
            !limiter.check_at("a", 1, now).await.unwrap().is_allowed(),
            "{name}"
        );
    }
}

/// What was used stays used, in permits.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn limits_change_while_they_are_used() {
    let server = Host::start();
    let store = server.store().await;
    let now = Timestamp::from_secs(1_800_000_000);
    let per = |limit, secs| Quota::new(limit, Duration::from_secs(secs)).unwrap();
    let ways: [fn(Quota) -> Limit; 5] = [
        Limit::token_bucket,
        Limit::fixed_window,
        Limit::anchored_window,
        Limit::sliding_window,
        Limit::sliding_log,
    ];
    for (place, way) in ways.into_iter().enumerate() {
        let left = async |quota: Quota, cost: u64| {
            let limiter = store.limiter("changing", way(quota)).unwrap();
            let decision = limiter
                .check_at(place.to_string(), cost, now)
                .await
                .unwrap();
            decision.result().map(|it| it.remaining())
        };
        // 5 of 5; raised to 10, 5 are left; lowered to 3, none.
        assert_eq!(left(per(5, 60), 5).await.unwrap(), 0);
        assert_eq!(left(per(10, 60), 0).await.unwrap(), 5, "way {place}");
        assert_eq!(left(per(3, 60), 0).await.unwrap(), 0, "way {place}");
        assert!(left(per(3, 60), 1).await.is_err());
        // Two more under a larger limit, of another period.
        assert_eq!(left(per(10, 7), 2).await.unwrap(), 3, "way {place}");
        assert_eq!(left(per(10, 60), 0).await.unwrap(), 3, "way {place}");
    }
    // Nobody waits out an old rate.
    let slow = store
        .limiter("rate", Limit::token_bucket(per(10, 20)))
        .unwrap();
    assert!(slow.check_at("a", 10, now).await.unwrap().is_allowed());
    let fast = store
        .limiter("rate", Limit::token_bucket(per(1_000, 20)))
        .unwrap();
    assert_eq!(
        fast.peek_at("a", 1, now)
            .await
            .unwrap()
            .result()
            .unwrap()
            .remaining(),
        989
    );
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn keys_of_all_kinds() {
    let server = Host::start();
    let store = server.store().await;
    let long = vec![b'x'; 64 << 10];
    let mut longer = long.clone();
    longer.push(b'x');
    let keys: [&[u8]; 9] = [
        b"",
        b"\0",
        b"}",
        b"{",
        b"a b\r\n",
        b"\xff\xfe",
        "\u{1f980}".as_bytes(),
        &long,
        &longer,
    ];
    for limiter in limiters(&store, 2) {
        for key in keys {
            for is_allowed in [true, true, false] {
                assert_eq!(limiter.check(key).await.unwrap().is_allowed(), is_allowed);
            }
        }
    }
    // Nobody fills the server with long keys.
    let all = server.each::<Vec<Vec<u8>>>(&["KEYS", "*"]).concat();
    assert!(all.iter().all(|key| key.len() < 128));
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn names_prefixes_and_limits_that_cannot_be() {
    let server = Host::start();
    let store = server.store().await;
    let limit = all(5)[0].1;
    for name in ["", "a b", "a:b", "a{b", &"x".repeat(65)] {
        assert!(store.limiter(name, limit).is_err(), "{name:?}");
        assert!(server.builder().prefix(name).is_err());
    }
    assert!(store.limiter("a", limit.with_burst(0)).is_err());
    let other = server.builder().prefix("other").unwrap().deadline(PATIENCE);
    let other = other.connect().await.unwrap();
    let (one, two) = (
        store.limiter("a", limit).unwrap(),
        other.limiter("a", limit).unwrap(),
    );
    assert!(one.check_n("k", 5).await.unwrap().is_allowed());
    assert!(two.check_n("k", 5).await.unwrap().is_allowed());
    assert!(!two.check_n("k", 1).await.unwrap().is_allowed());
}

/// A key that is not ours is an error, and stays as it is.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn what_somebody_else_has_put_there() {
    let server = Host::start();
    let store = server.store().await;
    let limiter = store.limiter("a", all(5)[0].1).unwrap();
    let _: () = server.command(&["SET", "tidegate:a:b:{k}", "hello"]);
    assert_eq!(
        limiter.check("k").await.unwrap_err().kind(),
        ErrorKind::Server
    );
    assert_eq!(
        server.command::<String>(&["GET", "tidegate:a:b:{k}"]),
        "hello"
    );
    let _: u64 = server.command(&["RPUSH", "tidegate:a:b:{l}", "1"]);
    assert_eq!(
        limiter.check("l").await.unwrap_err().kind(),
        ErrorKind::Server
    );
    limiter.reset("k").await.unwrap();
    assert!(limiter.check("k").await.unwrap().is_allowed());
    assert!(store.stats().is_up);
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn refunds_that_nobody_waits_for() {
    let server = Host::start();
    let store = server.store().await;
    for limiter in limiters(&store, 500) {
        let mut taken = Vec::new();
        for _ in 0..300 {
            taken.push(limiter.check("a").await.unwrap().taken_at());
        }
        for at in taken {
            limiter.refund_later("a", at, 1);
        }
        wait_until("refunds", async || left(&limiter, "a").await == 500).await;
    }
    assert_eq!(store.stats().refunds_lost, 0);
}

/// The table in the documentation.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn memory_on_the_server_is_as_documented() {
    let quota = Quota::new(100, HOUR).unwrap();
    let limits = [
        ('b', Limit::token_bucket(quota)),
        ('f', Limit::fixed_window(quota)),
        ('a', Limit::anchored_window(quota)),
        ('s', Limit::sliding_window(quota)),
        ('l', Limit::sliding_log(quota)),
    ];
    let mut measured = Vec::new();
    for (kind, limit) in limits {
        let server = Server::start();
        let store = server.store().await;
        let used = || -> u64 {
            let info = server.command::<String>(&["INFO", "memory"]);
            let line = info.lines().find_map(|it| it.strip_prefix("used_memory:"));
            line.unwrap().parse().unwrap()
        };
        // Scripts and connections are there already.
        let limiter = store.limiter("0123456789", limit).unwrap();
        assert!(limiter.check("warm").await.unwrap().is_allowed());
        let (keys, permits) = if kind == 'l' {
            (2_000, 100)
        } else {
            (20_000, 1)
        };
        let before = used();
        let requests =
            (0..keys).flat_map(|key| (0..permits).map(move |_| (format!("{key:010}"), 1)));
        for decision in limiter.check_many(requests).await {
            assert!(decision.unwrap().is_allowed());
        }
        let bytes = (used() - before) / keys;
        println!("{kind}: {bytes} bytes");
        measured.push((kind, bytes));
    }
    for (kind, bytes) in measured {
        let documented = include_str!("../src/lib.rs").lines().find_map(|line| {
            let row = match kind {
                'b' => "token bucket",
                'f' | 'a' => "fixed window, aligned or anchored",
                's' => "sliding window",
                _ => "exact log of 100 permits in use",
            };
            let number = line.strip_prefix(&format!("//! | {row} | "))?;
            number.trim_end_matches(" |").parse::<u64>().ok()
        });
        let documented = documented.expect("the table has a row for it");
        // Versions of the server differ a little; a table that is off by a quarter would be a lie.
        assert!(
            bytes.abs_diff(documented) * 4 <= documented,
            "{kind}: {bytes}, {documented}"
        );
    }
}
