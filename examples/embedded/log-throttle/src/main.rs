//! A sensor that fails nine times a second for three seconds, and what the log says of it.

use std::sync::Mutex;

use log_throttle::{Throttle, warn_at_most};
use tidegate::{Quota, Timestamp, TokenBucket};

struct Lines(Mutex<Vec<String>>);

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        println!("{}: {}", record.level(), record.args());
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

static LINES: Lines = Lines(Mutex::new(Vec::new()));

fn main() {
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Warn);

    for attempt in 0..30 {
        let now = Timestamp::from_millis(1_000 + attempt * 110);
        warn_at_most!(
            Quota::per_second(1),
            now,
            "sensor failed, attempt {attempt}"
        );
    }
    let expected = [
        "sensor failed, attempt 0",
        "9 messages suppressed",
        "sensor failed, attempt 10",
        "9 messages suppressed",
        "sensor failed, attempt 20",
    ];
    assert_eq!(*LINES.0.lock().unwrap(), expected);

    nothing_is_lost();
}

/// Lines that were logged, told of, and still to be told of are as many as there were, with threads too.
fn nothing_is_lost() {
    static THROTTLE: Throttle = Throttle::new(TokenBucket::narrow(Quota::per_second(100)));
    let worker = || {
        let (mut logged, mut told) = (0, 0);
        for millis in 0..5_000 {
            if let Some(suppressed) = THROTTLE.admit(Timestamp::from_millis(millis)) {
                logged += 1;
                told += suppressed;
            }
        }
        logged + told
    };
    let all: u32 = std::thread::scope(|scope| {
        let threads = [scope.spawn(worker), scope.spawn(worker)];
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // An hour later the next one is logged, and tells of the rest.
    let rest = THROTTLE.admit(Timestamp::from_secs(3_600)).unwrap();
    assert_eq!(all + rest, 10_000);
    println!("log-throttle: nothing is lost");
}
