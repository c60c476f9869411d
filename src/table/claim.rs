//! The protocol: how a key comes by a slot, and how it loses one, without a lock.
//!
//! # States of a slot
//!
//! | tag | state | meaning |
//! |---|---|---|
//! | vacant, g | any, g | free |
//! | tentative(K), g | 0, g | K's inserter has yet to make sure that K has no other slot |
//! | committed(K), g | 0, g | K's, not debited yet |
//! | committed(K), g | p, g | K's, used; free for others once `p` is idle |
//! | anything, g | 0, g + 1 | half-way: somebody is taking the slot, and the old owner's exchanges fail |
//!
//! # Transitions, each one compare-exchange
//!
//! 1. *Debit*: state (p, g) to (p', g), by a request that has seen committed(K), g.
//! 2. *Unseat*: state (p, g) to (0, g + 1), by a newcomer that found the slot free.
//! 3. *Move in*: tag to tentative(N), g + 1, by a newcomer that has unseated, or found it done.
//! 4. *Take back*: tag committed(K), g to committed(K), g + 1, by a request of K that found its slot half-way.
//! 5. *Commit*: tentative(K) to committed(K), by anyone of K who has scanned K's other slots after a fence.
//! 6. *Withdraw*: tentative(K) to vacant, by anyone of K who found another slot of K in that scan.
//!
//! # Why every debit goes to its own key, once
//!
//! A pair of slot and generation belongs to one key for as long as it lasts: a generation begins with 2, whose
//! state is 0, gets its one tag by 3 or 4, and ends with the next 2. So a tag and a state of the same generation
//! belong together *whenever each was read*, and a debit, which exchanges the state of a generation, cannot
//! touch another's. If the slot has changed hands since the tag was read, the state has too, and the exchange
//! fails. That is also why `Relaxed` is enough for tags and states: neither vouches for the other, the
//! generation in both does. A stale pair that disagrees is read again.
//!
//! # Why a key has one committed slot
//!
//! Suppose two slots, p and q, are committed to K. Whoever committed p had read or written its tentative tag,
//! passed a SeqCst fence X and scanned the rest of K's slots; likewise Y for q. Let X come first in the order of
//! all fences. What comes before X in coherence is seen after Y ([atomics.order] 4, the rule for two fences): the
//! scan after Y saw p's tentative tag, or a later one. Tentative: one of the two ranks lower, and withdraws the
//! other, or itself. Committed: q is withdrawn. Gone: p was withdrawn, or given up when idle. In no case was
//! q committed while p was; so one of the two did not happen. Without the fence, each scan could miss the
//! other's tag.
//!
//! # Named races
//!
//! - *Unseated while asking*: K's request finds its slot half-way and takes it back (4). It was idle, so nothing is
//!   lost. If the newcomer moves in first, K looks again, and comes as a newcomer itself.
//! - *Stopped half-way*: the next newcomer skips 2. The one that stopped fails at 3, and looks again.
//! - *Undebited*: between 5 and its first debit, K's slot is idle by its state. Taking it then would be lossless,
//!   but two newcomers could do that to each other for ever; so it is left alone, like a tentative one, until
//!   *patience* is over.
//! - *Stalled inserter*: a tentative or undebited slot whose owner has stopped holds nothing, so after
//!   [`PATIENCE`] more looks it is taken all the same, at most once in an operation.
//! - *Sixteen lives*: generations have four bits. A thread that sleeps through exactly 16 (or a multiple) changes
//!   of hands of one slot, between reading a state and exchanging it, and wakes to the bit-identical state, debits
//!   another key. For a used token bucket that means the same nanosecond of virtual time, too.
//!
//! # Progress
//!
//! Lock-free. An exchange fails only because another thread's succeeded. Debits, take-backs and commits bring their
//! operation to its end, or to its debit. Unseating, moving in and withdrawing can be undone by others only
//! through a commit of the same key, which ends that key's inserting, or by running out of a newcomer's patience,
//! which each operation does once. A thread that stops anywhere holds up nobody: its tentative slot is finished
//! by others of its key and taken by newcomers, its half-way slot taken back or moved into. What it can keep
//! from others is that one slot, for a few looks. So an interrupt handler may call everything here.

