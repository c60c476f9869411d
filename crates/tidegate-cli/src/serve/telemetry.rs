//! What Prometheus is told, besides what the layer counts by policy.

use anyhow::Result;
use axum::http::StatusCode;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tidegate_redis::Stats;

const RESPONSES: &str = "tidegate_serve_responses_total";
const WRITTEN: &str = "tidegate_serve_log_lines_written_total";
const LOST: &str = "tidegate_serve_log_lines_lost_total";
const RELOADS: &str = "tidegate_serve_reloads_total";
const CONNECTIONS: &str = "tidegate_serve_connections";

const REDIS_UP: &str = "tidegate_redis_up";
const REDIS_DECISIONS: &str = "tidegate_redis_decisions_total";
const REDIS_ERRORS: &str = "tidegate_redis_errors_total";
const REDIS_EVENTS: &str = "tidegate_redis_events_total";

/// Lets everything that this process counts be rendered.
///
/// # Errors
///
/// If the process has a recorder already.
pub(crate) fn install() -> Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    metrics::describe_counter!(RESPONSES, "Responses, by route and status");
    metrics::describe_counter!(WRITTEN, "Lines of the access log that were written");
    metrics::describe_counter!(LOST, "Lines of the access log that were lost");
    metrics::describe_counter!(RELOADS, "Times the configuration was read again, by result");
    metrics::describe_gauge!(CONNECTIONS, "Open connections");
    tidegate_tower::describe_metrics();
    log_lines_written(0);
    log_lines_lost(0);
    for result in [true, false] {
        metrics::counter!(RELOADS, "result" => reload_result(result)).increment(0);
    }
    metrics::gauge!(CONNECTIONS).set(0);
    Ok(handle)
}

/// The route is one of ours, never what a client has sent.
pub(crate) fn response(route: &'static str, status: StatusCode) {
    let status = status.as_str().to_owned();
    metrics::counter!(RESPONSES, "route" => route, "status" => status).increment(1);
}

pub(crate) fn log_lines_written(lines: u64) {
    metrics::counter!(WRITTEN).increment(lines);
}

pub(crate) fn log_lines_lost(lines: u64) {
    metrics::counter!(LOST).increment(lines);
}

fn reload_result(is_done: bool) -> &'static str {
    if is_done { "done" } else { "failed" }
}

pub(crate) fn reloaded(is_done: bool) {
    metrics::counter!(RELOADS, "result" => reload_result(is_done)).increment(1);
}

pub(crate) fn connection_opened() {
    metrics::gauge!(CONNECTIONS).increment(1);
}

pub(crate) fn connection_closed() {
    metrics::gauge!(CONNECTIONS).decrement(1);
}

/// What a store on Redis has counted, as it is now.
pub(crate) fn redis(stats: &Stats) {
    metrics::describe_gauge!(REDIS_UP, "Whether the Redis server is taken to be alive");
    metrics::describe_counter!(REDIS_DECISIONS, "Decisions, by result and by who made them");
    metrics::describe_counter!(
        REDIS_ERRORS,
        "Requests that the Redis server did not decide on, by kind"
    );
    metrics::describe_counter!(
        REDIS_EVENTS,
        "What has happened to the connection and the data"
    );
    metrics::gauge!(REDIS_UP).set(f64::from(u8::from(stats.is_up)));
    for (result, by, count) in [
        ("allowed", "server", stats.allowed),
        ("refused", "server", stats.refused),
        ("refused", "memory", stats.refused_locally),
    ] {
        metrics::counter!(REDIS_DECISIONS, "result" => result, "by" => by).absolute(count);
    }
    for (kind, count) in stats.all_errors() {
        metrics::counter!(REDIS_ERRORS, "kind" => kind.as_str()).absolute(count);
    }
    for (event, count) in [
        ("connected", stats.connections),
        ("script-sent", stats.scripts_sent),
        ("state-lost", stats.state_lost),
        ("refund-lost", stats.refunds_lost),
    ] {
        metrics::counter!(REDIS_EVENTS, "event" => event).absolute(count);
    }
}
