//! How a request stands with one policy.

use core::cmp::Reverse;
use core::time::Duration;

use super::policy::Policy;
use super::text::seconds_up;
use crate::decision::{Allowed, Denied, Reason};

/// A policy, and what its limiter has decided about a request.
///
/// Several policies make a slice of these. Whichever was not asked any more because another had refused can be
/// [peeked at](crate::Gate::peek_n), or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    policy: Policy<'a>,
    decision: Result<Allowed, Denied>,
}

impl<'a> Standing<'a> {
    /// This decision under this policy.
    pub const fn new(policy: Policy<'a>, decision: Result<Allowed, Denied>) -> Self {
        Self { policy, decision }
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy<'a> {
        &self.policy
    }

    /// The decision.
    pub const fn decision(&self) -> &Result<Allowed, Denied> {
        &self.decision
    }

    pub(super) fn limit(&self) -> u64 {
        self.decision
            .as_ref()
            .map_or_else(Denied::limit, Allowed::limit)
    }

    pub(super) fn remaining(&self) -> u64 {
        self.decision
            .as_ref()
            .map_or_else(Denied::remaining, Allowed::remaining)
    }

    /// Whether anything is known about the client's budget.
    pub(super) fn is_counted(&self) -> bool {
        !self.is_refused_for(Reason::TableFull)
    }

    pub(super) fn is_refused_for(&self, reason: Reason) -> bool {
        self.decision
            .as_ref()
            .is_err_and(|denied| denied.reason() == reason)
    }

    /// Until everything is back; on a refusal that waiting cures, the wait.
    pub(super) fn reset_after(&self) -> Duration {
        match &self.decision {
            Ok(allowed) => allowed.reset_after(),
            Err(denied) => denied.retry_after().unwrap_or(denied.reset_after()),
        }
    }

    /// Until there is more; on a refusal that waiting cures, the wait.
    pub(super) fn next_after(&self) -> Option<Duration> {
        match &self.decision {
            Ok(allowed) => allowed.next_after(),
            Err(denied) => denied.retry_after().or_else(|| denied.next_after()),
        }
    }

    /// How much it hurts, for comparison: a refusal more than none, a longer wait more than a shorter one and for
    /// ever most, and else the fewer permits are left.
    fn severity(&self) -> impl Ord + use<> {
        let wait = match &self.decision {
            Ok(_) => None,
            Err(denied) => Some(denied.retry_after().unwrap_or(Duration::MAX)),
        };
        (wait, Reverse(self.remaining()), self.reset_after())
    }
}

/// The one that hurts most, of those that tell anything; of equals the first.
pub(super) fn lead<'a>(standings: &'a [Standing<'a>]) -> Option<&'a Standing<'a>> {
    standings
        .iter()
        .filter(|standing| standing.is_counted())
        .rev()
        .max_by_key(|standing| standing.severity())
}

/// Seconds until no policy refuses the same request any more; `None` if none does, or one will for ever, or nobody
/// knows.
pub(super) fn retry_after(standings: &[Standing<'_>]) -> Option<u64> {
    let mut longest = None;
    for standing in standings {
        if let Err(denied) = &standing.decision {
            longest = longest.max(Some(denied.retry_after()?));
        }
    }
    // An algorithm of somebody else's may tell a wait of nothing.
    longest.map(|wait| seconds_up(wait).max(1))
}
