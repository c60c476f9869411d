//! A server that is slow, gone, full, restarted, or another one.
//!
//! In each case: no decision hangs, nothing panics, what was chosen is what happens, and everything is well again
//! without anybody's help.

#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;
#[path = "common/proxy.rs"]
mod proxy;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use common::{HOUR, Host, PATIENCE, Server, free_port, wait_until};
use proxy::{Network, Proxy};
use tidegate::{BoxTable, FixedWindow, Quota};
use tidegate_redis::{
    Builder, ErrorKind, GuardedLimiter, Instead, Limit, OnError, RedisStore, Verdict,
};
use tokio::task::JoinHandle;

const DEADLINE: Duration = Duration::from_millis(50);
/// A decision that takes so long hangs. Much more than the deadline, for a machine with other things to do.
const HANGS: Duration = Duration::from_secs(5);

fn plenty() -> Limit {
    Limit::token_bucket(Quota::new(1_000_000, HOUR).unwrap())
}

fn ways() -> [(&'static str, OnError); 3] {
    let table = BoxTable::with_capacity(FixedWindow::new(Quota::per_day(1_000_000)), 1_000);
    [
        ("refuse", OnError::Refuse),
        ("admit", OnError::Admit),
        ("fallback", OnError::fallback(table)),
    ]
}

/// Requests under way all the time, under each of the three choices.
struct Load {
    store: RedisStore,
    stop: Arc<AtomicBool>,
    decided: Arc<AtomicU64>,
    instead: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Duration>>,
}

impl Load {
    fn start(store: &RedisStore) -> Self {
        let limiter = store.limiter("load", plenty()).unwrap();
        let (stop, decided, instead) = Default::default();
        let mut load = Self {
            store: store.clone(),
            stop,
            decided,
            instead,
            tasks: Vec::new(),
        };
        for (name, on_error) in ways() {
            let guarded = limiter.clone().guarded(on_error);
            for _ in 0..8 {
                load.tasks.push(tokio::spawn(keep_asking(
                    guarded.clone(),
                    name,
                    Arc::clone(&load.stop),
                    Arc::clone(&load.decided),
                    Arc::clone(&load.instead),
                )));
            }
        }
        load
    }

    /// Until so many more requests have been decided by the server.
    async fn decided(&self, more: u64) {
        let until = self.decided.load(Ordering::Relaxed) + more;
        wait_until("decisions", || async {
            self.decided.load(Ordering::Relaxed) >= until
        })
        .await;
    }

    /// Until so many more have not.
    async fn undecided(&self, more: u64) {
        let until = self.instead.load(Ordering::Relaxed) + more;
        wait_until("errors", || async {
            self.instead.load(Ordering::Relaxed) >= until
        })
        .await;
    }

    async fn is_up(&self, is_up: bool) {
        wait_until("the state", async || self.store.stats().is_up == is_up).await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            let longest = task.await.expect("nothing panics");
            assert!(longest < HANGS, "{longest:?}");
        }
        let stats = self.store.stats();
        let instead = self.instead.load(Ordering::Relaxed);
        assert_eq!(
            stats.admitted_instead + stats.refused_instead,
            instead,
            "{stats}"
        );
        let errors: u64 = stats.all_errors().map(|(_, count)| count).sum();
        assert!(errors >= instead, "{stats}");
        // A third of the tasks refuses.
        assert_eq!(stats.refused_instead > 0, instead > 100, "{stats}");
    }
}

/// Returns how long the longest decision took.
async fn keep_asking(
    limiter: GuardedLimiter,
    name: &str,
    stop: Arc<AtomicBool>,
    decided: Arc<AtomicU64>,
    undecided: Arc<AtomicU64>,
) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let verdict = limiter.check("everybody").await;
        longest = longest.max(begun.elapsed());
        match (name, &verdict) {
            (_, Verdict::Decided(decision)) => {
                assert!(decision.is_allowed());
                decided.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            ("refuse", Verdict::Instead(Instead::Refused, _)) => assert!(!verdict.is_allowed()),
            ("admit", Verdict::Instead(Instead::Admitted, _)) => assert!(verdict.is_allowed()),
            ("fallback", Verdict::Instead(Instead::Fallback(Ok(_), _), _)) => {
                assert!(verdict.is_allowed());
            }
            other => panic!("{other:?}"),
        }
        assert!(verdict.error().is_some());
        undecided.fetch_add(1, Ordering::Relaxed);
        // An error at once must not starve the others.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    longest
}

fn through(proxy: &Proxy) -> Builder {
    quick(RedisStore::builder(&proxy.url()).unwrap())
}

fn quick(builder: Builder) -> Builder {
    builder
        .deadline(DEADLINE)
        .connect_deadline(Duration::from_millis(500))
        .backoff(Duration::from_millis(10), Duration::from_millis(200))
}

