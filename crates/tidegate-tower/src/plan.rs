//! The whole set of policies, checked.

use core::fmt;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, header};
use tidegate::http::{Headers, Policy as Told, PolicyError};
use tidegate::{Clock, Timestamp};

use crate::case::Asked;
use crate::key::NoKey;
use crate::layer::RateLimitLayer;
use crate::limit::{Limit, LimitError, OpenLimit};
use crate::policy::{OnNoKey, Policy};
use crate::refusal::Refusal;
use crate::stats::{Counts, Event};
use crate::telemetry;

/// What becomes of a request when a limit cannot be told: its store has failed, or has no room to count a new key.
///
/// There is no default: each of these is wrong for somebody.
#[derive(Clone, Debug)]
pub enum OnFailure {
    /// It is refused, with status 503: no limit is ever exceeded, and a store that is down takes the service with it.
    Refuse,
    /// It passes uncounted: the service stays up, without this limit.
    Admit,
    /// Another limit decides, kept in memory: per process, and so looser in sum than one that processes share. Or one
    /// budget for everybody who finds no room, by a [`Limiter`](tidegate::Limiter) in [`Limit::in_store`].
    ///
    /// If that fails too, the request is refused.
    Fallback(Limit),
}

#[derive(Clone)]
pub(crate) enum OpenOnFailure {
    Refuse,
    Admit,
    Fallback(OpenLimit),
}

impl OnFailure {
    fn open(
        &self,
        old: Option<&OpenOnFailure>,
        now: Timestamp,
    ) -> Result<OpenOnFailure, LimitError> {
        Ok(match self {
            Self::Refuse => OpenOnFailure::Refuse,
            Self::Admit => OpenOnFailure::Admit,
            Self::Fallback(limit) => {
                let old = match old {
                    Some(OpenOnFailure::Fallback(old)) => Some(old),
                    _ => None,
                };
                OpenOnFailure::Fallback(limit.open(old, now)?)
            }
        })
    }
}

