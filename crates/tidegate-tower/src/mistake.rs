//! What can be wrong with a set of policies.

use core::fmt;

use tidegate::http::PolicyError;

use crate::limit::LimitError;

/// Why a set of policies was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    policy: Option<String>,
    part: Part,
    mistake: Mistake,
}

/// Which part of a policy is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The policy, or its limit for clients of no tier.
    Whole,
    /// The limit of this tier.
    Tier(String),
    Candidate,
    /// What decides if there is no room.
    OnFull,
    /// What decides if its store fails.
    OnError,
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
    /// [`Builder::stores`](crate::Builder::stores) could not make a store for the limit: its error, and what that came from.
    Store(String),
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
    pub(crate) fn new(policy: &str, mistake: Mistake) -> Self {
        Self::of_part(policy, Part::Whole, mistake)
    }

    pub(crate) fn of_part(policy: &str, part: Part, mistake: Mistake) -> Self {
        Self {
            policy: Some(policy.to_owned()),
            part,
            mistake,
        }
    }

    pub(crate) fn of_all(mistake: Mistake) -> Self {
        Self {
            policy: None,
            part: Part::Whole,
            mistake,
        }
    }

    #[cfg(feature = "config")]
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    /// The policy that is wrong; `None` if it is all of them together.
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// What is wrong.
    pub fn mistake(&self) -> &Mistake {
        &self.mistake
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(policy) = self.policy() {
            write!(f, "policy `{}`", policy.escape_debug())?;
            match &self.part {
                Part::Whole => {}
                Part::Tier(tier) => write!(f, ", tier `{}`", tier.escape_debug())?,
                Part::Candidate => f.write_str(", candidate")?,
                Part::OnFull => f.write_str(", fallback when there is no room")?,
                Part::OnError => f.write_str(", fallback when its store fails")?,
            }
            f.write_str(": ")?;
        }
        match &self.mistake {
            Mistake::NoPolicies => f.write_str("there is no policy, so nothing is limited"),
            Mistake::SameName => f.write_str(
                "another policy has the same name, and clients could not tell them apart",
            ),
            Mistake::NoLimit => f.write_str("it has no limit, neither for all nor for a tier"),
            Mistake::Limit(error) => error.fmt(f),
            Mistake::Store(error) => write!(f, "no store for this limit: {error}"),
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
