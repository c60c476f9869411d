//! One limiter for every client: exact keys, on the heap, in as many entries as there are live clients.

mod entry;
mod shard;
mod visit;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::strategy::Strategy;
use crate::sync::{AtomicWord, Lock, Tally};
use crate::table::{FullCounts, OnFull, Seeded, Tier};
use crate::time::Timestamp;

use shard::{Shard, Slot, shard_of};

pub use entry::MapEntry;
pub use visit::MapIter;

/// Shards for each processor: two threads seldom want the same one.
const SHARDS_A_CORE: usize = 16;
const MOST_SHARDS: usize = 1 << 16;
/// Keys a shard should have room for under a cap: with this many, none is full while others are far from it. Under
/// loom as few as possible, so that two shards can race for the last place.
const CAP_A_SHARD: usize = if cfg!(tidegate_loom) { 1 } else { 256 };

/// One limiter for every client, with exact keys, that grows with the clients that are live.
///
/// For servers. Keys are kept whole and compared exactly, so none ever shares a budget with another. Nothing needs to
/// be called now and then: where the map would grow, it drops keys that are idle first, for an idle key is
/// indistinguishable from one never seen. [`KeyedTable`](crate::KeyedTable) is for fixed memory, no lock and no
/// allocation.
///
/// # Keys
///
/// Any `K: Hash + Eq`. A check borrows the key, as itself or in a borrowed form: `&str` for `String`. It is cloned
/// ([`ToOwned`]) only when it is new. The default hasher has random seeds; one of your own must spread all 64 bits
/// of its hashes, or all keys are in one shard, and slow.
///
/// # Cost
///
/// - A known key: its hash, a shared lock on its shard (a read-modify-write each to take and to leave it), and the
///   limiter's own step, a compare-exchange. A denial stores nothing but the lock. No two threads wait for each other
///   unless one of them inserts into the same shard.
/// - A new key: an exclusive lock on its shard. Once in a while, room must be made: a call looks through at most 448
///   keys, and moves at most as many, however many there are. With a cap, a newcomer to a full map looks through up
///   to three times as many.
/// - Memory: entries of a key and a state, of which an eighth to three fifths are free, and one to three bytes an entry
///   more: 36 bytes a key at a million `u64` keys, and at best 19. Half as many newcomers as there are live keys make the
///   map look for idle ones, so while `n` keys are live at a time, however many come and go, it has no more
///   than about `3 n`. What idle keys leave is used again by newcomers, and given back as far as these are fewer;
///   [`sweep`](Self::sweep) gives back all of it at once.
///
/// # What may call what
///
/// The map calls `Hash`, `Eq`, `Clone` (or `ToOwned`) and `Drop` of keys, the hasher, and the algorithm with a shard
/// locked; none of these may use the same map, or it may wait for itself for ever. What [`iter`](Self::iter) and
/// [`retain`](Self::retain) hand to their callers, they hand out with nothing locked: that code may do anything, with
/// this map too.
///
/// A panic in any of this code leaves the map in order, and usable by all: no lock is poisoned, no key is lost but
/// one that was to be dropped.
///
/// # Late timestamps
///
/// Are late for one key as for one [`Limiter`](crate::Limiter), but a key that was dropped is forgotten: a request that
/// is stamped earlier than the one which dropped it finds it fresh, though at that earlier time it was not idle yet.
/// It can so earn what its lateness is worth, once each time its key is dropped.
///
/// ```
/// use tidegate::{Map, Quota, Reason, Timestamp, TokenBucket};
///
/// let clients: Map<String, TokenBucket> = Map::new(TokenBucket::new(Quota::per_second(5)));
///
/// let now = Timestamp::from_millis(1_000);
/// assert_eq!(clients.check_n("alice", now, 5).unwrap().remaining(), 0);
/// assert_eq!(clients.check("alice", now).unwrap_err().reason(), Reason::Limited);
/// assert_eq!(clients.check("bob", now).unwrap().remaining(), 4);
///
/// let by_address = Map::new(TokenBucket::new(Quota::per_second(5)));
/// let peer = std::net::IpAddr::from([192, 0, 2, 1]);
/// assert!(by_address.check(&peer, now).is_ok());
/// assert_eq!((clients.len(), by_address.len()), (2, 1));
/// ```
//
// # Why no debit is lost, and none is counted for another key
//
// A cell is reached through the guard of its shard's lock only, and is stepped before the guard is gone. A key is
// judged idle, and dropped, under the exclusive lock. So no request of it is between finding its cell and
// stepping it then: it is judged by what all requests before have made of it, and those after do not find it. They
// begin with a fresh cell, which is as good, since idle is fresh. The lock orders the one before the other, so the
// cell itself can be `Relaxed`. A refund of a dropped key finds nothing, and gives nothing back: there was nothing
// used. A newcomer looks for its key once more under the exclusive lock, under which alone keys are inserted, so a
// key has one cell.
//
// The room of a capped map is counted before a key is inserted and after it was taken out, in one number for all
// shards, so there are never more keys than that number, which is never above the cap.
pub struct Map<K, A: Strategy, S = Seeded> {
    algorithm: A,
    hasher: S,
    on_full: OnFull,
    /// A power of two.
    shards: Box<[Place<K, A::Cell>]>,
    /// What `with_shards` asked for; a cap may want fewer.
    wanted_shards: usize,
    room: Room,
    full: Full,
}

