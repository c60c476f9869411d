//! Runs the tasks of lib.rs on this machine for ten seconds of a clock that does as it is told, and looks at the counts.

use core::sync::atomic::{AtomicBool, Ordering};

use embassy_example::{SENT, SKIPPED, alarms, readings};
use embassy_executor::Executor;
use embassy_futures::yield_now;
use embassy_time::{Duration, MockDriver};
use static_cell::StaticCell;

const SECONDS: u32 = 10;
const ALARMS: u32 = 5;

static DONE: AtomicBool = AtomicBool::new(false);

#[embassy_executor::task]
async fn clock() {
    // A little longer, so that what is due at the end is done.
    for _ in 0..SECONDS * 1_000 + 5 {
        MockDriver::get().advance(Duration::from_millis(1));
        // Once for those it has woken, once for those that they wake.
        yield_now().await;
        yield_now().await;
    }
    DONE.store(true, Ordering::Relaxed);
}

fn main() {
    static EXECUTOR: StaticCell<Executor> = StaticCell::new();
    EXECUTOR.init(Executor::new()).run_until(
        |spawner| {
            spawner.spawn(readings(Duration::from_millis(20)).unwrap());
            spawner.spawn(readings(Duration::from_millis(50)).unwrap());
            spawner.spawn(alarms(ALARMS).unwrap());
            spawner.spawn(clock().unwrap());
        },
        || DONE.load(Ordering::Relaxed),
    );

    let (sent, skipped) = (
        SENT.load(Ordering::Relaxed),
        SKIPPED.load(Ordering::Relaxed),
    );
    println!("embassy: {sent} sent, {skipped} skipped");
    assert_eq!(
        sent + skipped,
        SECONDS * (50 + 20) + ALARMS,
        "each is one or the other"
    );
    // Three at once and ten a second; a narrow bucket may be slower by a thousandth, never faster.
    assert!((3 + 10 * SECONDS - 1..=3 + 10 * SECONDS).contains(&sent));
}
