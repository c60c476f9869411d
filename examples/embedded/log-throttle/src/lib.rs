//! Log lines that a fault cannot turn into a flood: so many a second, and a note of how many were suppressed.

#![no_std]

use core::sync::atomic::{AtomicU32, Ordering};

use tidegate::{Limiter, Timestamp, TokenBucket};

#[doc(hidden)]
pub use {log, tidegate};

/// A limit on the lines of one place in the program, and how many it has kept back.
pub struct Throttle {
    limiter: Limiter<TokenBucket<u32>>,
    suppressed: AtomicU32,
}

impl Throttle {
    pub const fn new(limit: TokenBucket<u32>) -> Self {
        Self {
            limiter: Limiter::new(limit),
            suppressed: AtomicU32::new(0),
        }
    }

    /// Whether to log now; and if so, how many lines have been suppressed since the last.
    pub fn admit(&self, now: Timestamp) -> Option<u32> {
        match self.limiter.check(now) {
            // Every line that was kept back is told of once, whoever asks at the same time.
            Ok(_) => Some(self.suppressed.swap(0, Ordering::Relaxed)),
            Err(_) => {
                self.suppressed.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Logs a warning, at most so many in each period: `warn_at_most!(Quota::per_second(2), now, "too hot: {t}")`.
#[macro_export]
macro_rules! warn_at_most {
    ($quota:expr, $now:expr, $($message:tt)*) => {{
        // One for each place that says this.
        static THROTTLE: $crate::Throttle =
            $crate::Throttle::new($crate::tidegate::TokenBucket::narrow($quota));
        if let Some(suppressed) = THROTTLE.admit($now) {
            if suppressed > 0 {
                $crate::log::warn!("{suppressed} messages suppressed");
            }
            $crate::log::warn!($($message)*);
        }
    }};
}
