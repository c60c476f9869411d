//! The bit fields of a log's words.
//!
//! ```text
//!         +--------+----------------------+-----+
//! a place | weight | time                 | lap |
//!         +--------+----------------------+-----+
//!         +---------+------+--------+-----------+
//! a head  | version | task | lap    | index     |
//!         +---------+------+--------+-----------+
//! ```
//!
//! The time has all the bits that the others leave, and so has the version.

use crate::algorithm::bits;
use crate::word::{GENERATION_BITS, Word};

const LAP_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// Bits of an index in a head: 9 in a narrow word, 16 in a wide one.
pub(super) const fn index_bits(word_bits: u32) -> u32 {
    if word_bits == 64 { 16 } else { 9 }
}

/// The most places: one number less than an index has, since a task is an index, none, or to clear all.
pub(super) const fn places_max(word_bits: u32) -> u64 {
    (1 << index_bits(word_bits)) - 2
}

/// Bits that a place has for the time, beside a lap and a weight of up to `capacity`.
pub(super) const fn time_bits(capacity: usize, word_bits: u32) -> u32 {
    word_bits - GENERATION_BITS - bits(capacity as u64)
}

/// A place as it was seen. The word of zeros is void.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot<W>(pub(super) W);

impl<W: Word> Slot<W> {
    /// Taken at `time`, together with `weight - 1` places after it; `time` is below `2^bits`.
    #[inline]
    pub(super) fn taken(lap: u64, weight: u64, time: u64, bits: u32) -> Self {
        let payload = weight << bits | time;
        Self(W::truncate(payload << GENERATION_BITS | lap & LAP_MASK))
    }

    /// Given back. What tells it from other void words of the same place is the version.
    #[inline]
    pub(super) fn void(version: u64, bits: u32) -> Self {
        Self::taken(0, 0, version & ((1 << bits) - 1), bits)
    }

    /// How many places were taken at once; 0 of a void one.
    #[inline]
    pub(super) fn weight(self, bits: u32) -> u64 {
        self.0.payload() >> bits
    }

    #[inline]
    pub(super) fn is_void(self, bits: u32) -> bool {
        self.weight(bits) == 0
    }

    #[inline]
    pub(super) fn time(self, bits: u32) -> u64 {
        self.0.payload() & ((1 << bits) - 1)
    }

    #[inline]
    pub(super) fn lap(self) -> u64 {
        self.0.widen() & LAP_MASK
    }

    /// Whether it has been taken in this lap already.
    #[inline]
    pub(super) fn is_of(self, lap: u64, bits: u32) -> bool {
        self.lap() == lap & LAP_MASK && !self.is_void(bits)
    }
}

/// What everybody has to help with before anything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    None,
    /// Give back the place of this index: move all older ones up by one.
    Remove(usize),
    /// Give back all.
    Clear,
}

/// A head as it was seen. The word of zeros is the first place of lap 0, and no task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<W>(pub(super) W);

impl<W: Word> Head<W> {
    const INDEX: u32 = index_bits(W::BITS);
    const MASK: u64 = (1 << Self::INDEX) - 1;
    const TASK_AT: u32 = Self::INDEX + GENERATION_BITS;
    const VERSION_AT: u32 = Self::TASK_AT + Self::INDEX;

    /// The place that is taken next, the oldest.
    #[inline]
    pub(super) fn index(self) -> usize {
        (self.0.widen() & Self::MASK) as usize
    }

    /// How often the ring has been filled.
    #[inline]
    pub(super) fn lap(self) -> u64 {
        self.0.widen() >> Self::INDEX & LAP_MASK
    }

    /// The lap in which the place of this index is taken next.
    #[inline]
    pub(super) fn lap_at(self, index: usize) -> u64 {
        self.lap() + u64::from(index < self.index())
    }

    #[inline]
    pub(super) fn is_at_rest(self) -> bool {
        self.0.widen() & (Self::MASK << Self::TASK_AT) == 0
    }

    #[inline]
    pub(super) fn task(self) -> Task {
        match self.0.widen() >> Self::TASK_AT & Self::MASK {
            0 => Task::None,
            all if all == Self::MASK => Task::Clear,
            after => Task::Remove(after as usize - 1),
        }
    }

    #[inline]
    pub(super) fn version(self) -> u64 {
        self.0.widen() >> Self::VERSION_AT
    }

    /// The next version, at this place.
    #[inline]
    fn next(self, index: u64, lap: u64, task: u64) -> Self {
        let version = self.version() + 1;
        Self(W::truncate(
            version << Self::VERSION_AT
                | task << Self::TASK_AT
                | (lap & LAP_MASK) << Self::INDEX
                | index,
        ))
    }

    /// The same place, and another task.
    pub(super) fn with(self, task: Task) -> Self {
        let task = match task {
            Task::None => 0,
            Task::Clear => Self::MASK,
            Task::Remove(index) => index as u64 + 1,
        };
        self.next(self.index() as u64, self.lap(), task)
    }

    /// So many places on, at most once around; no task.
    #[inline]
    pub(super) fn advanced(self, by: u64, places: u64) -> Self {
        let index = self.index() as u64 + by;
        if index < places {
            self.next(index, self.lap(), 0)
        } else {
            self.next(index - places, self.lap() + 1, 0)
        }
    }
}
