//! What others are told of it: events and counters, each behind its feature.

use std::sync::Arc;

use crate::key::Key;
use crate::stats::Event;

/// Counts an event under a policy's name.
#[inline]
pub(crate) fn count(policy: &Arc<str>, event: Event) {
    #[cfg(feature = "metrics")]
    {
        let name = match event {
            Event::Admitted => "tidegate_admitted_total",
            Event::Refused => "tidegate_refused_total",
            Event::ShadowRefused => "tidegate_shadow_refused_total",
            Event::Full => "tidegate_full_total",
            Event::Error => "tidegate_errors_total",
            Event::NoKey => "tidegate_no_key_total",
            Event::GivenBack => "tidegate_given_back_total",
            Event::BothAdmit => "tidegate_candidate_both_admit_total",
            Event::OnlyCandidateRefuses => "tidegate_candidate_only_refuses_total",
            Event::OnlyCandidateAdmits => "tidegate_candidate_only_admits_total",
            Event::BothRefuse => "tidegate_candidate_both_refuse_total",
        };
        metrics::counter!(name, "policy" => Arc::clone(policy)).increment(1);
    }
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
