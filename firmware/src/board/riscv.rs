//! RISC-V, `virt`: the machine timer of its core-local interruptor.

use core::ptr;

use riscv::interrupt::Interrupt;
pub use riscv_rt::{core_interrupt, entry};

use super::KHZ;

const MTIMECMP: *mut [u32; 2] = ptr::without_provenance_mut(0x0200_4000);
const MTIME: *const [u32; 2] = ptr::without_provenance(0x0200_bff8);

fn time() -> u64 {
    // SAFETY: the board has the timer there, and reading it changes nothing.
    let [low, high] = unsafe {
        [&raw const (*MTIME)[0], &raw const (*MTIME)[1]].map(|half| half.read_volatile())
    };
    // The runs here last for seconds, so the upper half never moves.
    u64::from(high) << 32 | u64::from(low)
}

fn set_alarm(at: u64) {
    // SAFETY: the board has the alarm there, and only one context sets it at a time: the interrupt handler, once
    // interrupts are enabled. First the upper half is put out of reach, so that no half-written time rings.
    unsafe {
        (&raw mut (*MTIMECMP)[1]).write_volatile(u32::MAX);
        (&raw mut (*MTIMECMP)[0]).write_volatile(at as u32);
        (&raw mut (*MTIMECMP)[1]).write_volatile((at >> 32) as u32);
    }
}

/// Interrupts once, in so many nanoseconds.
pub fn next_interrupt_in(nanos: u32) {
    set_alarm(time() + u64::from(nanos) * u64::from(KHZ) / 1_000_000);
}

/// The first interrupt comes in so many nanoseconds.
pub fn start_interrupts(nanos: u32) {
    next_interrupt_in(nanos);
    // SAFETY: nothing here relies on interrupts being off.
    unsafe {
        riscv::interrupt::enable_interrupt(Interrupt::MachineTimer);
        riscv::interrupt::enable();
    }
}

/// No more interrupts.
pub fn stop_interrupts() {
    riscv::interrupt::disable();
}

/// Starts the counter of instructions, which runs anyway.
pub fn count_instructions() {}

/// A reading of the counter.
#[inline]
pub fn instructions() -> u32 {
    riscv::register::minstret::read() as u32
}

/// Instructions since a reading, less than 2^32.
#[inline]
pub fn instructions_since(before: u32) -> u32 {
    instructions().wrapping_sub(before)
}

/// Executes so many instructions.
pub fn spend(instructions: u32) {
    // SAFETY: counts a register down.
    unsafe {
        core::arch::asm!(
            "1: addi {count}, {count}, -1",
            "bnez {count}, 1b",
            count = inout(reg) instructions / 2 => _,
        );
    }
}
