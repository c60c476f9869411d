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

use core::hint::select_unpredictable;

use super::OnFull;
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

/// The lines, and what the protocol needs to know beside them.
pub(super) struct Lines<'a, A: Algorithm<Word: AtomicWord>> {
    pub(super) lines: &'a [Line<A::Word>],
    /// Tells idle states.
    pub(super) algorithm: &'a A,
}

/// A slot that is committed to the key, and its tag as it was seen.
pub(super) type Found<'a, W> = (Slot<'a, W>, Tag<W>);

/// A slot that could be taken, as it was seen.
struct Victim<'a, W: AtomicWord> {
    slot: Slot<'a, W>,
    tag: Tag<W>,
    state: State<W>,
}

/// What a newcomer can choose from.
struct Choice<'a, W: AtomicWord> {
    /// A slot that is the key's already, committed or tentative.
    own: Option<Found<'a, W>>,
    free: Option<Victim<'a, W>>,
    /// To be taken when patience is over.
    unsettled: Option<Victim<'a, W>>,
    /// Whether a slot could not be judged.
    is_changing: bool,
}

impl<'a, A: Algorithm<Word: AtomicWord>> Lines<'a, A> {
    /// The key's committed slot.
    ///
    /// Both lines are asked for at once, and the preferred slot is tried first, by a branch: where it is guessed
    /// right, the exchange that follows does not wait for the tags of a line that is not in the cache. Else all
    /// tags of both lines are compared without another branch, for the second would be as hard to guess.
    #[inline(always)]
    pub(super) fn find(&self, place: Place) -> Option<Found<'a, A::Word>> {
        let lines = self.lines_of(place);
        lines[1].prefetch();
        let slot = lines[0].slot(place.preferred());
        let tag = slot.tag(Ordering::Relaxed);
        if tag.is(place.key()) {
            return Some((slot, tag));
        }
        let in_second = lines[1].committed_to(place.key());
        found(
            lines,
            lines[0].committed_to(place.key()) | in_second << A::Word::SLOTS,
            place,
        )
    }

    /// The key's committed slot, in lines that are in the cache, or on their way: without a branch.
    #[inline(always)]
    pub(super) fn find_in(&self, line: usize, place: Place) -> Option<Found<'a, A::Word>> {
        let line = &self.lines[line];
        found([line; 2], line.committed_to(place.key()), place)
    }

    #[inline(always)]
    fn lines_of(&self, place: Place) -> [&'a Line<A::Word>; 2] {
        [
            &self.lines[place.first()],
            &self.lines[place.second(self.lines.len())],
        ]
    }

    /// The line that the key's slot is in, if it is in the first, else the second.
    #[inline(always)]
    pub(super) fn line_of(&self, place: Place) -> usize {
        let is_in_first = self.lines[place.first()].committed_to(place.key()) != 0;
        select_unpredictable(is_in_first, place.first(), place.second(self.lines.len()))
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, line: usize) {
        self.lines[line].prefetch();
    }

    /// Steps the state of a slot that was found; `None` if the slot has moved on, so look again.
    ///
    /// `step` returns the new state and the answer, or the answer alone where nothing is to be stored.
    #[inline(always)]
    pub(super) fn decide<T>(
        &self,
        (slot, mut tag): Found<'a, A::Word>,
        mut step: impl FnMut(A::Word) -> (Option<A::Word>, T),
    ) -> Option<T> {
        let mut state = slot.state();
        loop {
            if state.generation() != tag.generation() {
                tag = take_back(slot, tag, state)?;
            }
            let (stepped, answer) = step(state.payload());
            let Some(stepped) = stepped else {
                return Some(answer);
            };
            match slot.swap_state(state, State::new(stepped, tag.generation())) {
                Ok(()) => return Some(answer),
                Err(current) => state = current,
            }
        }
    }

    /// The slots a key may have, in the order that ranks them, without the line twice where there is but one.
    fn candidates(&self, place: Place) -> impl Iterator<Item = Slot<'a, A::Word>> + use<'a, A> {
        let first = place.first();
        let second = place.second(self.lines.len());
        let second = (second != first).then(|| &self.lines[second]);
        let first = &self.lines[first];
        first
            .slots()
            .chain(second.into_iter().flat_map(|line| line.slots()))
    }

    /// Tries to come by a slot for a key that has none.
    #[cold]
    #[inline(never)]
    pub(super) fn claim(
        &self,
        place: Place,
        now: Timestamp,
        on_full: OnFull,
        patience: &mut Patience,
    ) -> Claim<'a, A::Word> {
        let Choice {
            own,
            free,
            unsettled,
            is_changing,
        } = self.choose(place, now);
        // Somebody of this key is at it, or done.
        if let Some((slot, tag)) = own {
            if tag.status() == Status::Tentative {
                self.settle(place, slot, tag);
            }
            return Claim::LookAgain;
        }
        let unsettled = if free.is_none() && (unsettled.is_some() || is_changing) {
            match patience.may_take() {
                Some(true) => unsettled,
                Some(false) => return Claim::LookAgain,
                // Not again: it counts as live.
                None => None,
            }
        } else {
            None
        };
        let (victim, is_live) = match free.or(unsettled) {
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

    /// A slot for a newcomer: in the first line while that is less than half live, else in the line with more
    /// room; the preferred slot if it is free.
    ///
    /// The second line is not looked at if the first has room. Should a slot of the key's be there, `settle` finds it.
    fn choose(&self, place: Place, now: Timestamp) -> Choice<'a, A::Word> {
        let mut chosen: Option<(usize, Victim<'a, A::Word>)> = None;
        let mut own = None;
        let mut unsettled = None;
        let mut is_changing = false;
        let lines = [place.first(), place.second(self.lines.len())];
        for line in lines {
            let mut free = 0;
            let mut candidate = None;
            for index in 0..A::Word::SLOTS {
                let slot = self.lines[line].slot(place.preferred().wrapping_add(index));
                let tag = slot.tag(Ordering::Relaxed);
                if tag.has_fingerprint(place.key()) && tag.status() != Status::Vacant {
                    own = Some((slot, tag));
                }
                let state = slot.state();
                let victim = Victim { slot, tag, state };
                match self.standing(tag, state, now) {
                    Standing::Free => {
                        free += 1;
                        candidate.get_or_insert(victim);
                    }
                    Standing::Unsettled => {
                        unsettled.get_or_insert(victim);
                    }
                    Standing::Changing => {
                        slot.freshen(tag, state);
                        is_changing = true;
                    }
                    Standing::Live => {}
                }
            }
            if let Some(candidate) = candidate
                && chosen.as_ref().is_none_or(|(best, _)| free > *best)
            {
                chosen = Some((free, candidate));
            }
            if free > A::Word::SLOTS / 2 || lines[0] == lines[1] {
                break;
            }
        }
        Choice {
            own,
            free: chosen.map(|(_, victim)| victim),
            unsettled,
            is_changing,
        }
    }

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
            for other in self.candidates(place) {
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

/// The slot of the lowest bit, if it still is the key's.
#[inline(always)]
fn found<'a, W: AtomicWord>(
    lines: [&'a Line<W>; 2],
    bits: u32,
    place: Place,
) -> Option<Found<'a, W>> {
    if bits == 0 {
        return None;
    }
    let index = bits.trailing_zeros() as usize;
    let line = select_unpredictable(index < W::SLOTS, lines[0], lines[1]);
    let slot = line.slot(index);
    let tag = slot.tag(Ordering::Relaxed);
    tag.is(place.key()).then_some((slot, tag))
}

/// What a newcomer may do with a slot.
enum Standing {
    /// Take it.
    Free,
    /// Take it when patience is over.
    Unsettled,
    /// Tag and state were not read of one generation: look again.
    Changing,
    /// Somebody's.
    Live,
}

/// Ends the generation of a slot, unless that is done already; false if tag and state are not of one generation,
/// or the state has changed.
fn unseat<W: AtomicWord>(slot: Slot<'_, W>, tag: Tag<W>, state: State<W>) -> bool {
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