use core::ptr;

use super::OnFull;
use super::find::{Found, Lines};
use super::line::{Line, Place, Slot};
use super::slot::{State, Status, Tag, next};
use crate::algorithm::Algorithm;
use crate::sync::private::Cells;
use crate::sync::{AtomicWord, Ordering, fence, pause};
use crate::time::Timestamp;
use crate::word::Word;

/// Looks at an unsettled slot before it is taken from its inserter.
const PATIENCE: u32 = if cfg!(tidegate_loom) { 1 } else { 64 };

/// What remains of an operation's patience.
pub(super) struct Patience {
    looks: u32,
    has_taken: bool,
    /// Live keys that the operation has displaced.
    pub(super) evictions: u32,
    /// Under loom, how often the operation has looked again.
    #[cfg(tidegate_loom)]
    again: u32,
}

impl Patience {
    pub(super) const NEW: Self = Self {
        looks: 0,
        has_taken: false,
        evictions: 0,
        #[cfg(tidegate_loom)]
        again: 0,
    };

    /// Before looking again at what somebody else has changed, or has yet to make visible.
    #[inline]
    pub(super) fn pause(&mut self) {
        // Pausing, loom lets all others run to their end. So not at once: it would miss what happens if they
        // don't.
        #[cfg(tidegate_loom)]
        {
            self.again += 1;
            if self.again <= 2 {
                return;
            }
        }
        pause();
    }

    /// Whether an unsettled slot may be taken now; `None` if the operation has to do without.
    fn may_take(&mut self) -> Option<bool> {
        if self.has_taken {
            return None;
        }
        self.looks += 1;
        if self.looks <= PATIENCE {
            return Some(false);
        }
        self.has_taken = true;
        Some(true)
    }
}

/// How an attempt to come by a slot ended.
pub(super) enum Claim<'a, W: AtomicWord> {
    /// The key has this slot, not debited yet.
    Mine(Found<'a, W>),
    /// Something has changed for the key: look again.
    LookAgain,
    /// Every slot the key may have is live.
    Full,
}

/// A slot that could be taken, as it was seen.
#[derive(Clone, Copy)]
struct Victim<'a, W: AtomicWord> {
    slot: Slot<'a, W>,
    tag: Tag<W>,
    state: State<W>,
}

/// Slots in a line of the narrowest words.
const MOST_SLOTS: usize = 8;

/// Free slots in the first line with which a newcomer does not look at the second.
///
/// Three of four, so that lines fill evenly. With three of eight they do as well, and more keys are in their first
/// line than if it had to be five.
const ROOMY: u32 = 3;

/// A line as a newcomer saw it, with a bit for each slot in each of the masks.
struct View<'a, W: AtomicWord> {
    line: &'a Line<W>,
    seen: [(Tag<W>, State<W>); MOST_SLOTS],
    own: u32,
    free: u32,
    unsettled: u32,
    /// Whether tag and state of a slot were not read of one generation, so that it could not be judged.
    is_changing: bool,
}

impl<'a, W: AtomicWord> View<'a, W> {
    /// Of a line that was not looked at.
    #[inline]
    fn nothing(line: &'a Line<W>) -> Self {
        View {
            line,
            seen: [(Tag(W::ZERO), State(W::ZERO)); MOST_SLOTS],
            own: 0,
            free: 0,
            unsettled: 0,
            is_changing: false,
        }
    }

