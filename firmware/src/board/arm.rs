//! Cortex-M: SysTick.

use cortex_m::peripheral::{SYST, syst::SystClkSource};
pub use cortex_m_rt::{entry, exception};

use super::KHZ;

/// The timer. There is only one context that uses it at a time: the interrupt handler once it runs.
fn timer() -> SYST {
    // SAFETY: the main program starts and stops the timer, and touches it at no other time; the handler runs only in
    // between.
    unsafe { cortex_m::Peripherals::steal() }.SYST
}

/// The next interrupt comes in so many nanoseconds.
pub fn next_interrupt_in(nanos: u32) {
    let mut timer = timer();
    timer.set_reload((u64::from(nanos) * u64::from(KHZ) / 1_000_000) as u32);
    timer.clear_current();
}

/// The first interrupt comes in so many nanoseconds.
pub fn start_interrupts(nanos: u32) {
    next_interrupt_in(nanos);
    let mut timer = timer();
    timer.set_clock_source(SystClkSource::Core);
    timer.enable_interrupt();
    timer.enable_counter();
}

/// No more interrupts.
pub fn stop_interrupts() {
    let mut timer = timer();
    timer.disable_interrupt();
    timer.disable_counter();
}

/// Starts the counter of instructions; interrupts are not for the same image.
pub fn count_instructions() {
    let mut timer = timer();
    timer.set_reload(COUNTER_MASK);
    timer.clear_current();
    timer.set_clock_source(SystClkSource::Core);
    timer.enable_counter();
}

const COUNTER_MASK: u32 = 0x00ff_ffff;

/// A reading of the counter.
#[inline]
pub fn instructions() -> u32 {
    SYST::get_current()
}

/// Instructions since a reading, one a nanosecond, to a tick of the timer; less than half a second's.
#[inline]
pub fn instructions_since(before: u32) -> u32 {
    // It counts down.
    let ticks = before.wrapping_sub(SYST::get_current()) & COUNTER_MASK;
    (u64::from(ticks) * 1_000_000 / u64::from(KHZ)) as u32
}

/// Executes so many instructions.
pub fn spend(instructions: u32) {
    // SAFETY: counts a register down.
    unsafe {
        core::arch::asm!(
            "1: subs {count}, #1",
            "bne 1b",
            count = inout(reg) instructions / 2 => _,
        );
    }
}
