//! One limiter that RTIC tasks of different priorities share, without a lock: commands over a serial line, and those
//! that an interrupt injects, ten a second and five at once.
//!
//! It is declared as `&commands`, shared by reference: no `lock(|..| ..)`, and no priority ceiling. A task may preempt
//! another in the midst of a decision, and decide too.

#![no_main]
#![no_std]

use semihosting as _;

#[rtic::app(device = lm3s6965)]
mod app {
    use core::sync::atomic::{AtomicU32, Ordering};

    use cortex_m::peripheral::syst::SystClkSource;
    use tidegate::{Limiter, Quota, Timestamp, TokenBucket};

    #[shared]
    struct Shared {
        commands: Limiter<TokenBucket<u32>>,
        uptime_ms: AtomicU32,
        admitted: AtomicU32,
    }

    #[local]
    struct Local {}

    #[init]
    fn init(cx: init::Context) -> (Shared, Local) {
        let mut timer = cx.core.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(12_000 - 1); // 12 MHz: a millisecond
        timer.enable_counter();
        timer.enable_interrupt();
        let commands = Limiter::new(TokenBucket::narrow(Quota::per_second(10)).with_burst(5));
        let shared = Shared {
            commands,
            uptime_ms: AtomicU32::new(0),
            admitted: AtomicU32::new(0),
        };
        (shared, Local {})
    }

    /// Each millisecond, wherever the others are.
    #[task(binds = SysTick, priority = 2, shared = [&commands, &uptime_ms, &admitted])]
    fn tick(cx: tick::Context) {
        let shared = cx.shared;
        let now_ms = shared.uptime_ms.load(Ordering::Relaxed) + 1;
        shared.uptime_ms.store(now_ms, Ordering::Relaxed);
        let now = Timestamp::from_millis(u64::from(now_ms));
        if shared.commands.check(now).is_ok() {
            shared.admitted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All the time, until three seconds have passed.
    #[idle(shared = [&commands, &uptime_ms, &admitted])]
    fn idle(cx: idle::Context) -> ! {
        let shared = cx.shared;
        let mut asked = 0_u32;
        loop {
            let now_ms = shared.uptime_ms.load(Ordering::Relaxed);
            if now_ms >= 3_000 {
                break;
            }
            asked += 1;
            let now = Timestamp::from_millis(u64::from(now_ms));
            if shared.commands.check(now).is_ok() {
                shared.admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
        let admitted = shared.admitted.load(Ordering::Relaxed);
        semihosting::println!("rtic: asked {asked} times beside 3000 ticks, {admitted} admitted");
        // Five at once, and ten a second: the last of them just then, or, a narrow bucket being slower by up to a
        // thousandth, just not yet.
        assert!((34..=35).contains(&admitted));
        semihosting::process::exit(0)
    }
}
