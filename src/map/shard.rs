//! One shard of a map: small tables behind a directory, so that none of them is ever long in growing.
//!
//! Extendible hashing (Fagin, Nievergelt, Pippenger and Strong, "Extendible hashing: a fast access method for dynamic
//! files", 1979). A key's *position* is 32 bits of its hash. The directory has a power of two entries; the leading bits
//! of a position choose one, and it names the segment, a `hashbrown` table of at most [`SEGMENT`] keys. A segment
//! of depth `d` holds the positions that begin with the same `d` bits, so neighbouring entries of the directory
//! may name one segment. A segment that is full splits in two by the next bit, and the directory doubles when it has
//! no bit more to tell the two apart.
//!
//! # Bits of a hash
//!
//! ```text
//!  63      57 56          41 40                  9 8        0
//! +----------+--------------+---------------------+----------+
//! |   tag    |    shard     |      position       |  bucket  |
//! +----------+--------------+---------------------+----------+
//! ```
//!
//! Tag and bucket are `hashbrown`'s, in tables of up to 512 buckets. Only tables that a bad hasher has made larger take
//! bits of the position for the bucket, too.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::time::Duration;

use hashbrown::HashTable;

use super::Room;
use crate::strategy::Strategy;
use crate::time::Timestamp;

/// The most keys of a segment, which is the most that grow, split or are looked through at once: what fills
/// 512 buckets to seven eighths.
const SEGMENT: usize = 448;

/// How many keys are compared to find one to evict.
const SAMPLE: usize = 16;

/// Entries of the directory for each segment's worth of keys, at most. With hashes that spread, two to four
/// are enough; a bad hasher must not make it grow for ever.
const SPARE: usize = 16;

const POSITION_SHIFT: u32 = 9;
const POSITION_BITS: u32 = 32;

/// Where in its shard a key of this hash is.
#[inline]
fn position(hash: u64) -> u32 {
    (hash >> POSITION_SHIFT) as u32
}

/// Which shard a key of this hash is in, if there are so many of them, a power of two and at most 2^16.
#[inline]
pub(super) fn shard_of(hash: u64, shards: usize) -> usize {
    (hash >> (POSITION_SHIFT + POSITION_BITS)) as usize & (shards - 1)
}

/// A key and what it has used.
pub(super) struct Slot<K, C> {
    pub(super) key: K,
    pub(super) cell: C,
}

pub(super) type Segment<K, C> = HashTable<Slot<K, C>>;

/// What is known of a segment, apart from its keys.
#[derive(Clone, Copy)]
struct About {
    /// How many leading bits its positions have in common.
    depth: u32,
    /// How many keys its table takes when nothing was ever removed from it.
    full: usize,
    /// From when on, and before when, no key in it is idle, unless something was given back since.
    live_from: Timestamp,
    live_until: Timestamp,
    /// What had been given back when that was found out.
    given_back: usize,
}

impl About {
    const NOTHING: Self = Self {
        depth: 0,
        full: 0,
        live_from: Timestamp::MAX,
        live_until: Timestamp::ZERO,
        given_back: 0,
    };
}

/// See the module's documentation.
///
/// In this order in memory, so that what a hit in a small map reads is on the line of the lock, which it writes
/// anyway, and all is on two lines.
#[repr(C)]
pub(super) struct Shard<K, C> {
    /// The only segment, until it splits.
    first: Segment<K, C>,
    /// How far to shift a position to get its place in the directory; all the way while there is one segment.
    shift: u32,
    /// The position whose segment is looked through next, on behalf of a newcomer in another one.
    hand: u32,
    /// Indices of segments: of the first, and then of the others.
    directory: Box<[u32]>,
    others: Vec<Segment<K, C>>,
    /// Of the first, and then of the others. What a hit never reads.
    #[expect(clippy::box_collection, reason = "a word here instead of three")]
    about: Box<Vec<About>>,
    /// In all segments.
    keys: usize,
}

