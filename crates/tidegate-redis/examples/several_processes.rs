//! One of several processes that share a limit.
//!
//! ```text
//! several_processes URL WAY LIMIT REQUESTS
//! ```
//!
//! Connects, prints `ready`, waits for a line on its input, and then asks for so many requests at the same time. Prints how
//! many were admitted. `WAY` is how the limit is counted: `bucket`, `fixed`, `anchored`, `sliding` or `log`, or `naive`,
//! which reads a count, decides, and writes it: what goes wrong without a script.

use core::error::Error;
use core::time::Duration;

use redis::AsyncCommands;
use tidegate::Quota;
use tidegate_redis::{Limit, RedisLimiter, RedisStore};

const KEY: &str = "everybody";

#[derive(Clone)]
enum Way {
    Limiter(RedisLimiter),
    Naive(redis::aio::MultiplexedConnection, u64),
}

impl Way {
    async fn check(&mut self) -> Result<bool, Box<dyn Error + Send + Sync>> {
        match self {
            Self::Limiter(limiter) => Ok(limiter.check(KEY).await?.is_allowed()),
            Self::Naive(connection, limit) => {
                let count: Option<u64> = connection.get(KEY).await?;
                let count = count.unwrap_or(0);
                if count >= *limit {
                    return Ok(false);
                }
                let () = connection.set(KEY, count + 1).await?;
                Ok(true)
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, way, limit, requests] = &arguments[..] else {
        return Err("usage: several_processes URL WAY LIMIT REQUESTS".into());
    };
    let (limit, requests): (u64, u64) = (limit.parse()?, requests.parse()?);
    // Nothing comes back while this runs.
    let quota = Quota::new(limit, Duration::from_secs(3_600_000))?;
    let store = RedisStore::builder(url)?
        .deadline(Duration::from_secs(30))
        .connect()
        .await?;
    let limiter = |limit| store.limiter(way, limit).map(Way::Limiter);
    let way = match &**way {
        "bucket" => limiter(Limit::token_bucket(quota))?,
        "fixed" => limiter(Limit::fixed_window(quota))?,
        "anchored" => limiter(Limit::anchored_window(quota))?,
        "sliding" => limiter(Limit::sliding_window(quota))?,
        "log" => limiter(Limit::sliding_log(quota))?,
        "naive" => {
            let client = redis::Client::open(&**url)?;
            Way::Naive(client.get_multiplexed_async_connection().await?, limit)
        }
        other => return Err(format!("no way of counting is called {other}").into()),
    };
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let tasks: Vec<_> = (0..requests)
        .map(|_| {
            let mut way = way.clone();
            tokio::spawn(async move { way.check().await })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += u64::from(task.await??);
    }
    println!("{admitted}");
    Ok(())
}
