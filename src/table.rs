//! One limiter for every client: a keyed table of fixed capacity.

mod batch;
mod claim;
mod entry;
mod find;
mod hash;
mod line;
mod slot;
mod storage;
mod upkeep;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[cfg_attr(
    any(tidegate_loom, miri),
    allow(dead_code, reason = "neither lets loads of several tags be one")
)]
mod x86;

use core::fmt;
use core::hash::{BuildHasher, Hash};

use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::sync::private::Cells;
use crate::sync::{AtomicWord, Ordering};
use crate::time::Timestamp;
use crate::word::Word;
use crate::word::sealed::Arithmetic;

use claim::{Claim, Patience};
use find::{Found, Lines};
use line::Place;

pub use entry::{Entry, Tier};
pub use hash::Seeded;
pub use line::Line;
#[cfg(feature = "alloc")]
pub use storage::BoxTable;
pub use storage::{SliceTable, Storage, Table};

/// What becomes of a new key when every slot it may have is live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum OnFull {
    /// It is refused, as [`Reason::TableFull`](crate::Reason::TableFull). Nobody's budget is touched.
    #[default]
    Deny,
    /// It passes uncounted. Nobody's budget is touched.
    Allow,
    /// It displaces the key that would be idle first, of those in its way. Lossy: that key's budget is handed back
    /// early, so whoever can make up keys can wear down anybody's limit.
    Evict,
}

/// How often a table was full, by what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FullCounts {
    /// Refused, under [`OnFull::Deny`].
    pub denied: u64,
    /// Let through uncounted, under [`OnFull::Allow`].
    pub allowed: u64,
    /// Keys displaced, under [`OnFull::Evict`].
    pub evicted: u64,
}

/// One limiter for every client: a keyed table of fixed capacity, lock-free, that never allocates, grows or
/// sweeps.
///
/// Use it by one of its names: [`Table`] in a `static`, [`SliceTable`] over lines elsewhere, `BoxTable` on
/// the heap.
///
/// A key's slot is free again as soon as its state is idle, for then it is indistinguishable from a key never
/// seen. So a newcomer takes the place of an idle key, and nobody loses anything. When every slot that a newcomer
/// may have is live, [`OnFull`] decides.
///
/// # Keys
///
/// Any `K: Hash`. A key is kept as a fingerprint of its hash: 58 bits beside `u64` words, 26 beside `u32`. Two keys
/// with one fingerprint share a budget if the slot of one is in a line that the other may use too. Any two keys do
/// so with a probability below 2^-58, and whoever does not know the hasher's seed cannot aim for it. With narrow
/// words it is `2 / (2^26 * LINES)`: of 100,000 live keys in 25,000 lines, one pair in 168 such tables.
/// [`OwnedTable`](crate::OwnedTable) keeps exact keys, for a single owner.
///
/// # Cost
///
/// A known key costs its hash, one or two cache lines read, and one compare-exchange; a denial stores nothing. A
/// new key looks at its two lines, and makes three compare-exchanges more and a fence.
///
/// # Room
///
/// A key may be in two lines. When both are full of live keys, it finds no room, whatever else is free. How many
/// of 100,000 new keys do, while as many others become idle:
///
/// | slots live | four slots a line (`u64`) | | slots live | eight (`u32`) |
/// |---|---|---|---|---|
/// | 50 % | 270 | | 50 % | 0 |
/// | 59 % | 1,600 | | 60 % | 7 |
/// | 64 % | 3,600 | | 67 % | 110 |
/// | 70 % | 7,000 | | 74 % | 1,100 |
///
/// Measured with keys that take one permit, which comes back after a second, on 200,000 slots. While a table fills
/// for the first time, far fewer do: at 50 % some 5 of 100,000, and none.
///
/// # Late timestamps
///
/// Are late for one key as for one [`Limiter`](crate::Limiter), but a key whose slot was given to a newcomer is
/// forgotten: a request that is stamped earlier than the newcomer's finds its key fresh, though at that earlier time
/// it was not idle yet. It can so earn what its lateness is worth, once each time its slot changes hands.
///
/// # Progress, interrupts, and memory ordering
///
/// Lock-free: a thread that is stopped anywhere holds up nobody, and an interrupt handler may call everything
/// here, having interrupted anything here. The argument is in the source of the module `table::claim`. All but a
/// fence is `Relaxed`, and decisions promise callers no ordering, as with [`Limiter`](crate::Limiter).
///
/// Generations of a slot are counted in four bits: a thread that sleeps through exactly 16 changes of hands of
/// one slot, in the midst of a decision, and wakes to a bit-identical state may charge one request to the wrong key.
///
/// ```
/// # #[cfg(any(feature = "ahash", feature = "foldhash"))] {
/// use tidegate::{Quota, Reason, Table, Timestamp, TokenBucket};
///
/// // 1024 lines of 4 slots, for 2048 live clients
/// static CLIENTS: Table<TokenBucket, 1024> =
///     Table::new(TokenBucket::new(Quota::per_second(5)));
///
/// let now = Timestamp::from_millis(1_000);
/// assert_eq!(CLIENTS.check_n("alice", now, 5).unwrap().remaining(), 0);
/// assert_eq!(CLIENTS.check("alice", now).unwrap_err().reason(), Reason::Limited);
/// assert_eq!(CLIENTS.check("bob", now).unwrap().remaining(), 4);
/// # }
/// ```
pub struct KeyedTable<A: Algorithm<Word: AtomicWord>, L, S = Seeded> {
    algorithm: A,
    hasher: S,
    on_full: OnFull,
    full: Counters<A::Word>,
    lines: L,
}

