//! What Prometheus is told, besides what the layer counts by policy.

use anyhow::Result;
use axum::http::StatusCode;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

const RESPONSES: &str = "tidegate_serve_responses_total";
const WRITTEN: &str = "tidegate_serve_log_lines_written_total";
const LOST: &str = "tidegate_serve_log_lines_lost_total";
const RELOADS: &str = "tidegate_serve_reloads_total";
const CONNECTIONS: &str = "tidegate_serve_connections";

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
    tidegate_redis::describe_metrics();
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
