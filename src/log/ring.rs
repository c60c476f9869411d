//! The ring: how threads share an exact log without a lock.
//!
//! # State
//!
//! Of `L` places, one for each permit, the head names the oldest. Read from there, once around, the places are in order:
//! first void ones, then times that never decrease. A place carries the lap in which it was taken. So the place at the
//! head is either of the lap before, or void, and then it is the oldest; or of the head's own lap, and then it has been
//! *claimed*, and the head has yet to follow.
//!
//! The head also carries a *task*, which everybody does before anything else, and a version, which changes with every
//! change of the head.
//!
//! # Transitions, each one compare-exchange
//!
//! 1. *Claim*: the place at the head, old or void, to (lap, n, t). It is the admission of all n permits.
//! 2. *Fill*: one of the n - 1 places after a claimed one, old or void, to (its lap, 1, t).
//! 3. *Advance*: the head by n places, when the n - 1 have been filled.
//! 4. *Begin*: the head from no task to *remove k* or to *clear*. It is the refund, or the reset.
//! 5. *Shift*: under remove k, place k to what the place before it holds; to void if that is void or claimed, or if k
//!    is the oldest.
//! 6. *Step*: the head from remove k to remove k - 1 after a shift, to no task after one to void.
//! 7. *Void*: under clear, any place that is not claimed to void. Then the head to no task.
//!
//! # Why the numbers are right
//!
//! Whoever decides has read the head and its place, then other places, and then both again and unchanged. A place is
//! written only by those who have read the head of that time, or a later one, and, to fill it, the claim; it is written
//! with Release, and read with Acquire. So a place that was written under a later head, or after a claim, makes that head
//! or claim visible to the second reading, which tells: by the version, and by the claimed place. The head is written with
//! Release after the places that it stands for, and read with Acquire: so no place is older than the head. Both ends
//! together: what was read in between is one state of the ring.
//!
//! Who fills, shifts or clears does not decide. It reads the head, a place or two, and the head again; then the place is
//! of that head's time, before or after this one write.
//!
//! - *A claim was right*: its exchange compares the place at the head with what was read. While that is not claimed, only
//!   tasks change places; they give back, so what was free stays free. `t` is not before the newest, which can only
//!   have become older. So order is kept, and the n places after it were free, all until this exchange.
//! - *Once*: a second claim of the same place would have to find it unchanged. An advance, fill, shift or void that comes
//!   late compares with what was read under the head of its time, and fails: a place only goes from younger to older to
//!   void within a lap, from lap to lap, and from one void word to another.
//! - *A task under way*: its begin fixes what is given back. In between, the times of the k oldest places are those of
//!   before or of after, and a copy more than is true: too many, never too few. Nobody decides then; all help.
//! - *A claim during a task*: somebody decided before it began and exchanges after. That place was free and had become
//!   part of what is shifted: it counts as void there. The claim stands, and the head follows after the task.
//! - *A refusal* is right for the state that was read.
//!
//! # Named races
//!
//! - *Sixteen laps*: laps have four bits, versions 28 (10 in a narrow word). A thread that sleeps between reading and
//!   exchanging through exactly 16 laps (or a multiple) while permits are taken and given back within one unit of time,
//!   and wakes to a bit-identical place, takes or gives back one permit wrongly. The same holds for one that sleeps
//!   through exactly so many changes of the head that version, index and lap are the same again. As long as nothing is
//!   given back a lap takes a period, and times tell.
//!
//! # Progress
//!
//! Lock-free. An exchange fails only because another thread's succeeded, and of those there are only so many to each
//! operation: n - 1 fills and an advance to a claim; at most two for each of L places to a refund of one, or to a reset.
//! A thread that stops anywhere holds up nobody: whatever it has begun is written in the head, or at the place that the
//! head names, and is finished by whoever comes next. So an interrupt handler may call everything here.

use core::time::Duration;

use super::rule::{Rule, View};
use super::slot::{Head, Slot, Task, time_bits};
use crate::decision::{Allowed, Denied};
use crate::sync::{AtomicWord, Ordering};
use crate::time::Timestamp;

/// A ring and its limits.
pub(super) struct Ring<'a, const N: usize, W: AtomicWord> {
    pub(super) rule: &'a Rule,
    pub(super) head: &'a W::Atomic,
    /// As many as the limit.
    pub(super) places: &'a [W::Atomic],
}

/// The ring under one head.
pub(super) struct Seen<'a, const N: usize, W: AtomicWord> {
    ring: &'a Ring<'a, N, W>,
    head: Head<W>,
    /// The place at the head.
    oldest: Slot<W>,
}