type TierOf = Arc<dyn Fn(&Parts) -> Option<Cow<'static, str>> + Send + Sync>;
type Skips = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;
type OnRefusal = Arc<dyn Fn(&Refusal<'_>, &Parts) -> Response<Bytes> + Send + Sync>;

/// Puts the policies of a [`RateLimitLayer`] together.
#[derive(Clone)]
pub struct Builder {
    policies: Vec<Policy>,
    on_full: OnFailure,
    on_error: OnFailure,
    tiers: Vec<Cow<'static, str>>,
    tier_of: Option<TierOf>,
    skip: Option<Skips>,
    counts_preflight: bool,
    is_monitor: bool,
    headers: Headers,
    on_refusal: Option<OnRefusal>,
    clock: Option<Now>,
}

impl Builder {
    pub(crate) fn new(on_failure: OnFailure) -> Self {
        Self {
            policies: Vec::new(),
            on_full: on_failure.clone(),
            on_error: on_failure,
            tiers: Vec::new(),
            tier_of: None,
            skip: None,
            counts_preflight: false,
            is_monitor: false,
            headers: Headers::new().with_draft(tidegate::http::Draft::V10),
            on_refusal: None,
            clock: None,
        }
    }

    /// Adds a policy. A request must pass all that apply to it; if one refuses, none counts it.
    ///
    /// Policies are asked in this order. Put those in memory before those elsewhere, and those for each client before
    /// those for everybody.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policies.push(policy);
        self
    }

    /// What becomes of new clients when a table is full, if it is not the same as when a store fails.
    #[must_use]
    pub fn on_full(mut self, on_full: OnFailure) -> Self {
        self.on_full = on_full;
        self
    }

    /// The tiers of clients, and which of them a request is of, if any.
    ///
    /// Each of these needs a policy, and no policy may name another. A tier that `tier_of` makes up counts as none.
    #[must_use]
    pub fn tiers<T: Into<Cow<'static, str>>>(
        mut self,
        names: impl IntoIterator<Item = T>,
        tier_of: impl Fn(&Parts) -> Option<Cow<'static, str>> + Send + Sync + 'static,
    ) -> Self {
        self.tiers = names.into_iter().map(Into::into).collect();
        self.tier_of = Some(Arc::new(tier_of));
        self
    }

    /// Requests of which this is true are passed on as if there was no layer.
    #[must_use]
    pub fn skip(mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.skip = Some(Arc::new(skip));
        self
    }

    /// Counts CORS preflight requests too. By default they pass: the browser sends them, and the page cannot help it.
    #[must_use]
    pub fn count_preflight(mut self) -> Self {
        self.counts_preflight = true;
        self
    }

    /// Only watches, under every policy: counts what would be refused, and refuses nothing.
    #[must_use]
    pub fn monitor(mut self) -> Self {
        self.is_monitor = true;
        self
    }

    /// The header fields of every response; by default those of revision 10 of the draft, and `Retry-After`.
    #[must_use]
    pub fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// Makes the responses to refused requests. What they lack of the header fields is added.
    #[must_use]
    pub fn on_refusal(
        mut self,
        respond: impl Fn(&Refusal<'_>, &Parts) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.on_refusal = Some(Arc::new(respond));
        self
    }

    /// Reads this clock instead of the system's: for tests. `X-RateLimit-Reset` takes it to count since 1970.
    ///
    /// The default is monotonic, and was the time since 1970 when the layer was built, so that windows begin on the
    /// minute; it does not follow when the system's clock is set.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(now));
        self
    }

    /// Checks everything, and allocates the stores.
    ///
    /// # Errors
    ///
    /// [`BuildError`], which names the policy and what is wrong with it.
    pub fn build(self) -> Result<RateLimitLayer, BuildError> {
        Ok(RateLimitLayer::new(Plan::new(self, None)?))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("policies", &self.policies)
            .field("on_full", &self.on_full)
            .field("on_error", &self.on_error)
            .field("tiers", &self.tiers)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// One policy, with its stores.
pub(crate) struct Active {
    pub(crate) policy: Policy,
    pub(crate) name: Arc<str>,
    pub(crate) limit: Option<Arc<OpenLimit>>,
    pub(crate) tiers: HashMap<Cow<'static, str>, Arc<OpenLimit>>,
    pub(crate) candidate: Option<OpenLimit>,
    pub(crate) on_full: OpenOnFailure,
    pub(crate) on_error: OpenOnFailure,
    pub(crate) enforces: bool,
    pub(crate) counts: Arc<Counts>,
}

impl Active {
    /// The limit for clients of this tier.
    pub(crate) fn limit_for(&self, tier: Option<&str>) -> Option<&Arc<OpenLimit>> {
        let tiered = tier.and_then(|tier| self.tiers.get(tier));
        tiered.or(self.limit.as_ref())
    }
}

/// All policies, as they are at one time.
pub(crate) struct Plan {
    pub(crate) policies: Vec<Active>,
    pub(crate) headers: Headers,
    pub(crate) on_refusal: Option<OnRefusal>,
    tier_of: Option<TierOf>,
    skip: Option<Skips>,
    counts_preflight: bool,
    clock: Now,
}

impl Plan {
    pub(crate) fn new(builder: Builder, old: Option<&Self>) -> Result<Self, BuildError> {
        builder.check()?;
        let clock = builder
            .clock
            .or_else(|| old.map(|old| Arc::clone(&old.clock)))
            .unwrap_or_else(system_clock);
        let now = clock();
        let policies = builder
            .policies
            .into_iter()
            .map(|policy| {
                let old =
                    old.and_then(|old| old.policies.iter().find(|old| *old.name == *policy.name));
                let failed = |error| BuildError::new(&policy.name, Mistake::Limit(error));
                let open =
                    |limit: &Limit, old: Option<&OpenLimit>| limit.open(old, now).map_err(failed);
                let limit = policy.limit.as_ref();
                let limit =
                    limit.map(|limit| open(limit, old.and_then(|old| old.limit.as_deref())));
                let tiers = policy.tiers.iter().map(|(tier, limit)| {
                    let old = old.and_then(|old| old.tiers.get(tier)).map(|old| &**old);
                    Ok((tier.clone(), Arc::new(open(limit, old)?)))
                });
                let candidate = policy.candidate.as_ref();
                let candidate =
                    candidate.map(|limit| open(limit, old.and_then(|old| old.candidate.as_ref())));
                Ok(Active {
                    limit: limit.transpose()?.map(Arc::new),
                    tiers: tiers.collect::<Result<_, _>>()?,
                    candidate: candidate.transpose()?,
                    on_full: builder
                        .on_full
                        .open(old.map(|old| &old.on_full), now)
                        .map_err(failed)?,
                    on_error: builder
                        .on_error
                        .open(old.map(|old| &old.on_error), now)
                        .map_err(failed)?,
                    enforces: !builder.is_monitor && !policy.is_monitor,
                    counts: old.map_or_else(Arc::default, |old| Arc::clone(&old.counts)),
                    name: Arc::from(&*policy.name),
                    policy,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            policies,
            headers: builder.headers,
            on_refusal: builder.on_refusal,
            tier_of: builder.tier_of,
            skip: builder.skip,
            counts_preflight: builder.counts_preflight,
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

impl Builder {
    #[cfg(feature = "config")]
    pub(crate) fn tier_of(&self, request: &Parts) -> Option<Cow<'static, str>> {
        self.tier_of.as_ref().and_then(|tier_of| tier_of(request))
    }

    fn check(&self) -> Result<(), BuildError> {
        if self.policies.is_empty() {
            return Err(BuildError::new("", Mistake::NoPolicies));
        }
        let mut names = HashSet::new();
        let mut used = HashSet::new();
        for policy in &self.policies {
            let failed = |mistake| Err(BuildError::new(&policy.name, mistake));
            if !names.insert(&*policy.name) {
                return failed(Mistake::SameName);
            }
            if policy.limit.is_none() && policy.tiers.is_empty() {
                return failed(Mistake::NoLimit);
            }
            let limits = policy.limit.iter();
            for limit in limits.chain(policy.tiers.iter().map(|(_, limit)| limit)) {
                if let Err(error) = told(policy, limit) {
                    return failed(Mistake::Text(error));
                }
            }
            for route in policy.route_patterns() {
                if !route.starts_with('/') || route.trim_end_matches("/*").contains('*') {
                    return failed(Mistake::Route(route.to_string()));
                }
            }
            let mut own = HashSet::new();
            for (tier, _) in &policy.tiers {
                if !own.insert(tier) {
                    return failed(Mistake::SameTier(tier.to_string()));
                }
                if !self.tiers.contains(tier) {
                    return failed(Mistake::UnknownTier(tier.to_string()));
                }
                used.insert(tier);
            }
        }
        let has_default = self.policies.iter().any(|policy| policy.limit.is_some());
        let idle = self.tiers.iter().find(|tier| !used.contains(tier));
        if let (Some(tier), false) = (idle, has_default) {
            return Err(BuildError::new(
                "",
                Mistake::TierWithoutPolicy(tier.to_string()),
            ));
        }
        let mut tiers = HashSet::new();
        match self.tiers.iter().find(|tier| !tiers.insert(*tier)) {
            Some(tier) => Err(BuildError::new("", Mistake::SameTier(tier.to_string()))),
            None => Ok(()),
        }
    }
}

/// What clients are told about a policy.
pub(crate) fn told<'a>(policy: &'a Policy, limit: &'a Limit) -> Result<Told<'a>, PolicyError> {
    let mut told = Told::try_new(&policy.name, limit.quota())?;
    if let Some(unit) = &policy.unit {
        told = told.try_with_unit(unit)?;
    }
    if let Some(strategy) = limit.strategy() {
        told = told.try_with_strategy(strategy)?;
    }
    Ok(told)
}

/// Why a set of policies was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    policy: String,
    mistake: Mistake,
}

/// What is wrong with a policy, or with all of them together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mistake {
    /// There is no policy at all.
    NoPolicies,
    /// Another policy has the same name.
    SameName,
    /// There is neither a limit nor a tier with one.
    NoLimit,
    /// The limit cannot be.
    Limit(LimitError),
    /// The name, unit or strategy cannot be sent.
    Text(PolicyError),
    /// A route is not a path, or not one that may end with `/*`.
    Route(String),
    /// A tier is there twice.
    SameTier(String),
    /// The policy names a tier that is not one.
    UnknownTier(String),
    /// No policy has a limit for this tier.
    TierWithoutPolicy(String),
}

impl BuildError {
    fn new(policy: &str, mistake: Mistake) -> Self {
        Self {
            policy: policy.to_owned(),
            mistake,
        }
    }

    /// The policy that is wrong; `None` if it is all of them together.
    pub fn policy(&self) -> Option<&str> {
        (!self.policy.is_empty()).then_some(&*self.policy)
    }

    /// What is wrong.
    pub fn mistake(&self) -> &Mistake {
        &self.mistake
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(policy) = self.policy() {
            write!(f, "policy `{}`: ", policy.escape_debug())?;
        }
        match &self.mistake {
            Mistake::NoPolicies => f.write_str("there is no policy, so nothing is limited"),
            Mistake::SameName => f.write_str(
                "another policy has the same name, and clients could not tell them apart",
            ),
            Mistake::NoLimit => f.write_str("it has no limit, neither for all nor for a tier"),
            Mistake::Limit(error) => error.fmt(f),
            Mistake::Text(error) => error.fmt(f),
            Mistake::Route(route) => write!(
                f,
                "`{}` is no route: write a path, as /foo, or all below one, as /foo/*",
                route.escape_debug()
            ),
            Mistake::SameTier(tier) => {
                write!(f, "the tier `{}` is there twice", tier.escape_debug())
            }
            Mistake::UnknownTier(tier) => {
                write!(f, "`{}` is not one of the tiers", tier.escape_debug())
            }
            Mistake::TierWithoutPolicy(tier) => write!(
                f,
                "the tier `{}` has no policy: its clients would not be limited at all",
                tier.escape_debug()
            ),
        }
    }
}

impl core::error::Error for BuildError {}

impl Plan {
    /// What must be asked about this request; or which policy finds no key.
    pub(crate) fn asks(&self, request: &Parts) -> Result<Vec<Asked>, (usize, NoKey)> {
        let tier = self.tier_of(request);
        let mut asks = Vec::with_capacity(self.policies.len());
        for (index, active) in self.policies.iter().enumerate() {
            let policy = &active.policy;
            let Some(limit) = active.limit_for(tier.as_deref()) else {
                continue;
            };
            if !policy.applies_to(request) {
                continue;
            }
            match policy.key_of(request) {
                Ok(key) => asks.push(Asked::new(
                    index,
                    Arc::clone(limit),
                    key,
                    policy.cost_of(request),
                )),
                Err(no_key) => {
                    active.counts.add(Event::NoKey);
                    telemetry::count(&active.name, Event::NoKey);
                    if policy.on_no_key == OnNoKey::Refuse && active.enforces {
                        return Err((index, no_key));
                    }
                }
            }
        }
        Ok(asks)
    }
}
