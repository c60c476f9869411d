//! Limiters that the main loop and interrupt handlers share.

use tidegate::{
    FixedWindow, Limiter, Line, Quota, SliceTable, SlidingLog, SlidingWindow, Ticks, Timestamp,
    TokenBucket,
};

static BUCKET: Limiter<TokenBucket<u32>> = Limiter::new(TokenBucket::narrow(Quota::per_second(10)));
static WINDOW: Limiter<FixedWindow<u32>> =
    Limiter::new(FixedWindow::narrow_anchored(Quota::per_minute(100)));
static SLIDING: Limiter<SlidingWindow<u32>> =
    Limiter::new(SlidingWindow::narrow(Quota::per_minute(50)));
static LOG: Limiter<SlidingLog<8, u32>> = Limiter::new(SlidingLog::narrow(Quota::per_minute(8)));

static LINES: [Line<u32>; 32] = [const { Line::new() }; 32];
static PEERS: SliceTable<TokenBucket<u32>> =
    SliceTable::over(TokenBucket::narrow(Quota::per_second(10)), &LINES);

/// A limit for each source address, on the default hasher.
#[unsafe(no_mangle)]
pub extern "C" fn may_answer(source: u32, uptime_ms: u32) -> bool {
    let now = Timestamp::from_millis(u64::from(uptime_ms));
    PEERS.check(&source, now).is_ok()
}

/// Asks all of them at once, as an interrupt handler might.
#[unsafe(no_mangle)]
pub extern "C" fn may_pass(uptime_ms: u32) -> bool {
    let now = Timestamp::from_millis(u64::from(uptime_ms));
    BUCKET.check(now).is_ok()
        && WINDOW.check(now).is_ok()
        && SLIDING.check(now).is_ok()
        && LOG.check(now).is_ok()
}

/// The wait, in milliseconds, which takes the divisions.
#[unsafe(no_mangle)]
pub extern "C" fn wait_ms(uptime_ms: u32) -> u32 {
    let now = Timestamp::from_millis(u64::from(uptime_ms));
    match BUCKET.peek(now) {
        Ok(_) => 0,
        Err(denied) => denied
            .retry_after()
            .map_or(u32::MAX, |wait| wait.as_millis() as u32),
    }
}

/// Milliseconds of a 32.768 kHz counter that wraps.
#[unsafe(no_mangle)]
pub extern "C" fn uptime_ms(reading: u32) -> u64 {
    static RTC: Ticks<32_768> = Ticks::new();
    RTC.timestamp(reading).as_nanos() / 1_000_000
}

/// 64-bit words: only where the target has them, or a feature gives them.
#[cfg(feature = "wide")]
#[unsafe(no_mangle)]
pub extern "C" fn may_pass_wide(uptime_ms: u32) -> bool {
    use tidegate::{Limiter, Quota, Timestamp, TokenBucket};

    static WIDE: Limiter<TokenBucket> = Limiter::new(TokenBucket::new(Quota::per_second(10)));
    WIDE.check(Timestamp::from_millis(u64::from(uptime_ms)))
        .is_ok()
}
