//! The pipeline: log, authenticate, limit, handle.

use core::net::SocketAddr;
use std::borrow::Cow;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use jiff::Timestamp;
use metrics_exporter_prometheus::PrometheusHandle;
use tidegate::{Clock, Limiter, Quota, TokenBucket};

use super::access_log::{AccessLog, Line};
use super::busiest::Busiest;
use super::limits::Limits;
use super::{status, telemetry};

/// The routes behind the limits, one for each way of counting.
pub(crate) const API: [&str; 5] = ["/foo", "/bar", "/bucket", "/anchored", "/sliding"];

/// The other ones.
const OPEN: [&str; 5] = ["/", "/page.js", "/page.css", "/status.json", "/metrics"];

/// How much of a request's headers is kept to find its keys again, in bytes.
const SKETCH_MAX: usize = 512;

/// What all requests share.
pub(crate) struct App {
    limits: Limits,
    log: Option<AccessLog>,
    pub(super) busiest: Busiest,
    /// Masks keys: another one each time the server starts.
    pub(super) mask: ahash::RandomState,
    metrics: PrometheusHandle,
    /// How often keys are counted.
    scrapes: Limiter<TokenBucket>,
    clock: Clock,
}

impl App {
    pub(crate) fn new(limits: Limits, log: Option<AccessLog>, metrics: PrometheusHandle) -> Self {
        Self {
            limits,
            log,
            busiest: Busiest::new(),
            mask: ahash::RandomState::new(),
            metrics,
            scrapes: Limiter::new(TokenBucket::new(Quota::per_second(1))),
            clock: Clock::new(),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn log(&self) -> Option<&AccessLog> {
        self.log.as_ref()
    }
}

/// Who has been authenticated, if anybody: the tier.
#[derive(Clone)]
struct Client(Option<Cow<'static, str>>);

/// The whole server.
///
/// Authentication only finds out who asks: whoever has no valid key is told so by the handler, behind the limits, which
/// so protect against floods of such requests too.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut api = Router::new();
    for route in API {
        api = api.route(route, any(hello));
    }
    let api = api
        .route_layer(app.limits.layer().clone())
        .route_layer(from_fn_with_state(Arc::clone(&app), authenticate));
    Router::new()
        .route(
            "/",
            get(|| page("text/html; charset=utf-8", include_str!("page/index.html"))),
        )
        .route(
            "/page.js",
            get(|| {
                page(
                    "text/javascript; charset=utf-8",
                    include_str!("page/page.js"),
                )
            }),
        )
        .route(
            "/page.css",
            get(|| page("text/css; charset=utf-8", include_str!("page/page.css"))),
        )
        .route("/status.json", get(status::json))
        .route("/metrics", get(metrics))
        .merge(api)
        .layer(from_fn_with_state(Arc::clone(&app), log))
        .with_state(app)
}

/// Logs and counts every request that is HTTP.
async fn log(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let at = Timestamp::now();
    let route = route_of(request.extensions().get::<MatchedPath>());
    let (parts, body) = request.into_parts();
    let logged = app.log.is_some().then(|| parts.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    telemetry::response(route, response.status());
    if let (Some(log), Some(parts)) = (&app.log, logged)
        && let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>()
    {
        let client = response.extensions().get::<Client>();
        let field = |name: HeaderName| parts.headers.get(name).map(HeaderValue::as_bytes);
        log.write(&Line {
            peer: peer.ip(),
            user: client.and_then(|client| client.0.as_deref()),
            at,
            method: &parts.method,
            target: &parts.uri.to_string(),
            version: parts.version,
            status: response.status().as_u16(),
            // To HEAD, none are sent.
            bytes: (parts.method != Method::HEAD)
                .then(|| response.body().size_hint().exact())
                .flatten(),
            referer: field(header::REFERER),
            agent: field(header::USER_AGENT),
        });
    }
    response
}

/// The route that was matched, as one of ours.
fn route_of(matched: Option<&MatchedPath>) -> &'static str {
    let matched = matched.map_or("", MatchedPath::as_str);
    let mut routes = API.into_iter().chain(OPEN);
    routes.find(|route| *route == matched).unwrap_or("other")
}

/// Finds out who asks.
async fn authenticate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let config = app.limits.config();
    let client = Client(config.tier_of(&parts));
    parts.extensions.insert(client.clone());
    let route = route_of(parts.extensions.get::<MatchedPath>());
    let budgets = app.limits.layer().budgets(&parts);
    app.busiest
        .note(&budgets, || sketch(&parts, route, config.tier_header()));
    let mut response = next.run(Request::from_parts(parts, body)).await;
    response.extensions_mut().insert(client);
    response
}

/// What the layer needs of a request to find its keys again; `None` if that is much.
fn sketch(request: &Parts, route: &'static str, key: Option<&HeaderName>) -> Option<Parts> {
    let (mut parts, ()) = axum::http::Request::new(()).into_parts();
    parts.uri = Uri::from_static(route);
    parts.method = match request.method {
        // Others may be long.
        Method::POST => Method::POST,
        _ => Method::GET,
    };
    let mut bytes = 0;
    let forwarded = [
        &header::FORWARDED,
        &HeaderName::from_static("x-forwarded-for"),
    ];
    for name in key.into_iter().chain(forwarded) {
        for value in request.headers.get_all(name) {
            bytes += value.len();
            // Not a slice of a buffer that holds all of the request.
            let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
            parts.headers.append(name.clone(), value);
        }
    }
    if let Some(peer) = request.extensions.get::<ConnectInfo<SocketAddr>>() {
        parts.extensions.insert(*peer);
    }
    (bytes <= SKETCH_MAX).then_some(parts)
}

/// Answers whoever has a key.
async fn hello(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let config = app.limits.config();
    let Some(header) = config.tier_header() else {
        return "hello\n".into_response();
    };
    if let Some(tier) = client.0 {
        return format!("hello, {tier}\n").into_response();
    }
    let challenge = format!("ApiKey realm=\"tidegate\", header=\"{header}\"");
    let message = if request.headers().contains_key(header) {
        "This API key is not known.\n".to_owned()
    } else {
        format!("This needs an API key, in the header {header}.\n")
    };
    let fields = [(header::WWW_AUTHENTICATE, challenge)];
    (StatusCode::UNAUTHORIZED, fields, message).into_response()
}

/// A part of the page. It may only load what comes from here, and is in nobody's frame.
async fn page(content_type: &'static str, content: &'static str) -> impl IntoResponse {
    let fields = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    (fields, content)
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let content_type = (
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    );
    // Counting the keys visits whole tables, and everybody may ask.
    if app.scrapes.check(app.clock.now()).is_ok() {
        app.limits.layer().publish_occupancy();
    }
    if let Some(redis) = app.limits.redis() {
        redis.stats().publish();
    }
    ([content_type], app.metrics.render())
}
