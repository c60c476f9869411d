//! The busiest keys, in fixed memory.
//!
//! The layer's tables keep fingerprints and cannot list their keys, so the server notes whom it sees. That is done by
//! the algorithm "Space-Saving" (Metwally, Agrawal and El Abbadi, 2005): so many places, and a newcomer takes that of
//! the key with the smallest count, and its count as a possible error. A key with more than one in so many of all
//! requests is never missing, and a flood of keys that never come twice costs nothing more.

use core::cmp::Reverse;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ahash::RandomState;
use axum::http::request::Parts;
use tidegate_tower::{Key, PolicyBudget};

/// How many keys are noted.
const PLACES: usize = 128;

/// Counts are halved this often, so that they tell who is busy of late.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// A key under one policy, and how often it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    pub(crate) policy: Arc<str>,
    /// Each tier has budgets of its own.
    pub(crate) tier: Option<Cow<'static, str>>,
    pub(crate) key: Key,
    /// What the layer needs of a request to find the key.
    pub(crate) request: Parts,
    hash: u64,
    count: u64,
    /// How much of the count may belong to others.
    error: u64,
}

impl Busy {
    /// Whether this is the same budget.
    pub(crate) fn is(&self, budget: &PolicyBudget) -> bool {
        self.policy == budget.name && self.tier == budget.tier && self.key == budget.key
    }

    /// How often it was seen, at least.
    pub(crate) fn at_least(&self) -> u64 {
        self.count - self.error
    }
}

#[derive(Debug)]
struct Places {
    busy: Vec<Busy>,
    halved: Instant,
}

/// The keys that are seen most.
///
/// This is a lock, but no request waits for it: one that finds it held is not noted.
#[derive(Debug)]
pub(crate) struct Busiest {
    hasher: RandomState,
    places: Mutex<Places>,
}

impl Busiest {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            places: Mutex::new(Places {
                busy: Vec::with_capacity(PLACES),
                halved: Instant::now(),
            }),
        }
    }

    /// Notes the keys of a request; `sketch` makes what is kept of it, if that is worth keeping.
    pub(crate) fn note(&self, budgets: &[PolicyBudget], sketch: impl Fn() -> Option<Parts>) {
        let Ok(mut places) = self.places.try_lock() else {
            return;
        };
        let now = Instant::now();
        if now.duration_since(places.halved) >= HALF_LIFE {
            places.halved = now;
            for busy in &mut places.busy {
                busy.count /= 2;
                busy.error /= 2;
            }
        }
        for budget in budgets {
            let PolicyBudget {
                name, tier, key, ..
            } = budget;
            let hash = self.hasher.hash_one((name, tier, key));
            let known = places
                .busy
                .iter_mut()
                .find(|busy| busy.hash == hash && busy.is(budget));
            if let Some(known) = known {
                known.count += 1;
            } else if let Some(request) = sketch() {
                places.add(Busy {
                    policy: Arc::clone(name),
                    tier: tier.clone(),
                    key: key.clone(),
                    request,
                    hash,
                    count: 1,
                    error: 0,
                });
            }
        }
    }

    /// Those seen most, at most so many, the busiest first.
    pub(crate) fn top(&self, most: usize) -> Vec<Busy> {
        let mut busy = self.lock().busy.clone();
        busy.sort_by_key(|busy| Reverse(busy.at_least()));
        busy.truncate(most);
        busy
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Nothing in it is ever half done.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn add(&mut self, mut newcomer: Busy) {
        if self.busy.len() < PLACES {
            self.busy.push(newcomer);
        } else if let Some(least) = self.busy.iter_mut().min_by_key(|busy| busy.count) {
            newcomer.error = least.count;
            newcomer.count += least.count;
            *least = newcomer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use tidegate::{Quota, Timestamp};
    use tidegate_tower::{Limit, OnFailure, Policy, RateLimitLayer};

    fn parts(key: u64) -> Parts {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.extensions.insert(key);
        parts
    }

    /// Two keys are in every other request, in a flood of keys that never come twice.
    #[test]
    fn a_flood_hides_nobody() {
        let key = |parts: &Parts| Ok(Key::Number(*parts.extensions.get::<u64>().unwrap()));
        let layer = RateLimitLayer::builder(OnFailure::Refuse)
            .policy(Policy::new("all", key).limit(Limit::token_bucket(Quota::per_second(1))))
            .clock(|| Timestamp::ZERO)
            .build()
            .unwrap();
        let busiest = Busiest::new();
        let note = |key| {
            let parts = parts(key);
            let budgets = layer.budgets(&parts);
            assert_eq!(budgets.len(), 1);
            busiest.note(&budgets, || Some(parts.clone()));
        };
        for round in 0..10_000 {
            note(1);
            note(1_000_000 + 2 * round);
            note(2);
            note(1_000_001 + 2 * round);
        }
        assert_eq!(busiest.lock().busy.len(), PLACES);
        let top = busiest.top(3);
        let keys: Vec<_> = top
            .iter()
            .map(|busy| (&busy.key, busy.at_least()))
            .collect();
        let rounds = 8_000..=10_000;
        assert!(
            matches!(keys[..], [(Key::Number(1 | 2), a), (Key::Number(1 | 2), b), (_, 1)]
                if rounds.contains(&a) && rounds.contains(&b)),
            "{keys:?}"
        );
        // What takes too much room to keep is not.
        let parts = parts(3);
        busiest.note(&layer.budgets(&parts), || None);
        assert!(
            busiest
                .top(PLACES)
                .iter()
                .all(|busy| busy.key != Key::Number(3))
        );
    }
}
