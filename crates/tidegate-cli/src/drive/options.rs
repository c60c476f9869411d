//! The command line of `tidegate drive`.

use core::time::Duration;

use anyhow::{Context, Result};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use clap::Args;

use super::url_from_str;
use crate::simulate::duration_from_str;

const EXAMPLES: &str = "\
Examples:
  tidegate drive http://127.0.0.1:8080/bar -n 15 -H 'x-api-key: key-of-client-1'
  tidegate drive http://127.0.0.1:8080/foo -n 8 --interval 2s -H 'x-api-key: key-of-client-2'
  tidegate drive http://127.0.0.1:8080/bucket -n 12 --obey -H 'x-api-key: key-of-client-1'
  tidegate drive http://127.0.0.1:8080/foo -n 400 --concurrency 100 --json

Reads RateLimit and RateLimit-Policy of all revisions of the IETF's draft, X-RateLimit-*, and
Retry-After. Of several policies it shows the one with the least remaining.

Exit status: 0 done, 2 bad usage or no answer at all, 130 interrupted (what was sent so far is
still reported).";

/// Send a known number of requests at a known interval, and tell what rate limits answer
///
/// Prints a line a request: when it was sent, the status, what the header fields tell, and how long it took; and a
/// summary. Plain HTTP only.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DriveArgs {
    /// Where to send them, such as http://127.0.0.1:8080/foo
    #[arg(value_name = "URL", value_parser = url_from_str)]
    pub(crate) url: Uri,

    /// How many requests
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: u64,

    /// Time from the start of one request to that of the next, such as 2s or 100ms [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration_from_str)]
    interval: Option<u64>,

    /// How many requests may be under way at the same time; one that is due waits for room
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1, value_parser = concurrency_from_str)]
    pub(crate) concurrency: usize,

    /// A header to send; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header_from_str)]
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,

    /// The method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: Method,

    /// After a refusal, wait for as long as Retry-After says, and tell whether the next request then passes
    #[arg(long, conflicts_with = "concurrency")]
    pub(crate) obey: bool,

    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_from_str)]
    timeout: u64,

    /// Print JSON for programs instead of a table for people
    #[arg(long)]
    pub(crate) json: bool,
}

impl DriveArgs {
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval.unwrap_or(0))
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout)
    }
}

fn concurrency_from_str(text: &str) -> Result<usize> {
    let number: usize = text.parse()?;
    anyhow::ensure!((1..=10_000).contains(&number), "it is 1 to 10000");
    Ok(number)
}

fn header_from_str(text: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = text
        .split_once(':')
        .with_context(|| format!("{text:?} has no colon: write NAME: VALUE"))?;
    let name = name.trim();
    let name = name
        .parse()
        .with_context(|| format!("{name:?} is no name of a header"))?;
    let value = value.trim();
    let value = value
        .parse()
        .with_context(|| format!("{value:?} is no value of a header"))?;
    Ok((name, value))
}
