//! What was counted, by policy.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What has happened under one policy so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyStats {
    /// Requests that it admitted, and all other policies too.
    pub admitted: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that it would have refused, but only watches.
    pub shadow_refused: u64,
    /// How often there was no room to count a key.
    pub full: u64,
    /// How often its store failed.
    pub errors: u64,
    /// How often a request had no key.
    pub no_key: u64,
    /// How often a request was given back.
    pub given_back: u64,
    /// Requests that it admits, and its candidate would.
    pub candidate_both_admit: u64,
    /// Requests that it admits, and its candidate would refuse.
    pub candidate_only_refuses: u64,
    /// Requests that it refuses, and its candidate would admit.
    pub candidate_only_admits: u64,
    /// Requests that it refuses, and its candidate would.
    pub candidate_both_refuse: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Admitted,
    Refused,
    ShadowRefused,
    Full,
    Error,
    NoKey,
    GivenBack,
    BothAdmit,
    OnlyCandidateRefuses,
    OnlyCandidateAdmits,
    BothRefuse,
}

#[cfg(feature = "metrics")]
impl Event {
    pub(crate) const ALL: [Self; 11] = [
        Self::Admitted,
        Self::Refused,
        Self::ShadowRefused,
        Self::Full,
        Self::Error,
        Self::NoKey,
        Self::GivenBack,
        Self::BothAdmit,
        Self::OnlyCandidateRefuses,
        Self::OnlyCandidateAdmits,
        Self::BothRefuse,
    ];
}

/// One policy's counts. They order nothing, and are read one after the other: all is `Relaxed`.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts([AtomicU64; 11]);

impl Counts {
    pub(crate) fn add(&self, event: Event) {
        self.0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self, event: Event) -> u64 {
        self.0[event as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> PolicyStats {
        PolicyStats {
            admitted: self.get(Event::Admitted),
            refused: self.get(Event::Refused),
            shadow_refused: self.get(Event::ShadowRefused),
            full: self.get(Event::Full),
            errors: self.get(Event::Error),
            no_key: self.get(Event::NoKey),
            given_back: self.get(Event::GivenBack),
            candidate_both_admit: self.get(Event::BothAdmit),
            candidate_only_refuses: self.get(Event::OnlyCandidateRefuses),
            candidate_only_admits: self.get(Event::OnlyCandidateAdmits),
            candidate_both_refuse: self.get(Event::BothRefuse),
        }
    }
}

/// What has happened so far, by policy, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub(crate) policies: Vec<(Arc<str>, PolicyStats)>,
}

impl Stats {
    /// Those of the policy of this name.
    pub fn policy(&self, name: &str) -> Option<&PolicyStats> {
        let mut policies = self.policies.iter();
        policies.find_map(|(policy, stats)| (&**policy == name).then_some(stats))
    }

    /// Every policy's name and stats.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PolicyStats)> {
        self.policies.iter().map(|(name, stats)| (&**name, stats))
    }
}