/// A shard on cache lines of its own: two of them, since processors fetch lines in pairs.
#[repr(align(128))]
struct Place<K, C> {
    shard: Lock<Shard<K, C>>,
    /// How often something was given back, under a cap.
    given_back: Tally,
}

/// Room in a capped map. On lines of its own, since newcomers write to it.
#[repr(align(128))]
struct Room {
    most: Option<usize>,
    taken: Tally,
}

impl Room {
    fn take(&self) -> bool {
        self.most.is_none_or(|most| self.taken.add_one_below(most))
    }

    fn give_back(&self, keys: usize) {
        if self.most.is_some() && keys > 0 {
            self.taken.subtract(keys);
        }
    }
}

/// Room for one key, given back unless it is used.
struct Claim<'a>(Option<&'a Room>);

impl Claim<'_> {
    fn used(mut self) {
        self.0 = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(room) = self.0 {
            room.give_back(1);
        }
    }
}

#[repr(align(128))]
struct Full {
    denied: Tally,
    allowed: Tally,
    evicted: Tally,
}

impl<K, A: Strategy> Map<K, A> {
    /// An empty map, with the default hasher, seeded at random.
    pub fn new(algorithm: A) -> Self {
        Self::with_hasher(algorithm, Seeded::default())
    }
}

impl<K, A: Strategy, S> Map<K, A, S> {
    /// An empty map with a hasher of your own, which should be seeded, and must spread all bits of its hashes.
    pub fn with_hasher(algorithm: A, hasher: S) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self {
            algorithm,
            hasher,
            on_full: OnFull::Deny,
            shards: Box::default(),
            wanted_shards: 0,
            room: Room {
                most: None,
                taken: Tally::new(),
            },
            full: Full {
                denied: Tally::new(),
                allowed: Tally::new(),
                evicted: Tally::new(),
            },
        }
        .with_shards(SHARDS_A_CORE * cores)
    }

    /// Chooses the number of shards, rounded up to a power of two. An empty map has some 200 bytes a shard.
    ///
    /// By default there are 16 for each processor. More let more threads insert at the same time. Never more than one
    /// for 256 keys of a [cap](Self::with_max_keys), nor more than 65,536. For an empty map: forgets every key.
    #[must_use]
    pub fn with_shards(mut self, shards: usize) -> Self {
        self.wanted_shards = shards;
        self.rebuilt()
    }

    /// Caps the map: it never has more than `max_keys` keys, idle ones included. For an empty map: forgets every key.
    ///
    /// A newcomer to a map that is full takes the place of an idle key, if one is found: up to 448 keys near its own
    /// place are looked through, and then as many in another place, in turn. So a map of up to 448 keys is looked
    /// through as a whole. If none is idle, [`on_full`](Self::on_full) decides, though elsewhere some may be.
    ///
    /// [`OnFull::Evict`] displaces the one that would be idle first of 16 keys, beginning anywhere.
    #[must_use]
    pub fn with_max_keys(mut self, max_keys: usize) -> Self {
        self.room.most = Some(max_keys);
        self.rebuilt()
    }

    /// Chooses what becomes of a new key when the map is capped and full; [`OnFull::Deny`] by default.
    #[must_use]
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    fn rebuilt(mut self) -> Self {
        let mut shards = self.wanted_shards.clamp(1, MOST_SHARDS).next_power_of_two();
        if let Some(most) = self.room.most {
            let most = most.max(1) / CAP_A_SHARD;
            shards = shards.min(most.checked_ilog2().map_or(1, |log| 1 << log));
        }
        let place = || Place {
            shard: Lock::new(Shard::new()),
            given_back: Tally::new(),
        };
        self.shards = core::iter::repeat_with(place).take(shards).collect();
        self.room.taken = Tally::new();
        self
    }

    /// The algorithm and its limits.
    #[inline]
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// The hasher.
    #[inline]
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// The cap, if there is one.
    #[inline]
    pub fn max_keys(&self) -> Option<usize> {
        self.room.most
    }

    /// How many shards there are.
    #[inline]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// How often a capped map was full, by what was done.
    pub fn full_counts(&self) -> FullCounts {
        FullCounts {
            denied: self.full.denied.get() as u64,
            allowed: self.full.allowed.get() as u64,
            evicted: self.full.evicted.get() as u64,
        }
    }

    #[inline]
    fn place(&self, hash: u64) -> &Place<K, A::Cell> {
        &self.shards[shard_of(hash, self.shards.len())]
    }
}