    /// One of the slots of a mask: the preferred, or the next after it.
    #[inline]
    fn any(&self, mask: u32, place: Place) -> Option<Victim<'a, W>> {
        if mask == 0 {
            return None;
        }
        let preferred = place.preferred() % W::SLOTS;
        // The mask twice, so that what is after the last is the first again.
        let ahead = (mask | mask << W::SLOTS) >> preferred;
        let index = (preferred + ahead.trailing_zeros() as usize) % W::SLOTS;
        let (tag, state) = self.seen[index];
        Some(Victim {
            slot: self.line.slot(index),
            tag,
            state,
        })
    }
}

impl<'a, A: Algorithm<Word: AtomicWord>> Lines<'a, A> {
    /// Tries to come by a slot for a key that has none: in the first line while that has room to spare, else in the
    /// line with more room; the preferred slot if it is free.
    #[cold]
    #[inline(never)]
    pub(super) fn claim(
        &self,
        place: Place,
        now: Timestamp,
        on_full: OnFull,
        patience: &mut Patience,
    ) -> Claim<'a, A::Word> {
        // The second line is not looked at if the first has room. Should a slot of the key's be there, `settle`
        // finds it.
        let Some(lines) = self.lines_of(place) else {
            return Claim::Full;
        };
        let first = self.view(lines[0], place, now);
        let has_room = first.free.count_ones() >= ROOMY.min(A::Word::SLOTS as u32 / 2 + 1);
        let second = if has_room || ptr::eq(lines[0], lines[1]) {
            View::nothing(lines[1])
        } else {
            self.view(lines[1], place, now)
        };
        let either = |mask: fn(&View<'a, A::Word>) -> u32| {
            let view = if mask(&first) != 0 { &first } else { &second };
            view.any(mask(view), place)
        };
        // Somebody of this key is at it, or done.
        if let Some(Victim { slot, tag, .. }) = either(|view| view.own) {
            if tag.status() == Status::Tentative {
                self.settle(place, slot, tag);
            }
            return Claim::LookAgain;
        }
        let roomier = if second.free.count_ones() > first.free.count_ones() {
            &second
        } else {
            &first
        };
        let mut victim = roomier.any(roomier.free, place);
        if victim.is_none() {
            let unsettled = either(|view| view.unsettled);
            if unsettled.is_some() || first.is_changing || second.is_changing {
                match patience.may_take() {
                    Some(true) => victim = unsettled,
                    Some(false) => return Claim::LookAgain,
                    // Not again: it counts as live.
                    None => {}
                }
            }
        }
        let (victim, is_live) = match victim {
            Some(victim) => (victim, false),
            None if on_full == OnFull::Evict => match self.nearest_to_idle(place, now) {
                Some(victim) => (victim, true),
                None => return Claim::LookAgain,
            },
            None => return Claim::Full,
        };
        let slot = victim.slot;
        let Some(mine) = move_in(place, victim) else {
            return Claim::LookAgain;
        };
        patience.evictions += u32::from(is_live);
        match self.settle(place, slot, mine) {
            Some(tag) => Claim::Mine((slot, tag)),
            None => Claim::LookAgain,
        }
    }

    /// Reads a line for a newcomer.
    #[inline]
    fn view(&self, line: &'a Line<A::Word>, place: Place, now: Timestamp) -> View<'a, A::Word> {
        let mut view = View::nothing(line);
        for (index, (slot, seen)) in line.slots().zip(&mut view.seen).enumerate() {
            let (tag, state) = (slot.tag(Ordering::Relaxed), slot.state());
            *seen = (tag, state);
            let is_own = tag.has_fingerprint(place.key()) && tag.status() != Status::Vacant;
            view.own |= u32::from(is_own) << index;
            match self.standing(tag, state, now) {
                Standing::Free => view.free |= 1 << index,
                Standing::Unsettled => view.unsettled |= 1 << index,
                Standing::Changing => {
                    slot.freshen(tag, state);
                    view.is_changing = true;
                }
                Standing::Live => {}
            }
        }
        view
    }

    #[inline(always)]
    fn standing(&self, tag: Tag<A::Word>, state: State<A::Word>, now: Timestamp) -> Standing {
        if state.generation() == next(tag.generation()) {
            // Half-way, its owner unseated.
            return Standing::Free;
        }
        if state.generation() != tag.generation() {
            return Standing::Changing;
        }
        // Whether anything would be lost is for the state to say, which is what `unseat` exchanges: the tag may
        // be an older one of the same generation, still tentative.
        if state.payload() == A::Word::ZERO {
            match tag.status() {
                Status::Vacant => Standing::Free,
                Status::Tentative | Status::Committed => Standing::Unsettled,
            }
        } else if self.algorithm.is_idle(state.payload(), now) {
            Standing::Free
        } else {
            Standing::Live
        }
    }

    /// Of the live slots the one that would be idle first.
    fn nearest_to_idle(&self, place: Place, now: Timestamp) -> Option<Victim<'a, A::Word>> {
        self.candidates(place)
            .map(|slot| {
                let (tag, state) = (slot.tag(Ordering::Relaxed), slot.state());
                Victim { slot, tag, state }
            })
            .filter(|victim| {
                victim.tag.status() == Status::Committed
                    && victim.tag.generation() == victim.state.generation()
            })
            .min_by_key(|victim| self.algorithm.idle_after(victim.state.payload(), now))
    }

    /// Brings a tentative slot of the key to its end: committed if it is the key's only one, else vacant. The
    /// committed tag, if it was committed here.
    fn settle(
        &self,
        place: Place,
        mine: Slot<'a, A::Word>,
        tag: Tag<A::Word>,
    ) -> Option<Tag<A::Word>> {
        'scan: loop {
            // SeqCst: pairs with this fence in every other thread that settles a slot of this key. Of two, the
            // later one's scan sees the earlier one's tag.
            fence(Ordering::SeqCst);
            let mut is_ahead = true;
            // Nearly always there is but one: mine.
            for other in self.holders(place) {
                if other == mine {
                    is_ahead = false;
                    continue;
                }
                let found = other.tag(Ordering::Relaxed);
                if !found.has_fingerprint(place.key()) {
                    continue;
                }
                match found.status() {
                    Status::Vacant => {}
                    Status::Tentative if !is_ahead => {
                        if !other.swap_tag(found, found.vacated(), Ordering::Relaxed) {
                            continue 'scan;
                        }
                    }
                    Status::Tentative | Status::Committed => {
                        // Whether or not this fails, the tag is no longer ours to commit.
                        mine.swap_tag(tag, tag.vacated(), Ordering::Relaxed);
                        return None;
                    }
                }
            }
            let committed = tag.with(tag.generation(), Status::Committed);
            return mine
                .swap_tag(tag, committed, Ordering::Relaxed)
                .then_some(committed);
        }
    }
}

