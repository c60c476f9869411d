//! How servers are reached, by whom, and what stays behind.

#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::time::Duration;
use std::time::Instant;

#[cfg(feature = "cluster")]
use common::Host;
use common::{HOUR, PATIENCE, Server, all, free_port, wait_until};
use tidegate::{LeaseState, Quota, Timestamp};
use tidegate_redis::{Error, ErrorKind, OnError, RedisStore, Request};
use tokio::runtime::{Builder, Handle, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Everything that a store does, as whoever the URL says.
async fn everything(url: &str) -> Result<RedisStore, Error> {
    let builder = RedisStore::builder(url)?.deadline(PATIENCE);
    let store = builder.connect().await?;
    let limiters = all(5).map(|(name, limit)| store.limiter(name, limit).unwrap());
    for limiter in &limiters {
        let taken = limiter.check_n("k", 2).await?;
        assert!(taken.is_allowed());
        assert!(limiter.check_n("k", 3).await?.is_allowed());
        assert!(!limiter.check("k").await?.is_allowed());
        assert!(limiter.refund("k", taken.taken_at(), 2).await?);
        assert_eq!(limiter.peek("k").await?.result().unwrap().remaining(), 1);
        for decision in limiter.check_many([("a", 1), ("b", 1)]).await {
            assert!(decision?.is_allowed());
        }
        // Some long ago, and a few of different times that go back together.
        let hours = |n: u64| Timestamp::from_secs(1_800_000_000 + 3_600 * n);
        for at in [0, 900, 901, 1_000] {
            assert!(limiter.check_at("old", 1, hours(at)).await?.is_allowed());
        }
        limiter
            .refund_at("old", hours(900), 2, hours(1_000))
            .await?;
        limiter.reset("k").await?;
    }
    let requests: Vec<Request<'_>> = limiters.iter().map(|it| Request::new(it, "k")).collect();
    for decision in store.check_all(&requests).await? {
        assert!(decision.is_allowed());
    }
    Ok(store)
}

#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn databases_and_the_newer_protocol() {
    let server = Server::start();
    for path in ["3", "?protocol=resp3", "4?protocol=resp3"] {
        everything(&format!("{}{path}", server.url()))
            .await
            .unwrap();
        let _: () = server.command(&["FLUSHALL"]);
    }
    everything(&format!("{}3", server.url())).await.unwrap();
    let keyspace: String = server.command(&["INFO", "keyspace"]);
    assert!(
        keyspace.contains("db3:keys=") && !keyspace.contains("db0"),
        "{keyspace}"
    );
}

/// The line in the documentation.
fn documented() -> String {
    include_str!("../src/lib.rs")
        .lines()
        .skip_while(|line| !line.starts_with("//! ACL SETUSER"))
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//!").trim_end_matches('\\'))
        .collect()
}

/// The newer protocol takes no more; another database and a cluster take what the documentation says.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn further_permissions() {
    let server = Server::start();
    let documented = documented();
    let words: Vec<&str> = documented.split_whitespace().collect();
    let _: () = server.command(&words);
    let url = format!("redis://limits:secret@127.0.0.1:{}/", server.port());
    everything(&format!("{url}?protocol=resp3")).await.unwrap();
    let _: () = server.command(&["FLUSHALL"]);
    let url = format!("{url}3");
    assert!(everything(&url).await.is_err(), "nothing else is needed");
    let _: () = server.command(&["ACL", "SETUSER", "limits", "+select"]);
    everything(&url).await.unwrap();

    #[cfg(feature = "cluster")]
    {
        let cluster = Host::cluster();
        let urls: Vec<String> = cluster
            .nodes
            .iter()
            .map(|node| format!("redis://limits:secret@127.0.0.1:{}/", node.port()))
            .collect();
        let connect = async || {
            let builder = RedisStore::cluster(urls.iter().map(|it| &**it)).unwrap();
            builder.deadline(PATIENCE).connect().await
        };
        cluster.each::<()>(&words);
        assert!(connect().await.is_err(), "nothing else is needed");
        cluster.each::<()>(&["ACL", "SETUSER", "limits", "+cluster|slots"]);
        let store = connect().await.unwrap();
        for (name, limit) in all(5) {
            let limiter = store.limiter(name, limit).unwrap();
            for key in ["a", "b", "c", "d"] {
                assert!(limiter.check(key).await.unwrap().is_allowed());
            }
        }
    }
}