/// The step of a request, as [`Lines::decide`] takes it: the new state, if one is to be stored, and the answer.
#[inline(always)]
fn stepping<A: Algorithm>(
    algorithm: &A,
    now: Timestamp,
    cost: u64,
) -> impl Fn(A::Word) -> (Option<A::Word>, Result<Allowed, Denied>) {
    move |state| match algorithm.step_keyed(state, now, cost) {
        Ok((next, allowed)) => ((cost > 0).then_some(next), Ok(allowed)),
        Err(denied) => (None, Err(denied)),
    }
}

/// On a line of its own: whoever hits a full table must not slow down those who read the limits.
#[repr(align(64))]
struct Counters<W: Cells> {
    denied: W::Atomic,
    allowed: W::Atomic,
    evicted: W::Atomic,
}

impl<W: AtomicWord> Counters<W> {
    #[cfg(not(tidegate_loom))]
    const ZERO: Self = Self {
        denied: W::ZERO_CELL,
        allowed: W::ZERO_CELL,
        evicted: W::ZERO_CELL,
    };

    #[cfg(tidegate_loom)]
    fn zero() -> Self {
        Self {
            denied: W::cell(W::ZERO),
            allowed: W::cell(W::ZERO),
            evicted: W::cell(W::ZERO),
        }
    }

    fn add(cell: &W::Atomic, count: u32) {
        W::fetch_add(cell, W::truncate(u64::from(count)), Ordering::Relaxed);
    }
}

impl<W: AtomicWord> Line<W> {
    /// A line of vacant slots.
    #[cfg(not(tidegate_loom))]
    pub const fn new() -> Self {
        Self::ZERO
    }

    /// A line of vacant slots.
    #[cfg(tidegate_loom)]
    pub fn new() -> Self {
        Self::zero()
    }
}

impl<W: AtomicWord> Default for Line<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Cells> fmt::Debug for Line<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl<A: Algorithm<Word: AtomicWord>, L, S> KeyedTable<A, L, S> {
    /// Chooses what becomes of a new key when every slot it may have is live.
    #[must_use]
    pub const fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// The algorithm and its limits.
    #[inline]
    pub const fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// The hasher.
    #[inline]
    pub const fn hasher(&self) -> &S {
        &self.hasher
    }
}

