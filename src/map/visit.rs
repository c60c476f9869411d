//! What visits every key of a map: segment by segment, so that nobody waits for long.
//!
//! Positions are visited in ascending order. However segments split meanwhile, each holds a stretch of positions, and
//! the visit goes on behind the last one it has seen: a key that is there all the while is visited once.

use alloc::vec::{self, Vec};
use core::fmt;
use core::hash::{BuildHasher, Hash};

use super::Map;
use super::shard::{Segment, Shard};
use crate::decision::Allowed;
use crate::strategy::Strategy;
use crate::table::Seeded;
use crate::time::Timestamp;

/// Where a visit is.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    shard: usize,
    position: u32,
}

impl Cursor {
    const START: Self = Self {
        shard: 0,
        position: 0,
    };

    /// Moves on to the next position, or to the next shard if there is none.
    fn advance(&mut self, next: Option<u32>) {
        match next {
            Some(position) => self.position = position,
            None => {
                self.shard += 1;
                self.position = 0;
            }
        }
    }
}

impl<K, A: Strategy, S> Map<K, A, S> {
    /// How many keys there are, live ones and idle ones that nobody has needed the room of yet. Locks one shard after
    /// the other, and visits no key.
    pub fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|place| place.shard.read().len()).sum()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.all(|place| place.shard.read().len() == 0)
    }

    /// How many keys have used something that has not come back yet. Visits every key.
    pub fn len_live(&self, now: Timestamp) -> usize {
        let live = |segment: &Segment<K, A::Cell>| {
            let slots = segment.iter();
            slots
                .filter(|slot| !self.algorithm.is_idle(&slot.cell, now))
                .count()
        };
        let mut cursor = Cursor::START;
        let mut count = 0;
        while let Some(live) = self.visit(&mut cursor, live) {
            count += live;
        }
        count
    }

    /// Looks at the segment at the cursor, under the shared lock, and moves the cursor on.
    fn visit<T>(
        &self,
        cursor: &mut Cursor,
        look: impl FnOnce(&Segment<K, A::Cell>) -> T,
    ) -> Option<T> {
        let shard = self.shards.get(cursor.shard)?.shard.read();
        let (index, next) = shard.segment_from(cursor.position);
        cursor.advance(next);
        Some(look(shard.segment(index)))
    }

    /// Forgets every key, and gives back the memory. What others take meanwhile may be forgotten or not.
    pub fn clear(&self) {
        for place in &self.shards {
            let mut shard = place.shard.write();
            let forgotten = core::mem::replace(&mut *shard, Shard::new());
            self.room.give_back(forgotten.len());
            // The keys are dropped with nothing locked.
            drop(shard);
        }
    }

    /// Changes the limits in place. What was used stays used, in permits, as in
    /// [`Limiter::retune`](crate::Limiter::retune). Visits every key.
    pub fn retune(&mut self, algorithm: A, now: Timestamp) {
        for place in &mut self.shards {
            let shard = place.shard.get_mut();
            shard.forget_idle_times();
            for slot in shard.segments_mut().flatten() {
                slot.cell = algorithm.adopted(&self.algorithm, &slot.cell, now);
            }
        }
        self.algorithm = algorithm;
    }
}

impl<K: Hash + Eq, A: Strategy, S: BuildHasher> Map<K, A, S> {
    /// Drops idle keys, which changes no answer, and gives their memory back. Visits every key; locks no more than
    /// 448 of them at a time.
    ///
    /// The map never needs it to make room for newcomers. Without newcomers, nothing else gives memory back. And it is
    /// for states that were left alone so long that the time in them wraps: called at least once in half a wrap, it
    /// rules out that an idle key looks used; see the algorithms.
    pub fn sweep(&self, now: Timestamp) {
        let mut cursor = Cursor::START;
        while let Some(place) = self.shards.get(cursor.shard) {
            let rehash = |key: &K| self.hasher.hash_one(key);
            let asked = (&self.algorithm, now);
            let mut shard = place.shard.write();
            let next = shard.sweep(cursor.position, asked, &self.room, rehash);
            cursor.advance(next);
        }
    }
}

impl<K: Clone, A: Strategy, S> Map<K, A, S> {
    /// Every key, in no order, and what a check of cost 0 would answer it now: what remains, and when all has come
    /// back. Idle keys may be among them.
    ///
    /// Copies up to 448 keys at a time, and locks nothing between: whoever goes through it may use the map in
    /// every way. A key that is there all the while comes once; one that comes or goes meanwhile, once or not at all.
    ///
    /// ```
    /// use tidegate::{Map, Quota, Timestamp, TokenBucket};
    ///
    /// let clients: Map<String, TokenBucket> = Map::new(TokenBucket::new(Quota::per_hour(5)));
    /// let now = Timestamp::from_secs(1);
    /// let _ = clients.check_n("alice", now, 5);
    /// let _ = clients.check("bob", now);
    /// for (client, allowed) in clients.iter(now) {
    ///     if allowed.remaining() == 0 {
    ///         println!("{client} is out for {:?}", clients.peek(&client, now).unwrap_err().retry_after());
    ///     }
    /// }
    /// # assert_eq!(clients.iter(now).count(), 2);
    /// ```
    pub fn iter(&self, now: Timestamp) -> MapIter<'_, K, A, S> {
        MapIter {
            map: self,
            now,
            cursor: Cursor::START,
            copied: Vec::new().into_iter(),
        }
    }

    /// Keys and their answers of one segment, with nothing locked when they are returned.
    fn copy(&self, cursor: &mut Cursor, now: Timestamp) -> Option<Vec<(K, Allowed)>> {
        self.visit(cursor, |segment| {
            let answers = segment.iter().filter_map(|slot| {
                // Cost 0 is always admitted.
                let allowed = self.algorithm.peek_n(&slot.cell, now, 0).ok()?;
                Some((slot.key.clone(), allowed))
            });
            answers.collect()
        })
    }
}

impl<K: Hash + Eq + Clone, A: Strategy, S: BuildHasher> Map<K, A, S> {
    /// Forgets the keys for which `keep` says false: it gets each with what a check of cost 0 would answer it.
    /// Whatever those had used is handed back.
    ///
    /// Copies up to 448 keys at a time, and calls `keep` with nothing locked: it may use the map in every way. What a
    /// key takes between being judged and being forgotten is forgotten with it.
    pub fn retain(&self, now: Timestamp, mut keep: impl FnMut(&K, Allowed) -> bool) {
        let mut cursor = Cursor::START;
        while let Some(mut copied) = self.copy(&mut cursor, now) {
            copied.retain(|(key, allowed)| !keep(key, *allowed));
            for (key, _) in &copied {
                self.reset(key);
            }
        }
    }
}

/// Every key of a map, and what remains to it; made by [`Map::iter`].
pub struct MapIter<'a, K, A: Strategy, S = Seeded> {
    map: &'a Map<K, A, S>,
    now: Timestamp,
    cursor: Cursor,
    copied: vec::IntoIter<(K, Allowed)>,
}

impl<K: Clone, A: Strategy, S> Iterator for MapIter<'_, K, A, S> {
    type Item = (K, Allowed);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.copied.next() {
                return Some(next);
            }
            self.copied = self.map.copy(&mut self.cursor, self.now)?.into_iter();
        }
    }
}

impl<K, A: Strategy, S> fmt::Debug for MapIter<'_, K, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapIter")
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
