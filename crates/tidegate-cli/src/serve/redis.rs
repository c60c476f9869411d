//! The budgets of several servers, kept on Redis.

use core::time::Duration;

use tidegate_redis::{Error, RedisStore};

/// How often the connection is looked at, to tell when it changes.
const LOOK: Duration = Duration::from_millis(250);

/// How long a start waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server, or the cluster of several. It need not be there yet; if it is, it is connected.
///
/// # Errors
///
/// If a URL cannot be understood.
pub(crate) async fn open(urls: &[String], deadline: Duration) -> Result<RedisStore, Error> {
    let builder = match urls {
        [url] => RedisStore::builder(url)?,
        urls => RedisStore::cluster(urls.iter().map(String::as_str))?,
    };
    let store = builder.deadline(deadline).connect_later();
    let connected = async {
        while !store.stats().is_up {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // If it is not there by then, it is told of.
    let _ = tokio::time::timeout(PATIENCE, connected).await;
    Ok(store)
}

/// Says whether the server is there, whenever that changes, and when it has lost what it knew.
pub(crate) async fn tell(store: RedisStore) {
    let (mut was_up, mut lost) = (None, 0);
    loop {
        let stats = store.stats();
        if was_up != Some(stats.is_up) {
            was_up = Some(stats.is_up);
            if stats.is_up {
                eprintln!("redis is there");
            } else {
                eprintln!("redis is not there: on-failure decides");
            }
        }
        if stats.state_lost > lost {
            lost = stats.state_lost;
            eprintln!("redis has lost its data: all budgets begin anew");
        }
        tokio::time::sleep(LOOK).await;
    }
}
