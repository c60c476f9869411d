//! Opens the stores of policies.

use core::error::Error;
use core::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use tidegate::Timestamp;

use crate::builder::{OnFailure, Stores};
use crate::limit::{Limit, LimitError, OpenLimit};
use crate::mistake::{BuildError, Mistake, Part};
use crate::plan::{Active, told};
use crate::policy::Policy;
use crate::store::StoreRequest;

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

/// Opens the stores of one set of policies.
pub(crate) struct Opener<'a> {
    pub(crate) stores: Option<&'a Stores>,
    pub(crate) now: Timestamp,
}

impl Opener<'_> {
    /// A policy with its stores, in which what was used under `old` is still used.
    pub(crate) fn policy(
        &self,
        policy: Policy,
        old: Option<&Active>,
        on_full: &OnFailure,
        on_error: &OnFailure,
    ) -> Result<Active, BuildError> {
        let failed = |part, mistake| BuildError::of_part(&policy.name, part, mistake);
        let open = |limit: &Limit, part: Part, old| {
            let (tier, is_candidate) = match &part {
                Part::Tier(tier) => (Some(&**tier), false),
                part => (None, *part == Part::Candidate),
            };
            let request = StoreRequest::new(&policy.name, tier, is_candidate, limit);
            let opened = self.limit(limit, request, old);
            opened.map_err(|mistake| failed(part, mistake))
        };
        let (mut limits, mut all_told) = (Vec::new(), Vec::new());
        let mut keep = |opened: Result<OpenLimit, BuildError>| {
            let opened = opened?;
            let told = told(&policy, &opened.limit);
            all_told.push(told.map_err(|error| failed(Part::Whole, Mistake::Text(error)))?);
            limits.push(opened);
            Ok(limits.len() - 1)
        };
        let limit = policy.limit.as_ref().map(|limit| {
            let old = old.and_then(|old| Some(&old.limits[old.limit?]));
            keep(open(limit, Part::Whole, old))
        });
        let limit = limit.transpose()?;
        let tiers = policy.tiers.iter().map(|(tier, limit)| {
            let old = old.and_then(|old| Some(&old.limits[*old.tiers.get(tier)?]));
            let part = Part::Tier(tier.to_string());
            Ok((tier.clone(), keep(open(limit, part, old))?))
        });
        let tiers = tiers.collect::<Result<_, _>>()?;
        let candidate = policy.candidate.as_ref().map(|limit| {
            let old = old.and_then(|old| old.candidate.as_ref());
            open(limit, Part::Candidate, old)
        });
        let fallback = |on_failure: &OnFailure, part, old| {
            let opened = on_failure.open(old, self.now);
            opened.map_err(|error| failed(part, Mistake::Limit(error)))
        };
        Ok(Active {
            limits,
            told_fields: all_told.iter().map(|_| OnceLock::new()).collect(),
            told: all_told,
            limit,
            tiers,
            candidate: candidate.transpose()?,
            on_full: fallback(on_full, Part::OnFull, old.map(|old| &old.on_full))?,
            on_error: fallback(on_error, Part::OnError, old.map(|old| &old.on_error))?,
            enforces: !policy.is_monitor,
            counts: old.map_or_else(Arc::default, |old| Arc::clone(&old.counts)),
            name: Arc::from(&*policy.name),
            policy,
        })
    }

    fn limit(
        &self,
        limit: &Limit,
        request: Option<StoreRequest<'_>>,
        old: Option<&OpenLimit>,
    ) -> Result<OpenLimit, Mistake> {
        limit.check().map_err(Mistake::Limit)?;
        if let (Some(stores), Some(request)) = (self.stores, request)
            && let Some(store) =
                stores(&request).map_err(|error| Mistake::Store(with_sources(&*error)))?
        {
            return Ok(limit.opened_elsewhere(store));
        }
        limit.open(old, self.now).map_err(Mistake::Limit)
    }
}

/// What an error says, and what it came from.
fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        // Writing to a string does not fail.
        let _ = write!(text, ": {source}");
        next = source.source();
    }
    text
}
