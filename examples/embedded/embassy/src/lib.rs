//! One limiter that embassy tasks share: an uplink that may send ten messages a second, three at once.
//!
//! It is a `static`, needs no mutex, and interrupt handlers and executors of any priority may ask it too.

#![no_std]

use core::sync::atomic::{AtomicU32, Ordering};

use embassy_time::{Duration, Instant, Ticker, Timer};
use tidegate::{Limiter, Quota, TokenBucket};

pub static UPLINK: Limiter<TokenBucket<u32>> =
    Limiter::new(TokenBucket::narrow(Quota::per_second(10)).with_burst(3));

pub static SENT: AtomicU32 = AtomicU32::new(0);
pub static SKIPPED: AtomicU32 = AtomicU32::new(0);

/// Readings are worth nothing later: what may not be sent now is skipped.
#[embassy_executor::task(pool_size = 2)]
pub async fn readings(every: Duration) {
    let mut ticker = Ticker::every(every);
    loop {
        ticker.next().await;
        match UPLINK.check(Instant::now().into()) {
            Ok(_) => send(),
            Err(_) => count(&SKIPPED),
        }
    }
}

/// Alarms must be sent: each takes its permit now, and waits until it is good.
#[embassy_executor::task]
pub async fn alarms(how_many: u32) {
    for _ in 0..how_many {
        let patience = core::time::Duration::from_secs(10);
        match UPLINK.reserve(Instant::now().into(), 1, patience) {
            Ok(wait) => {
                Timer::after_micros(wait.as_micros() as u64 + 1).await;
                send();
            }
            Err(_) => count(&SKIPPED),
        }
    }
}

fn send() {
    count(&SENT); // here the radio would be
}

fn count(what: &AtomicU32) {
    what.fetch_add(1, Ordering::Relaxed);
}