impl<A: Algorithm<Word: AtomicWord>, L: Storage<A::Word>, S> KeyedTable<A, L, S> {
    /// How many slots there are: the most keys that can be live at once.
    pub fn capacity(&self) -> usize {
        self.lines.lines().len() * A::Word::SLOTS
    }

    /// How many keys have used something that has not come back yet. Visits every line.
    pub fn len_live(&self, now: Timestamp) -> usize {
        self.slots().live(now)
    }

    /// Forgets every key. Visits every line; what others take meanwhile may be forgotten or not.
    pub fn clear(&self) {
        self.slots().vacate(|_| true);
    }

    /// Vacates the slots of idle keys, which changes no answer. Visits every line.
    ///
    /// The table never needs it to make room. It is for states that were left alone so long that the time in them
    /// wraps: called at least once in half a wrap, it rules out that an idle key looks used; see the algorithms.
    pub fn sweep(&self, now: Timestamp) {
        self.slots()
            .vacate(|state| self.algorithm.is_idle(state, now));
    }

    /// How often the table was full, by what was done.
    pub fn full_counts(&self) -> FullCounts {
        let count = |cell| A::Word::load(cell, Ordering::Relaxed).widen();
        FullCounts {
            denied: count(&self.full.denied),
            allowed: count(&self.full.allowed),
            evicted: count(&self.full.evicted),
        }
    }

    /// Changes the limits in place. What was used stays used, in permits, as in
    /// [`Limiter::retune`](crate::Limiter::retune). Visits every line.
    pub fn retune(&mut self, algorithm: A, now: Timestamp) {
        self.slots().adopt(&algorithm, now);
        self.algorithm = algorithm;
    }

    #[inline(always)]
    fn slots(&self) -> Lines<'_, A> {
        Lines {
            lines: self.lines.lines(),
            algorithm: &self.algorithm,
        }
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> Place {
        Place::of(hash, self.lines.lines().len())
    }

