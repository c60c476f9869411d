//! A limit to try: which algorithm, how much, and its text form.

use core::fmt;
use core::str::FromStr;

use anyhow::{Context, Error, bail, ensure};
use clap::ValueEnum;
use tidegate::{FixedWindow, Quota, SlidingWindow, TokenBucket, VecLog};

/// The algorithms, by the names they have on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A steady rate, and bursts up to a size of your choice
    TokenBucket,
    /// So many in each window; up to twice that around a boundary
    FixedWindow,
    /// Windows that begin with a key's first admitted request
    FixedWindowAnchored,
    /// Two windows' counts, the older one fading
    SlidingWindow,
    /// So many in any period, exactly
    SlidingLog,
}

impl Kind {
    /// All of them, in the order of reports.
    pub(crate) const ALL: [Self; 5] = [
        Self::TokenBucket,
        Self::FixedWindow,
        Self::FixedWindowAnchored,
        Self::SlidingWindow,
        Self::SlidingLog,
    ];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::FixedWindow => "fixed-window",
            Self::FixedWindowAnchored => "fixed-window-anchored",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
        }
    }
}

/// One candidate: `token-bucket 10/min burst 5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) kind: Kind,
    pub(crate) quota: Quota,
    /// Of a token bucket; the quota's limit if absent.
    pub(crate) burst: Option<u64>,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.quota)?;
        match self.burst {
            Some(burst) => write!(f, " burst {burst}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let Ok(kind) = Kind::from_str(name, true) else {
            let names = Kind::ALL.map(Kind::name).join(", ");
            bail!(
                "{name:?} is no algorithm ({names}); a candidate looks like \"sliding-window 5/min\""
            );
        };
        let (quota, burst) = match rest.split_once("burst") {
            Some((quota, burst)) => (quota.trim(), Some(burst.trim())),
            None => (rest.trim(), None),
        };
        let quota = quota_from_str(quota)?;
        let burst = match burst {
            Some(burst) => Some(
                burst
                    .parse()
                    .with_context(|| format!("{burst:?} is no burst"))?,
            ),
            None => None,
        };
        let policy = Self { kind, quota, burst };
        policy.limiter()?;
        Ok(policy)
    }
}

/// Reads a quota; the error quotes the text it counts bytes in.
pub(crate) fn quota_from_str(text: &str) -> Result<Quota, Error> {
    text.parse::<Quota>()
        .map_err(|error| anyhow::anyhow!("in the limit {text:?}, {error}"))
}

/// The algorithm of a policy, ready to step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limiter {
    Bucket(TokenBucket),
    Fixed(FixedWindow),
    Sliding(SlidingWindow),
    Log(VecLog),
}

impl Policy {
    /// The limiter that does what the policy says.
    ///
    /// # Errors
    ///
    /// If the algorithm cannot represent the limit, or has no burst.
    pub(crate) fn limiter(&self) -> Result<Limiter, Error> {
        let Self { kind, quota, burst } = *self;
        ensure!(
            burst.is_none() || kind == Kind::TokenBucket,
            "only a token-bucket has a burst, {} has none",
            kind.name()
        );
        let limiter = match kind {
            Kind::TokenBucket => {
                let burst = burst.unwrap_or(quota.limit());
                TokenBucket::try_new_with_burst(quota, burst).map(Limiter::Bucket)
            }
            Kind::FixedWindow => FixedWindow::try_new(quota).map(Limiter::Fixed),
            Kind::FixedWindowAnchored => FixedWindow::try_anchored(quota).map(Limiter::Fixed),
            Kind::SlidingWindow => SlidingWindow::try_new(quota).map(Limiter::Sliding),
            Kind::SlidingLog => VecLog::try_new(quota).map(Limiter::Log),
        };
        limiter.map_err(|error| anyhow::anyhow!("{self}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back() {
        for (text, shown) in [
            ("sliding-window 5/min", "sliding-window 5/min"),
            ("token-bucket 10/min burst 5", "token-bucket 10/min burst 5"),
            (
                "  Token-Bucket   10 per minute   burst 5 ",
                "token-bucket 10/min burst 5",
            ),
            ("sliding-log 5 requests per 10 seconds", "sliding-log 5/10s"),
            (
                "fixed-window-anchored 1000/day",
                "fixed-window-anchored 1000/day",
            ),
            ("fixed-window 10r/s", "fixed-window 10/s"),
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), shown);
            assert_eq!(shown.parse::<Policy>().unwrap(), policy);
        }
    }

    #[test]
    fn bad_texts_say_what_is_wrong() {
        for (text, says) in [
            ("", "\"\" is no algorithm"),
            (
                "leaky-bucket 5/min",
                "\"leaky-bucket\" is no algorithm (token-bucket, ",
            ),
            (
                "sliding-window",
                "in the limit \"\", at byte 0: a whole number",
            ),
            (
                "sliding-window 5/fortnight",
                "in the limit \"5/fortnight\", at byte 2: not a unit",
            ),
            ("sliding-window 0/min", "the limit is 0"),
            (
                "sliding-window 5/min burst 3",
                "only a token-bucket has a burst",
            ),
            ("token-bucket 5/min burst", "\"\" is no burst"),
            ("token-bucket 5/min burst x", "\"x\" is no burst"),
            ("token-bucket 5/min burst 0", "a burst or limit of 0"),
            ("sliding-window 9999999/min", "counting to this limit"),
        ] {
            let error = text.parse::<Policy>().unwrap_err();
            assert!(format!("{error:#}").contains(says), "{text}: {error:#}");
        }
    }
}
