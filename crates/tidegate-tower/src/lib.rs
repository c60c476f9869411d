//! Rate limits for [tower](tower_service) services: axum, hyper, tonic.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, routing::get};
//! use tidegate::Quota;
//! use tidegate_tower::{Limit, OnFailure, PeerAddress, Policy, RateLimitLayer};
//!
//! let limits = RateLimitLayer::builder(OnFailure::Refuse)
//!     .policy(
//!         Policy::new("per-address", PeerAddress::new())
//!             .limit(Limit::token_bucket(Quota::per_second(10)).with_burst(20)),
//!     )
//!     .build()?;
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(limits.clone());
//! // Serve it with `app.into_make_service_with_connect_info::<SocketAddr>()`.
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! - A [`Policy`] has a name, says whose budget a request comes out of ([`KeyExtractor`]), for which requests, at which
//!   cost, and has a [`Limit`], or one for each tier of clients.
//! - A [`Limit`] is a quota, a way of counting, and where it is counted: in fixed memory, in a map with exact keys, or
//!   in any [`Store`], one that answers later included.
//! - [`RateLimitLayer`] holds all policies. A request must pass every one that applies to it; if one refuses, none counts
//!   it.
//!
//! # What clients are told
//!
//! Every response, whether the request was admitted or not, has the header fields that
//! [`Builder::headers`] chooses. A refusal is a 429 as plain text, JSON or problem+json, as the client accepts; to gRPC it
//! is `RESOURCE_EXHAUSTED` with a `RetryInfo`. [`Builder::on_refusal`] makes another response of it.
//!
//! # What can go wrong
//!
//! That a table is full or a store fails is not the client's fault, and no refusal: [`OnFailure`] decides, and must be
//! chosen. So is a request [without a key](OnNoKey). Each is counted apart in [`Stats`].
//!
//! # Behind proxies
//!
//! [`PeerAddress`] looks at no header. [`ClientAddress`] does, as far as trusted proxies have written it, and no further.
//!
//! # Cost
//!
//! No lock is taken on the way of a request, and with stores in memory nothing is boxed or spawned.
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `axum` | the peer's address from `ConnectInfo`, and `MatchedPath` for routes and keys |
//! | `config` | the whole set of policies from TOML |
//! | `tracing` | events for refusals and failures, ten a second at most |
//! | `metrics` | counters and gauges by policy |
//!
//! # Metrics
//!
//! All have the label `policy`. Counters count requests; [`PolicyStats`] tells of each what it is.
//!
//! | counter | |
//! |---|---|
//! | `tidegate_admitted_total`, `tidegate_refused_total`, `tidegate_shadow_refused_total` | how they were decided |
//! | `tidegate_full_total`, `tidegate_errors_total`, `tidegate_no_key_total` | why they could not be |
//! | `tidegate_given_back_total` | which were not counted after all |
//! | `tidegate_candidate_both_admit_total`, `…_only_refuses_total`, `…_only_admits_total`, `…_both_refuse_total` | where a candidate differs |
//!
//! | gauge | |
//! |---|---|
//! | `tidegate_live_keys` | keys that have used something that has not come back yet |
//! | `tidegate_capacity_keys` | for how many there is room, if that is limited |
//!
//! Gauges also have the labels `tier`, which is empty for clients of none, and `candidate`, `true` or `false`. They are set
//! by `RateLimitLayer::publish_occupancy`, and `describe_metrics` tells units and descriptions to the recorder.

#![forbid(unsafe_code)]
#![allow(clippy::std_instead_of_alloc, reason = "this crate needs std")]

mod address;
mod body;
mod builder;
mod case;
#[cfg(feature = "config")]
mod config;
mod forwarded;
mod grpc;
mod key;
mod layer;
mod limit;
mod mistake;
mod open;
mod plan;
mod policy;
mod refusal;
mod service;
mod stats;
mod store;
mod telemetry;

pub use address::{ClientAddress, Peer, PeerAddress, ProxyError};
pub use body::ResponseBody;
pub use builder::{Builder, OnFailure};
#[cfg(feature = "config")]
pub use config::{Config, ConfigError, ConfigReader};
pub use key::{
    And, Everyone, Extension, Header, Key, KeyExtractor, NoKey, Or, PathTemplate, RouteTemplate,
};
pub use layer::{LimitOccupancy, PolicyBudget, PolicyStanding, RateLimitLayer};
pub use limit::{Counting, Limit, LimitError};
pub use mistake::{BuildError, Mistake};
pub use policy::{Ending, OnNoKey, Policy};
pub use refusal::Refusal;
pub use service::{RateLimit, ResponseFuture};
pub use stats::{PolicyStats, Stats};
pub use store::{Answer, Counted, Decision, Later, Occupancy, Store, StoreError, StoreRequest};
#[cfg(feature = "metrics")]
pub use telemetry::describe_metrics;
pub use tidegate::http::{Draft, Headers};

/// The README's examples are tests.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
