//! What was refused, and until when: so that a key that is blocked costs no round trip.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use tidegate::{Clock, Denied, Timestamp};

/// A fixed number of places, each for one key at a time: the latest refused. Whoever meets a place that is another
/// key's asks the server.
///
/// A lock is held for a comparison and a copy, by those alone whose keys share the place.
pub(crate) struct Refusals {
    places: Box<[Mutex<Place>]>,
    hasher: ahash::RandomState,
    clock: Clock,
    at_most: Duration,
}

#[derive(Clone, Copy)]
struct Place {
    /// Of the key. Two keys in one place have the same with a probability of 2^-64, and nobody who does not know the
    /// seed can aim for it.
    hash: u64,
    refusal: Refusal,
}

/// A refusal that the server would repeat for a while.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    cost: u64,
    /// Until then the server need not be asked.
    until: Timestamp,
    /// When its answer was here.
    heard_at: Timestamp,
    denied: Denied,
}

impl Refusal {
    /// The server has refused, at some time from `asked_at` to `heard_at`. So it is asked again when the wait may be
    /// over, after `at_most` in any case, and clients are told when it surely is. None if waiting is no cure.
    pub(crate) fn new(
        cost: u64,
        asked_at: Timestamp,
        heard_at: Timestamp,
        denied: Denied,
        at_most: Duration,
    ) -> Option<Self> {
        let wait = denied.retry_after()?.min(at_most);
        Some(Self {
            cost,
            until: asked_at.saturating_add(wait),
            heard_at,
            denied,
        })
    }

    /// What the server would answer.
    pub(crate) fn repeated(&self, cost: u64, now: Timestamp) -> Option<Denied> {
        let is_valid = self.cost == cost && now < self.until;
        is_valid.then(|| later(&self.denied, now.saturating_duration_since(self.heard_at)))
    }
}

impl Refusals {
    pub(crate) fn new(keys: usize, at_most: Duration) -> Self {
        let nobody = Place {
            hash: 0,
            refusal: Refusal {
                cost: 0,
                until: Timestamp::ZERO,
                heard_at: Timestamp::ZERO,
                denied: Denied::too_costly(0, 0, Duration::ZERO),
            },
        };
        let places = keys.max(1).next_power_of_two();
        Self {
            places: (0..places).map(|_| Mutex::new(nobody)).collect(),
            hasher: ahash::RandomState::new(),
            clock: Clock::new(),
            at_most,
        }
    }

    /// An instant to hand to [`remember`](Self::remember): from before the server was asked.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn place(&self, key: &[u8]) -> (&Mutex<Place>, u64) {
        let hash = self.hasher.hash_one(key);
        // There is at least one place, and a power of two.
        let number = hash as usize & (self.places.len() - 1);
        (&self.places[number], hash)
    }

    /// The refusal that the server would repeat.
    pub(crate) fn recall(&self, key: &[u8], cost: u64) -> Option<Denied> {
        let (place, hash) = self.place(key);
        let place = *place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.hash != hash {
            return None;
        }
        place.refusal.repeated(cost, self.clock.now())
    }

    /// The server has refused, since `asked_at`.
    pub(crate) fn remember(&self, key: &[u8], cost: u64, asked_at: Timestamp, denied: Denied) {
        let heard_at = self.clock.now();
        let Some(refusal) = Refusal::new(cost, asked_at, heard_at, denied, self.at_most) else {
            return;
        };
        let (place, hash) = self.place(key);
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Place { hash, refusal };
    }

    /// Something was given back.
    pub(crate) fn forget(&self, key: &[u8]) {
        let (place, hash) = self.place(key);
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.hash == hash {
            place.refusal.until = Timestamp::ZERO;
        }
    }
}

/// A refusal as it is after a while.
fn later(denied: &Denied, since: Duration) -> Denied {
    let less = |time: Duration| time.saturating_sub(since);
    let retry = less(denied.retry_after().unwrap_or_default());
    let reset = less(denied.reset_after());
    let answer = Denied::limited(denied.limit(), denied.remaining(), retry, reset);
    match denied.next_after() {
        Some(next) => answer.with_next_after(less(next)),
        None => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(retry: Duration) -> Denied {
        Denied::limited(5, 0, retry, 2 * retry)
    }

    #[test]
    fn a_refusal_is_repeated_for_its_key_and_cost_until_it_ends() {
        let refusals = Refusals::new(16, Duration::from_secs(3_600));
        let retry = Duration::from_secs(3_000);
        let asked_at = refusals.now();
        refusals.remember(b"a", 1, asked_at, denied(retry));
        let again = refusals.recall(b"a", 1).unwrap();
        assert!(again.retry_after().unwrap() <= retry);
        assert!(again.retry_after().unwrap() > retry - Duration::from_secs(100));
        assert_eq!((again.limit(), again.remaining()), (5, 0));
        assert!(refusals.recall(b"a", 2).is_none());
        assert!(refusals.recall(b"b", 1).is_none());
        refusals.forget(b"a");
        assert!(refusals.recall(b"a", 1).is_none());

        // A wait that is over by now.
        refusals.remember(b"a", 1, Timestamp::ZERO, denied(Duration::from_nanos(1)));
        assert!(refusals.recall(b"a", 1).is_none());
    }

    #[test]
    fn no_refusal_is_repeated_for_longer_than_chosen() {
        let refusals = Refusals::new(16, Duration::ZERO);
        refusals.remember(b"a", 1, refusals.now(), denied(Duration::from_secs(3_000)));
        assert!(refusals.recall(b"a", 1).is_none());
    }

    #[test]
    fn what_can_never_pass_is_not_remembered() {
        let refusals = Refusals::new(1, Duration::MAX);
        let never = Denied::too_costly(5, 5, Duration::ZERO);
        refusals.remember(b"a", 6, refusals.now(), never);
        assert!(refusals.recall(b"a", 6).is_none());
    }

    #[test]
    fn memory_is_as_large_as_chosen_whoever_comes() {
        let refusals = Refusals::new(3, Duration::from_secs(3_600));
        assert_eq!(refusals.places.len(), 4);
        assert_eq!(size_of::<Mutex<Place>>(), 104, "as documented");
        for key in 0..1_000_u32 {
            let key = key.to_be_bytes();
            refusals.remember(&key, 1, refusals.now(), denied(Duration::from_secs(3_000)));
            assert!(refusals.recall(&key, 1).is_some());
        }
        let known = (0..1_000_u32).filter(|key| refusals.recall(&key.to_be_bytes(), 1).is_some());
        assert!(known.count() <= 4);
    }
}
