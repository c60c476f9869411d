//! Many keys at once: memory latency is paid once a group.

use core::hash::{BuildHasher, Hash};
use core::hint::select_unpredictable;

use super::find::found;
use super::line::{Line, Place};
use super::{KeyedTable, Storage};
use crate::algorithm::Algorithm;
use crate::decision::{Allowed, Denied};
use crate::sync::AtomicWord;
use crate::time::Timestamp;

/// Keys whose lines are on their way at the same time. What is kept of each is on the stack, 36 bytes or so, which
/// a microcontroller has little of; nor has it far to memory.
const GROUP: usize = if cfg!(target_pointer_width = "64") {
    32
} else {
    8
};

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
    #[inline]
    pub fn check_many<K: Hash>(
        &self,
        keys: &[K],
        now: Timestamp,
        mut answer: impl FnMut(usize, Result<Allowed, Denied>),
    ) {
        let slots = self.slots();
        let mut places = [Place::NOWHERE; GROUP];
        let Some(nowhere) = slots.lines_of(Place::NOWHERE) else {
            return;
        };
        let mut lines = [nowhere; GROUP];
        let mut likely = [0; GROUP];
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let (places, lines) = (&mut places[..keys.len()], &mut lines[..keys.len()]);
            for ((place, lines), key) in places.iter_mut().zip(&mut *lines).zip(keys) {
                *place = self.place(self.hasher.hash_one(key));
                let Some(found) = slots.lines_of(*place) else {
                    return;
                };
                *lines = found;
                lines[0].prefetch();
            }
            // Most are in their first line, and only for the others the second has to come.
            for (lines, place) in lines.iter_mut().zip(&*places) {
                let is_in_first = Line::likely_committed_to([lines[0]; 2], place.key()) != 0;
                lines[0] = select_unpredictable(is_in_first, lines[0], lines[1]);
                lines[0].prefetch();
            }
            // All of the group before the first exchange, which would keep the processor from looking ahead.
            for ((likely, lines), place) in likely.iter_mut().zip(&*lines).zip(&*places) {
                *likely = Line::likely_committed_to([lines[0]; 2], place.key());
            }
            for (index, place) in places.iter().enumerate() {
                let found = found([lines[index][0]; 2], likely[index], *place);
                let decision = self.check_found(found, *place, &self.algorithm, now, 1);
                answer(group * GROUP + index, decision);
            }
        }
    }
}
