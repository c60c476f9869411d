//! A keyed table for a single owner: exact keys, no hashing, no atomics.

use core::borrow::Borrow;
use core::fmt;

use heapless::Vec;

use crate::decision::{Allowed, Denied};
use crate::strategy::OwnedStrategy;
use crate::table::{FullCounts, OnFull};
use crate::time::Timestamp;

/// One limiter for every client of a single owner: at most `N` keys, kept whole and compared exactly.
///
/// For firmware whose main loop, or one task, makes all the decisions. It asks for `&mut self` and so needs no
/// atomics: 64-bit words work on every core. Keys never share a budget, there is no seed to keep secret, and no key
/// can be made up that is slower than others. [`KeyedTable`](crate::KeyedTable) is for what several contexts share,
/// and for thousands of keys.
///
/// A key's slot is free again as soon as its state is idle, for then it is indistinguishable from a key never seen.
/// When all `N` slots are taken, a newcomer takes the place of an idle key, and nobody loses anything. When all are
/// live, [`OnFull`] decides. Never allocates, and nothing needs to be called now and then.
///
/// # Keys
///
/// Any `K: Eq + Clone`: an address, a node number, a `heapless::String`. [`check`](Self::check) borrows the key, as in
/// the other tables, and clones it only when it is given a slot. What never takes a slot, such as
/// [`peek`](Self::peek), accepts a borrowed form of the key as well: `&str` for strings.
///
/// # Cost
///
/// - Memory: a key and a state a slot, which is a word but for an exact log; aligned, in place: for a `u32` key 8 bytes with narrow words and 16 with wide
///   ones, 12 and 16 for a MAC address. Besides them the limits, three counters and two indices.
/// - A known key: up to `N` comparisons of keys, one after the other, and a step of the algorithm. A bound that is
///   small, and known beforehand, is worth more to firmware than an average.
/// - A new key: `N` comparisons, and if all slots are taken, a test for idleness of each slot until one is idle, in
///   turn, starting behind the slot that was reused last: up to `N` multiplications, when all are live.
///   [`OnFull::Evict`] then visits all of them once more, with a division each.
/// - A denial stores nothing.
///
/// ```
/// use tidegate::{OwnedTable, Quota, Reason, Timestamp, TokenBucket};
///
/// // Five messages a second from each of 32 nodes.
/// let mut nodes: OwnedTable<[u8; 6], TokenBucket<u32>, 32> =
///     OwnedTable::new(TokenBucket::narrow(Quota::per_second(5)));
///
/// let node = [0x02, 0, 0, 0, 0, 0x2a];
/// let now = Timestamp::from_millis(1_000); // your monotonic clock
/// assert_eq!(nodes.check_n(&node, now, 5).unwrap().remaining(), 0);
/// assert_eq!(nodes.check(&node, now).unwrap_err().reason(), Reason::Limited);
/// assert_eq!(nodes.check(&[0x02, 0, 0, 0, 0, 0x2b], now).unwrap().remaining(), 4);
///
/// // A little more than a second later everything has come back: narrow words round the rate down.
/// let now = Timestamp::from_millis(2_010);
/// assert_eq!(nodes.len_live(now), 0);
/// assert_eq!(nodes.check(&node, now).unwrap().remaining(), 4);
/// ```
pub struct OwnedTable<K, A: OwnedStrategy, const N: usize> {
    algorithm: A,
    on_full: OnFull,
    full: FullCounts,
    /// Where the search for an idle slot begins: behind the one reused last, which has just been used.
    hand: usize,
    /// In no order. No key occurs twice.
    slots: Vec<Slot<K, A::State>, N>,
}

struct Slot<K, S> {
    key: K,
    state: S,
}

impl<K, A: OwnedStrategy, const N: usize> OwnedTable<K, A, N> {
    /// An empty table.
    ///
    /// Without a slot it does not compile.
    pub const fn new(algorithm: A) -> Self {
        const { assert!(N > 0, "a table needs a slot") };
        Self {
            algorithm,
            on_full: OnFull::Deny,
            full: FullCounts {
                denied: 0,
                allowed: 0,
                evicted: 0,
            },
            hand: 0,
            slots: Vec::new(),
        }
    }

    /// Chooses what becomes of a new key when every slot is live.
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

    /// How many slots there are: the most keys that can be live at once. This is `N`.
    #[inline]
    pub const fn capacity(&self) -> usize {
        N
    }

    /// How many slots are taken, by live keys and by idle ones whose slot nobody has needed yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no slot is taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many keys have used something that has not come back yet. Visits every slot.
    pub fn len_live(&self, now: Timestamp) -> usize {
        let live = |slot: &&Slot<K, A::State>| !self.algorithm.is_idle(&slot.state, now);
        self.slots.iter().filter(live).count()
    }

    /// Every key that has a slot, in no order, and what a check of cost 0 would answer it now: what remains, and when
    /// all has come back. Idle keys may be among them.
    pub fn iter(&self, now: Timestamp) -> impl Iterator<Item = (&K, Allowed)> {
        self.slots.iter().filter_map(move |slot| {
            // Cost 0 is always admitted.
            let allowed = self.algorithm.peek_n(&slot.state, now, 0).ok()?;
            Some((&slot.key, allowed))
        })
    }

    /// Forgets every key.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// Vacates the slots of idle keys, which changes no answer. Visits every slot.
    ///
    /// The table never needs it to make room. It is for states that were left alone so long that the time in them
    /// wraps: called at least once in half a wrap, it rules out that an idle key looks used; see the algorithms.
    pub fn sweep(&mut self, now: Timestamp) {
        let algorithm = &self.algorithm;
        self.slots
            .retain(|slot| !algorithm.is_idle(&slot.state, now));
    }

