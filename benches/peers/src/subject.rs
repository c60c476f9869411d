//! What a row has to be able to do, and the loops that time it.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Keys between two steps of the clock; every sequence of keys is a multiple of it.
pub const CHUNK: usize = 1024;

/// What a limiter is configured for.
#[derive(Clone, Copy, PartialEq)]
pub enum Load {
    /// Every check is admitted, and recorded.
    Plenty,
    /// One a day: a key is denied from its second check on.
    Spent,
    /// Ten a day: a key that was checked stays live for hours.
    Lasting,
    /// A key that was checked is idle again after 2 ms.
    Brief,
}

impl Load {
    /// Nanoseconds a permit, and the most permits.
    pub fn gcra(self) -> (u64, u64) {
        const DAY: u64 = 86_400_000_000_000;
        match self {
            Self::Plenty => (1, u64::from(u32::MAX)),
            Self::Spent => (DAY, 1),
            Self::Lasting => (DAY / 10, 10),
            Self::Brief => (2_000_000, 500),
        }
    }
}

#[repr(align(128))]
struct OwnLine(AtomicU64);

static NOW: OwnLine = OwnLine(AtomicU64::new(1_000_000_000_000));

/// The clock of every row that lets its caller choose one; it stands still but for the next two.
#[inline(always)]
pub fn now() -> u64 {
    NOW.0.load(Relaxed)
}

/// Sets the clock.
pub fn set_clock(nanos: u64) {
    NOW.0.store(nanos, Relaxed);
}

/// Moves the clock on.
pub fn advance(nanos: u64) {
    set_clock(now() + nanos);
}

/// A limiter with keys.
///
/// The loops are provided methods, so that each limiter gets its own with `check` inlined into it, and only
/// the call of a whole loop is dynamic.
pub trait Keyed<K>: Send + Sync {
    /// Whether a permit for the key was there to take.
    fn check(&self, key: &K) -> bool;

    /// Decides at most 32 keys together, and returns how many passed; `None` where there is no such call.
    fn check_batch(&self, _keys: &[K]) -> Option<usize> {
        None
    }

    /// Drops idle keys and gives memory back; false where there is no such call.
    fn sweep(&self) -> bool {
        false
    }

    /// One check after the other, which an out-of-order processor overlaps.
    fn each(&self, keys: &[K]) -> usize {
        keys.iter().filter(|key| black_box(self.check(key))).count()
    }

    /// Each check complete before the next one begins, as between other work.
    fn isolated(&self, keys: &[K]) -> usize {
        keys.iter()
            .filter(|key| {
                let passed = black_box(self.check(key));
                fence();
                passed
            })
            .count()
    }

    /// In batches of `size`.
    fn batches(&self, keys: &[K], size: usize) -> Option<usize> {
        keys.chunks(size).map(|keys| self.check_batch(keys)).sum()
    }
}

/// Lets no later instruction start before all earlier ones are complete.
#[inline(always)]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `lfence` is part of SSE2, which every x86-64 processor has.
    unsafe {
        core::arch::x86_64::_mm_lfence()
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: two barriers; they read and write no register or memory.
    unsafe {
        core::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("say here how to wait for every earlier instruction");
}

/// Asks for the line of `place`.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that cannot fault, on an address that is valid anyway.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast())
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint that cannot fault, on an address that is valid anyway.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, readonly, preserves_flags))
    }
}
