//! The command line of `tidegate simulate`.

use core::convert::Infallible;
use core::str::FromStr;
use std::path::PathBuf;

use anyhow::{Error, Result, ensure};
use clap::Args;
use tidegate::{Quota, Timestamp};

use crate::policy::{Kind, Policy, quota_from_str};

const EXAMPLES: &str = "\
Traffic:
  boundary  the limit's number of requests just before each window's end, and as many just after
  steady    requests at equal distances, half as many again as the limit lets pass
  burst     half of what the limit lets pass, steadily, and now and then twice the limit in a moment
  poisson   requests at random, half as many again as the limit lets pass on average
  FILE      one time a line (seconds such as 12.5, or RFC 3339), or an access log in Common or
            Combined Log Format; `-` is standard input, ./steady a file of that name

Examples:
  tidegate simulate --limit 10/min
  tidegate simulate --limit 10/min --traffic burst --burst 5 --svg burst.svg
  tidegate simulate --limit 100/s --traffic poisson --rate 90/s --duration 10s --seed 7
  tidegate simulate --limit 5/s --traffic access.log --client 192.0.2.200 --algorithm sliding-window
  jq .ts caddy.log | tidegate simulate --limit 5/s --traffic - --csv > verdicts.csv

Exit status: 0 done, 2 bad usage or input.";

/// Draw what each algorithm admits of the same traffic, side by side
///
/// One lane an algorithm: each request as a mark that says whether it was admitted, and below it how many were
/// admitted in the last period, against the limit. The text is for the terminal; --svg draws a picture.
///
/// All requests share one limit and take one permit each. Windows are aligned to the beginning of made-up
/// traffic, and to 1970-01-01 00:00 UTC for times in a file.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateArgs {
    /// The limit, such as 10/min
    #[arg(long, value_parser = quota_from_str)]
    pub(crate) limit: Quota,

    /// What arrives
    #[arg(
        long,
        value_name = "boundary|steady|burst|poisson|FILE|-",
        default_value = "boundary"
    )]
    pub(crate) traffic: Traffic,

    /// An algorithm to show; repeatable [default: all]
    #[arg(long = "algorithm", value_enum, value_name = "ALGORITHM")]
    algorithms: Vec<Kind>,

    /// The token bucket's burst [default: the limit]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    burst: Option<u64>,

    /// How fast requests come, such as 20/min: steady and poisson traffic, and between the bursts of burst
    #[arg(long, value_parser = rate_from_str)]
    pub(crate) rate: Option<Quota>,

    /// How many requests: in each burst of boundary and burst traffic; at most in all of steady and poisson
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,

    /// How long traffic lasts, such as 90s or 5min [default: three periods of the limit; a file: all of it]
    #[arg(long, value_name = "TIME", value_parser = duration_from_str)]
    pub(crate) duration: Option<u64>,

    /// What the randomness of poisson traffic starts from [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Of an access log, only the requests of this client [default: all together]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<String>,

    /// Draw a picture, besides
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) svg: Option<PathBuf>,

    /// Print JSON for programs, with every verdict, instead of lanes for people
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print each request's time and verdicts as CSV, instead of lanes for people
    #[arg(long)]
    pub(crate) csv: bool,

    /// How many characters wide the lanes may be [default: the terminal's width, else 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..=1_000))]
    pub(crate) width: Option<u16>,

    /// Draw with ASCII characters only
    #[arg(long)]
    pub(crate) ascii: bool,
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Boundary,
    Steady,
    Burst,
    Poisson,
    File(PathBuf),
}

impl FromStr for Traffic {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "boundary" => Self::Boundary,
            "steady" => Self::Steady,
            "burst" => Self::Burst,
            "poisson" => Self::Poisson,
            file => Self::File(file.into()),
        })
    }
}

impl Traffic {
    fn name(&self) -> &'static str {
        match self {
            Self::Boundary => "boundary traffic",
            Self::Steady => "steady traffic",
            Self::Burst => "burst traffic",
            Self::Poisson => "poisson traffic",
            Self::File(_) => "traffic from a file",
        }
    }
}

impl SimulateArgs {
    /// The lanes' policies, at least one, and what to say of algorithms that are left out because they cannot
    /// represent the limit.
    ///
    /// # Errors
    ///
    /// If an algorithm that was asked for cannot represent the limit, if none can, or if there is a burst and
    /// no token bucket.
    pub(crate) fn policies(&self) -> Result<(Vec<Policy>, Vec<Error>)> {
        let is_chosen = |kind: &Kind| self.algorithms.is_empty() || self.algorithms.contains(kind);
        ensure!(
            self.burst.is_none() || is_chosen(&Kind::TokenBucket),
            "only a token-bucket has a burst, and --algorithm names none"
        );
        let mut policies = Vec::new();
        let mut left_out = Vec::new();
        for kind in Kind::ALL.into_iter().filter(is_chosen) {
            let policy = Policy {
                kind,
                quota: self.limit,
                burst: self.burst.filter(|_| kind == Kind::TokenBucket),
            };
            match policy.limiter() {
                Ok(_) => policies.push(policy),
                Err(error) if self.algorithms.is_empty() => left_out.push(error),
                Err(error) => return Err(error),
            }
        }
        match left_out.pop() {
            Some(error) if policies.is_empty() => return Err(error),
            last => left_out.extend(last),
        }
        Ok((policies, left_out))
    }

    /// # Errors
    ///
    /// If an option says nothing about this traffic.
    pub(crate) fn check(&self) -> Result<()> {
        let name = self.traffic.name();
        let is_file = matches!(self.traffic, Traffic::File(_));
        ensure!(
            self.rate.is_none() || !is_file && self.traffic != Traffic::Boundary,
            "{name} has no --rate"
        );
        ensure!(
            self.requests.is_none() || !is_file,
            "{name} has its own number of requests: --requests is for made-up traffic"
        );
        ensure!(
            self.seed.is_none() || self.traffic == Traffic::Poisson,
            "{name} is not random: --seed is for poisson traffic"
        );
        ensure!(
            self.client.is_none() || is_file,
            "{name} has no clients: --client is for an access log"
        );
        Ok(())
    }
}

/// A rate has the texts of a limit.
fn rate_from_str(text: &str) -> Result<Quota, Error> {
    text.parse::<Quota>()
        .map_err(|error| anyhow::anyhow!("in the rate {text:?}, {error}"))
}

/// Reads what may stand after the slash of a limit, such as `90s`, as nanoseconds.
pub(crate) fn duration_from_str(text: &str) -> Result<u64, Error> {
    const BEFORE: &str = "1/";
    let quota = format!("{BEFORE}{text}")
        .parse::<Quota>()
        .map_err(|error| {
            let position = error.position() - BEFORE.len();
            let message = error.to_string();
            let what = message.split_once(": ").map_or("", |(_, what)| what);
            anyhow::anyhow!("in the time {text:?}, at byte {position}: {what}")
        })?;
    Ok(Timestamp::from_duration(quota.period()).as_nanos())
}