impl<const N: usize, W: AtomicWord> Seen<'_, N, W> {
    #[inline]
    fn index(&self, offset: u64) -> usize {
        let index = self.head.index() + offset as usize;
        let places = self.ring.places.len();
        if index < places {
            index
        } else {
            index - places
        }
    }

    #[inline]
    fn time_of(&self, slot: Slot<W>) -> Option<u64> {
        let bits = Self::BITS;
        (!slot.is_void(bits)).then(|| slot.time(bits))
    }

    /// Whether everything read since belongs together.
    ///
    /// Relaxed: what was read under a later head, or after a claim, was read with Acquire from those who had seen it.
    #[inline]
    fn is_current(&self) -> bool {
        let head = self.head;
        self.ring.load(head.index(), Ordering::Relaxed) == self.oldest
            && self.ring.head(Ordering::Relaxed) == head
    }
}

impl<const N: usize, W: AtomicWord> View for Seen<'_, N, W> {
    const BITS: u32 = time_bits(N, W::BITS);

    #[inline]
    fn newest(&self) -> Option<u64> {
        let index = self.ring.before(self.head.index());
        self.time_of(self.ring.place(index))
    }

    #[inline]
    fn at(&self, offset: u64) -> Option<u64> {
        if offset == 0 {
            return self.time_of(self.oldest);
        }
        self.time_of(self.ring.place(self.index(offset)))
    }
}

