//! The way of a known key: where its slot is, and its debit.

use core::hint::select_unpredictable;

use super::line::{Line, Place, Slot};
use super::slot::{State, Status, Tag, next};
use crate::algorithm::Algorithm;
use crate::sync::private::Cells;
use crate::sync::{AtomicWord, Ordering};
use crate::word::Word;

/// Lines that a processor's own cache holds beside what else it needs: half a megabyte. Microcontrollers have no use for
/// comparing tags without a branch: there it is always the preferred slot first.
const CACHED: usize = if usize::BITS == 64 { 1 << 13 } else { 0 };

/// The lines, and what the protocol needs to know beside them.
pub(super) struct Lines<'a, A: Algorithm<Word: AtomicWord>> {
    pub(super) lines: &'a [Line<A::Word>],
    /// Tells idle states.
    pub(super) algorithm: &'a A,
}

/// A slot that is committed to the key, and its tag as it was seen.
pub(super) type Found<'a, W> = (Slot<'a, W>, Tag<W>);

impl<'a, A: Algorithm<Word: AtomicWord>> Lines<'a, A> {
    /// The key's committed slot, for a decision that is in a hurry: now and then it is not found though it is there.
    ///
    /// All tags of both lines are compared without a branch. If the table is larger than a cache, the preferred
    /// slot is tried first, by a branch: where that is guessed right, the exchange that follows does not wait for
    /// the tags, and so does not keep the processor from asking for the next key's line.
    #[inline(always)]
    pub(super) fn find(&self, place: Place) -> Option<Found<'a, A::Word>> {
        let lines = self.lines_of(place)?;
        if self.lines.len() > CACHED {
            lines[1].prefetch();
            let slot = lines[0].slot(place.preferred());
            let tag = slot.tag(Ordering::Relaxed);
            if tag.is(place.key()) {
                return Some((slot, tag));
            }
        }
        self.find_in(lines, place)
    }

    /// The same, in lines that are in the cache, or on their way.
    #[inline(always)]
    pub(super) fn find_in(
        &self,
        lines: [&'a Line<A::Word>; 2],
        place: Place,
    ) -> Option<Found<'a, A::Word>> {
        found(lines, Line::likely_committed_to(lines, place.key()), place)
    }

    /// The key's committed slot.
    pub(super) fn find_surely(&self, place: Place) -> Option<Found<'a, A::Word>> {
        let lines = self.lines_of(place)?;
        let [first, second] = lines.map(|line| line.committed_to(place.key()));
        found(lines, first | second << A::Word::SLOTS, place)
    }

    /// Both lines of a place. They are always there, which the compiler does not know: so it needs no way to panic.
    #[inline(always)]
    pub(super) fn lines_of(&self, place: Place) -> Option<[&'a Line<A::Word>; 2]> {
        let first = self.lines.get(place.first())?;
        let second = self.lines.get(place.second(self.lines.len()))?;
        Some([first, second])
    }

    /// Steps the state of a slot that was found; `None` if the slot has moved on, so look again.
    ///
    /// `step` returns the new state and the answer, or the answer alone where nothing is to be stored.
    #[inline(always)]
    pub(super) fn decide<T>(
        &self,
        (slot, tag): Found<'a, A::Word>,
        mut step: impl FnMut(A::Word) -> (Option<A::Word>, T),
    ) -> Option<T> {
        let mut state = slot.state();
        loop {
            if state.generation() != tag.generation() {
                return None;
            }
            let (stepped, answer) = step(state.payload());
            let Some(stepped) = stepped else {
                return Some(answer);
            };
            match slot.swap_state(state, State::new(stepped, state.generation())) {
                Ok(()) => return Some(answer),
                Err(current) => state = current,
            }
        }
    }

    /// The same, and takes back a slot that a newcomer is taking.
    pub(super) fn decide_surely<T>(
        &self,
        (slot, mut tag): Found<'a, A::Word>,
        mut step: impl FnMut(A::Word) -> (Option<A::Word>, T),
    ) -> Option<T> {
        loop {
            if let Some(answer) = self.decide((slot, tag), &mut step) {
                return Some(answer);
            }
            tag = take_back(slot, tag, slot.state())?;
        }
    }

    /// The slots a key may have, in the order that ranks them, without the line twice where there is but one.
    pub(super) fn candidates(&self, place: Place) -> impl Iterator<Item = Slot<'a, A::Word>> {
        let lines = self.lines_of(place);
        let [first, second] = match lines {
            Some([first, second]) if core::ptr::eq(first, second) => [Some(first), None],
            Some(lines) => lines.map(Some),
            None => [None, None],
        };
        let slots = |line: &'a Line<A::Word>| line.slots();
        let second = second.into_iter().flat_map(slots);
        first.into_iter().flat_map(slots).chain(second)
    }

    /// Those of the same whose tag has the key's fingerprint, with any status.
    pub(super) fn holders(&self, place: Place) -> impl Iterator<Item = Slot<'a, A::Word>> {
        let lines = self.lines_of(place);
        let mut bits = lines.map_or(0, |[first, second]| {
            let holders = |line: &Line<A::Word>| line.holders(place.key());
            let is_one = core::ptr::eq(first, second);
            let second = if is_one { 0 } else { holders(second) };
            holders(first) | second << A::Word::SLOTS
        });
        core::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let index = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let [first, second] = lines?;
            let is_in_first = index < A::Word::SLOTS;
            Some(if is_in_first { first } else { second }.slot(index))
        })
    }

    /// The state of a slot that was found; of one that is changing hands, the fresh one, for then it was idle.
    #[inline]
    pub(super) fn peek(&self, (slot, tag): Found<'a, A::Word>) -> A::Word {
        let state = slot.state();
        if state.generation() == tag.generation() {
            state.payload()
        } else {
            A::Word::ZERO
        }
    }
}

/// The slot of the lowest bit, if it still is the key's.
#[inline(always)]
pub(super) fn found<'a, W: AtomicWord>(
    lines: [&'a Line<W>; 2],
    bits: u32,
    place: Place,
) -> Option<Found<'a, W>> {
    // Without a bit it is some slot or other, whose tag is not the key's.
    let index = bits.trailing_zeros() as usize;
    let line = select_unpredictable(index < W::SLOTS, lines[0], lines[1]);
    let slot = line.slot(index);
    let tag = slot.tag(Ordering::Relaxed);
    tag.is(place.key()).then_some((slot, tag))
}

/// Follows a state that has moved on from under its tag; `None` if the tag has moved on, too.
#[cold]
#[inline(never)]
fn take_back<W: AtomicWord>(slot: Slot<'_, W>, tag: Tag<W>, state: State<W>) -> Option<Tag<W>> {
    let taken = tag.with(next(tag.generation()), Status::Committed);
    if state.generation() == taken.generation() {
        return slot
            .swap_tag(tag, taken, Ordering::Relaxed)
            .then_some(taken);
    }
    slot.freshen(tag, state);
    None
}
