//! What one thread's checks feel while another drops idle keys.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::keys::{Sequence, in_turn};
use crate::measure::{Spread, Stopwatch};
use crate::rows::Row;
use crate::subject::{Keyed, Load, advance};

const KEYS: u64 = 1_000_000;
/// How long a limiter without such a call is watched instead.
const WATCHED: Duration = Duration::from_millis(10);

/// The slowest check and the checks a second, at rest and during a clean-up.
pub struct Pause {
    pub row: &'static str,
    /// All keys are live, and so stay; else all are idle, and so go.
    pub live: bool,
    /// How long the clean-up took, in nanoseconds; `None` where there is no such call.
    pub took: Option<Spread>,
    pub slowest_at_rest: Spread,
    pub slowest: Spread,
    /// Checks a second during the clean-up, as a share of those at rest.
    pub speed: Spread,
}

/// Of the checks in one phase: how many, and the slowest.
#[derive(Default, Clone, Copy)]
struct Felt {
    checks: u64,
    slowest: Duration,
}

/// Phases of one run.
const AT_REST: u8 = 0;
const CLEANING: u8 = 1;
const OVER: u8 = 2;

/// The clean-up's length if there is one, what was felt at rest and during it, and how long each lasted.
fn once(limiter: &dyn Keyed<u64>, keys: &[u64]) -> (Option<Duration>, [Felt; 2], [Duration; 2]) {
    let phase = AtomicU8::new(AT_REST);
    let rest = Duration::from_millis(20);
    std::thread::scope(|scope| {
        let prober = scope.spawn(|| {
            let mut felt = [Felt::default(); 2];
            let mut watch = Stopwatch::start();
            for key in keys.iter().cycle() {
                let before = phase.load(Ordering::Acquire);
                if before == OVER {
                    break;
                }
                black_box(limiter.check(key));
                let lap = watch.lap();
                // A check that began at rest and had to wait belongs to the clean-up.
                let at_rest = before == AT_REST && phase.load(Ordering::Acquire) == AT_REST;
                let felt = &mut felt[usize::from(!at_rest)];
                felt.checks += 1;
                felt.slowest = felt.slowest.max(lap);
            }
            felt
        });
        // Started up, and warmed up.
        std::thread::sleep(rest);
        let begun = Instant::now();
        phase.store(CLEANING, Ordering::Release);
        let swept = limiter.sweep();
        let took = begun.elapsed();
        if !swept {
            std::thread::sleep(WATCHED);
        }
        let lasted = begun.elapsed();
        phase.store(OVER, Ordering::Release);
        let felt = prober.join().unwrap();
        (swept.then_some(took), felt, [rest, lasted])
    })
}

/// Measures every row that grows, and ours, so many times.
pub fn pauses(rows: &[Row<u64>], times: usize) -> Vec<Pause> {
    let sequence = Sequence::<u64>::uniform(KEYS);
    let keys = sequence.get(false);
    let mut results = Vec::new();
    for row in rows.iter().filter(|row| row.grows) {
        for (live, load) in [(true, Load::Lasting), (false, Load::Brief)] {
            let mut took = Vec::new();
            let (mut at_rest, mut slowest, mut speed) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..times {
                let limiter = (row.build)(load, KEYS as usize);
                in_turn(0, KEYS, row.plain, |keys| {
                    limiter.each(keys);
                });
                // Brief keys are idle by now, in whichever clock.
                advance(5_000_000);
                std::thread::sleep(Duration::from_millis(5));
                let (cleaned, felt, lasted) = once(&*limiter, keys);
                took.extend(cleaned.map(|time| time.as_nanos() as f64));
                at_rest.push(felt[0].slowest.as_nanos() as f64);
                slowest.push(felt[1].slowest.as_nanos() as f64);
                let rates = [0, 1].map(|i| felt[i].checks as f64 / lasted[i].as_secs_f64());
                speed.push(rates[1] / rates[0]);
            }
            results.push(Pause {
                row: row.name,
                live,
                took: (!took.is_empty()).then(|| Spread::of(&took)),
                slowest_at_rest: Spread::of(&at_rest),
                slowest: Spread::of(&slowest),
                speed: Spread::of(&speed),
            });
        }
    }
    results
}