impl<K, A, S> Map<K, A, S>
where
    K: Hash + Eq,
    A: Strategy,
    S: BuildHasher,
{
    /// May one request of this key pass now? If so, it is counted.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed for any key.
    #[inline(always)]
    pub fn check<Q>(&self, key: &Q, now: Timestamp) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.check_n(key, now, 1)
    }

    /// May a request of this key and cost pass now? If so, it is counted; all or nothing.
    ///
    /// Cost 0 always passes and changes nothing: it asks what remains.
    ///
    /// # Errors
    ///
    /// [`Denied`] if not; then nothing has changed for any key. [`Reason::TableFull`](crate::Reason::TableFull) if the
    /// key is new, the map is capped and full, and [`OnFull::Deny`] is the policy.
    #[inline(always)]
    pub fn check_n<Q>(&self, key: &Q, now: Timestamp, cost: u64) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.check_hashed(self.hasher.hash_one(key), key, &self.algorithm, now, cost)
    }

    /// As [`check_n`](Self::check_n), under the limits of a tier of clients, made by [`tier`](Self::tier).
    ///
    /// # Errors
    ///
    /// [`Denied`] if the request may not pass.
    #[inline]
    pub fn check_with<Q>(
        &self,
        tier: &Tier<A>,
        key: &Q,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.check_hashed(self.hasher.hash_one(key), key, &tier.algorithm, now, cost)
    }

    /// What [`check`](Self::check) would answer now; changes nothing. A full map is not foreseen.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request would not pass.
    #[inline]
    pub fn peek<Q>(&self, key: &Q, now: Timestamp) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.peek_n(key, now, 1)
    }

    /// What [`check_n`](Self::check_n) would answer now; changes nothing. A full map is not foreseen.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a request of this cost would not pass.
    pub fn peek_n<Q>(&self, key: &Q, now: Timestamp, cost: u64) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.peek_hashed(self.hasher.hash_one(key), key, now, cost)
    }

    /// Gives back permits that were taken with `taken_at` and not used, as
    /// [`Limiter::refund`](crate::Limiter::refund) does; returns whether anything changed. Nothing does if the key was
    /// idle since, and dropped.
    pub fn refund<Q>(&self, key: &Q, taken_at: Timestamp, cost: u64) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.refund_hashed(self.hasher.hash_one(key), key, taken_at, cost)
    }

    /// Forgets a key and what it has used.
    pub fn reset<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.reset_hashed(self.hasher.hash_one(key), key);
    }

    /// A handle on one key, hashed once.
    ///
    /// ```
    /// use tidegate::{Gate, Map, Quota, Timestamp, TokenBucket};
    ///
    /// let clients: Map<String, TokenBucket> = Map::new(TokenBucket::new(Quota::per_second(5)));
    /// let alice = clients.at("alice");
    /// assert_eq!(alice.check(Timestamp::from_secs(1)).unwrap().remaining(), 4);
    /// ```
    #[inline]
    pub fn at<'a, Q>(&'a self, key: &'a Q) -> MapEntry<'a, K, A, S, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        MapEntry {
            map: self,
            key,
            hash: self.hasher.hash_one(key),
        }
    }

    /// Always inlined: a decision of which only `is_ok()` is asked is then never put together.
    #[inline(always)]
    fn check_hashed<Q>(
        &self,
        hash: u64,
        key: &Q,
        algorithm: &A,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let known = {
            let shard = self.place(hash).shard.read();
            let cell = shard.find(hash, key);
            cell.map(|cell| algorithm.check_keyed(cell, now, cost))
        };
        match known {
            Some(answer) => answer,
            None => self.check_unseen(hash, key, algorithm, now, cost),
        }
    }

    /// The rest of [`check_hashed`](Self::check_hashed): the key was not there.
    #[cold]
    #[inline(never)]
    fn check_unseen<Q>(
        &self,
        hash: u64,
        key: &Q,
        algorithm: &A,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        // What needs no entry gets none: a cost of 0, and what is refused even of a fresh state.
        let cell = self.algorithm.fresh();
        let answer = algorithm.check_n(&cell, now, cost)?;
        if cost == 0 {
            return Ok(answer);
        }

        let place = self.place(hash);
        // Dropped after the lock is left.
        let mut evicted = None;
        let mut shard = place.shard.write();
        if let Some(cell) = shard.find(hash, key) {
            return algorithm.check_n(cell, now, cost);
        }
        let Some(claim) = self.claim(place, &mut shard, hash, now, &mut evicted) else {
            return match self.on_full {
                OnFull::Allow => {
                    self.full.allowed.add(1);
                    Ok(answer.uncounted())
                }
                OnFull::Deny | OnFull::Evict => {
                    self.full.denied.add(1);
                    Err(Denied::table_full(algorithm.limit()))
                }
            };
        };
        let rehash = |key: &K| self.hasher.hash_one(key);
        shard.make_room(hash, (&self.algorithm, now), &self.room, rehash);
        let key = key.to_owned();
        if self.room.most.is_some() {
            shard.may_be_idle(hash, now, self.algorithm.idle_after(&cell, now));
        }
        shard.insert(hash, Slot { key, cell }, rehash);
        claim.used();
        Ok(answer)
    }

    /// Room for a newcomer, if need be that of idle keys, or of a live one that is to be evicted.
    fn claim(
        &self,
        place: &Place<K, A::Cell>,
        shard: &mut Shard<K, A::Cell>,
        hash: u64,
        now: Timestamp,
        evicted: &mut Option<Slot<K, A::Cell>>,
    ) -> Option<Claim<'_>> {
        if self.room.take() {
            return Some(Claim(Some(&self.room)));
        }
        let asked = (&self.algorithm, now);
        let dropped = shard.drop_idle(hash, asked, place.given_back.get(), &self.room);
        if dropped > 0 {
            // All but the one that is taken.
            self.room.give_back(dropped - 1);
            return Some(Claim(Some(&self.room)));
        }
        if self.on_full == OnFull::Evict {
            *evicted = Some(shard.evict(hash, asked)?);
            self.full.evicted.add(1);
            return Some(Claim(Some(&self.room)));
        }
        None
    }

    fn peek_hashed<Q>(
        &self,
        hash: u64,
        key: &Q,
        now: Timestamp,
        cost: u64,
    ) -> Result<Allowed, Denied>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let shard = self.place(hash).shard.read();
        match shard.find(hash, key) {
            Some(cell) => self.algorithm.peek_n(cell, now, cost),
            None => self.algorithm.peek_n(&self.algorithm.fresh(), now, cost),
        }
    }

    fn refund_hashed<Q>(&self, hash: u64, key: &Q, taken_at: Timestamp, cost: u64) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let place = self.place(hash);
        let shard = place.shard.read();
        let Some(cell) = shard.find(hash, key) else {
            return false;
        };
        let changed = self.algorithm.refund(cell, taken_at, cost);
        if changed && self.room.most.is_some() {
            // The key may be idle sooner than a look through its segment has found. Before the lock is left, so
            // that whoever looks next knows.
            place.given_back.add(1);
        }
        changed
    }

    fn reset_hashed<Q>(&self, hash: u64, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // Dropped after the lock is left.
        let _slot = self.place(hash).shard.write().remove(hash, key, &self.room);
    }
}

