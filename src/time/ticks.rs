//! Extends a hardware counter that wraps after 32 bits.

use core::fmt;

use super::{TickRate, Timestamp};
use crate::strategy::Cell;
use crate::sync::AtomicWord;
#[allow(unused_imports, reason = "methods of the word")]
use crate::word::sealed::Arithmetic as _;

/// How fine the newest reading is remembered: the low bits of the counter that are left out.
const GRAIN: u32 = 24;

/// How late a reading may be.
const LATE: u32 = (1 << 31) - (1 << GRAIN);

/// Extends a `u32` tick counter that wraps to a [`Timestamp`] that does not: lock-free, for main loops, tasks and
/// interrupt handlers at once.
///
/// Most timers of microcontrollers have 32 bits: one that counts milliseconds wraps after 49 days, a cycle counter at
/// 64 MHz after 67 seconds. Keep a static `Ticks` beside the timer, and hand it every reading. `HZ` is how many ticks
/// the counter makes a second.
///
/// # What the caller owes
///
/// - At least one reading in half a range of the counter, 2^31 ticks. An interrupt when the timer passes zero and
///   half, or any periodic one, does that.
/// - A reading may be late: taken before another one and handed over after it, as when an interrupt comes in between.
///   It gets its own, earlier timestamp as long as it is late by less than 127/128 of half a range.
///
/// The first reading may be anything: a counter that starts above zero is extended from there.
///
/// # Range
///
/// 2^56 ticks: 35 years at 64 MHz, two million at 1 kHz. Then time starts again at zero. With a `u64` word, where the
/// target has 64-bit atomics, it does not.
///
/// # Cost
///
/// One load and a few additions, and one compare-exchange in 2^24 ticks. The conversion is that of [`TickRate`].
///
/// # Progress
///
/// Lock-free: an exchange fails only because another context's has succeeded (or spuriously). Interrupt handlers may
/// call it, having interrupted it or not.
///
/// # Memory ordering
///
/// `Relaxed`: see the argument in the source. Callers must not conclude anything about other memory.
///
/// ```
/// use tidegate::{Ticks, Timestamp};
///
/// static UPTIME: Ticks<1_000> = Ticks::new();
///
/// assert_eq!(UPTIME.timestamp(7), Timestamp::from_millis(7));
/// assert_eq!(UPTIME.timestamp(0x7fff_ffff), Timestamp::from_millis(0x7fff_ffff));
/// assert_eq!(UPTIME.timestamp(0xffff_fff0), Timestamp::from_millis(0xffff_fff0));
/// // 49 days after the start the counter has wrapped,
/// assert_eq!(UPTIME.timestamp(5), Timestamp::from_millis((1 << 32) + 5));
/// // and here is somebody who had read it before.
/// assert_eq!(UPTIME.timestamp(0xffff_ffff), Timestamp::from_millis(0xffff_ffff));
/// ```
///
/// # Why it is right
///
/// The word holds `s`, the extended time of the newest reading `N` without its low 24 bits; `F = s << 24` is what it
/// says, and `N - 2^24 < F <= N`. A reading `r` stands for the one instant `T` that is equal to it modulo 2^32 and
/// lies in the window of 2^32 ticks that begins at `F - (2^31 - 2^24)`. A reading that is ahead of the newest by at most
/// half a range is in it, `T <= N + 2^31 < F + 2^31 + 2^24`; so is one that is late by at most `2^31 - 2^24`, because
/// `F <= N`. Either way the result does not depend on whether another context advances `s` meanwhile.
///
/// `s` only advances: it is exchanged for a later one, or left. So the modification order of the word, which is all
/// that `Relaxed` promises, is the order of time, and after an exchange every context that has been told of it sees it
/// or a later one. A context that sees an older one errs only if it is half a range old. A lost exchange is tried
/// again until the word is as new as the reading, so that each call, and not only the winner's, counts towards the one
/// that is owed in half a range.
pub struct Ticks<const HZ: u32, W: AtomicWord = u32> {
    newest: Cell<W>,
}

impl<const HZ: u32, W: AtomicWord> Ticks<HZ, W> {
    const RATE: TickRate = TickRate::per_second(HZ);

    /// For a counter that is zero at the epoch, or was zero less than a range before the first reading.
    ///
    /// With `HZ` = 0 it does not compile.
    #[cfg(not(tidegate_loom))]
    pub const fn new() -> Self {
        const { assert!(HZ > 0, "a counter that stands still tells no time") };
        Self {
            newest: Cell::FRESH,
        }
    }

    /// For a counter that is zero at the epoch, or was zero less than a range before the first reading.
    #[cfg(tidegate_loom)]
    pub fn new() -> Self {
        Self {
            newest: Cell::new(W::ZERO),
        }
    }

    /// The instant of a reading.
    #[inline]
    pub fn timestamp(&self, reading: u32) -> Timestamp {
        Self::RATE.timestamp(self.extend(reading))
    }

    /// Ticks since the epoch, for this reading of the counter.
    #[inline]
    pub fn extend(&self, reading: u32) -> u64 {
        let extended = self.newest.update(|newest| {
            let ticks = extended(newest.widen() << GRAIN, reading);
            let next = W::truncate(ticks >> GRAIN);
            let apart = next.wrapping_sub(newest).widen();
            // Half of all differences are behind.
            let is_ahead = apart != 0 && apart >> (W::BITS - 1) == 0;
            Ok::<_, core::convert::Infallible>((is_ahead.then_some(next), ticks))
        });
        match extended {
            Ok(ticks) => ticks,
            Err(never) => match never {},
        }
    }
}

/// The instant that a reading stands for when the newest is known to be at most a grain after `floor`.
#[inline]
const fn extended(floor: u64, reading: u32) -> u64 {
    // From the beginning of the window, which is up to LATE before the floor.
    let into = reading.wrapping_sub(floor as u32).wrapping_add(LATE);
    let ticks = floor.wrapping_add(into as u64).wrapping_sub(LATE as u64);
    // Nothing is earlier than the epoch: then it is the first reading, and high.
    if floor < LATE as u64 && floor + (into as u64) < LATE as u64 {
        ticks.wrapping_add(1 << 32)
    } else {
        ticks
    }
}

impl<const HZ: u32, W: AtomicWord> Default for Ticks<HZ, W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const HZ: u32, W: AtomicWord> fmt::Debug for Ticks<HZ, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks")
            .field("hz", &HZ)
            .field("newest", &(self.newest.state().widen() << GRAIN))
            .finish()
    }
}

#[cfg(feature = "defmt")]
impl<const HZ: u32, W: AtomicWord> defmt::Format for Ticks<HZ, W> {
    fn format(&self, f: defmt::Formatter<'_>) {
        let newest = self.newest.state().widen() << GRAIN;
        defmt::write!(f, "Ticks {{ hz: {}, newest: {} }}", HZ, newest);
    }
}