impl<const N: usize, W: AtomicWord> Ring<'_, N, W> {
    const BITS: u32 = time_bits(N, W::BITS);

    #[inline]
    fn head(&self, order: Ordering) -> Head<W> {
        Head(W::load(self.head, order))
    }

    #[inline]
    fn load(&self, index: usize, order: Ordering) -> Slot<W> {
        // Every index is below the limit. The compiler does not know, and so needs no way to panic.
        let place = self.places.get(index);
        place.map_or(Slot(W::ZERO), |place| Slot(W::load(place, order)))
    }

    /// Acquire: pairs with the Release of [`swap`](Self::swap), so that the head under which it was written is seen.
    #[inline]
    fn place(&self, index: usize) -> Slot<W> {
        self.load(index, Ordering::Acquire)
    }

    /// Release: pairs with the Acquire of [`place`](Self::place). Relaxed on failure: everything is read again.
    #[inline]
    fn swap(&self, index: usize, from: Slot<W>, to: Slot<W>) -> bool {
        self.places.get(index).is_some_and(|place| {
            W::compare_exchange(place, from.0, to.0, Ordering::Release, Ordering::Relaxed).is_ok()
        })
    }

    /// Release: pairs with the Acquire of [`settled`](Self::settled), so that the places it stands for are seen.
    /// Relaxed on failure: everything is read again.
    #[inline]
    fn swap_head(&self, from: Head<W>, to: Head<W>) -> bool {
        W::compare_exchange(
            self.head,
            from.0,
            to.0,
            Ordering::Release,
            Ordering::Relaxed,
        )
        .is_ok()
    }

    #[inline]
    fn before(&self, index: usize) -> usize {
        if index == 0 {
            self.places.len() - 1
        } else {
            index - 1
        }
    }

    /// The ring with no task and no claim pending.
    #[inline(always)]
    fn settled(&self) -> Seen<'_, N, W> {
        loop {
            // Acquire: pairs with the Release of `swap_head`.
            let head = self.head(Ordering::Acquire);
            if head.is_at_rest() {
                let oldest = self.place(head.index());
                if !oldest.is_of(head.lap(), Self::BITS) {
                    return Seen {
                        ring: self,
                        head,
                        oldest,
                    };
                }
                self.advance(head, oldest);
            } else {
                self.help(head);
            }
        }
    }

    /// Finishes a claim.
    #[inline(always)]
    fn advance(&self, head: Head<W>, claimed: Slot<W>) {
        let weight = claimed.weight(Self::BITS);
        if weight > 1 && !self.fill(head, weight, claimed.time(Self::BITS)) {
            return;
        }
        self.swap_head(head, head.advanced(weight, self.rule.limit));
    }

    /// Fills the places after a claimed one. False if the head is a later one by now.
    #[cold]
    fn fill(&self, head: Head<W>, weight: u64, time: u64) -> bool {
        let bits = Self::BITS;
        let mut index = head.index();
        for _ in 1..weight {
            index += 1;
            if index == self.places.len() {
                index = 0;
            }
            let lap = head.lap_at(index);
            loop {
                let seen = self.place(index);
                if seen.is_of(lap, bits) {
                    break;
                }
                if self.head(Ordering::Relaxed) != head {
                    return false;
                }
                if self.swap(index, seen, Slot::taken(lap, 1, time, bits)) {
                    break;
                }
            }
        }
        true
    }

    /// Does a part of a task.
    #[cold]
    fn help(&self, head: Head<W>) {
        match head.task() {
            Task::None => {}
            Task::Remove(index) => self.shift(head, index),
            Task::Clear => self.clear(head),
        }
    }

    fn shift(&self, head: Head<W>, index: usize) {
        let bits = Self::BITS;
        let seen = self.place(index);
        let before = self.before(index);
        let older = if index == head.index() {
            None
        } else {
            Some(self.place(before))
        };
        if self.head(Ordering::Relaxed) != head {
            return;
        }
        // Void: somebody has just done it. Claimed: it was free already.
        if seen.is_void(bits) || seen.is_of(head.lap_at(index), bits) {
            self.swap_head(head, head.with(Task::None));
            return;
        }
        let is_used =
            |older: &Slot<W>| !older.is_void(bits) && !older.is_of(head.lap_at(before), bits);
        match older.filter(is_used) {
            Some(older) => {
                let (time, own) = (older.time(bits), seen.time(bits));
                // Equal: nothing to do, or somebody has just done it.
                if time == own || self.swap(index, seen, Slot::taken(seen.lap(), 1, time, bits)) {
                    self.swap_head(head, head.with(Task::Remove(before)));
                }
            }
            None => {
                if self.swap(index, seen, Slot::void(head.version(), bits)) {
                    self.swap_head(head, head.with(Task::None));
                }
            }
        }
    }

    fn clear(&self, head: Head<W>) {
        let bits = Self::BITS;
        for index in 0..self.places.len() {
            loop {
                let seen = self.place(index);
                if seen.is_void(bits) || seen.is_of(head.lap_at(index), bits) {
                    break;
                }
                if self.head(Ordering::Relaxed) != head {
                    return;
                }
                if self.swap(index, seen, Slot::void(head.version(), bits)) {
                    break;
                }
            }
        }
        self.swap_head(head, head.with(Task::None));
    }

    /// Begins a task if the head is still the one seen, and does what is left of it.
    fn run(&self, seen: &Seen<'_, N, W>, task: Task) -> bool {
        let has_begun = self.swap_head(seen.head, seen.head.with(task));
        if has_begun {
            self.settled();
        }
        has_begun
    }

    #[inline(always)]
    pub(super) fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        loop {
            let seen = self.settled();
            let decision = self.rule.decide(&seen, now, cost);
            if !seen.is_current() {
                continue;
            }
            let admission = decision?;
            if cost == 0 {
                return Ok(admission.allowed);
            }
            if admission.on_leftover {
                self.run(&seen, Task::Clear);
                continue;
            }
            let head = seen.head;
            let mine = Slot::taken(head.lap(), cost, admission.time, Self::BITS);
            if self.swap(head.index(), seen.oldest, mine) {
                self.advance(head, mine);
                return Ok(admission.allowed);
            }
        }
    }

    /// What `read` makes of one state of the ring.
    pub(super) fn read<T>(&self, mut read: impl FnMut(&Seen<'_, N, W>) -> T) -> T {
        loop {
            let seen = self.settled();
            let found = read(&seen);
            if seen.is_current() {
                return found;
            }
        }
    }

    pub(super) fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let admission = self.read(|seen| self.rule.decide(seen, now, cost))?;
        Ok(admission.allowed)
    }

    pub(super) fn idle_after(&self, now: Timestamp) -> Duration {
        self.read(|seen| self.rule.idle_after::<Seen<'_, N, W>>(seen.newest(), now))
    }

    /// Gives back one permit after the other.
    pub(super) fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        (0..cost).take_while(|_| self.refund_one(taken_at)).count() > 0
    }

    fn refund_one(&self, taken_at: Timestamp) -> bool {
        loop {
            let seen = self.settled();
            let found = self.rule.removable(&seen, taken_at);
            if !seen.is_current() {
                continue;
            }
            let Some(offset) = found else {
                return false;
            };
            if self.run(&seen, Task::Remove(seen.index(offset))) {
                return true;
            }
        }
    }

    pub(super) fn reset(&self) {
        loop {
            let seen = self.settled();
            let is_fresh = seen.newest().is_none();
            if seen.is_current() && (is_fresh || self.run(&seen, Task::Clear)) {
                return;
            }
        }
    }

    /// Clears the ring if nothing is in use; whether nothing was.
    pub(super) fn sweep(&self, now: Timestamp) -> bool {
        loop {
            let seen = self.settled();
            let newest = seen.newest();
            if !seen.is_current() {
                continue;
            }
            if !self
                .rule
                .idle_after::<Seen<'_, N, W>>(newest, now)
                .is_zero()
            {
                return false;
            }
            if newest.is_none() || self.run(&seen, Task::Clear) {
                return true;
            }
        }
    }
}
