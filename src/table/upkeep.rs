//! What visits every slot: counting, forgetting, other limits.

use super::claim::unseat;
use super::find::Lines;
use super::line::Line;
#[cfg(tidegate_loom)]
use super::line::Place;
use super::slot::{State, Status, Tag, next};
use crate::algorithm::Algorithm;
use crate::sync::{AtomicWord, Ordering};
use crate::time::Timestamp;
use crate::word::Word;

impl<A: Algorithm<Word: AtomicWord>> Lines<'_, A> {
    /// Translates every state for an algorithm that replaces this one. For a caller who is alone.
    pub(super) fn adopt(&self, new: &A, now: Timestamp) {
        for slot in self.lines.iter().flat_map(Line::slots) {
            let (tag, state) = (slot.tag(Ordering::Relaxed), slot.state());
            if tag.status() == Status::Committed && tag.generation() == state.generation() {
                let payload = new.adopt(self.algorithm, state.payload(), now);
                // Alone, so it cannot fail.
                let _ = slot.swap_state(state, State::new(payload, state.generation()));
            }
        }
    }

    /// Copies what is known of every key that is not idle into fresh lines, as many, under other limits.
    ///
    /// Others may be deciding meanwhile. Generations that agree say that tag and state belong together, whenever each
    /// was read; they are copied too. A key that changes its slot meanwhile is seen in both, in one or in none.
    #[cfg(feature = "alloc")]
    pub(super) fn adopt_into(&self, lines: &[Line<A::Word>], new: &A, now: Timestamp) {
        let old = self.lines.iter().flat_map(Line::slots);
        for (slot, copy) in old.zip(lines.iter().flat_map(Line::slots)) {
            let (tag, state) = (slot.tag(Ordering::Relaxed), slot.state());
            if tag.status() == Status::Committed
                && tag.generation() == state.generation()
                && !self.algorithm.is_idle(state.payload(), now)
            {
                let payload = new.adopt(self.algorithm, state.payload(), now);
                // Nobody else has the copy yet, and its words are zero, so neither exchange can fail.
                let _ = copy.swap_state(
                    State(A::Word::ZERO),
                    State::new(payload, state.generation()),
                );
                copy.swap_tag(Tag(A::Word::ZERO), tag, Ordering::Relaxed);
            }
        }
    }

    /// Empties every slot whose state says so.
    pub(super) fn vacate(&self, mut whether: impl FnMut(A::Word) -> bool) {
        for slot in self.lines.iter().flat_map(Line::slots) {
            loop {
                let (tag, state) = (slot.tag(Ordering::Relaxed), slot.state());
                if tag.status() != Status::Committed
                    || tag.generation() != state.generation()
                    || !whether(state.payload())
                {
                    break;
                }
                if unseat(slot, tag, state) {
                    let vacant = Tag(A::Word::ZERO).with(next(tag.generation()), Status::Vacant);
                    slot.swap_tag(tag, vacant, Ordering::Relaxed);
                    break;
                }
            }
        }
    }

    #[cfg(tidegate_loom)]
    pub(super) fn committed(&self, place: Place) -> u32 {
        self.candidates(place)
            .map(|slot| u32::from(slot.tag(Ordering::Relaxed).is(place.key())))
            .sum()
    }

    /// How many slots are committed to a key that has used something.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        self.lines
            .iter()
            .flat_map(Line::slots)
            .filter(|slot| {
                let (tag, state) = (slot.tag(Ordering::Relaxed), slot.state());
                tag.status() == Status::Committed
                    && tag.generation() == state.generation()
                    && !self.algorithm.is_idle(state.payload(), now)
            })
            .count()
    }
}