/// What a fault must come to: a load that is served, is not, and is again.
async fn survive(server: &Server, fault: impl AsyncFnOnce(&Load)) -> RedisStore {
    let store = quick(server.builder()).connect().await.unwrap();
    let load = Load::start(&store);
    load.decided(200).await;
    fault(&load).await;
    load.is_up(true).await;
    load.decided(1_000).await;
    load.stop().await;
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn killed_and_restarted_empty() {
    let mut server = Server::start();
    let store = quick(server.builder()).connect().await.unwrap();
    let load = Load::start(&store);
    load.decided(200).await;
    server.kill();
    load.is_up(false).await;
    load.undecided(300).await;
    let down = store.stats();
    // A dead server costs nothing: most of them were not even sent.
    assert!(down.errors(ErrorKind::Down) > 100, "{down}");
    server.restart();
    load.is_up(true).await;
    load.decided(1_000).await;
    load.stop().await;
    let stats = store.stats();
    assert_eq!(stats.state_lost, 1, "{stats}");
    assert!(stats.connections >= 2, "{stats}");
    assert!(stats.scripts_sent >= 2, "{stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_server_that_keeps_its_data_has_not_lost_it() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let store = quick(server.builder()).connect().await.unwrap();
    let limiter = store.limiter("a", plenty()).unwrap();
    let before = limiter.check_n("k", 1_000).await.unwrap().result().unwrap();
    server.restart();
    wait_until("the server", async || limiter.peek("k").await.is_ok()).await;
    let after = limiter.check_n("k", 0).await.unwrap().result().unwrap();
    // 277 come back in a second.
    assert!(after.remaining() < before.remaining() + 1_000);
    assert_eq!(store.stats().state_lost, 0);
    assert!(store.stats().connections >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn paused() {
    let server = Server::start();
    let store = survive(&server, async |load| {
        let _: () = server.command(&["CLIENT", "PAUSE", "1500", "ALL"]);
        load.is_up(false).await;
        load.undecided(300).await;
    })
    .await;
    let stats = store.stats();
    assert!(stats.errors(ErrorKind::Deadline) >= 5, "{stats}");
    assert!(stats.errors(ErrorKind::Down) > 100, "{stats}");
    assert_eq!(stats.state_lost, 0, "{stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn asleep() {
    let server = Server::start();
    let store = survive(&server, async |load| {
        // Another thread, for it waits.
        let url = server.url();
        let sleep = tokio::task::spawn_blocking(move || {
            let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
            redis::cmd("DEBUG")
                .arg("SLEEP")
                .arg(1)
                .exec(&mut connection)
                .unwrap();
        });
        load.is_up(false).await;
        sleep.await.unwrap();
    })
    .await;
    assert!(store.stats().errors(ErrorKind::Deadline) >= 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn a_script_cache_that_is_flushed_is_not_even_noticed() {
    let server = Server::start();
    let store = quick(server.builder())
        .deadline(PATIENCE)
        .connect()
        .await
        .unwrap();
    let load = Load::start(&store);
    for _ in 0..10 {
        let _: () = server.command(&["SCRIPT", "FLUSH"]);
        load.decided(200).await;
    }
    // Nothing comes back by itself meanwhile.
    let slow = Limit::token_bucket(Quota::new(10, 1_000 * HOUR).unwrap());
    let limiter = store.limiter("other", slow).unwrap();
    let taken = limiter.check("a").await.unwrap();
    let _: () = server.command(&["SCRIPT", "FLUSH"]);
    assert!(limiter.refund("a", taken.taken_at(), 1).await.unwrap());
    assert_eq!(load.instead.load(Ordering::Relaxed), 0);
    load.stop().await;
    let stats = store.stats();
    assert!(stats.scripts_sent >= 10, "{stats}");
    assert_eq!((stats.state_lost, stats.connections), (0, 1), "{stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn emptied_by_a_failover_behind_one_address() {
    let server = Server::start();
    let store = quick(server.builder())
        .deadline(PATIENCE)
        .connect()
        .await
        .unwrap();
    let limiter = store.limiter("a", plenty()).unwrap();
    assert!(limiter.check("k").await.unwrap().is_allowed());
    assert_eq!(store.stats().state_lost, 0);
    // As another server would be: no data, no scripts.
    let _: () = server.command(&["FLUSHALL"]);
    let _: () = server.command(&["SCRIPT", "FLUSH"]);
    assert!(limiter.check("k").await.unwrap().is_allowed());
    wait_until("what was lost", async || store.stats().state_lost == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn memory_used_up() {
    let server = Server::start();
    let store = quick(server.builder())
        .deadline(PATIENCE)
        .connect()
        .await
        .unwrap();
    let tight = Limit::fixed_window(Quota::new(1, 1_000 * HOUR).unwrap());
    let tight = store.limiter("tight", tight).unwrap();
    assert!(tight.check("used").await.unwrap().is_allowed());
    let load = Load::start(&store);
    load.decided(200).await;
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    load.undecided(300).await;
    // It still refuses what it must.
    assert!(!tight.check("used").await.unwrap().is_allowed());
    assert_eq!(
        tight.check("new").await.unwrap_err().kind(),
        ErrorKind::OutOfMemory
    );
    // It is not down.
    assert!(store.stats().is_up);
    // A new connection can be made.
    let other = quick(server.builder())
        .deadline(PATIENCE)
        .connect()
        .await
        .unwrap();
    assert!(other.stats().is_up);
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    load.decided(1_000).await;
    load.stop().await;
    let stats = store.stats();
    assert!(stats.errors(ErrorKind::OutOfMemory) >= 300, "{stats}");
    assert_eq!(stats.connections, 1, "{stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn become_a_replica() {
    let server = Server::start();
    let other = Server::start();
    let store = survive(&server, async |load| {
        let port = other.port().to_string();
        let _: () = server.command(&["REPLICAOF", "127.0.0.1", &port]);
        load.is_up(false).await;
        load.undecided(300).await;
        let _: () = server.command(&["REPLICAOF", "NO", "ONE"]);
    })
    .await;
    assert!(store.stats().errors(ErrorKind::NotReady) > 0);
    assert!(store.stats().errors(ErrorKind::Down) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn nobody_there_at_first() {
    let port = free_port();
    let builder = || quick(RedisStore::builder(&format!("redis://127.0.0.1:{port}/")).unwrap());
    let refused = builder().connect().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Connection);

    let store = builder().connect_later();
    let limiter = store.limiter("a", plenty()).unwrap();
    for _ in 0..1_000 {
        assert_eq!(
            limiter.check("a").await.unwrap_err().kind(),
            ErrorKind::Down
        );
    }
    let server = Server::start_on(port);
    wait_until("the server", async || limiter.check("a").await.is_ok()).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn the_network_is_cut() {
    let server = Server::start();
    for fault in [Network::Swallows, Network::Refuses] {
        let proxy = Proxy::start(&server).await;
        let store = through(&proxy).connect().await.unwrap();
        let load = Load::start(&store);
        load.decided(200).await;
        proxy.network.send(fault).unwrap();
        load.is_up(false).await;
        load.undecided(300).await;
        assert!(!store.stats().is_up);
        // Who comes now does not get through either, and does not hang.
        let begun = Instant::now();
        assert!(through(&proxy).connect().await.is_err());
        assert!(begun.elapsed() < HANGS);
        proxy.network.send(Network::Works).unwrap();
        load.is_up(true).await;
        load.decided(1_000).await;
        load.stop().await;
        assert_eq!(store.stats().state_lost, 0);
    }
}

/// Leases, batches and refunds end too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn nothing_else_hangs_either() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let store = through(&proxy).patience(1_000_000).connect().await.unwrap();
    let limiter = store.limiter("a", plenty()).unwrap();
    let lease = limiter.lease("k", 1..=256);
    let mut held = 0;
    while held < 100 {
        assert!(lease.check().await.unwrap().is_ok());
        held = lease.held();
    }
    let taken = limiter.check("k").await.unwrap();
    proxy.network.send(Network::Swallows).unwrap();
    let begun = Instant::now();
    // What it holds, it has; unless it has lapsed meanwhile.
    let mut spent = 0;
    while lease.check().await.is_ok() {
        spent += 1;
    }
    assert!(spent > 0 && spent <= held, "{spent} of {held}");
    for decision in limiter
        .check_many((0..300).map(|key| (key.to_string(), 1)))
        .await
    {
        assert_eq!(decision.unwrap_err().kind(), ErrorKind::Deadline);
    }
    let refund = limiter.refund("k", taken.taken_at(), 1).await;
    assert_eq!(refund.unwrap_err().kind(), ErrorKind::Deadline);
    assert_eq!(
        limiter.reset("k").await.unwrap_err().kind(),
        ErrorKind::Deadline
    );
    limiter.refund_later("k", taken.taken_at(), 7);
    drop(lease);
    wait_until("what is lost", async || store.stats().refunds_lost >= 7).await;
    assert!(begun.elapsed() < HANGS);
}

/// One node of a cluster dies: the keys of the others are decided on as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server: ci/redis.sh"]
async fn one_node_of_a_cluster_dies() {
    let mut host = Host::cluster();
    let store = quick(host.builder()).connect().await.unwrap();
    let limiter = store.limiter("a", plenty()).unwrap();
    let decided = async || {
        let mut decided = Vec::new();
        for key in 0..60 {
            let begun = Instant::now();
            let decision = limiter.check(key.to_string()).await;
            assert!(begun.elapsed() < HANGS);
            if decision.is_ok() {
                decided.push(key);
            }
        }
        decided
    };
    wait_until("all of them", async || decided().await.len() == 60).await;
    host.nodes[0].kill();
    wait_until("those of the others", async || {
        (20..60).contains(&decided().await.len())
    })
    .await;
    // Some two thirds of the keys, again and again.
    for _ in 0..5 {
        let some = decided().await.len();
        assert!((20..60).contains(&some), "{some}");
    }
    assert!(store.stats().is_up);
    host.nodes[0].restart();
    host.wait_until_whole();
    wait_until("all of them", async || decided().await.len() == 60).await;
}
