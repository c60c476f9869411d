//! What firmware does with the core, so that a build for a bare target proves that it can.

#![no_std]

#[cfg(not(feature = "without-atomics"))]
mod shared;

use tidegate::{Algorithm, Quota, TickRate, TokenBucket};

/// One step of a state that its only owner keeps, in either word.
#[unsafe(no_mangle)]
pub extern "C" fn step(narrow: &mut u32, wide: &mut u64, ticks: u32) -> bool {
    const RTC: TickRate = TickRate::per_second(32_768);
    const QUOTA: Quota = Quota::per_second(10);
    fn take<A: Algorithm>(algorithm: &A, state: &mut A::Word, now: tidegate::Timestamp) -> bool {
        let stepped = algorithm.step(*state, now, 1);
        stepped.map(|(next, _)| *state = next).is_ok()
    }
    let now = RTC.timestamp(u64::from(ticks));
    take(&TokenBucket::narrow(QUOTA), narrow, now) && take(&TokenBucket::new(QUOTA), wide, now)
}

/// A table of exact keys, for a single owner.
#[cfg(feature = "without-atomics")]
pub type Nodes = tidegate::OwnedTable<[u8; 6], TokenBucket<u32>, 32>;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
