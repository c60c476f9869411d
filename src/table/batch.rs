//! Many keys at once: memory latency is paid once a group.

use core::hash::{BuildHasher, Hash};

use super::line::Place;
use super::{KeyedTable, Storage};
use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::sync::AtomicWord;
use crate::time::Timestamp;

/// Keys whose lines are on their way at the same time.
const GROUP: usize = 16;

impl<A: Algorithm<Word: AtomicWord>, L: Storage<A::Word>, S: BuildHasher> KeyedTable<A, L, S> {
    /// One request of each key, in order, and `answer` with its index and decision.
    ///
    /// Hashes and prefetches a group of keys before it decides the first of them: this is what a packet loop
    /// calls. A key may occur more than once.
    ///
    /// ```
    /// # #[cfg(any(feature = "ahash", feature = "foldhash"))] {
    /// use tidegate::{Quota, Table, Timestamp, TokenBucket};
    ///
    /// static PEERS: Table<TokenBucket, 64> = Table::new(TokenBucket::new(Quota::per_second(2)));
    ///
    /// let sources = [10, 20, 10, 10, 30];
    /// let mut dropped = vec![];
    /// PEERS.check_many(&sources, Timestamp::from_secs(1), |index, decision| {
    ///     if decision.is_err() {
    ///         dropped.push(index);
    ///     }
    /// });
    /// assert_eq!(dropped, [3]);
    /// # }
    /// ```
    pub fn check_many<K: Hash>(
        &self,
        keys: &[K],
        now: Timestamp,
        mut answer: impl FnMut(usize, Result<Allowed, Denied>),
    ) {
        let slots = self.slots();
        let mut places = [Place::NOWHERE; GROUP];
        let mut lines = [0; GROUP];
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let places = &mut places[..keys.len()];
            for (place, key) in places.iter_mut().zip(keys) {
                *place = self.place(self.hasher.hash_one(key));
                slots.prefetch(place.first());
            }
            // Most are in their first line; ask for the second of the others, without a branch that would have
            // to wait for the line to be guessed wrong.
            for (line, &place) in lines.iter_mut().zip(&*places) {
                *line = slots.line_of(place);
                slots.prefetch(*line);
            }
            for (index, (&line, &place)) in lines.iter().zip(&*places).enumerate() {
                let found = slots.find_in(line, place);
                let decision = self.check_found(found, place, &self.algorithm, now, 1);
                answer(group * GROUP + index, decision);
            }
        }
    }
}