/// The line in the documentation is enough, and nothing else is allowed by it.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn the_least_permissions() {
    let server = Server::start();
    let documented = documented();
    let words: Vec<&str> = documented.split_whitespace().collect();
    assert_eq!(words[..2], ["ACL", "SETUSER"]);
    let _: () = server.command(&words);
    let url = format!("redis://limits:secret@127.0.0.1:{}/", server.port());
    everything(&url).await.unwrap();

    // Each of the commands is needed.
    for word in words.iter().filter(|word| word.starts_with('+')) {
        let without = word.replace('+', "-");
        let _: () = server.command(&["ACL", "SETUSER", "limits", &without]);
        let refused = everything(&url).await.map(drop);
        let refused = refused.expect_err(&format!("{word} is not needed"));
        assert_eq!(refused.kind(), ErrorKind::Server, "{word}");
        let _: () = server.command(&["FLUSHALL"]);
        let _: () = server.command(&["ACL", "SETUSER", "limits", word]);
        let _: () = server.command(&["SCRIPT", "FLUSH"]);
    }
    everything(&url).await.unwrap();

    // Without permission there is an error, and no refusal.
    let store = RedisStore::builder(&url).unwrap().deadline(PATIENCE);
    let store = store.prefix("other").unwrap().connect().await;
    assert_eq!(store.unwrap_err().kind(), ErrorKind::Server);
    let wrong = format!("redis://limits:wrong@127.0.0.1:{}/", server.port());
    let error = RedisStore::builder(&wrong)
        .unwrap()
        .connect()
        .await
        .unwrap_err();
    assert!(
        !format!("{error} {error:?}").contains("wrong@"),
        "{error:?}"
    );
}

/// A server that may not write, for whatever reason, is up, and not ready.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn writes_that_the_server_refuses() {
    let server = Server::start();
    let store = server.store().await;
    let limiter = store.limiter("a", all(5)[0].1).unwrap();
    assert!(limiter.check("k").await.unwrap().is_allowed());
    let _: () = server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(
        limiter.check("k").await.unwrap_err().kind(),
        ErrorKind::NotReady
    );
    assert_eq!(
        limiter.check("k").await.unwrap_err().kind(),
        ErrorKind::Down
    );
    let _: () = server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    wait_until("the server", async || limiter.check("k").await.is_ok()).await;

    // A disk that is full: here, a folder is where the snapshot should go.
    let folder: Vec<String> = server.command(&["CONFIG", "GET", "dir"]);
    std::fs::create_dir(std::path::Path::new(&folder[1]).join("dump.rdb")).unwrap();
    let _: () = server.command(&["CONFIG", "SET", "save", "3600 1"]);
    let _: String = server.command(&["BGSAVE"]);
    wait_until("the error", || async {
        let info: String = server.command(&["INFO", "persistence"]);
        info.contains("rdb_last_bgsave_status:err")
    })
    .await;
    assert_eq!(
        limiter.check("k").await.unwrap_err().kind(),
        ErrorKind::NotReady
    );
    let _: () = server.command(&["CONFIG", "SET", "save", ""]);
    wait_until("the server", async || limiter.check("k").await.is_ok()).await;
}

/// Of a thousand requests that meet an empty script cache, one at a time looks whether the server is another one.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_flushed_cache_is_looked_into_by_one_at_a_time() {
    let server = Server::start();
    let store = server.store().await;
    // A log uses no SET.
    let limiter = store.limiter("a", all(100_000)[4].1).unwrap();
    let sets = || -> u64 {
        let stats: String = server.command(&["INFO", "commandstats"]);
        let line = stats
            .lines()
            .find_map(|it| it.strip_prefix("cmdstat_set:calls="));
        line.unwrap().split(',').next().unwrap().parse().unwrap()
    };
    let before = sets();
    let _: () = server.command(&["SCRIPT", "FLUSH"]);
    let checks = (0..1_000).map(|_| limiter.check("k"));
    for decision in futures_util::future::join_all(checks).await {
        assert!(decision.unwrap().is_allowed());
    }
    wait_until("the look", async || sets() > before).await;
    assert!(limiter.check("k").await.unwrap().is_allowed());
    // While the answers come in, some may follow each other; it would be all of them otherwise.
    let (looks, sent) = (sets() - before, store.stats().scripts_sent);
    assert!(looks * 4 < sent, "{looks} looks, {sent} scripts");
    assert!(sent > 5, "{}", store.stats());
}

