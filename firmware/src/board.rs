//! The boards that QEMU plays: a timer that interrupts, and a counter of instructions.

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "arm")]
pub use arm::*;

#[cfg(target_arch = "riscv32")]
mod riscv;
#[cfg(target_arch = "riscv32")]
pub use self::riscv::*;

/// Name of the image's core and board.
pub const NAME: &str = env!("BOARD");

/// Ticks of the timer in a millisecond, as QEMU clocks these boards.
const KHZ: u32 = number(env!("BOARD_KHZ"));

const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("not a number"),
    }
}