impl<K, C> Shard<K, C> {
    pub(super) fn new() -> Self {
        Self {
            first: HashTable::new(),
            shift: POSITION_BITS,
            hand: 0,
            directory: Box::new([0]),
            others: Vec::new(),
            about: Box::new(vec![About::NOTHING]),
            keys: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.keys
    }

    #[inline]
    fn segment_at(&self, position: u32) -> usize {
        if self.shift == POSITION_BITS {
            return 0;
        }
        self.directory[(position >> self.shift) as usize] as usize
    }

    /// The segment of this position, and the first position after it, if that is not the last.
    pub(super) fn segment_from(&self, position: u32) -> (usize, Option<u32>) {
        let index = self.segment_at(position);
        let width = 1_u64 << (POSITION_BITS - self.about[index].depth);
        let end = (u64::from(position) & !(width - 1)) + width;
        (index, u32::try_from(end).ok())
    }

    #[inline]
    pub(super) fn segment(&self, index: usize) -> &Segment<K, C> {
        match index.checked_sub(1) {
            None => &self.first,
            Some(index) => &self.others[index],
        }
    }

    fn segment_mut(&mut self, index: usize) -> &mut Segment<K, C> {
        match index.checked_sub(1) {
            None => &mut self.first,
            Some(index) => &mut self.others[index],
        }
    }

    pub(super) fn segments_mut(&mut self) -> impl Iterator<Item = &mut Segment<K, C>> {
        core::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// What was found out under other limits holds no longer.
    pub(super) fn forget_idle_times(&mut self) {
        for about in self.about.iter_mut() {
            about.live_until = Timestamp::ZERO;
        }
    }

    #[inline]
    pub(super) fn find<Q>(&self, hash: u64, key: &Q) -> Option<&C>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let segment = self.segment(self.segment_at(position(hash)));
        let slot = segment.find(hash, |slot| slot.key.borrow() == key)?;
        Some(&slot.cell)
    }

    /// Takes a key out.
    pub(super) fn remove<Q>(&mut self, hash: u64, key: &Q, room: &Room) -> Option<Slot<K, C>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let index = self.segment_at(position(hash));
        let segment = self.segment_mut(index);
        let found = segment.find_entry(hash, |slot| slot.key.borrow() == key);
        let (slot, _) = found.ok()?.remove();
        self.keys -= 1;
        room.give_back(1);
        Some(slot)
    }

    /// Puts a key in that is not there, in the room that [`make_room`](Self::make_room) has made.
    pub(super) fn insert(&mut self, hash: u64, slot: Slot<K, C>, rehash: impl Fn(&K) -> u64) {
        let index = self.segment_at(position(hash));
        self.segment_mut(index)
            .insert_unique(hash, slot, |slot| rehash(&slot.key));
        self.keys += 1;
    }

    /// Drops what `goes` names of one segment, and returns how many those were. The caller gives their room back.
    fn drop_where(
        &mut self,
        index: usize,
        room: &Room,
        mut goes: impl FnMut(&Slot<K, C>) -> bool,
    ) -> usize {
        /// Keeps the counts right when the algorithm panics, or the drop of a key.
        struct Dropping<'a, K, C> {
            segment: &'a mut Segment<K, C>,
            before: usize,
            keys: &'a mut usize,
            room: Option<&'a Room>,
        }

