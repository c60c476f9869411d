//! Extends a hardware counter that wraps after 32 bits.

use core::fmt;

use super::{TickRate, Timestamp};
use crate::sync::Register;

/// How fine the newest reading is remembered: the low bits of the counter that are left out.
const GRAIN: u32 = 24;

/// How far before the remembered instant the window of possible instants begins: a quarter of the counter's range.
const BACK: u32 = 1 << 30;

/// Extends a `u32` tick counter that wraps to a [`Timestamp`] that does not: for main loops, tasks and interrupt handlers
/// at once, on every core.
///
/// Most timers of microcontrollers have 32 bits: one that counts milliseconds wraps after 49 days, a cycle counter at
/// 64 MHz after 67 seconds. Keep a static `Ticks` beside the timer, and hand it every reading. `HZ` is how many ticks
/// the counter makes a second.
///
/// # What the caller owes
///
/// - At least one reading in half a range of the counter, 2^31 ticks. An interrupt when the timer passes zero and
///   half, or any periodic one, does that.
/// - Less than 2^30 - 2^24 ticks, nearly a quarter of the range, from taking a reading until the call returns. A reading
///   may be late, taken before another one and handed over after it, as when an interrupt comes in between. It gets its
///   own, earlier timestamp.
///
/// The first reading may be anything: a counter that starts above zero is extended from there.
///
/// # Range
///
/// 2^56 ticks: 35 years at 64 MHz, two million at 1 kHz. Then time starts again at zero.
///
/// # Cost and progress
///
/// One load and a few additions, and one store in 2^24 ticks: wait-free, without a compare-exchange, so it needs no
/// feature on any core. Interrupt handlers may call it, having interrupted it or not. The conversion is that of
/// [`TickRate`].
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
// Why it is right
//
// The word holds a time without its low 24 bits; let F be what it says, shifted back. A reading stands for the one
// instant that is equal to it modulo 2^32 and lies in the window of 2^32 ticks that begins a quarter of a range, Q = 2^30,
// before F. So the result is right if T, the instant of the reading, has F - Q <= T < F + 3Q, whoever has written F.
//
// Let L be the longest that any call is late, from its reading to its return, and G = 2^24.
//
// - F <= T + L: every word is the floor of a reading that was taken before this call loaded it, at most L after T.
//   With L < Q, T is not before the window.
// - T - F <= 2Q + L + G: by contract there is a call that returned before this one's load and had a reading N with
//   T - N <= 2Q. It left the word at its own floor or later, N - G at least. Whatever was stored after that was stored
//   by calls that had not returned when N was read, so their readings are at most L older, and F >= N - L - G. With
//   L < Q - G, T is in the window.
//
// So a store may undo another context's newer one, and does no harm: it takes the word back by L at most. This is why
// the window is not symmetric, and why no exchange is needed. The order of modifications of one word and what a call
// that has returned is known to have left in it is all that this uses, which Relaxed gives: to one core by program
// order, to another as soon as it learns of that call at all.
pub struct Ticks<const HZ: u32> {
    newest: Register,
}

impl<const HZ: u32> Ticks<HZ> {
    const RATE: TickRate = TickRate::per_second(HZ);

    /// For a counter that is zero at the epoch, or was zero less than a range before the first reading.
    ///
    /// With `HZ` = 0 it does not compile.
    #[cfg(not(tidegate_loom))]
    pub const fn new() -> Self {
        const { assert!(HZ > 0, "a counter that stands still tells no time") };
        Self {
            newest: Register::new(0),
        }
    }

    /// For a counter that is zero at the epoch, or was zero less than a range before the first reading.
    #[cfg(tidegate_loom)]
    pub fn new() -> Self {
        Self {
            newest: Register::new(0),
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
        let newest = self.newest.get();
        let ticks = extended(u64::from(newest) << GRAIN, reading);
        let next = (ticks >> GRAIN) as u32;
        // Half of all differences are behind.
        if (next.wrapping_sub(newest) as i32) > 0 {
            self.newest.set(next);
        }
        ticks
    }
}

/// The instant that a reading stands for, in the window around `floor`.
#[inline]
const fn extended(floor: u64, reading: u32) -> u64 {
    let into = reading.wrapping_sub(floor as u32).wrapping_add(BACK);
    let ticks = (floor + into as u64).wrapping_sub(BACK as u64);
    // Nothing is earlier than the epoch: then it is the first reading, and high.
    if ticks > u64::MAX >> 1 {
        ticks.wrapping_add(1 << 32)
    } else {
        ticks
    }
}

impl<const HZ: u32> Default for Ticks<HZ> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const HZ: u32> fmt::Debug for Ticks<HZ> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks")
            .field("hz", &HZ)
            .field("newest", &(u64::from(self.newest.get()) << GRAIN))
            .finish()
    }
}

#[cfg(feature = "defmt")]
impl<const HZ: u32> defmt::Format for Ticks<HZ> {
    fn format(&self, f: defmt::Formatter<'_>) {
        let newest = u64::from(self.newest.get()) << GRAIN;
        defmt::write!(f, "Ticks {{ hz: {}, newest: {} }}", HZ, newest);
    }
}
