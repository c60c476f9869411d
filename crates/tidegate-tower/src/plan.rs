//! The policies as they are at one time, with their stores.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use http::request::Parts;
use http::{HeaderValue, Method, header};
use tidegate::http::{Headers, Policy as Told, PolicyBuf, PolicyError};
use tidegate::{Clock, Timestamp};

use crate::builder::{Builder, Now, OnRefusal, Skips, Stores, TierOf};
use crate::case::{AllAsked, Asked, Source};
use crate::key::NoKey;
use crate::layer::PolicyBudget;
use crate::limit::{Limit, OpenLimit};
use crate::mistake::BuildError;
use crate::open::{OpenOnFailure, Opener};
use crate::policy::{OnNoKey, Policy};
use crate::stats::{Counts, Event};
use crate::store::Store;
use crate::telemetry;

/// One policy, with its stores.
pub(crate) struct Active {
    pub(crate) policy: Policy,
    pub(crate) name: Arc<str>,
    /// Those that [`limit_for`](Self::limit_for) tells the indices of.
    pub(crate) limits: Vec<OpenLimit>,
    /// What clients are told of each of these.
    pub(crate) told: Vec<PolicyBuf>,
    /// The field that says that, once it has been written.
    pub(crate) told_fields: Vec<OnceLock<HeaderValue>>,
    pub(crate) limit: Option<usize>,
    pub(crate) tiers: HashMap<Cow<'static, str>, usize>,
    pub(crate) candidate: Option<OpenLimit>,
    pub(crate) on_full: OpenOnFailure,
    pub(crate) on_error: OpenOnFailure,
    pub(crate) enforces: bool,
    pub(crate) counts: Arc<Counts>,
}

impl Active {
    /// The limit for clients of this tier.
    pub(crate) fn limit_for(&self, tier: Option<&str>) -> Option<usize> {
        let tiered = tier.and_then(|tier| self.tiers.get(tier));
        tiered.copied().or(self.limit)
    }

    /// What decides instead of the limit of this index after a failure, or the limit itself.
    pub(crate) fn limit_from(&self, source: Source, own: usize) -> &OpenLimit {
        match (source, &self.on_full, &self.on_error) {
            (Source::Full, OpenOnFailure::Fallback(limit), _)
            | (Source::Failed, _, OpenOnFailure::Fallback(limit)) => limit,
            _ => &self.limits[own],
        }
    }
}

/// All policies, as they are at one time.
pub(crate) struct Plan {
    pub(crate) policies: Vec<Active>,
    /// Whether any of them does not enforce.
    pub(crate) has_watched: bool,
    /// Whether any of them has one.
    pub(crate) has_candidates: bool,
    pub(crate) headers: Headers,
    pub(crate) on_refusal: Option<OnRefusal>,
    tier_of: Option<TierOf>,
    skip: Option<Skips>,
    counts_preflight: bool,
    stores: Option<Stores>,
    clock: Now,
}

impl Plan {
    pub(crate) fn new(builder: Builder, old: Option<&Self>) -> Result<Self, BuildError> {
        builder.check()?;
        let clock = builder
            .clock
            .or_else(|| old.map(|old| Arc::clone(&old.clock)))
            .unwrap_or_else(system_clock);
        let stores = builder
            .stores
            .or_else(|| old.and_then(|old| old.stores.clone()));
        let opener = Opener {
            stores: stores.as_ref(),
            now: clock(),
        };
        let (on_full, on_error) = (builder.on_full, builder.on_error);
        let policies = builder.policies.into_iter().map(|policy| {
            let old = old.and_then(|old| old.policies.iter().find(|old| *old.name == *policy.name));
            let mut active = opener.policy(policy, old, &on_full, &on_error)?;
            active.enforces &= !builder.is_monitor;
            Ok(active)
        });
        let policies = policies.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            has_watched: policies.iter().any(|active| !active.enforces),
            has_candidates: policies.iter().any(|active| active.candidate.is_some()),
            policies,
            headers: builder.headers,
            on_refusal: builder.on_refusal,
            tier_of: builder.tier_of,
            skip: builder.skip,
            counts_preflight: builder.counts_preflight,
            stores,
            clock,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Whether the layer has nothing to do with this request.
    pub(crate) fn skips(&self, request: &Parts) -> bool {
        (!self.counts_preflight && is_preflight(request))
            || self.skip.as_ref().is_some_and(|skip| skip(request))
    }

    pub(crate) fn tier_of(&self, request: &Parts) -> Option<Cow<'static, str>> {
        self.tier_of.as_ref().and_then(|tier_of| tier_of(request))
    }

    /// Whose budgets this request comes out of, and where they are kept.
    pub(crate) fn budgets_of(&self, request: &Parts) -> Vec<(PolicyBudget, Arc<dyn Store>)> {
        let tier = self.tier_of(request);
        let budgets = self.policies.iter().filter_map(|active| {
            let limit = &active.limits[active.limit_for(tier.as_deref())?];
            if !active.policy.applies_to(request) {
                return None;
            }
            let budget = PolicyBudget {
                name: Arc::clone(&active.name),
                tier: tier.clone().filter(|tier| active.tiers.contains_key(tier)),
                quota: limit.limit.quota(),
                is_enforced: active.enforces,
                key: active.policy.key_of(request).ok()?,
                cost: active.policy.cost_of(request),
            };
            Some((budget, Arc::clone(&limit.store)))
        });
        budgets.collect()
    }

    /// Adds what must be asked about this request; or tells which policy finds no key.
    pub(crate) fn asks(&self, request: &Parts, asks: &mut AllAsked) -> Result<(), (usize, NoKey)> {
        let tier = self.tier_of(request);
        for (index, active) in self.policies.iter().enumerate() {
            let policy = &active.policy;
            let Some(limit) = active.limit_for(tier.as_deref()) else {
                continue;
            };
            if !policy.applies_to(request) {
                continue;
            }
            match policy.key_of(request) {
                Ok(key) => {
                    let told = policy.partition_key.as_ref().map(|told| told(&key).into());
                    let cost = policy.cost_of(request);
                    asks.push(Asked::new(index, limit, key, cost, told));
                }
                Err(no_key) => {
                    active.counts.add(Event::NoKey);
                    telemetry::count(&active.name, Event::NoKey);
                    if policy.on_no_key == OnNoKey::Refuse && active.enforces {
                        return Err((index, no_key));
                    }
                }
            }
        }
        Ok(())
    }
}

/// As the Fetch standard tells it, section "CORS-preflight request".
fn is_preflight(request: &Parts) -> bool {
    request.method == Method::OPTIONS
        && request.headers.contains_key(header::ORIGIN)
        && request
            .headers
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn system_clock() -> Now {
    let clock = Clock::new();
    let epoch = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Arc::new(move || clock.now().saturating_add(epoch))
}

/// What clients are told about a policy.
pub(crate) fn told(policy: &Policy, limit: &Limit) -> Result<PolicyBuf, PolicyError> {
    let mut told = Told::try_new(&policy.name, limit.quota())?;
    if let Some(unit) = &policy.unit {
        told = told.try_with_unit(unit)?;
    }
    if let Some(strategy) = limit.strategy() {
        told = told.try_with_strategy(strategy)?;
    }
    Ok(told.into())
}
