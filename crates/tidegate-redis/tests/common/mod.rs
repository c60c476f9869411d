//! A Redis server of the test's own.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use core::net::Ipv4Addr;
use core::time::Duration;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;
use tidegate::Quota;
use tidegate_redis::{Builder, Limit, RedisLimiter, RedisStore};

/// How long anything may take that has to happen on its own.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const HOUR: Duration = Duration::from_secs(3_600);

/// All ways of counting; nothing comes back while a test runs.
pub fn all(limit: u64) -> [(&'static str, Limit); 5] {
    let quota = Quota::new(limit, 1_000 * HOUR).unwrap();
    [
        ("bucket", Limit::token_bucket(quota)),
        ("fixed", Limit::fixed_window(quota)),
        ("anchored", Limit::anchored_window(quota)),
        ("sliding", Limit::sliding_window(quota)),
        ("log", Limit::sliding_log(quota)),
    ]
}

/// What a key has left.
pub async fn left(limiter: &RedisLimiter, key: &str) -> u64 {
    let decision = limiter.peek_n(key, 0).await.unwrap();
    decision.result().unwrap().remaining()
}

pub async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Where the suite runs: one server, or, if `REDIS_CLUSTER` is set, a cluster of three.
pub struct Host {
    pub nodes: Vec<Server>,
}

impl Host {
    pub fn start() -> Self {
        if std::env::var_os("REDIS_CLUSTER").is_some() {
            return Self::cluster();
        }
        Self {
            nodes: vec![Server::start()],
        }
    }

    pub fn cluster() -> Self {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let options = [&options[..], &["--cluster-require-full-coverage", "no"]].concat();
        let nodes: Vec<Server> = (0..3).map(|_| Server::start_with(&options)).collect();
        let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .arg("--cluster-yes")
            .output()
            .expect("redis-cli must be installed: ci/redis.sh does that");
        assert!(created.status.success(), "{created:?}");
        let host = Self { nodes };
        host.wait_until_whole();
        host
    }

    pub fn is_cluster(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Until every node knows that all of them are there.
    pub fn wait_until_whole(&self) {
        let begun = Instant::now();
        loop {
            let is_whole = |node: &Server| {
                let info = node.command::<String>(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            };
            if self.nodes.iter().all(is_whole) {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "the cluster does not come together"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn builder(&self) -> Builder {
        #[cfg(feature = "cluster")]
        if self.is_cluster() {
            let urls: Vec<String> = self.nodes.iter().map(Server::url).collect();
            return RedisStore::cluster(urls.iter().map(|it| &**it)).unwrap();
        }
        assert!(!self.is_cluster(), "clusters need the feature `cluster`");
        self.nodes[0].builder()
    }

    /// A store that has all the time in the world, for tests that are not about deadlines.
    pub async fn store(&self) -> RedisStore {
        self.builder().deadline(PATIENCE).connect().await.unwrap()
    }

    /// Runs a command on every node.
    pub fn each<T: redis::FromRedisValue>(&self, words: &[&str]) -> Vec<T> {
        self.nodes.iter().map(|node| node.command(words)).collect()
    }

    /// Runs a command on the node that has its key.
    pub fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        #[cfg(feature = "cluster")]
        if self.is_cluster() {
            let client = redis::cluster::ClusterClient::new(vec![self.nodes[0].url()]).unwrap();
            return command
                .query(&mut client.get_connection().unwrap())
                .unwrap();
        }
        self.nodes[0].command(words)
    }
}

pub struct Server {
    child: Option<Child>,
    port: u16,
    folder: TempDir,
    arguments: Vec<String>,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        let mut server = Self {
            child: None,
            port: 0,
            folder: tempfile::tempdir().unwrap(),
            arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
        };
        // Somebody else may take the port between the two.
        for _ in 0..10 {
            server.port = free_port();
            if server.try_run() {
                return server;
            }
        }
        panic!("redis-server does not start");
    }

    pub fn start_on(port: u16) -> Self {
        let mut server = Self {
            child: None,
            port,
            folder: tempfile::tempdir().unwrap(),
            arguments: Vec::new(),
        };
        assert!(server.try_run(), "redis-server does not start");
        server
    }

    fn try_run(&mut self) -> bool {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut child = Command::new("redis-server")
            .args(["--port", &self.port.to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--enable-debug-command", "local", "--loglevel", "warning"])
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .expect("redis-server must be installed: ci/redis.sh does that");
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            let answers = redis::Client::open(self.url())
                .and_then(|client| client.get_connection_with_timeout(Duration::from_secs(1)))
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
            if answers.is_ok() {
                self.child = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    /// Starts again on the same port, with whatever is in the folder.
    pub fn restart(&mut self) {
        self.kill();
        let begun = Instant::now();
        while !self.try_run() {
            assert!(
                begun.elapsed() < PATIENCE,
                "redis-server does not come back"
            );
        }
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn builder(&self) -> Builder {
        RedisStore::builder(&self.url()).unwrap()
    }

    /// A store that has all the time in the world, for tests that are not about deadlines.
    pub async fn store(&self) -> RedisStore {
        self.builder().deadline(PATIENCE).connect().await.unwrap()
    }

    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).unwrap();
        client.get_connection().unwrap()
    }

    /// Runs a command on a connection of its own.
    pub fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query(&mut self.connection()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let panicking = std::thread::panicking();
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if panicking && let Ok(log) = std::fs::read(self.folder.path().join("log")) {
            let _ = std::io::stderr().write_all(&log);
        }
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