        impl<K, C> Drop for Dropping<'_, K, C> {
            fn drop(&mut self) {
                let dropped = self.before - self.segment.len();
                *self.keys -= dropped;
                if let Some(room) = self.room {
                    room.give_back(dropped);
                }
            }
        }

        let segment = match index.checked_sub(1) {
            None => &mut self.first,
            Some(index) => &mut self.others[index],
        };
        let mut dropping = Dropping {
            before: segment.len(),
            segment,
            keys: &mut self.keys,
            room: Some(room),
        };
        dropping.segment.retain(|slot| !goes(slot));
        dropping.room = None;
        dropping.before - dropping.segment.len()
    }

    /// Sees to it that one more key fits into the segment of this hash. If it must make room for that, it
    /// drops the idle keys of this one segment first. Looks at no other.
    pub(super) fn make_room<A: Strategy<Cell = C>>(
        &mut self,
        hash: u64,
        (algorithm, now): (&A, Timestamp),
        room: &Room,
        rehash: impl Fn(&K) -> u64,
    ) {
        loop {
            let index = self.segment_at(position(hash));
            let segment = self.segment(index);
            // Not only of one that is full: one from which much was removed can be out of free buckets.
            if segment.len() < segment.capacity() {
                return;
            }
            let dropped = self.drop_where(index, room, |slot| algorithm.is_idle(&slot.cell, now));
            room.give_back(dropped);

            let segment = self.segment(index);
            let (wanted, full) = (roomy(segment.len()), self.about[index].full);
            if wanted > full {
                if full >= SEGMENT && self.split(position(hash), &rehash) {
                    // As a rule into halves, of which either has room. If not, once more.
                    continue;
                }
                self.rebuild(index, wanted, &rehash);
            } else if wanted <= full / 2 {
                // By no more than a quarter: those who made it grow may come back.
                self.rebuild(index, wanted.max(full / 4), &rehash);
            } else if wanted > segment.capacity() {
                self.rebuild(index, full, &rehash);
            }
            return;
        }
    }

    /// Drops the idle keys of the segment of this position, and gives back the memory they leave. Returns the first
    /// position after it.
    pub(super) fn sweep<A: Strategy<Cell = C>>(
        &mut self,
        position: u32,
        (algorithm, now): (&A, Timestamp),
        room: &Room,
        rehash: impl Fn(&K) -> u64,
    ) -> Option<u32> {
        let (index, next) = self.segment_from(position);
        let dropped = self.drop_where(index, room, |slot| algorithm.is_idle(&slot.cell, now));
        room.give_back(dropped);
        let live = self.segment(index).len();
        if live == 0 {
            *self.segment_mut(index) = HashTable::new();
            self.about[index].full = 0;
        } else if roomy(live) <= self.about[index].full / 2 {
            self.rebuild(index, roomy(live), rehash);
        }
        if self.keys == 0 {
            // Nothing is left to visit.
            if !self.others.is_empty() {
                *self = Self::new();
            }
            return None;
        }
        next
    }

    /// Drops idle keys of the segment of this hash, or else of another one, in turn. Returns how many it dropped;
    /// the caller gives their room back.
    ///
    /// A segment in which none is idle is not looked through again before one can be.
    pub(super) fn drop_idle<A: Strategy<Cell = C>>(
        &mut self,
        hash: u64,
        asked: (&A, Timestamp),
        given_back: usize,
        room: &Room,
    ) -> usize {
        let index = self.segment_at(position(hash));
        let dropped = self.drop_idle_of(index, asked, given_back, room);
        if dropped > 0 {
            return dropped;
        }
        // Twice, if it is its own turn: the segment behind is another one, unless there is none.
        let (mut other, mut next) = self.segment_from(self.hand);
        if other == index {
            (other, next) = self.segment_from(next.unwrap_or(0));
        }
        self.hand = next.unwrap_or(0);
        if other == index {
            return 0;
        }
        self.drop_idle_of(other, asked, given_back, room)
    }

    fn drop_idle_of<A: Strategy<Cell = C>>(
        &mut self,
        index: usize,
        (algorithm, now): (&A, Timestamp),
        given_back: usize,
        room: &Room,
    ) -> usize {
        let about = self.about[index];
        if about.live_from <= now && now < about.live_until && about.given_back == given_back {
            return 0;
        }
        let mut soonest = Duration::MAX;
        let dropped = self.drop_where(index, room, |slot| {
            let wait = algorithm.idle_after(&slot.cell, now);
            if !wait.is_zero() {
                soonest = soonest.min(wait);
            }
            wait.is_zero()
        });
        let about = &mut self.about[index];
        about.live_from = now;
        about.live_until = now.saturating_add(soonest);
        about.given_back = given_back;
        dropped
    }

    /// A key came into the segment of this hash that may be idle after so long.
    pub(super) fn may_be_idle(&mut self, hash: u64, now: Timestamp, after: Duration) {
        let index = self.segment_at(position(hash));
        let about = &mut self.about[index];
        about.live_until = about.live_until.min(now.saturating_add(after));
    }

    /// Takes out the key that would be idle first, of some in the segment of this hash, or in another one if that
    /// is empty. Its room is the caller's.
    pub(super) fn evict<A: Strategy<Cell = C>>(
        &mut self,
        hash: u64,
        (algorithm, now): (&A, Timestamp),
    ) -> Option<Slot<K, C>> {
        let mut index = self.segment_at(position(hash));
        if self.segment(index).is_empty() {
            index = self.segment_at(self.hand);
        }
        let segment = self.segment_mut(index);
        let buckets = segment.num_buckets();
        // From anywhere, so that no place in the table is a safe one.
        let from = (hash >> POSITION_SHIFT) as usize % buckets.max(1);
        let victim = (from..buckets)
            .chain(0..from)
            .filter_map(|bucket| {
                let slot = segment.get_bucket(bucket)?;
                Some((algorithm.idle_after(&slot.cell, now), bucket))
            })
            .take(SAMPLE)
            .min();
        let (_, bucket) = victim?;
        let (slot, _) = segment.get_bucket_entry(bucket).ok()?.remove();
        self.keys -= 1;
        Some(slot)
    }

    /// Moves a segment into a table for so many keys.
    fn rebuild(&mut self, index: usize, capacity: usize, rehash: impl Fn(&K) -> u64) {
        let mut table = HashTable::with_capacity(capacity);
        let segment = self.segment_mut(index);
        let full = table.capacity();
        relocate(segment, &rehash, |hash, slot| {
            table.insert_unique(hash, slot, |slot| rehash(&slot.key));
        });
        *segment = table;
        self.about[index].full = full;
    }

    /// Splits the segment of this position in two. False if it must not: the directory would grow out of
    /// proportion, since the hasher does not spread the keys.
    fn split(&mut self, position: u32, rehash: impl Fn(&K) -> u64) -> bool {
        let index = self.segment_at(position);
        let about = self.about[index];
        let doubles = about.depth == POSITION_BITS - self.shift;
        if doubles && 2 * self.directory.len() > SPARE * (self.keys / SEGMENT + 1) {
            return false;
        }
        let (Ok(number), Some(bit)) = (
            u32::try_from(self.about.len()),
            1_u32.checked_shl(POSITION_BITS - 1 - about.depth),
        ) else {
            return false;
        };

        // Either may get them all.
        let capacity = self.segment(index).len().max(SEGMENT);
        let mut halves = [(); 2].map(|()| HashTable::with_capacity(capacity));
        let full = halves[0].capacity();
        let [zeros, ones] = &mut halves;
        relocate(self.segment_mut(index), &rehash, |hash, slot| {
            let one = self::position(hash) & bit != 0;
            let half = if one { &mut *ones } else { &mut *zeros };
            half.insert_unique(hash, slot, |slot| rehash(&slot.key));
        });
        let [zeros, ones] = halves;
        *self.segment_mut(index) = zeros;
        self.others.push(ones);
        self.about[index] = About {
            depth: about.depth + 1,
            full,
            ..about
        };
        self.about.push(self.about[index]);

        if doubles {
            self.shift -= 1;
            self.directory = self
                .directory
                .iter()
                .flat_map(|&segment| [segment; 2])
                .collect();
        }
        let place = |position: u32| (u64::from(position) >> self.shift) as usize;
        let first = position & !(bit - 1) | bit;
        let (first, last) = (place(first), place(first | (bit - 1)));
        self.directory[first..=last].fill(number);
        true
    }
}

/// Room for a number of keys, and half as many more: a table is grown, or kept, so that the next look through it is
/// paid for by as many newcomers as that.
fn roomy(keys: usize) -> usize {
    keys + keys / 2 + 1
}

/// Empties a table, slot by slot, into `put`, which gets the hash of each.
fn relocate<K, C>(
    from: &mut Segment<K, C>,
    rehash: impl Fn(&K) -> u64,
    mut put: impl FnMut(u64, Slot<K, C>),
) {
    // All hashes before the first move, so that one that panics leaves everything in place.
    let hashes: Vec<_> = from
        .iter_buckets()
        .filter_map(|bucket| Some((bucket, rehash(&from.get_bucket(bucket)?.key))))
        .collect();
    for (bucket, hash) in hashes {
        if let Ok(entry) = from.get_bucket_entry(bucket) {
            put(hash, entry.remove().0);
        }
    }
}