    #[inline(always)]
    fn check_at(
        &self,
        place: Place,
        algorithm: &A,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied> {
        self.check_found(self.slots().find(place), place, algorithm, now, cost)
    }

    /// Always inlined, like what it calls and what calls it on the way of a known key: a decision of which only
    /// `is_ok()` is asked is then never put together. That halves the time of a hit.
    #[inline(always)]
    fn check_found(
        &self,
        found: Option<Found<'_, A::Word>>,
        place: Place,
        algorithm: &A,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied> {
        if let Some(found) = found
            && let Some(answer) = self.slots().decide(found, stepping(algorithm, now, cost))
        {
            return answer;
        }
        self.check_unseen(place, algorithm, now, cost)
    }

    /// The rest of [`check_at`](Self::check_at): the key has no slot, or its slot is changing hands.
    #[cold]
    #[inline(never)]
    fn check_unseen(
        &self,
        place: Place,
        algorithm: &A,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied> {
        let slots = self.slots();
        // What needs no slot gets none: a cost of 0, and what is refused even of a fresh state.
        let fresh = || algorithm.step(A::Word::ZERO, now, cost);
        let (_, answer) = fresh()?;
        if cost == 0 {
            return Ok(answer);
        }
        let mut patience = Patience::NEW;
        let answer = loop {
            let found = match slots.claim(place, now, self.on_full, &mut patience) {
                Claim::Mine(found) => Some(found),
                Claim::LookAgain => {
                    patience.pause();
                    slots.find_surely(place)
                }
                Claim::Full if self.on_full == OnFull::Allow => {
                    Counters::<A::Word>::add(&self.full.allowed, 1);
                    break fresh().map(|(_, answer)| answer.uncounted());
                }
                Claim::Full => {
                    Counters::<A::Word>::add(&self.full.denied, 1);
                    break Err(Denied::table_full(algorithm.limit()));
                }
            };
            if let Some(answer) =
                found.and_then(|found| slots.decide_surely(found, stepping(algorithm, now, cost)))
            {
                break answer;
            }
        };
        if patience.evictions > 0 {
            Counters::<A::Word>::add(&self.full.evicted, patience.evictions);
        }
        answer
    }

    fn peek_at(&self, place: Place, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let slots = self.slots();
        let state = slots.find_surely(place).map(|found| slots.peek(found));
        let state = state.unwrap_or(A::Word::ZERO);
        self.algorithm
            .step(state, now, cost)
            .map(|(_, allowed)| allowed)
    }

    fn change_at(&self, place: Place, change: impl Fn(A::Word) -> A::Word) -> bool {
        let slots = self.slots();
        let mut patience = Patience::NEW;
        while let Some(found) = slots.find_surely(place) {
            let changed = slots.decide_surely(found, |state| {
                let next = change(state);
                let differs = next != state;
                (differs.then_some(next), differs)
            });
            if let Some(changed) = changed {
                return changed;
            }
            patience.pause();
        }
        false
    }
}

impl<A: Algorithm<Word: AtomicWord>, L: Storage<A::Word>, S: BuildHasher> KeyedTable<A, L, S> {
    /// May one request of this key pass now? If so, it is counted.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed for any key.
    #[inline(always)]
    pub fn check<K: Hash + ?Sized>(&self, key: &K, now: Timestamp) -> Result<Allowed, Denied> {
        self.check_n(key, now, 1)
    }

    /// May a request of this key and cost pass now? If so, it is counted; all or nothing.
    ///
    /// Cost 0 always passes and changes nothing: it asks what remains.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed for any key.
    #[inline(always)]
    pub fn check_n<K: Hash + ?Sized>(
        &self,
        key: &K,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied> {
        let place = self.place(self.hasher.hash_one(key));
        self.check_at(place, &self.algorithm, now, cost)
    }

    /// As [`check_n`](Self::check_n), under the limits of a tier of clients, made by [`tier`](Self::tier).
    ///
    /// # Errors
    ///
    /// [`Denied`] if the request may not pass.
    #[inline]
    pub fn check_with<K: Hash + ?Sized>(
        &self,
        tier: &Tier<A>,
        key: &K,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied> {
        let place = self.place(self.hasher.hash_one(key));
        self.check_at(place, &tier.algorithm, now, cost)
    }

    /// What [`check`](Self::check) would answer now; changes nothing. A full table is not foreseen.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request would not pass.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K, now: Timestamp) -> Result<Allowed, Denied> {
        self.at(key).peek(now)
    }

    /// Gives back permits that were taken with `taken_at` and not used, as
    /// [`Limiter::refund`](crate::Limiter::refund) does; returns whether anything changed.
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, taken_at: Timestamp, cost: u64) -> bool {
        self.at(key).refund(taken_at, cost)
    }

    /// Forgets what a key has used.
    pub fn reset<K: Hash + ?Sized>(&self, key: &K) {
        self.at(key).reset();
    }

    /// How many slots are committed to a key: 0 or 1, if the protocol is right.
    #[cfg(tidegate_loom)]
    #[doc(hidden)]
    pub fn committed_slots<K: Hash + ?Sized>(&self, key: &K) -> u32 {
        self.slots()
            .committed(self.place(self.hasher.hash_one(key)))
    }

    /// A handle on one key, hashed once.
    #[inline]
    pub fn at<K: Hash + ?Sized>(&self, key: &K) -> Entry<'_, A, L, S> {
        Entry {
            place: self.place(self.hasher.hash_one(key)),
            table: self,
        }
    }
}

impl<A: Algorithm<Word: AtomicWord> + fmt::Debug, L: Storage<A::Word>, S> fmt::Debug
    for KeyedTable<A, L, S>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedTable")
            .field("algorithm", &self.algorithm)
            .field("on_full", &self.on_full)
            .field("full_counts", &self.full_counts())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
