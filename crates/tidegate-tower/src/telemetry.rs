//! What others are told of it: events and counters, each behind its feature.

use std::sync::Arc;

use crate::key::Key;
#[cfg(feature = "metrics")]
use crate::layer::LimitOccupancy;
use crate::stats::Event;

/// The name of the counter of an event, and what it counts.
#[cfg(feature = "metrics")]
fn counter(event: Event) -> (&'static str, &'static str) {
    match event {
        Event::Admitted => (
            "tidegate_admitted_total",
            "Requests that the policy admitted, and all others too",
        ),
        Event::Refused => ("tidegate_refused_total", "Requests that the policy refused"),
        Event::ShadowRefused => (
            "tidegate_shadow_refused_total",
            "Requests that the policy would have refused, but only watches",
        ),
        Event::Full => (
            "tidegate_full_total",
            "Requests for whose keys there was no room",
        ),
        Event::Error => (
            "tidegate_errors_total",
            "Requests of which the policy's store has failed",
        ),
        Event::NoKey => ("tidegate_no_key_total", "Requests without a key"),
        Event::GivenBack => ("tidegate_given_back_total", "Requests that were given back"),
        Event::BothAdmit => (
            "tidegate_candidate_both_admit_total",
            "Requests that the policy admits, and its candidate would",
        ),
        Event::OnlyCandidateRefuses => (
            "tidegate_candidate_only_refuses_total",
            "Requests that the policy admits, and its candidate would refuse",
        ),
        Event::OnlyCandidateAdmits => (
            "tidegate_candidate_only_admits_total",
            "Requests that the policy refuses, and its candidate would admit",
        ),
        Event::BothRefuse => (
            "tidegate_candidate_both_refuse_total",
            "Requests that the policy refuses, and its candidate would",
        ),
    }
}

#[cfg(feature = "metrics")]
const LIVE_KEYS: &str = "tidegate_live_keys";
#[cfg(feature = "metrics")]
const CAPACITY_KEYS: &str = "tidegate_capacity_keys";

/// Tells the recorder of `metrics` the unit and the description of each metric of this crate, once it is installed.
#[cfg(feature = "metrics")]
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge};

    for event in Event::ALL {
        let (name, description) = counter(event);
        describe_counter!(name, Unit::Count, description);
    }
    describe_gauge!(
        LIVE_KEYS,
        Unit::Count,
        "Keys that have used something that has not come back yet"
    );
    describe_gauge!(
        CAPACITY_KEYS,
        Unit::Count,
        "Keys that there is room for, if that is limited"
    );
}

/// Sets the gauges of a limit.
#[cfg(feature = "metrics")]
pub(crate) fn publish(limit: &LimitOccupancy) {
    let tier = limit.tier.clone().unwrap_or_default();
    let candidate = if limit.is_candidate { "true" } else { "false" };
    let set = |name: &'static str, keys: usize| {
        let (policy, tier) = (Arc::clone(&limit.policy), tier.clone());
        metrics::gauge!(name, "policy" => policy, "tier" => tier, "candidate" => candidate)
            .set(keys as f64);
    };
    set(LIVE_KEYS, limit.occupancy.live_keys());
    if let Some(capacity) = limit.occupancy.capacity() {
        set(CAPACITY_KEYS, capacity);
    }
}

/// Counts an event under a policy's name.
#[inline]
pub(crate) fn count(policy: &Arc<str>, event: Event) {
    #[cfg(feature = "metrics")]
    metrics::counter!(counter(event).0, "policy" => Arc::clone(policy)).increment(1);
    let _ = (policy, event);
}

/// Whether there is room for one more event: ten a second, whoever floods us.
#[cfg(feature = "tracing")]
fn may_tell() -> bool {
    use std::sync::LazyLock;
    use tidegate::{Clock, Limiter, Quota, TokenBucket};

    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::new);
    static EVENTS: Limiter<TokenBucket> = Limiter::new(TokenBucket::new(Quota::per_second(10)));
    EVENTS.check(CLOCK.now()).is_ok()
}

/// A policy has refused a request, or would have.
#[inline]
pub(crate) fn refused(policy: &str, key: &Key, is_shadow: bool) {
    #[cfg(feature = "tracing")]
    if tracing::enabled!(tracing::Level::INFO) && may_tell() {
        tracing::info!(policy, %key, shadow = is_shadow, "rate limited");
    }
    let _ = (policy, key, is_shadow);
}

/// A policy's store has failed.
#[inline]
pub(crate) fn store_failed(policy: &str, error: &(dyn core::error::Error + Send + Sync)) {
    #[cfg(feature = "tracing")]
    if tracing::enabled!(tracing::Level::WARN) && may_tell() {
        tracing::warn!(policy, %error, "the store of a rate limit has failed");
    }
    let _ = (policy, error);
}
