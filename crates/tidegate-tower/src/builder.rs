//! Puts policies together, and finds what is wrong with them.

use core::fmt;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tidegate::Timestamp;
use tidegate::http::Headers;

use crate::layer::RateLimitLayer;
use crate::limit::Limit;
use crate::mistake::{BuildError, Mistake};
use crate::plan::{Plan, told};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::store::{Store, StoreError, StoreRequest};

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

pub(crate) type TierOf = Arc<dyn Fn(&Parts) -> Option<Cow<'static, str>> + Send + Sync>;
pub(crate) type Skips = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
pub(crate) type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;
pub(crate) type Stores =
    Arc<dyn Fn(&StoreRequest<'_>) -> Result<Option<Arc<dyn Store>>, StoreError> + Send + Sync>;
pub(crate) type OnRefusal = Arc<dyn Fn(&Refusal<'_>, &Parts) -> Response<Bytes> + Send + Sync>;

/// Puts the policies of a [`RateLimitLayer`] together.
#[derive(Clone)]
pub struct Builder {
    pub(crate) policies: Vec<Policy>,
    pub(crate) on_full: OnFailure,
    pub(crate) on_error: OnFailure,
    tiers: Vec<Cow<'static, str>>,
    pub(crate) tier_of: Option<TierOf>,
    pub(crate) skip: Option<Skips>,
    pub(crate) counts_preflight: bool,
    pub(crate) is_monitor: bool,
    pub(crate) headers: Headers,
    pub(crate) on_refusal: Option<OnRefusal>,
    pub(crate) stores: Option<Stores>,
    pub(crate) clock: Option<Now>,
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
            stores: None,
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

    /// Keeps limits in other stores than this crate's: for each limit of a policy, of one of its tiers or a candidate,
    /// that is not [in a store](Limit::in_store) already, `open` is asked for one. `None` leaves it in memory.
    ///
    /// So processes share the limits of a file. What [`OnFailure::Fallback`] decides by stays in memory: it is for when
    /// the other store fails.
    ///
    /// It is asked again at each [reload](RateLimitLayer::reload), also by a builder without this, since it would be a
    /// mistake to forget quietly that limits are shared. What was used is what the store says: one elsewhere is to find
    /// by policy and tier what it has kept.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use tidegate::{FixedWindow, Map, Quota};
    /// use tidegate_tower::{Counting, Everyone, Key, Limit, OnFailure, Policy, RateLimitLayer, Store};
    ///
    /// let layer = RateLimitLayer::builder(OnFailure::Refuse)
    ///     .policy(Policy::new("all", Everyone).limit(Limit::fixed_window(Quota::per_minute(5))))
    ///     .stores(|limit| {
    ///         if limit.counting() != Counting::FixedWindow {
    ///             return Ok(None);
    ///         }
    ///         let map: Map<Key, _> = Map::new(FixedWindow::try_new(limit.quota())?);
    ///         Ok(Some(Arc::new(map) as Arc<dyn Store>))
    ///     })
    ///     .build()?;
    /// # drop(layer);
    /// # Ok::<(), tidegate_tower::BuildError>(())
    /// ```
    #[must_use]
    pub fn stores(
        mut self,
        open: impl Fn(&StoreRequest<'_>) -> Result<Option<Arc<dyn Store>>, StoreError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.stores = Some(Arc::new(open));
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

impl Builder {
    #[cfg(feature = "config")]
    pub(crate) fn tier_of(&self, request: &Parts) -> Option<Cow<'static, str>> {
        self.tier_of.as_ref().and_then(|tier_of| tier_of(request))
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.policies.is_empty() {
            return Err(BuildError::of_all(Mistake::NoPolicies));
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
            return Err(BuildError::of_all(Mistake::TierWithoutPolicy(
                tier.to_string(),
            )));
        }
        let mut tiers = HashSet::new();
        match self.tiers.iter().find(|tier| !tiers.insert(*tier)) {
            Some(tier) => Err(BuildError::of_all(Mistake::SameTier(tier.to_string()))),
            None => Ok(()),
        }
    }
}
