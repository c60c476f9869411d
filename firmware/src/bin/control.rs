//! Everything that the other images must be free of, so that the search for it can be seen to find it.

#![no_std]
#![no_main]

use core::hint::black_box;

use tidegate::{Limiter, Quota, Timestamp, TokenBucket};

static WIDE: Limiter<TokenBucket> = Limiter::new(TokenBucket::new(Quota::per_second(10)));

tidegate_firmware::image!(|ms: u32, key: u32| {
    let indexed = black_box([1.0_f32, 2.0, 3.0])[key as usize];
    let now = Timestamp::from_millis(u64::from(ms));
    WIDE.check(now).is_ok() && black_box(indexed) * black_box(2.5) > 1.0
});