impl<K, A: Algorithm<Word: AtomicWord>, S> Map<K, A, S> {
    /// Limits for some of the clients of this map; `None` if their states would not mean the same as the
    /// map's: see [`Algorithm::shares_states`].
    ///
    /// ```
    /// use tidegate::{Map, Quota, Timestamp, TokenBucket};
    ///
    /// // The scale is that of the largest tier: the others are made from it.
    /// let gold = TokenBucket::new(Quota::per_minute(100));
    /// let clients: Map<String, TokenBucket> = Map::new(gold);
    ///
    /// let free = clients.tier(gold.tier(Quota::per_minute(10), 10).unwrap()).unwrap();
    /// let now = Timestamp::from_secs(1);
    /// assert_eq!(clients.check_with(&free, "bob", now, 1).unwrap().remaining(), 9);
    /// assert_eq!(clients.check("carol", now).unwrap().remaining(), 99);
    /// ```
    pub fn tier(&self, algorithm: A) -> Option<Tier<A>> {
        self.algorithm
            .shares_states(&algorithm)
            .then_some(Tier { algorithm })
    }
}

impl<K, A: Strategy + fmt::Debug, S> fmt::Debug for Map<K, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("algorithm", &self.algorithm)
            .field("on_full", &self.on_full)
            .field("max_keys", &self.room.most)
            .field("full_counts", &self.full_counts())
            .field("len", &self.len())
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}
