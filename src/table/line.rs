//! The layout: a line of slots, and where in the table a key may be.

use super::slot::{State, Tag};
use crate::sync::private::Cells;
use crate::sync::{AtomicWord, Ordering};
use crate::word::Word;

/// A cache line of slots: four of `u64`, eight of `u32`. Tags first, so that they can be compared together.
#[repr(C, align(64))]
pub struct Line<W: Cells> {
    tags: W::Lane,
    states: W::Lane,
}

impl<W: AtomicWord> Line<W> {
    /// All vacant.
    #[cfg(not(tidegate_loom))]
    pub(super) const ZERO: Self = Self {
        tags: W::ZERO_LANE,
        states: W::ZERO_LANE,
    };

    #[cfg(tidegate_loom)]
    pub(super) fn zero() -> Self {
        Self {
            tags: W::lane(),
            states: W::lane(),
        }
    }

    #[inline]
    pub(super) fn slot(&self, index: usize) -> Slot<'_, W> {
        // `% SLOTS` is a mask, and saves the two bounds checks.
        let index = index % W::SLOTS;
        Slot {
            tag: &self.tags.as_ref()[index],
            state: &self.states.as_ref()[index],
        }
    }

    /// Asks for the line without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        super::x86::prefetch(self);
        // A load whose result nobody waits for is the next best thing.
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        core::hint::black_box(self.slot(0).tag(Ordering::Relaxed));
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot<'_, W>> {
        (0..W::SLOTS).map(|index| self.slot(index))
    }

    /// A bit for each slot that is committed to the key, without a branch on any.
    #[inline(always)]
    pub(super) fn committed_to(&self, key: Tag<W>) -> u32 {
        let mut found = 0;
        for (index, tag) in self.tags.as_ref().iter().enumerate() {
            let tag = Tag(W::load(tag, Ordering::Relaxed));
            found |= u32::from(tag.is(key)) << index;
        }
        found
    }

    /// A bit for each slot that has the key's fingerprint, whatever its status.
    #[inline(always)]
    pub(super) fn holders(&self, key: Tag<W>) -> u32 {
        let mut found = 0;
        for (index, tag) in self.tags.as_ref().iter().enumerate() {
            let tag = Tag(W::load(tag, Ordering::Relaxed));
            found |= u32::from(tag.has_fingerprint(key)) << index;
        }
        found
    }

    /// As [`committed_to`](Self::committed_to) of two lines, those of the second above those of the first, as a hint: now and then, but not for ever
    /// without the table being changed, wrong on either side; and what is above the second line's means nothing.
    /// Fewer instructions, where the processor can compare several tags at once.
    #[inline(always)]
    pub(super) fn likely_committed_to(lines: [&Self; 2], key: Tag<W>) -> u32 {
        #[cfg(all(
            target_arch = "x86_64",
            target_feature = "sse2",
            not(tidegate_loom),
            not(miri)
        ))]
        {
            let tags = lines.map(|line| line.tags.as_ref());
            let word = key.0.widen();
            match W::SLOTS {
                4 => return super::x86::likely_wide(tags, word),
                8 => {
                    let mask = Tag::<W>::IDENTITY as u32;
                    return super::x86::likely_narrow(tags, word as u32, mask);
                }
                _ => {}
            }
        }
        let [first, second] = lines.map(|line| line.committed_to(key));
        first | second << W::SLOTS
    }
}

/// The two cells of a slot.
pub(super) struct Slot<'a, W: Cells> {
    tag: &'a W::Atomic,
    state: &'a W::Atomic,
}

impl<W: Cells> Clone for Slot<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Cells> Copy for Slot<'_, W> {}

impl<W: Cells> PartialEq for Slot<'_, W> {
    /// Whether it is the same place.
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.tag, other.tag)
    }
}

