//! A client that keeps to a foreign service's limit, with threads that sleep.
//!
//! ```text
//! cargo run --release --example pace_thread --features std
//! ```
//!
//! The service admits 10 requests a second, 3 of them at once. Two threads have 8 requests each and would send them all
//! immediately. `reserve` takes the next free place in time and says how long to wait for it: whoever asks first goes
//! first, nobody polls, and the service never has to refuse anything. Work whose place is too far off is dropped at
//! once, and takes no place.

use core::time::Duration;
use std::thread;

use tidegate::{Clock, Denied, Limiter, Quota, TokenBucket};

static SERVICE: Limiter<TokenBucket> =
    Limiter::new(TokenBucket::new(Quota::per_second(10)).with_burst(3));

/// Waits for this request's turn.
///
/// # Errors
///
/// If that would take longer than `patience`; then it has not waited.
fn turn(clock: &Clock, patience: Duration) -> Result<Duration, Denied> {
    let wait = SERVICE.reserve(clock.now(), 1, patience)?;
    thread::sleep(wait);
    Ok(wait)
}

fn main() {
    let clock = Clock::new();
    thread::scope(|scope| {
        for name in ["east", "west"] {
            let clock = &clock;
            scope.spawn(move || {
                for number in 1..=8 {
                    match turn(clock, Duration::from_secs(1)) {
                        Ok(wait) => println!(
                            "{:>5} ms: {name} sends {number}, having waited {} ms",
                            clock.now().since_epoch().as_millis(),
                            wait.as_millis()
                        ),
                        Err(denied) => println!("{name} gives up on {number}: {denied}"),
                    }
                }
            });
        }
    });

    // Many at once, and no patience: most are told so immediately.
    let sent = (0..20)
        .filter(|_| turn(&clock, Duration::from_millis(250)).is_ok())
        .count();
    println!("of 20 more requests with 250 ms of patience each, {sent} were sent");
}
