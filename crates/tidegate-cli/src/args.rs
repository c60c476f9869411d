//! The command line.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tidegate::Quota;

use crate::key::KeyKind;
use crate::log::{LineParser, json, time};
use crate::policy::{Kind, Policy, quota_from_str};
use crate::simulate::SimulateArgs;

/// Try rate limits on real traffic before you set them.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Replay(Box<ReplayArgs>),
    Simulate(Box<SimulateArgs>),
    #[cfg(feature = "serve")]
    Serve(crate::serve::ServeArgs),
    #[cfg(feature = "serve")]
    Drive(crate::drive::DriveArgs),
    Sample(SampleArgs),
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  tidegate replay access.log --limit 10/min
  tidegate replay access.log --limit 10/min --burst 5 --candidate \"sliding-window 5/min\"
  tidegate replay access.log --limit 100/h --key net --plot limits.svg
  zcat access.log.*.gz | tidegate replay - --limit 10/min --json
  tidegate replay caddy.log --format json-lines --time-field ts \\
      --key-field request.remote_ip --limit 5/s

Limits are texts such as 5/min, 3/10s, 10r/s, 1000/day or \"5 per 10 minutes\".

Exit status: 0 done, 2 bad usage or input, 130 interrupted (what was read so far is still reported).";

/// Say what a limit would have done to the traffic in an access log
///
/// Reads Common or Combined Log Format (or JSON lines), replays it against one or more candidate limits in one
/// pass, and says how many requests and whom each would have refused, and how large a limit would have to be to
/// refuse nobody, or one key in a thousand or in a hundred.
///
/// Each request takes one permit. Windows are aligned to 1970-01-01 00:00 UTC. Empty lines are skipped; other
/// lines that cannot be read are counted and the first few shown.
#[derive(Args, Debug)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The log; `-` is standard input
    #[arg(value_name = "FILE|-")]
    pub(crate) file: PathBuf,

    /// The first candidate's limit, such as 10/min
    #[arg(long, value_parser = quota_from_str, required_unless_present = "candidates")]
    limit: Option<Quota>,

    /// The first candidate's burst; only a token-bucket has one [default: its limit]
    #[arg(long, requires = "limit", value_parser = clap::value_parser!(u64).range(1..))]
    burst: Option<u64>,

    /// The first candidate's algorithm
    #[arg(long, value_enum, default_value = "token-bucket")]
    algorithm: Kind,

    /// One more candidate, such as "sliding-window 5/min" or "token-bucket 10/min burst 5"; repeatable
    #[arg(long = "candidate", value_name = "POLICY")]
    candidates: Vec<Policy>,

    /// What shares a budget
    #[arg(long, value_enum, default_value = "ip")]
    pub(crate) key: KeyKind,

    /// Show the N keys hurt most by each candidate
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,

    /// The log's format
    #[arg(long, value_enum, default_value = "clf")]
    format: Format,

    /// JSON field with the time: RFC 3339, Common Log Format, or a number since 1970 in s, ms, us or ns by size
    #[arg(long, value_name = "NAME", default_value = "time")]
    time_field: String,

    /// JSON field with the client, or any other key; `a.b` is field b of the object a
    #[arg(long, value_name = "NAME", default_value = "ip")]
    key_field: String,

    /// JSON field with the path, for --key path and ip+path
    #[arg(long, value_name = "NAME", default_value = "path")]
    path_field: String,

    /// Print JSON for programs instead of tables for people
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw admitted and refused requests over time
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// Formats of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Common or Combined Log Format
    Clf,
    /// One JSON object a line
    JsonLines,
}

impl ReplayArgs {
    /// All candidates; there is at least one.
    ///
    /// # Errors
    ///
    /// If an algorithm cannot represent a limit or has no burst.
    pub(crate) fn policies(&self) -> Result<Vec<Policy>> {
        let first = self.limit.map(|quota| Policy {
            kind: self.algorithm,
            quota,
            burst: self.burst,
        });
        let policies: Vec<Policy> = first
            .into_iter()
            .chain(self.candidates.iter().copied())
            .collect();
        for policy in &policies {
            policy.limiter()?;
        }
        ensure!(!policies.is_empty(), "there is no limit to try");
        Ok(policies)
    }

    /// The parser of the log's format.
    pub(crate) fn parser(&self) -> LineParser {
        match self.format {
            Format::Clf => LineParser::Clf(time::ClfTimes::default()),
            Format::JsonLines => LineParser::Json(json::Fields::new(
                self.time_field.clone(),
                self.key_field.clone(),
                self.key.needs_path().then(|| self.path_field.clone()),
            )),
        }
    }

    /// What the log is called in messages.
    pub(crate) fn input_name(&self) -> String {
        if self.is_stdin() {
            "standard input".to_owned()
        } else {
            self.file.display().to_string()
        }
    }

    /// Whether to read standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.file.as_os_str() == "-"
    }
}

const SAMPLE_EXAMPLES: &str = "\
Examples:
  tidegate sample > made-up.log
  tidegate sample --requests 100000 --seed 7 | tidegate replay - --limit 10/min";

/// Write a made-up but lifelike access log
///
/// Pollers, a fleet that reports on the minute, a scraper, a brute-forced login, an office behind one address, and
/// visitors with IPv4 and IPv6 addresses, all from the ranges that are reserved for documentation. Every line's user
/// agent says that it is made up. The same options always print the same log.
#[derive(Args, Debug)]
#[command(after_help = SAMPLE_EXAMPLES)]
pub(crate) struct SampleArgs {
    /// How many requests; more of them take longer, at the same pace
    #[arg(long, value_name = "N", default_value_t = 3_000)]
    pub(crate) requests: u64,

    /// What the randomness starts from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}