/// Nothing is left running, or connected, when nobody has the store any more.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn tasks_end_with_their_store() {
    let server = Server::start();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 0);
    for _ in 0..20 {
        let store = server.store().await;
        for (name, limit) in all(10_000) {
            let limiter = store.limiter(name, limit).unwrap().remembering(4, HOUR);
            let lease = limiter.lease_with("k", LeaseState::new(8..=8), Duration::MAX);
            for _ in 0..4 {
                assert!(lease.check().await.unwrap().is_ok());
            }
            let taken = limiter.check("k").await.unwrap().taken_at();
            limiter.refund_later("k", taken, 1);
            assert!(
                limiter
                    .guarded(OnError::Refuse)
                    .check("k")
                    .await
                    .is_allowed()
            );
        }
        let _: () = server.command(&["SCRIPT", "FLUSH"]);
        let limiter = store.limiter("log", all(10_000)[4].1).unwrap();
        assert!(limiter.check("k").await.unwrap().is_allowed());
    }
    // And one that tries to connect.
    let nobody = format!("redis://127.0.0.1:{}/", free_port());
    let nobody = RedisStore::builder(&nobody).unwrap();
    let nobody = nobody.backoff(Duration::from_millis(1), Duration::from_millis(10));
    drop(nobody.connect_later());
    wait_until("the tasks", async || tasks() == 0).await;
    wait_until("the connections", || async {
        let clients: String = server.command(&["CLIENT", "LIST"]);
        clients.lines().count() == 1
    })
    .await;
}

/// A runtime that ends takes its connection along, and no more than that.
#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn a_store_outlives_a_runtime() {
    let server = Server::start();
    let first = runtime();
    let store = first.block_on(server.store());
    let limiter = store.limiter("a", all(1_000)[1].1).unwrap();
    let lease = limiter.lease("k", 8..=8);
    first.block_on(async {
        for _ in 0..4 {
            assert!(lease.check().await.unwrap().is_ok());
        }
    });
    drop(first);
    for _ in 0..2 {
        let next = runtime();
        next.block_on(async {
            wait_until("the server", async || limiter.check("a").await.is_ok()).await;
            // What it held goes back, and is watched again.
            let begun = Instant::now();
            while lease.check().await.is_err() || lease.held() == 0 {
                assert!(begun.elapsed() < PATIENCE);
            }
            let held = lease.held();
            wait_until("what is held", async || lease.held() == 0).await;
            assert!(held > 0);
        });
    }
}

/// What a runtime takes along when it ends is lost, and said to be.
#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn refunds_lost_with_a_runtime_are_counted() {
    let server = Server::start();
    let first = runtime();
    let store = first.block_on(server.store());
    let limiter = store.limiter("a", all(1_000)[1].1).unwrap();
    first.block_on(async {
        let taken = limiter.check_n("k", 20).await.unwrap().taken_at();
        let _: () = server.command(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        for _ in 0..5 {
            limiter.refund_later("k", taken, 2);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        limiter.refund_later("k", taken, 3);
    });
    // Outside, too, there is a task to take it.
    limiter.refund_later("k", Timestamp::ZERO, 4);
    assert_eq!(store.stats().refunds_lost, 0);
    drop(first);
    assert_eq!(store.stats().refunds_lost, 17);
    limiter.refund_later("k", Timestamp::ZERO, 1);
    assert_eq!(store.stats().refunds_lost, 18);
}

/// It connects as soon as somebody asks from within one.
#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn a_store_made_outside_of_a_runtime() {
    let server = Server::start();
    let store = server.builder().deadline(PATIENCE).connect_later();
    let limiter = store.limiter("a", all(5)[0].1).unwrap();
    assert!(!store.stats().is_up);
    runtime().block_on(async {
        assert_eq!(
            limiter.check("k").await.unwrap_err().kind(),
            ErrorKind::Down
        );
        wait_until("the server", async || limiter.check("k").await.is_ok()).await;
    });
}

/// What there is to tell a client, whoever has decided.
#[tokio::test]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn verdicts_tell_what_was_decided() {
    let server = Server::start();
    let store = server.store().await;
    let limiter = store.limiter("a", all(5)[0].1).unwrap();
    let decided = limiter.clone().guarded(OnError::Refuse).check("k").await;
    assert_eq!(decided.result().unwrap().unwrap().remaining(), 4);

    let nobody = RedisStore::builder(&format!("redis://127.0.0.1:{}/", free_port())).unwrap();
    let limiter = nobody.connect_later().limiter("a", all(5)[0].1).unwrap();
    let here = tidegate::Limiter::new(tidegate::TokenBucket::new(Quota::per_day(2)));
    let fallback = limiter.clone().guarded(OnError::fallback(here));
    let verdict = fallback.check("k").await;
    assert_eq!(verdict.result().unwrap().unwrap().remaining(), 1);
    assert!(fallback.check_n("k", 2).await.result().unwrap().is_err());
    for (on_error, is_allowed) in [(OnError::Refuse, false), (OnError::Admit, true)] {
        let verdict = limiter.clone().guarded(on_error).check("k").await;
        assert_eq!((verdict.result(), verdict.is_allowed()), (None, is_allowed));
    }
}
