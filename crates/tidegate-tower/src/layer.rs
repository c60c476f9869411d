//! The layer: what its services share.

use core::fmt;
use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::request::Parts;
use tidegate::Quota;
use tower_layer::Layer;

use crate::builder::{Builder, OnFailure};
use crate::key::Key;
use crate::limit::OpenLimit;
use crate::mistake::BuildError;
use crate::plan::Plan;
use crate::service::RateLimit;
use crate::stats::Stats;
use crate::store::{Answer, Decision, Occupancy};
#[cfg(feature = "metrics")]
use crate::telemetry;

/// Limits the rate of requests that pass to a service: a [`tower_layer::Layer`].
///
/// Clones share everything. See the [crate](crate) for an example.
#[derive(Clone)]
pub struct RateLimitLayer {
    plan: Arc<ArcSwap<Plan>>,
}

impl RateLimitLayer {
    /// Begins a layer. What becomes of a request whose limit cannot be told has no default.
    pub fn builder(on_failure: OnFailure) -> Builder {
        Builder::new(on_failure)
    }

    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan: Arc::new(ArcSwap::from_pointee(plan)),
        }
    }

    /// Replaces all policies, in all services of this layer, while they serve.
    ///
    /// What was used stays used, in permits, under policies that keep their names, for clients that keep their tiers,
    /// if the way of counting and the capacity stay the same: 5 used of 5 leave 5 of 10, and none of 3. What an exact log
    /// has counted is counted as of now. Everything else begins anew, but what [stores elsewhere](Builder::stores) keep.
    /// Counts of [`stats`](Self::stats) go on under the same names, and so do the clock and `stores`, unless the builder
    /// has its own.
    ///
    /// Requests under way end under the old policies; what they take while the stores are copied, or give back
    /// afterwards, may be lost. Two calls at the same time are two replacements, of which one may copy from neither's
    /// result: make them one after the other.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; then the old policies stay.
    pub fn reload(&self, builder: Builder) -> Result<(), BuildError> {
        let old = self.plan.load_full();
        let new = Plan::new(builder, Some(&old))?;
        self.plan.store(Arc::new(new));
        Ok(())
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        let plan = self.plan.load();
        let policies = plan.policies.iter();
        Stats {
            policies: policies
                .map(|active| (Arc::clone(&active.name), active.counts.stats()))
                .collect(),
        }
    }

    /// How much room the limits' keys take, by limit: policies in their order, of each the limit for clients of no tier,
    /// those of tiers, and the candidate.
    ///
    /// For who watches the server: visits the whole of every table, some tenths of a millisecond at the default capacity.
    /// Stores that cannot tell are left out.
    pub fn occupancy(&self) -> Vec<LimitOccupancy> {
        let plan = self.plan.load();
        let now = plan.now();
        let mut all = Vec::new();
        for active in &plan.policies {
            let mut push = |limit: &OpenLimit, tier: Option<&Cow<'static, str>>, is_candidate| {
                all.extend(limit.store.occupancy(now).map(|occupancy| LimitOccupancy {
                    policy: Arc::clone(&active.name),
                    tier: tier.cloned(),
                    is_candidate,
                    occupancy,
                }));
            };
            for (index, limit) in active.limits.iter().enumerate() {
                let mut tiers = active.tiers.iter();
                let tier = tiers.find_map(|(tier, of)| (*of == index).then_some(tier));
                push(limit, tier, false);
            }
            if let Some(candidate) = &active.candidate {
                push(candidate, None, true);
            }
        }
        all
    }

    /// Sets the gauges [`tidegate_live_keys` and `tidegate_capacity_keys`](crate#metrics) to what
    /// [`occupancy`](Self::occupancy) tells: for whatever is scraped, right before it answers.
    #[cfg(feature = "metrics")]
    pub fn publish_occupancy(&self) {
        for limit in self.occupancy() {
            telemetry::publish(&limit);
        }
    }

    /// Which budgets a request like this comes out of, under every policy that applies to it; asks no store.
    ///
    /// Policies that find no key are left out.
    pub fn budgets(&self, request: &Parts) -> Vec<PolicyBudget> {
        let budgets = self.plan.load().budgets_of(request);
        budgets.into_iter().map(|(budget, _)| budget).collect()
    }

    /// Where a request like this stands with every policy that applies to it; changes nothing.
    ///
    /// Policies that find no key are left out, and so are those whose store cannot tell at once: see
    /// [`standings_later`](Self::standings_later).
    pub fn standings(&self, request: &Parts) -> Vec<PolicyStanding> {
        let plan = self.plan.load();
        let now = plan.now();
        let budgets = plan.budgets_of(request).into_iter();
        let standings = budgets.filter_map(|(budget, store)| {
            let decision = store.peek(&budget.key, now, budget.cost)?;
            Some(PolicyStanding { budget, decision })
        });
        standings.collect()
    }

    /// The same, also of stores that take a while, which are asked one after the other.
    ///
    /// Those that fail, or cannot tell at all, are left out.
    pub fn standings_later(
        &self,
        request: &Parts,
    ) -> impl Future<Output = Vec<PolicyStanding>> + Send + use<> {
        let plan = self.plan.load();
        let now = plan.now();
        let budgets = plan.budgets_of(request);
        async move {
            let mut standings = Vec::with_capacity(budgets.len());
            for (budget, store) in budgets {
                let decision = match store.look(&budget.key, now, budget.cost) {
                    Some(Answer::Ready(Ok(decision))) => decision,
                    Some(Answer::Later(answer)) => match answer.await {
                        Ok(counted) => counted.decision,
                        Err(_) => continue,
                    },
                    None | Some(Answer::Ready(Err(_))) => continue,
                };
                standings.push(PolicyStanding { budget, decision });
            }
            standings
        }
    }
}

/// How much room the keys of one limit take; see [`RateLimitLayer::occupancy`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitOccupancy {
    /// The policy's name.
    pub policy: Arc<str>,
    /// The tier of clients; `None` if the limit is for those of no tier.
    pub tier: Option<Cow<'static, str>>,
    /// Whether it is the policy's candidate.
    pub is_candidate: bool,
    /// How much of its room is in use.
    pub occupancy: Occupancy,
}

/// Which budget a request comes out of, under one policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyBudget {
    /// The policy's name.
    pub name: Arc<str>,
    /// The tier whose budgets these are, if the policy has a limit for it.
    pub tier: Option<Cow<'static, str>>,
    /// Its quota for this client.
    pub quota: Quota,
    /// Whether it refuses anything; else it only watches.
    pub is_enforced: bool,
    /// Whose budget it is.
    pub key: Key,
    /// What the request costs: what is left now is what would remain, and this.
    pub cost: u64,
}

/// Where a request stands with one policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyStanding {
    /// Which budget it comes out of.
    pub budget: PolicyBudget,
    /// What the policy would decide.
    pub decision: Decision,
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.plan))
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan.load();
        let policies = plan.policies.iter().map(|active| &active.policy);
        f.debug_list().entries(policies).finish()
    }
}