    /// How often the table was full, by what was done.
    pub const fn full_counts(&self) -> FullCounts {
        self.full
    }

    /// Changes the limits in place. What was used stays used, in permits, as in
    /// [`Limiter::retune`](crate::Limiter::retune). Visits every slot.
    pub fn retune(&mut self, algorithm: A, now: Timestamp) {
        for slot in &mut self.slots {
            algorithm.adopt(&self.algorithm, &mut slot.state, now);
        }
        self.algorithm = algorithm;
    }

    /// An idle slot of a full table: all `N` slots are there, and the hand is at most `N`.
    fn find_idle(&self, now: Timestamp) -> Option<usize> {
        let (before, behind) = self.slots.split_at_checked(self.hand)?;
        let idle = |slot: &Slot<K, A::State>| self.algorithm.is_idle(&slot.state, now);
        let index = behind.iter().position(idle).map(|index| self.hand + index);
        index.or_else(|| before.iter().position(idle))
    }

    /// The slot that would be idle first. None in an empty table only.
    fn nearest_to_idle(&self, now: Timestamp) -> Option<usize> {
        let wait = |slot: &Slot<K, A::State>| self.algorithm.idle_after(&slot.state, now);
        let slots = self.slots.iter().enumerate();
        Some(slots.min_by_key(|&(_, slot)| wait(slot))?.0)
    }
}

impl<K: Eq, A: OwnedStrategy, const N: usize> OwnedTable<K, A, N> {
    #[inline]
    fn position<Q>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.slots.iter().position(|slot| slot.key.borrow() == key)
    }

    /// May one request of this key pass now? If so, it is counted.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed for any key.
    #[inline]
    pub fn check(&mut self, key: &K, now: Timestamp) -> Result<Allowed, Denied>
    where
        K: Clone,
    {
        self.check_n(key, now, 1)
    }

    /// May a request of this key and cost pass now? If so, it is counted; all or nothing.
    ///
    /// Cost 0 always passes and changes nothing: it asks what remains.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed for any key. [`Reason::TableFull`](crate::Reason::TableFull) if the key has no slot, all are
    /// live, and [`OnFull::Deny`] is the policy.
    #[inline]
    pub fn check_n(&mut self, key: &K, now: Timestamp, cost: u64) -> Result<Allowed, Denied>
    where
        K: Clone,
    {
        let Some(index) = self.position(key) else {
            return self.check_unseen(key, now, cost);
        };
        self.algorithm
            .check_n(&mut self.slots[index].state, now, cost)
    }

    /// The rest of [`check_n`](Self::check_n): the key has no slot.
    #[cold]
    #[inline(never)]
    fn check_unseen(&mut self, key: &K, now: Timestamp, cost: u64) -> Result<Allowed, Denied>
    where
        K: Clone,
    {
        // What needs no slot gets none: a cost of 0, and what is refused even of a fresh state.
        let mut state = self.algorithm.fresh();
        let allowed = self.algorithm.check_n(&mut state, now, cost)?;
        if cost == 0 {
            return Ok(allowed);
        }
        if !self.slots.is_full() {
            let key = key.clone();
            // Not full, so it cannot fail.
            let _ = self.slots.push(Slot { key, state });
            return Ok(allowed);
        }
        let room = match (self.find_idle(now), self.on_full) {
            (None, OnFull::Evict) => {
                self.full.evicted += 1;
                self.nearest_to_idle(now)
            }
            (idle, _) => idle,
        };
        if let Some(index) = room
            && let Some(slot) = self.slots.get_mut(index)
        {
            let key = key.clone();
            *slot = Slot { key, state };
            self.hand = index + 1;
            return Ok(allowed);
        }
        if self.on_full == OnFull::Allow {
            self.full.allowed += 1;
            return Ok(allowed.uncounted());
        }
        self.full.denied += 1;
        Err(Denied::table_full(self.algorithm.limit()))
    }

    /// What [`check`](Self::check) would answer now; changes nothing. A full table is not foreseen.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request would not pass.
    pub fn peek<Q>(&self, key: &Q, now: Timestamp) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.peek_n(key, now, 1)
    }

    /// What [`check_n`](Self::check_n) would answer now; changes nothing. A full table is not foreseen.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request of this cost would not pass.
    pub fn peek_n<Q>(&self, key: &Q, now: Timestamp, cost: u64) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        match self.position(key) {
            Some(index) => self.algorithm.peek_n(&self.slots[index].state, now, cost),
            None => self.algorithm.peek_n(&self.algorithm.fresh(), now, cost),
        }
    }

    /// Gives back permits that were taken with `taken_at` and not used, as
    /// [`Limiter::refund`](crate::Limiter::refund) does; returns whether anything changed.
    pub fn refund<Q>(&mut self, key: &Q, taken_at: Timestamp, cost: u64) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let Some(index) = self.position(key) else {
            return false;
        };
        let state = &mut self.slots[index].state;
        self.algorithm.refund(state, taken_at, cost)
    }

    /// Forgets a key and what it has used, and vacates its slot.
    pub fn reset<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        if let Some(index) = self.position(key) {
            self.slots.swap_remove(index);
        }
    }
}

impl<K, A: OwnedStrategy + fmt::Debug, const N: usize> fmt::Debug for OwnedTable<K, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedTable")
            .field("algorithm", &self.algorithm)
            .field("on_full", &self.on_full)
            .field("full_counts", &self.full)
            .field("len", &self.len())
            .field("capacity", &N)
            .finish_non_exhaustive()
    }
}
