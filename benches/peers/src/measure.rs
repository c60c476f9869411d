//! Clocks, memory, threads and medians.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The median of some values, and their range.
#[derive(Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self {
            median: (low + high) / 2.0,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        }
    }
}

/// Processor time of the calling thread: what others got meanwhile is not in it.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the call to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How long the calling thread could have run and had no processor, in all.
pub fn waited() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Times short stretches by the wall clock, less what other processes took out of the long ones.
pub struct Stopwatch {
    begun: Instant,
    waited: Duration,
    laps: u32,
}

impl Stopwatch {
    /// Shorter stretches than this are taken as they are: nobody was given the processor meanwhile.
    const LONG: Duration = Duration::from_micros(30);

    pub fn start() -> Self {
        let waited = waited();
        Self {
            begun: Instant::now(),
            waited,
            laps: 0,
        }
    }

    /// Time since the last lap, and begins the next.
    #[inline]
    pub fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let mut lap = now - self.begun;
        self.begun = now;
        self.laps += 1;
        // Looked at now and then too, lest what short laps lost be taken off a long one.
        if lap > Self::LONG || self.laps.is_multiple_of(1 << 14) {
            let waited = waited();
            lap = lap.saturating_sub(waited - self.waited);
            self.waited = waited;
            self.begun = Instant::now();
        }
        lap
    }
}

/// Resident memory of this process now.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    // SAFETY: asks for a constant.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// Bytes that the allocator has handed out; resident memory where the C library cannot tell.
pub fn allocated() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: reads the allocator's own counters.
        let info = unsafe { libc::mallinfo2() };
        (info.uordblks + info.hblkhd) as u64
    }
    #[cfg(not(target_env = "gnu"))]
    resident()
}

/// Gives free memory back at once, and from fixed sizes on, so that no row profits from its predecessor.
pub fn settle_allocator() {
    #[cfg(target_env = "gnu")]
    // SAFETY: settings of the allocator; both may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 18);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 18);
    }
}

/// Keeps the calling thread on the `index`-th processor that this process may use.
fn pin(index: usize) {
    // SAFETY: a `cpu_set_t` is plain bits, and both calls are told its size.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of_val(&allowed);
        if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
            return;
        }
        let mut ours =
            (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &allowed));
        let Some(cpu) = ours.nth(index) else { return };
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut only);
        libc::sched_setaffinity(0, size, &only);
    }
}

/// Runs `work(thread)` on two threads again and again for so long; each call says how much it did.
///
/// Returns the sum of both rates, in millions a second. For a fixed time rather than a fixed amount, since a
/// contended line is not shared fairly.
pub fn together(length: Duration, work: impl Fn(usize) -> usize + Sync) -> f64 {
    let once = || {
        let start = Barrier::new(2);
        let over = AtomicBool::new(false);
        let run = |thread| {
            pin(thread);
            start.wait();
            let (begun, waited_before) = (Instant::now(), waited());
            let mut done = 0;
            while !over.load(Relaxed) {
                done += work(thread);
                if begun.elapsed() > length {
                    over.store(true, Relaxed);
                }
            }
            let took = begun.elapsed().as_secs_f64();
            let lost = (waited() - waited_before).as_secs_f64() / took;
            (done as f64 / took / 1e6, lost)
        };
        std::thread::scope(|scope| {
            let threads = [0, 1].map(|thread| scope.spawn(move || run(thread)));
            let results = threads.map(|thread| thread.join().unwrap());
            let rate = results.iter().map(|(rate, _)| rate).sum::<f64>();
            (rate, results[0].1.max(results[1].1))
        })
    };
    // Other processes must not decide: of up to four tries, the one that lost the least to them.
    let (mut rate, mut lost) = once();
    for _ in 0..3 {
        if lost < 0.02 {
            break;
        }
        let (again, lost_again) = once();
        if lost_again < lost {
            (rate, lost) = (again, lost_again);
        }
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(&[5.0]).max, 5.0);
    }
}
