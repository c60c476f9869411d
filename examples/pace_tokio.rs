//! A client that keeps to a foreign service's limit, with tokio.
//!
//! ```text
//! cargo run --release --example pace_tokio --features std
//! ```
//!
//! The service admits 10 requests a second, 3 of them at once. Twenty tasks want to send one each, now. `reserve` gives
//! each the next free place in time, in the order in which they ask; those whose place is more than their patience away
//! are told so at once. The place of a task that is cancelled while it waits stays empty: those behind it have their
//! times already, and would not move up.

use core::time::Duration;

use tidegate::{Clock, Denied, Limiter, Quota, TokenBucket};

static SERVICE: Limiter<TokenBucket> =
    Limiter::new(TokenBucket::new(Quota::per_second(10)).with_burst(3));

/// Waits for this request's turn.
///
/// # Errors
///
/// If that would take longer than `patience`; then it has not waited.
async fn turn(clock: &Clock, patience: Duration) -> Result<Duration, Denied> {
    let wait = SERVICE.reserve(clock.now(), 1, patience)?;
    tokio::time::sleep(wait).await;
    Ok(wait)
}

async fn client(clock: Clock, number: u32) {
    let now = || clock.now().since_epoch().as_millis();
    match turn(&clock, Duration::from_millis(1_500)).await {
        Ok(wait) => println!(
            "{:>5} ms: sends {number}, having waited {} ms",
            now(),
            wait.as_millis()
        ),
        Err(denied) => println!("{:>5} ms: gives up on {number}: {denied}", now()),
    }
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let clock = Clock::new();
        let tasks: Vec<_> = (1..=20)
            .map(|number| tokio::spawn(client(clock, number)))
            .collect();

        tokio::time::sleep(Duration::from_millis(500)).await;
        tasks[11].abort();

        for task in tasks {
            match task.await {
                Err(error) if error.is_cancelled() => println!("          12 was called off"),
                done => done.expect("a client does not panic"),
            }
        }
    });
    Ok(())
}
