//! Decisions a second against one server on loopback, beside what the server does at most: a command that only counts
//! (`INCR`), and a script that only returns.
//!
//! `cargo bench -p tidegate-redis [-- ROUNDS [MILLISECONDS]]`. Needs `redis-server`. All are run in turns, and medians are
//! printed. Everything shares this machine's cores: the server too.

#![allow(clippy::std_instead_of_alloc, reason = "benches have std")]

use core::error::Error;
use core::time::Duration;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use tidegate::Quota;
use tidegate_redis::{Limit, RedisLease, RedisLimiter, RedisStore};

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Clone)]
enum Subject {
    Incr(MultiplexedConnection),
    Script(MultiplexedConnection, Arc<redis::Script>),
    Bare(RedisLimiter),
    Batch(RedisLimiter),
    Lease(RedisLease),
    /// Under attack: refused, and remembered or not.
    Refused(RedisLimiter),
}

impl Subject {
    /// Returns how many decisions that were.
    async fn decide(&mut self, number: u64) -> Result<u64, Failure> {
        match self {
            Self::Incr(connection) => {
                let mut command = redis::cmd("INCR");
                let () = command.arg(number % 1_000).query_async(connection).await?;
            }
            Self::Script(connection, script) => {
                let () = script.key(number % 1_000).invoke_async(connection).await?;
            }
            Self::Bare(limiter) => {
                let decision = limiter.check((number % 1_000).to_string()).await?;
                assert!(decision.is_allowed());
            }
            Self::Batch(limiter) => {
                let keys = (0..32).map(|it| (((number * 32 + it) % 1_000).to_string(), 1));
                for decision in limiter.check_many(keys).await {
                    assert!(decision?.is_allowed());
                }
                return Ok(32);
            }
            Self::Lease(lease) => assert!(lease.check().await?.is_ok()),
            Self::Refused(limiter) => assert!(!limiter.check("attacker").await?.is_allowed()),
        }
        Ok(1)
    }
}

/// Decisions a second by so many tasks.
async fn rate(subject: &Subject, tasks: u64, time: Duration) -> Result<f64, Failure> {
    let begun = Instant::now();
    let until = begun + time;
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let mut subject = subject.clone();
            tokio::spawn(async move {
                let (mut number, mut done) = (task * 7_919, 0);
                while Instant::now() < until {
                    done += subject.decide(number).await?;
                    number += 1;
                    if done % 64 == 0 {
                        // What never waits for the server must let others run.
                        tokio::task::yield_now().await;
                    }
                }
                Ok::<u64, Failure>(done)
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

fn main() -> Result<(), Failure> {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|it| it.parse().ok())
        .collect();
    let rounds = numbers.first().copied().unwrap_or(5);
    let time = Duration::from_millis(numbers.get(1).copied().unwrap_or(400));
    let runtime = tokio::runtime::Runtime::new()?;
    let server = Server::start()?;
    runtime.block_on(run(&server.url, rounds, time))
}

async fn run(url: &str, rounds: u64, time: Duration) -> Result<(), Failure> {
    let store = RedisStore::builder(url)?
        .deadline(Duration::from_secs(10))
        .connect()
        .await?;
    let connection = redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    let hour = Duration::from_secs(3_600);
    let plenty = Quota::new(1_000_000_000_000, hour)?;
    let attacked = Limit::fixed_window(Quota::new(1, 1_000 * hour)?);
    let limiter = |name, limit| store.limiter(name, limit);
    let bucket = limiter(
        "bucket",
        Limit::token_bucket(plenty).with_burst(1_000_000_000),
    )?;
    let bare = limiter("bare", attacked)?;
    assert!(bare.check("attacker").await?.is_allowed());
    let remembering = bare.clone().remembering(1_024, Duration::from_secs(1));
    let log = Limit::sliding_log(Quota::new(1_000_000, Duration::from_millis(10))?);
    let window = Quota::new(1_000_000_000, hour)?;
    let leased = limiter("leased", Limit::fixed_window(window))?;
    let sliding = Limit::sliding_window(Quota::new(100_000_000, Duration::from_secs(60))?);
    let subjects = [
        ("INCR", Subject::Incr(connection.clone())),
        (
            "a script that returns 1",
            Subject::Script(connection, Arc::new(redis::Script::new("return 1"))),
        ),
        ("token bucket", Subject::Bare(bucket.clone())),
        (
            "fixed window",
            Subject::Bare(limiter("fixed", Limit::fixed_window(window))?),
        ),
        (
            "sliding window",
            Subject::Bare(limiter("sliding", sliding)?),
        ),
        ("exact log", Subject::Bare(limiter("log", log)?)),
        (
            "token bucket, batches of 32",
            Subject::Batch(bucket.clone()),
        ),
        (
            "fixed window, lease of 16",
            Subject::Lease(leased.lease("leased", 1..=16)),
        ),
        (
            "fixed window, lease of 256",
            Subject::Lease(leased.lease("leased", 1..=256)),
        ),
        ("refused, asked each time", Subject::Refused(bare)),
        ("refused, remembered", Subject::Refused(remembering)),
    ];
    const TASKS: [u64; 3] = [1, 64, 1_024];
    let mut rates = vec![[const { Vec::new() }; TASKS.len()]; subjects.len()];
    for _ in 0..rounds {
        for (place, tasks) in TASKS.into_iter().enumerate() {
            for ((_, subject), rates) in subjects.iter().zip(&mut rates) {
                rates[place].push(rate(subject, tasks, time).await?);
            }
        }
    }
    println!("| thousand decisions a second, by tasks | 1 | 64 | 1,024 |\n|---|--:|--:|--:|");
    for ((name, _), rates) in subjects.iter().zip(&mut rates) {
        let medians = rates.each_mut().map(|rates| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2] / 1_000.0
        });
        println!(
            "| {name} | {:.1} | {:.0} | {:.0} |",
            medians[0], medians[1], medians[2]
        );
    }
    Ok(())
}

struct Server {
    child: Child,
    folder: tempfile::TempDir,
    url: String,
}

impl Server {
    fn start() -> Result<Self, Failure> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        drop(listener);
        let folder = tempfile::tempdir()?;
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()?;
        let url = format!("redis://127.0.0.1:{port}/");
        let server = Self { child, folder, url };
        let begun = Instant::now();
        while redis::Client::open(&*server.url)?.get_connection().is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err(format!("no server, in {:?}", server.folder).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
