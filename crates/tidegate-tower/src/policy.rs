//! Which limits a request is held against.

use core::fmt;
use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use http::response;

use crate::key::{Key, KeyExtractor, NoKey, route_template};
use crate::limit::Limit;

/// What becomes of a request that has no key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoKey {
    /// It is refused: with status 400, or 500 if the server is to blame.
    #[default]
    Refuse,
    /// This policy does not apply to it.
    Admit,
}

/// How a request that was counted has ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Ending<'a> {
    /// With this response. Its body may not have been sent yet.
    Response(&'a response::Parts),
    /// The service has failed, without a response.
    Failed,
    /// Whoever asked has gone away before there was a response: the future was dropped.
    Gone,
}

impl Ending<'_> {
    /// Whether there is a response, with a status below 400.
    pub fn is_success(&self) -> bool {
        match self {
            Self::Response(response) => response.status.as_u16() < 400,
            Self::Failed | Self::Gone => false,
        }
    }
}

type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;
type Applies = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
type PartitionKey = Arc<dyn Fn(&Key) -> Vec<u8> + Send + Sync>;
type GivesBack = Arc<dyn Fn(&Ending<'_>) -> bool + Send + Sync>;

/// A named limit: for whom, for which requests, at which cost.
///
/// ```
/// use tidegate::Quota;
/// use tidegate_tower::{Header, Limit, PeerAddress, Policy};
///
/// let per_address = Policy::new("per-address", PeerAddress::new())
///     .limit(Limit::token_bucket(Quota::per_second(10)));
///
/// // By route and by tier of clients.
/// let api_key = Header::new("x-api-key".parse().unwrap());
/// let foo = Policy::new("foo", api_key)
///     .routes(["/foo"])
///     .tier("client-1", Limit::fixed_window(Quota::per_minute(10)))
///     .tier("client-2", Limit::fixed_window(Quota::per_minute(20)));
/// # drop((per_address, foo));
/// ```
#[derive(Clone)]
pub struct Policy {
    pub(crate) name: Cow<'static, str>,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) limit: Option<Limit>,
    pub(crate) tiers: Vec<(Cow<'static, str>, Limit)>,
    pub(crate) candidate: Option<Limit>,
    pub(crate) unit: Option<Cow<'static, str>>,
    pub(crate) on_no_key: OnNoKey,
    pub(crate) is_monitor: bool,
    pub(crate) gives_back: Option<GivesBack>,
    pub(crate) partition_key: Option<PartitionKey>,
    cost: Option<CostOf>,
    routes: Vec<Cow<'static, str>>,
    methods: Vec<Method>,
    applies: Option<Applies>,
}

impl Policy {
    /// A policy of this name, which clients are told, that keeps a budget for each key.
    pub fn new(name: impl Into<Cow<'static, str>>, key: impl KeyExtractor + 'static) -> Self {
        Self {
            name: name.into(),
            key: Arc::new(key),
            limit: None,
            tiers: Vec::new(),
            candidate: None,
            unit: None,
            on_no_key: OnNoKey::default(),
            is_monitor: false,
            gives_back: None,
            partition_key: None,
            cost: None,
            routes: Vec::new(),
            methods: Vec::new(),
            applies: None,
        }
    }

    /// The limit for clients of no tier, or of none that [`tier`](Self::tier) names.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The limit for clients of a tier, as [`Builder::tiers`](crate::Builder::tiers) tells it.
    ///
    /// Each tier has a store of its own. Without [`limit`](Self::limit) the policy does not apply to clients of other
    /// tiers.
    #[must_use]
    pub fn tier(mut self, tier: impl Into<Cow<'static, str>>, limit: Limit) -> Self {
        self.tiers.push((tier.into(), limit));
        self
    }

    /// Applies only to these routes: exact paths, or all below one, as `/api/*`.
    ///
    /// They are compared with the template of the route that axum has matched (feature `axum`) or [`RouteTemplate`] tells,
    /// else with the path as it was sent.
    ///
    /// [`RouteTemplate`]: crate::RouteTemplate
    #[must_use]
    pub fn routes<T: Into<Cow<'static, str>>>(
        mut self,
        routes: impl IntoIterator<Item = T>,
    ) -> Self {
        self.routes.extend(routes.into_iter().map(Into::into));
        self
    }

    /// Applies only to these methods.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods.extend(methods);
        self
    }

    /// Applies only to requests of which this is true.
    #[must_use]
    pub fn when(mut self, applies: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.applies = Some(Arc::new(applies));
        self
    }

    /// What a request costs; 1 by default. One of cost 0 passes, whatever is left.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Tells clients that this is counted, and not requests (parameter `qu` of the header field `RateLimit-Policy`).
    #[must_use]
    pub fn unit(mut self, unit: impl Into<Cow<'static, str>>) -> Self {
        self.unit = Some(unit.into());
        self
    }

    /// Tells clients whose budget it is, by these bytes of the key (parameter `pk` of the fields `RateLimit-Policy` and
    /// `RateLimit`), so that they can tell one budget of theirs from another.
    ///
    /// They are sent in base64, which hides nothing from whoever sees the response. A plain hash of an address or of a user's
    /// number hides nothing either, since there are few enough to try them all: send what is public anyway, or a hash with
    /// a secret that all processes share, of what [`Key::encode`] writes.
    ///
    /// ```
    /// use tidegate::Quota;
    /// use tidegate_tower::{Extension, Key, Limit, Policy};
    ///
    /// #[derive(Clone)]
    /// struct Project(u64);
    ///
    /// // The client knows the number of its project; of several, it is told which this is about.
    /// let by_project = Extension::new(|project: &Project| Key::Number(project.0));
    /// let policy = Policy::new("project", by_project)
    ///     .limit(Limit::token_bucket(Quota::per_second(10)))
    ///     .partition_key(|key| key.to_string().into_bytes());
    /// # drop(policy);
    /// ```
    #[must_use]
    pub fn partition_key(
        mut self,
        of_key: impl Fn(&Key) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        self.partition_key = Some(Arc::new(of_key));
        self
    }

    /// What becomes of a request without a key; refused by default. It is counted either way.
    #[must_use]
    pub fn on_no_key(mut self, on_no_key: OnNoKey) -> Self {
        self.on_no_key = on_no_key;
        self
    }

    /// Only watches: counts what it would refuse, and refuses nothing.
    #[must_use]
    pub fn monitor(mut self) -> Self {
        self.is_monitor = true;
        self
    }

    /// Watches another limit beside the one that is enforced, for the same keys and costs, and counts where they differ.
    #[must_use]
    pub fn candidate(mut self, limit: Limit) -> Self {
        self.candidate = Some(limit);
        self
    }

    /// Gives back what was taken if this is true of how the request has ended.
    ///
    /// What was taken from a window that has ended since is not given back.
    #[must_use]
    pub fn give_back_if(
        mut self,
        gives_back: impl Fn(&Ending<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.gives_back = Some(Arc::new(gives_back));
        self
    }

    /// Does not count requests that end with a status below 400: for logins, where only failures count.
    ///
    /// A request that is cancelled stays counted; else whoever cancels early enough would try for free.
    #[must_use]
    pub fn give_back_successes(self) -> Self {
        self.give_back_if(|ending| ending.is_success())
    }

    /// Does not count requests that fail: with a status of 400 or above, without a response, or because the client has
    /// gone away.
    #[must_use]
    pub fn give_back_failures(self) -> Self {
        self.give_back_if(|ending| !ending.is_success())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn applies_to(&self, request: &Parts) -> bool {
        (self.methods.is_empty() || self.methods.contains(&request.method))
            && (self.routes.is_empty() || {
                let path = route_template(request).unwrap_or(request.uri.path());
                self.routes.iter().any(|route| is_under(path, route))
            })
            && self.applies.as_ref().is_none_or(|applies| applies(request))
    }

    pub(crate) fn cost_of(&self, request: &Parts) -> u64 {
        self.cost.as_ref().map_or(1, |cost| cost(request))
    }

    pub(crate) fn key_of(&self, request: &Parts) -> Result<Key, NoKey> {
        self.key.key(request)
    }

    pub(crate) fn route_patterns(&self) -> &[Cow<'static, str>] {
        &self.routes
    }
}

/// Whether the path is the route, or below it if that ends with `/*`.
fn is_under(path: &str, route: &str) -> bool {
    match route.strip_suffix("/*") {
        Some(above) => {
            let below = path.strip_prefix(above);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        }
        None => path == route,
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.name)
            .field("limit", &self.limit)
            .field("tiers", &self.tiers)
            .field("candidate", &self.candidate)
            .field("routes", &self.routes)
            .field("methods", &self.methods)
            .field("is_monitor", &self.is_monitor)
            .finish_non_exhaustive()
    }
}
