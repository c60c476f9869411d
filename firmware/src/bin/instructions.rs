//! Counts instructions per decision, in an emulator that executes one in each nanosecond. Prints a row for each kind:
//! its name, and the count in tenths.

#![no_std]
#![no_main]

use core::hint::black_box;
use core::panic::PanicInfo;

use semihosting::{eprintln, println, process};
use tidegate_firmware::board;
use tidegate_firmware::subjects;

/// Whether a request of this key may pass at this uptime.
type Decision<'a> = &'a mut dyn FnMut(u32, u32) -> bool;

/// Decisions in a measurement.
const N: u32 = 1_024;

/// Keys that are asked for in turn.
const KEYS: u32 = 16;

/// Between two requests for one limiter, and between two for one key, in milliseconds. All of them pass.
const APART: u32 = 250;

/// Instructions of so many calls, one after the other, that end as they must.
fn count(
    decide: Decision<'_>,
    begin: u32,
    step: u32,
    key: impl Fn(u32) -> u32,
    passes: bool,
) -> u32 {
    let decide = black_box(decide);
    let mut otherwise = 0;
    let before = board::instructions();
    for number in 0..N {
        if decide(begin + number * step, key(number)) != passes {
            otherwise += 1;
        }
    }
    let all = board::instructions_since(before);
    if otherwise > 0 {
        eprintln!("{otherwise} decisions came out otherwise");
        process::exit(1);
    }
    all
}

/// The same in tenths a decision, without what it takes to call a function that does nothing.
fn net(
    decide: Decision<'_>,
    begin: u32,
    step: u32,
    key: impl Fn(u32) -> u32 + Copy,
    passes: bool,
) -> u32 {
    let all = count(decide, begin, step, key, passes);
    let call = count(&mut never, 0, step, key, false);
    ((all - call) * 10 + N / 2) / N
}

/// A function of each: inlined there, called here.
macro_rules! decisions {
    ($($name:ident)*) => {$(
        #[inline(never)]
        fn $name(ms: u32, key: u32) -> bool {
            subjects::$name(ms, key)
        }
    )*};
}

decisions! {
    token_bucket fixed_window anchored_window sliding_window sliding_log token_bucket_wait
    token_bucket_table fixed_window_table anchored_window_table sliding_window_table
    ticks
}

#[inline(never)]
fn never(ms: u32, key: u32) -> bool {
    black_box(ms) > black_box(key) && ms < key
}

fn row(name: &str, kind: &str, tenths: u32) {
    println!("{name}{kind} {}.{}", tenths / 10, tenths % 10);
}

fn single(name: &str, decide: Decision<'_>) {
    let begin = 10_000;
    // Not from full: the ordinary case is a limiter in use.
    (0..3).for_each(|_| _ = decide(begin, 0));
    row(name, "-allowed", net(decide, begin, APART, |_| 0, true));
    let end = begin + N * APART;
    while decide(end, 0) {}
    row(name, "-denied", net(decide, end, 0, |_| 0, false));
}

fn keyed(name: &str, decide: Decision<'_>) {
    let begin = 10_000;
    let step = APART / KEYS + 1;
    let key = |number| number % KEYS;
    (0..3 * KEYS).for_each(|number| _ = decide(begin, key(number)));
    row(name, "-hit-allowed", net(decide, begin, step, key, true));
    let end = begin + N * step;
    (0..KEYS).for_each(|key| while decide(end, key) {});
    row(name, "-hit-denied", net(decide, end, 0, key, false));
    // So many that each soon takes the place of another.
    let later = end + 10_000;
    let stranger = |number| 1_000 + number;
    row(name, "-insert", net(decide, later, 20, stranger, true));
}

#[board::entry]
fn main() -> ! {
    board::count_instructions();
    let known = 200_000;
    let before = board::instructions();
    board::spend(known);
    let counted = board::instructions_since(before);
    if counted.abs_diff(known) > 200 {
        eprintln!("{known} instructions counted as {counted}: not one in each nanosecond");
        process::exit(1);
    }

    single("token-bucket", &mut token_bucket);
    single("token-bucket-wait", &mut token_bucket_wait);
    single("fixed-window", &mut fixed_window);
    single("anchored-window", &mut anchored_window);
    single("sliding-window", &mut sliding_window);
    single("sliding-log", &mut sliding_log);
    keyed("token-bucket-table", &mut token_bucket_table);
    keyed("fixed-window-table", &mut fixed_window_table);
    keyed("anchored-window-table", &mut anchored_window_table);
    keyed("sliding-window-table", &mut sliding_window_table);
    let mut table = subjects::owned();
    let mut owned = |ms, key| subjects::owned_decision(&mut table, ms, key);
    keyed("owned-table", &mut owned);
    row("ticks", "", net(&mut ticks, 10_000, APART, |_| 0, true));
    process::exit(0)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    eprintln!("{info}");
    process::exit(2)
}
