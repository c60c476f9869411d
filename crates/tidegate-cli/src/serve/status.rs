//! What the page shows: budgets, as JSON.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{Uri, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tidegate_tower::{Key, PolicyStanding};

use super::app::{API, App};

/// How many of the busiest keys are shown.
const TOP: usize = 10;

#[derive(Serialize)]
struct Status {
    you: You,
    busiest: Vec<Busy>,
    policies: Vec<Policy>,
}

/// Whoever asks.
#[derive(Serialize)]
struct You {
    address: Option<IpAddr>,
    tier: Option<String>,
    /// The header for an API key.
    key_header: Option<String>,
    budgets: Vec<Budget>,
}

#[derive(Serialize)]
struct Busy {
    /// Requests of late, at least.
    requests: u64,
    tier: Option<String>,
    #[serde(flatten)]
    budget: Budget,
}

/// What one key has under one policy. Times are in milliseconds.
#[derive(Serialize)]
struct Budget {
    policy: String,
    /// Masked.
    key: String,
    quota: String,
    /// The most that can be left: the limit, or the burst.
    limit: u64,
    remaining: u64,
    /// When all of it is back, if one more request is made now.
    reset_ms: u64,
    /// How long the next request must wait; `null` if that does not help.
    wait_ms: Option<u64>,
    is_enforced: bool,
}

#[derive(Serialize)]
struct Policy {
    policy: String,
    admitted: u64,
    refused: u64,
    shadow_refused: u64,
    full: u64,
    errors: u64,
}

/// Where the visitor and the busiest keys stand.
pub(super) async fn json(State(app): State<Arc<App>>, request: Request) -> impl IntoResponse {
    let (mut parts, _) = request.into_parts();
    let layer = app.limits().layer();
    let config = app.limits().config();
    let tier_of = |parts: &Parts| config.tier_of(parts).map(|tier| tier.into_owned());

    // As if the visitor asked for each of the routes.
    parts.extensions.remove::<MatchedPath>();
    let mut seen = HashSet::new();
    let mut budgets = Vec::new();
    for route in API {
        parts.uri = Uri::from_static(route);
        for standing in layer.standings_later(&parts).await {
            let budget = &standing.budget;
            if seen.insert((Arc::clone(&budget.name), budget.key.clone())) {
                budgets.push(app.budget(&standing));
            }
        }
    }
    let mut busiest = Vec::new();
    for busy in app.busiest.top(TOP) {
        let standings = layer.standings_later(&busy.request).await;
        // It is not there if the policy has changed since, or the store does not answer.
        let mut standings = standings.into_iter();
        if let Some(standing) = standings.find(|standing| busy.is(&standing.budget)) {
            busiest.push(Busy {
                requests: busy.at_least(),
                tier: busy.tier.map(|tier| tier.into_owned()),
                budget: app.budget(&standing),
            });
        }
    }
    let stats = layer.stats();
    let status = Status {
        you: You {
            address: parts
                .extensions
                .get::<ConnectInfo<SocketAddr>>()
                .map(|peer| peer.0.ip().to_canonical()),
            tier: tier_of(&parts),
            key_header: config.tier_header().map(ToString::to_string),
            budgets,
        },
        busiest,
        policies: stats
            .iter()
            .map(|(policy, stats)| Policy {
                policy: policy.to_owned(),
                admitted: stats.admitted,
                refused: stats.refused,
                shadow_refused: stats.shadow_refused,
                full: stats.full,
                errors: stats.errors,
            })
            .collect(),
    };
    let fields = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    // There is nothing in it that JSON has not.
    (fields, serde_json::to_string(&status).unwrap_or_default())
}

impl App {
    fn budget(&self, standing: &PolicyStanding) -> Budget {
        let budget = &standing.budget;
        let (limit, remaining, reset, wait) = match &standing.decision {
            // What would be left, and what the request itself would take.
            Ok(allowed) => (
                allowed.limit(),
                allowed
                    .remaining()
                    .saturating_add(budget.cost)
                    .min(allowed.limit()),
                allowed.reset_after(),
                Some(Duration::ZERO),
            ),
            Err(denied) => (
                denied.limit(),
                denied.remaining(),
                denied.reset_after(),
                denied.retry_after(),
            ),
        };
        Budget {
            policy: budget.name.to_string(),
            key: self.masked(&budget.key),
            quota: budget.quota.to_string(),
            limit,
            remaining,
            reset_ms: millis(reset),
            wait_ms: wait.map(millis),
            is_enforced: budget.is_enforced,
        }
    }

    /// A key as everybody may see it: no part of a secret, the network of an address; and four digits to tell keys apart.
    fn masked(&self, key: &Key) -> String {
        let digits = self.mask.hash_one(key) & 0xffff;
        let shown = match key {
            Key::Everyone => return "everyone".to_owned(),
            Key::Address(IpAddr::V4(address), _) => {
                let [a, b, c, _] = address.octets();
                format!("{a}.{b}.{c}.*")
            }
            Key::Address(IpAddr::V6(address), _) => {
                let [a, b, c, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:*")
            }
            Key::Number(_) | Key::Text(_) | Key::Bytes(_) => "***".to_owned(),
            Key::Both(both) => return format!("{} {}", self.masked(&both.0), self.masked(&both.1)),
            _ => "***".to_owned(),
        };
        format!("{shown} #{digits:04x}")
    }
}

/// Rounded up: none promises too early.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
