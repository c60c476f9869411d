//! Self-test: the main loop and a timer interrupt share limiters, and nothing is lost or admitted twice.
//!
//! The interrupt fires at irregular moments, many times inside decisions of the main loop. It advances a 32-bit
//! millisecond counter, which wraps in the middle of the run. At the end every limiter must be, to the bit, in the state
//! in which one caller would have left it who asked for everything at every millisecond.
//!
//! Prints a summary over semihosting. Exits with 0 if everything held, and with 1 if not.

#![no_std]
#![no_main]

mod alone;
mod ledger;
mod limits;
mod verdict;

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

use semihosting::{eprintln, process};
use tidegate::Timestamp;
use tidegate_firmware::board;

use ledger::{INTERRUPT, MAIN, Random};
use limits::{KEYS, LOG_APART_MS, PEERS, UPTIME};

/// Decisions of the main loop.
const DECISIONS: u32 = 500_000;

/// What a hardware counter of milliseconds would show. The interrupt advances it, and nobody else writes it.
static COUNTER: AtomicU32 = AtomicU32::new(COUNTER_START);

/// A little before it wraps.
const COUNTER_START: u32 = u32::MAX - 4_000;

/// Which decision the main loop is in.
static DECIDING: AtomicU32 = AtomicU32::new(Deciding::Nothing as u32);

#[derive(Clone, Copy)]
enum Deciding {
    Nothing,
    Bucket,
    Watched,
    Log,
    Key,
    Newcomer,
    Peer,
}

/// What an interrupt can land in.
const PLACES: usize = 7;

/// How many interrupts came in which decision.
static LANDED: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

fn now() -> Timestamp {
    UPTIME.timestamp(COUNTER.load(Ordering::Relaxed))
}

/// Makes a decision of the main loop, and lets the interrupt know.
fn deciding<T>(what: Deciding, decide: impl FnOnce() -> T) -> T {
    DECIDING.store(what as u32, Ordering::Relaxed);
    // The interrupt sees memory in program order; this keeps the compiler to it.
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    let answer = decide();
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    DECIDING.store(Deciding::Nothing as u32, Ordering::Relaxed);
    answer
}

/// A millisecond has passed.
#[cfg_attr(target_arch = "arm", board::exception)]
#[cfg_attr(
    target_arch = "riscv32",
    board::core_interrupt(riscv::interrupt::Interrupt::MachineTimer)
)]
#[allow(non_snake_case, reason = "the vector's name")]
fn SysTick() {
    // From 12 to 28 microseconds: anywhere in the main loop.
    board::next_interrupt_in(12_000 + (INTERRUPT.random() & 0x3fff));
    let place = DECIDING.load(Ordering::Relaxed) as usize;
    ledger::bump(&LANDED[place % PLACES]);

    let reading = COUNTER.load(Ordering::Relaxed).wrapping_add(1);
    COUNTER.store(reading, Ordering::Relaxed);
    let now = UPTIME.timestamp(reading);
    limits::bucket(&INTERRUPT, now);
    limits::watched(&INTERRUPT, now);
    if reading % 2 == 1 {
        limits::log(&INTERRUPT, now);
    }
    limits::key(&INTERRUPT, now, reading % KEYS);
    limits::newcomer(&INTERRUPT, now, reading);
    limits::peer(&INTERRUPT, now, (reading % PEERS) as u8);
}

/// One round of the main loop: each limiter once, the timer interrupting wherever it does.
fn round(number: u32) {
    deciding(Deciding::Bucket, || limits::bucket(&MAIN, now()));
    deciding(Deciding::Watched, || limits::watched(&MAIN, now()));
    // What comes back in an even millisecond is for the main loop.
    let at = COUNTER.load(Ordering::Relaxed);
    if at.is_multiple_of(2) {
        deciding(Deciding::Log, || limits::log(&MAIN, UPTIME.timestamp(at)));
    }
    deciding(Deciding::Key, || limits::key(&MAIN, now(), number % KEYS));
    // The very key that the next interrupt will ask for.
    let next = COUNTER.load(Ordering::Relaxed).wrapping_add(1);
    deciding(Deciding::Newcomer, || limits::newcomer(&MAIN, now(), next));
    deciding(Deciding::Peer, || {
        limits::peer(&MAIN, now(), (number % PEERS) as u8)
    });
}

#[board::entry]
fn main() -> ! {
    let begin = now();
    for _ in 0..8 {
        limits::log(&MAIN, now());
        COUNTER.store(
            COUNTER.load(Ordering::Relaxed) + LOG_APART_MS,
            Ordering::Relaxed,
        );
    }
    let start = now();
    limits::ask_everything(&MAIN, start);
    limits::watched(&MAIN, start);

    board::start_interrupts(20_000);
    let mut rounds = 0;
    while MAIN.decisions.load(Ordering::Relaxed) < DECISIONS {
        round(rounds);
        rounds += 1;
        if cfg!(feature = "must-fail") && rounds == 10_000 {
            limits::forget();
        }
    }
    board::stop_interrupts();

    let end = now();
    limits::ask_everything(&MAIN, end);
    limits::ask_for_the_rest(&MAIN, end);
    limits::newcomer(&MAIN, end, COUNTER.load(Ordering::Relaxed).wrapping_add(1));
    let right = verdict::pronounce([begin, start, end]);
    process::exit(if right { 0 } else { 1 })
}

/// Interrupts that came in a decision of this kind.
fn landed(place: Deciding) -> u32 {
    LANDED[place as usize].load(Ordering::Relaxed)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    eprintln!("{info}");
    process::exit(2)
}

#[cfg(target_arch = "arm")]
#[board::exception]
unsafe fn HardFault(_: &cortex_m_rt::ExceptionFrame) -> ! {
    eprintln!("hard fault");
    process::exit(3)
}

#[cfg(target_arch = "riscv32")]
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name that riscv-rt looks for")]
extern "C" fn ExceptionHandler(_: &riscv_rt::TrapFrame) -> ! {
    eprintln!("exception at {:#x}", riscv::register::mepc::read());
    process::exit(3)
}
