//! One decision of each kind, for the images that show what it costs in flash, memory and instructions.
//!
//! Each from a 32-bit count of milliseconds, as firmware has it, so that its conversion is in the price.

use core::hint::black_box;

use tidegate::{
    FixedWindow, Limiter, Line, OwnedTable, Quota, SliceTable, SlidingLog, SlidingWindow, Ticks,
    Timestamp, TokenBucket,
};

const QUOTA: Quota = Quota::per_second(10);
const BUCKET: TokenBucket<u32> = TokenBucket::narrow(QUOTA);
const WINDOW: FixedWindow<u32> = FixedWindow::narrow(QUOTA);
const ANCHORED: FixedWindow<u32> = FixedWindow::narrow_anchored(QUOTA);
const SLIDING: SlidingWindow<u32> = SlidingWindow::narrow(QUOTA);

const LOG: SlidingLog<8, u32> = SlidingLog::narrow(Quota::per_second(8));

#[inline(always)]
fn uptime(ms: u32) -> Timestamp {
    Timestamp::from_millis(u64::from(ms))
}

/// What an image without a limiter does.
#[inline(always)]
pub fn nothing(ms: u32, key: u32) -> bool {
    ms > key
}

macro_rules! single {
    ($($name:ident: $limiter:ty = $limits:expr;)*) => {$(
        #[inline(always)]
        pub fn $name(ms: u32, _: u32) -> bool {
            static LIMITER: Limiter<$limiter> = Limiter::new($limits);
            LIMITER.check(uptime(ms)).is_ok()
        }
    )*};
}

single! {
    token_bucket: TokenBucket<u32> = BUCKET;
    fixed_window: FixedWindow<u32> = WINDOW;
    anchored_window: FixedWindow<u32> = ANCHORED;
    sliding_window: SlidingWindow<u32> = SLIDING;
    sliding_log: SlidingLog<8, u32> = LOG;
}

/// With the time to wait for it, which takes divisions.
#[inline(always)]
pub fn token_bucket_wait(ms: u32, _: u32) -> bool {
    static LIMITER: Limiter<TokenBucket<u32>> = Limiter::new(BUCKET);
    let Err(denied) = LIMITER.check(uptime(ms)) else {
        return true;
    };
    black_box(denied.retry_after());
    false
}

macro_rules! keyed {
    ($($name:ident: $algorithm:ty = $limits:expr;)*) => {$(
        #[inline(always)]
        pub fn $name(ms: u32, key: u32) -> bool {
            static LINES: [Line<u32>; 32] = [const { Line::new() }; 32];
            static TABLE: SliceTable<$algorithm> = SliceTable::over($limits, &LINES);
            TABLE.check(&key, uptime(ms)).is_ok()
        }
    )*};
}

// Of 32 lines, 2 KiB, which are zero when the program starts and so take no flash: a `Table` would, since its limits lie
// beside its lines.
keyed! {
    token_bucket_table: TokenBucket<u32> = BUCKET;
    fixed_window_table: FixedWindow<u32> = WINDOW;
    anchored_window_table: FixedWindow<u32> = ANCHORED;
    sliding_window_table: SlidingWindow<u32> = SLIDING;
}

/// In the hands of the main loop alone.
pub type Owned = OwnedTable<u32, TokenBucket<u32>, 32>;

pub const fn owned() -> Owned {
    OwnedTable::new(BUCKET)
}

#[inline(always)]
pub fn owned_decision(table: &mut Owned, ms: u32, key: u32) -> bool {
    table.check(&key, uptime(ms)).is_ok()
}

/// A timestamp alone, of a counter of 32.768 kHz that wraps.
#[inline(always)]
pub fn ticks(reading: u32, _: u32) -> bool {
    static RTC: Ticks<32_768> = Ticks::new();
    black_box(RTC.timestamp(reading)) > Timestamp::ZERO
}

/// Decides for ever about what the compiler cannot foresee.
#[inline(always)]
pub fn forever(mut decide: impl FnMut(u32, u32) -> bool) -> ! {
    loop {
        black_box(decide(black_box(1), black_box(2)));
    }
}

/// A program that does nothing but decide.
#[macro_export]
macro_rules! image {
    ($decide:expr) => {
        #[$crate::board::entry]
        fn main() -> ! {
            $crate::subjects::forever($decide)
        }

        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            loop {}
        }
    };
}
