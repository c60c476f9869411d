//! Several servers that share their limits on Redis, over real sockets of this machine.
#![cfg(all(feature = "serve", unix))]

mod common;
#[path = "common/server.rs"]
mod server;

use core::net::Ipv4Addr;
use core::time::Duration;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use server::{Server, statuses};

const PATIENCE: Duration = Duration::from_secs(30);

/// A Redis server of the test's own.
struct Redis {
    child: Child,
    port: u16,
    folder: std::path::PathBuf,
}

impl Redis {
    fn start(name: &str) -> Self {
        for _ in 0..10 {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            if let Some(redis) = Self::start_on(name, port) {
                return redis;
            }
        }
        panic!("redis-server does not start");
    }

    fn start_on(name: &str, port: u16) -> Option<Self> {
        let folder = common::scratch(name);
        std::fs::create_dir_all(&folder).unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server must be installed: ci/redis.sh does that");
        let mut redis = Self {
            child,
            port,
            folder,
        };
        let begun = Instant::now();
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if redis.child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "redis-server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn policy(algorithm: &str, quota: &str, more: &str) -> String {
    format!(
        "on-failure = \"refuse\"\n\
         policy = [{{ name = \"all\", key = \"everyone\", algorithm = \"{algorithm}\", quota = \"{quota}\"{more} }}]"
    )
}

#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn of_400_at_once_on_two_servers_exactly_100() {
    for (algorithm, quota) in [
        ("token-bucket", "100/1000 days"),
        ("fixed-window", "100/10000 days"),
        ("anchored-window", "100/1000 days"),
        ("sliding-window", "100/10000 days"),
        ("sliding-log", "100/1000 days"),
    ] {
        let redis = Redis::start(&format!("redis-{algorithm}"));
        // Long enough for a machine with other things to do.
        let args = ["--redis", &redis.url(), "--redis-deadline", "30s"];
        let policy = policy(algorithm, quota, "");
        let servers = ["one", "two"].map(|name| {
            let mut server =
                Server::start(Some((&format!("{algorithm}-{name}.toml"), &policy)), &args);
            assert_eq!(server.message(), "redis is there");
            server
        });
        let driven: Vec<_> = std::thread::scope(|scope| {
            let drives = servers
                .each_ref()
                .map(|server| scope.spawn(|| server.drive("/foo", &["-n", "200", "-c", "200"])));
            drives
                .into_iter()
                .map(|drive| drive.join().unwrap())
                .collect()
        });
        let seen: Vec<_> = driven.iter().map(|it| statuses(it, [200, 429])).collect();
        assert_eq!(seen[0][0] + seen[1][0], 100, "{algorithm}: {seen:?}");
        assert_eq!(seen[0][1] + seen[1][1], 300, "{algorithm}: {seen:?}");
        for server in servers {
            server.stop();
        }
    }
}

/// One server stops, and another one goes on where it was; a reload keeps what was used, and Redis is asked on.
#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn budgets_outlive_servers_and_reloads() {
    let redis = Redis::start("redis-outlives");
    let args = ["--redis", &redis.url(), "--redis-deadline", "30s"];
    let five = policy("anchored-window", "5/1000 days", "");
    let server = Server::start(Some(("outlives-1.toml", &five)), &args);
    assert_eq!(statuses(&server.drive("/foo", &["-n", "3"]), [200]), [3]);
    server.stop();
    let mut server = Server::start(Some(("outlives-2.toml", &five)), &args);
    assert_eq!(server.message(), "redis is there");
    assert_eq!(
        statuses(&server.drive("/foo", &["-n", "3"]), [200, 429]),
        [2, 1]
    );
    let ten = policy("anchored-window", "10/1000 days", "");
    assert!(server.reload(&ten).starts_with("reloaded "));
    // What was refused is remembered for a second, here by the old policies' memory, which is gone with them.
    assert_eq!(
        statuses(&server.drive("/foo", &["-n", "7"]), [200, 429]),
        [5, 2]
    );
    // The page knows where everybody stands.
    let (_, status) = server.get("/status.json", "");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    for budget in [&status["you"]["budgets"][0], &status["busiest"][0]] {
        assert_eq!(
            (&budget["limit"], &budget["remaining"]),
            (&10.into(), &0.into()),
            "{status}"
        );
    }
    let (_, metrics) = server.get("/metrics", "");
    assert!(metrics.contains("\ntidegate_redis_up 1\n"), "{metrics}");
    assert!(
        metrics.contains("tidegate_redis_decisions_total{result=\"allowed\",by=\"server\"} 7\n"),
        "{metrics}"
    );
    server.stop();
}

#[test]
#[ignore = "needs redis-server: ci/redis.sh"]
fn when_redis_is_not_there_on_failure_decides() {
    let redis = Redis::start("redis-gone");
    let (url, port) = (redis.url(), redis.port);
    let plenty = policy("token-bucket", "1000000/day", "");
    let fallback = plenty.replace("\"refuse\"", "{ fallback = \"7/100 days\" }");
    let admit = plenty.replace("\"refuse\"", "\"admit\"");
    let mut servers = [
        ("refuse", &plenty),
        ("fallback", &fallback),
        ("admit", &admit),
    ]
    .map(|(name, policy)| {
        Server::start(
            Some((&format!("gone-{name}.toml"), policy)),
            &["--redis", &url, "--redis-deadline", "30s"],
        )
    });
    for server in &mut servers {
        assert_eq!(server.message(), "redis is there");
        assert_eq!(statuses(&server.drive("/foo", &["-n", "1"]), [200]), [1]);
    }
    drop(redis);
    for (server, expected) in servers.iter_mut().zip([[0, 0, 20], [7, 13, 0], [20, 0, 0]]) {
        let driven = server.drive("/foo", &["-n", "20"]);
        assert_eq!(statuses(&driven, [200, 429, 503]), expected);
        assert_eq!(server.message(), "redis is not there: on-failure decides");
        let (_, metrics) = server.get("/metrics", "");
        assert!(metrics.contains("\ntidegate_redis_up 0\n"), "{metrics}");
    }
    let begun = Instant::now();
    let back = loop {
        if let Some(redis) = Redis::start_on("redis-back", port) {
            break redis;
        }
        assert!(begun.elapsed() < PATIENCE, "the port does not become free");
    };
    for mut server in servers {
        assert_eq!(server.message(), "redis is there");
        assert_eq!(
            server.message(),
            "redis has lost its data: all budgets begin anew"
        );
        assert_eq!(statuses(&server.drive("/foo", &["-n", "5"]), [200]), [5]);
        server.stop();
    }
    drop(back);
    // A start without it says so, and serves.
    let mut server = Server::start(Some(("gone-start.toml", &admit)), &["--redis", &url]);
    assert_eq!(server.message(), "redis is not there: on-failure decides");
    assert_eq!(statuses(&server.drive("/foo", &["-n", "5"]), [200]), [5]);
    server.stop();
}

#[test]
fn mistakes_in_the_url() {
    let out = common::tidegate()
        .args(["serve", "--redis", "http://user:secret@127.0.0.1/"])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("Redis") && !said.contains("secret"), "{said}");
}