impl<W: AtomicWord> Slot<'_, W> {
    #[inline]
    pub(super) fn tag(self, order: Ordering) -> Tag<W> {
        Tag(W::load(self.tag, order))
    }

    /// Makes sure that the next look sees the newest tag and state, or newer still: an exchange always compares
    /// with the newest.
    pub(super) fn freshen(self, tag: Tag<W>, state: State<W>) {
        self.swap_tag(tag, tag, Ordering::Relaxed);
        // Whether it was the newest matters to nobody.
        let _ = self.swap_state(state, state);
    }

    #[inline]
    pub(super) fn state(self) -> State<W> {
        State(W::load(self.state, Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn swap_tag(self, from: Tag<W>, to: Tag<W>, order: Ordering) -> bool {
        W::compare_exchange(self.tag, from.0, to.0, order, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(super) fn swap_state(self, from: State<W>, to: State<W>) -> Result<(), State<W>> {
        W::compare_exchange(
            self.state,
            from.0,
            to.0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        )
        .map(drop)
        .map_err(State)
    }
}

/// How far the second line of a key may be from its first.
const NEAR: usize = 32;

/// Where a key may be: two lines, and the slot that is tried first. Two words, so that it stays in registers.
#[derive(Clone, Copy)]
pub(super) struct Place {
    hash: u64,
    first: usize,
}

impl Place {
    /// A place to be overwritten.
    pub(super) const NOWHERE: Self = Self { hash: 0, first: 0 };

    /// `lines` is not zero, and below 2^32.
    #[inline]
    pub(super) fn of(hash: u64, lines: usize) -> Self {
        // A high product spreads the lower 32 bits evenly over the lines.
        let first = ((u64::from(hash as u32) * lines as u64) >> 32) as usize;
        Self { hash, first }
    }

    #[inline]
    pub(super) fn key<W: Word>(self) -> Tag<W> {
        Tag::of(self.hash)
    }

    #[inline]
    pub(super) fn first(self) -> usize {
        self.first
    }

    /// The other line, one of the 32 that follow the first; the same one if there is but one.
    ///
    /// Near, and so on the same page of memory but for the last few: asking for it costs no walk through the
    /// page tables. As to room it is nearly as good as any other.
    #[inline]
    pub(super) fn second(self, lines: usize) -> usize {
        // Bits that the first line does not depend on.
        let bits = (self.hash >> 32) as usize % NEAR;
        let second = if lines > NEAR {
            self.first + 1 + bits
        } else {
            self.first + 1 + bits * (lines - 1) / NEAR
        };
        if second < lines {
            second
        } else {
            second - lines
        }
    }

    /// The slot of a line that is tried first: by the lowest bits, which are not in the fingerprint, and on which the
    /// line hardly depends.
    #[inline]
    pub(super) fn preferred(self) -> usize {
        self.hash as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another line, within the table, and in the end every one of those that are near.
    #[test]
    fn second_lines() {
        for lines in [1, 2, 3, 31, 32, 33, 34, 100, 1_000_003] {
            let mut distances = [false; NEAR + 1];
            for bits in 0..100_000_u64 {
                let place = Place::of(bits.wrapping_mul(0x9e37_79b9_7f4a_7c15), lines);
                let (first, second) = (place.first(), place.second(lines));
                assert!(first < lines && second < lines);
                assert_eq!(first == second, lines == 1);
                distances[(second + lines - first) % lines] = true;
            }
            let near = (lines - 1).min(NEAR);
            assert!(
                distances[1..=near].iter().all(|&seen| seen),
                "{lines} lines"
            );
            assert!(!distances[near + 1..].iter().any(|&seen| seen));
        }
    }

    /// Whatever the processor compares tags with, it finds what comparing them one by one does: nothing else would
    /// notice if it did not, but that decisions took longer.
    #[cfg(not(tidegate_loom))]
    #[test]
    fn likely_slots() {
        use crate::table::slot::Status;

        fn check<W: AtomicWord>() {
            let slots = W::SLOTS;
            let key = Tag::<W>::of(0x0123_4567_89ab_cdef);
            // The same fingerprint but for its highest bit, its lowest of those that are surely compared, and none.
            let others = [
                Tag::of(0x8123_4567_89ab_cdef),
                Tag::of(0x0123_4527_89ab_cdef),
                Tag(W::ZERO),
            ];
            for wanted in 0..2 * slots {
                for generation in 0..16 {
                    for other in others {
                        let lines = [Line::<W>::ZERO, Line::ZERO];
                        for index in 0..2 * slots {
                            let slot = lines[index / slots].slot(index);
                            let tag = if index == wanted { key } else { other };
                            let tag = tag.with(generation, Status::Committed);
                            assert!(slot.swap_tag(Tag(W::ZERO), tag, Ordering::Relaxed));
                        }
                        let found = Line::likely_committed_to([&lines[0], &lines[1]], key);
                        assert_eq!(found & ((1 << (2 * slots)) - 1), 1 << wanted);
                        let [first, second] = lines.each_ref().map(|line| line.committed_to(key));
                        assert_eq!(first | second << slots, 1 << wanted);
                    }
                }
            }
        }
        check::<u64>();
        check::<u32>();
    }
}