/// What a newcomer may do with a slot.
enum Standing {
    /// Take it.
    Free,
    /// Take it when patience is over.
    Unsettled,
    /// Look again: tag and state were not read of one generation.
    Changing,
    /// Nothing: it is somebody's.
    Live,
}

/// Ends the generation of a slot, unless that is done already; false if tag and state are not of one generation,
/// or the state has changed.
pub(super) fn unseat<W: AtomicWord>(slot: Slot<'_, W>, tag: Tag<W>, state: State<W>) -> bool {
    let generation = next(tag.generation());
    state.generation() == generation
        || state.generation() == tag.generation()
            && slot
                .swap_state(state, State::new(W::ZERO, generation))
                .is_ok()
}

/// Unseats the owner and puts up the tentative tag, which is returned; `None` if somebody was faster.
fn move_in<W: AtomicWord>(place: Place, victim: Victim<'_, W>) -> Option<Tag<W>> {
    let Victim { slot, tag, state } = victim;
    if !unseat(slot, tag, state) {
        return None;
    }
    let mine = place
        .key::<W>()
        .with(next(tag.generation()), Status::Tentative);
    // Relaxed: the generation vouches for the state, the fence in `settle` for the order.
    slot.swap_tag(tag, mine, Ordering::Relaxed).then_some(mine)
}
