//! The command line of `tidegate serve`.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;

use clap::Args;

use crate::simulate::duration_from_str;

const EXAMPLES: &str = "\
Routes, each behind an API key and the policies of the configuration:
  /foo       fixed window          /bar      sliding log
  /anchored  anchored window       /sliding  sliding window
  /bucket    token bucket
And without a key or a limit:
  /          a page that shows the budgets of the visitor and of the busiest keys
  /status.json, /metrics           the same for programs, and counters for Prometheus

Examples:
  tidegate serve
  tidegate serve --print-config > policies.toml
  tidegate serve --listen 127.0.0.1:0 --config policies.toml --access-log access.log
  tidegate serve --redis redis://127.0.0.1/ --listen 127.0.0.1:8081
  curl -i -H 'x-api-key: key-of-client-1' http://127.0.0.1:8080/bar

SIGHUP reads the configuration again: what was used stays used, and a file with a mistake
changes nothing. SIGINT and SIGTERM let requests under way end.

Exit status: 0 stopped by a signal, 2 bad usage or configuration.";

/// Serve HTTP behind rate limits, to try them on
///
/// Requests are logged, authenticated by an API key, held against the policies, and answered. Messages go to standard
/// error; the first is `listening on http://ADDRESS`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 is any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,

    /// The policies, in TOML [default: what --print-config prints]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print the policies that are built in, as a file to begin with, and serve nothing
    #[arg(long, conflicts_with_all = ["config", "access_log", "redis"])]
    pub(crate) print_config: bool,

    /// Keep the budgets on a Redis server, where every `tidegate serve` with the same policies shares them
    ///
    /// As in redis://127.0.0.1:6379/0; of a cluster, several of its nodes, with commas between. Until the server is
    /// there, and when it is not, `on-failure` of the policies decides.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) redis: Vec<String>,

    /// How long a decision on the Redis server may take
    #[arg(long, value_name = "TIME", default_value = "50ms", requires = "redis", value_parser = duration_from_str)]
    redis_deadline: u64,

    /// Append an access log in Combined Log Format; `-` is standard output
    #[arg(long, value_name = "FILE|-")]
    pub(crate) access_log: Option<PathBuf>,
}

impl ServeArgs {
    pub(crate) fn redis_deadline(&self) -> Duration {
        Duration::from_nanos(self.redis_deadline)
    }
}
