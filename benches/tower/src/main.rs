//! `tidegate-tower-bench LAYER`: an axum server on a free port of loopback, which it prints, with a limit by the peer's
//! address that is so high that it refuses nothing.
//!
//! | layer | |
//! |---|---|
//! | `none` | no layer |
//! | `tidegate`, `governor` | ours and tower_governor's, which tell where the client stands: ours in three header fields, the other in two |
//! | `tidegate-silent`, `governor-silent` | without header fields |
//! | `tidegate-draft` | with those of revision 10 of the draft, our default |
//!
//! `tidegate-tower-bench calls`: nanoseconds a call of the same applications in this thread, without a network: the
//! least of many short rounds in turns. `calls LAYER COUNT` makes so many calls of one, for whoever counts instructions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::routing::get;
use tidegate::Quota;
use tidegate_tower::{Draft, Headers, Limit, OnFailure, PeerAddress, Policy, RateLimitLayer};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_service::Service;

const LAYERS: [&str; 6] = [
    "none",
    "tidegate",
    "governor",
    "tidegate-silent",
    "governor-silent",
    "tidegate-draft",
];

fn tidegate(headers: Headers) -> RateLimitLayer {
    let policy = Policy::new("per-address", PeerAddress::new())
        .limit(Limit::token_bucket(Quota::per_second(100_000_000)).with_burst(500));
    RateLimitLayer::builder(OnFailure::Refuse)
        .policy(policy)
        .headers(headers)
        .build()
        .expect("the policies are sound")
}

fn app(layer: &str) -> Option<Router> {
    let app = Router::new().route("/", get(|| async { "hello" }));
    let mut governor = GovernorConfigBuilder::default();
    governor.per_nanosecond(10).burst_size(500);
    let app = match layer {
        "none" => app,
        "tidegate" => app.layer(tidegate(Headers::new().with_legacy())),
        "tidegate-silent" => app.layer(tidegate(Headers::new())),
        "tidegate-draft" => app.layer(tidegate(Headers::new().with_draft(Draft::V10))),
        "governor" => {
            let config = governor.use_headers().finish();
            app.layer(GovernorLayer::new(Arc::new(
                config.expect("neither is zero"),
            )))
        }
        "governor-silent" => {
            let config = governor.finish();
            app.layer(GovernorLayer::new(Arc::new(
                config.expect("neither is zero"),
            )))
        }
        _ => return None,
    };
    // As `into_make_service` does: else axum makes the layers anew for each request.
    Some(app.with_state(()))
}

async fn call(app: &mut Router, calls: u32) {
    let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4_711)));
    for _ in 0..calls {
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(peer);
        let response = app.call(request).await.expect("it cannot fail");
        assert_eq!(response.status(), 200);
    }
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime")
}

fn calls() {
    const ROUNDS: u32 = 200;
    const CALLS: u32 = 2_000;
    let mut apps = LAYERS.map(|layer| (app(layer).expect("it is known"), Duration::MAX));
    current_thread().block_on(async {
        for _ in 0..ROUNDS {
            for (app, least) in &mut apps {
                let start = Instant::now();
                call(app, CALLS).await;
                *least = start.elapsed().min(*least);
            }
        }
    });
    for (layer, (_, least)) in LAYERS.iter().zip(&apps) {
        println!("{layer}: {} ns a call", (*least / CALLS).as_nanos());
    }
}

fn serve(app: Router) {
    // One thread: the other processor is for the load.
    current_thread().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        println!("{}", listener.local_addr().expect("an address").port());
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await.expect("it serves");
    });
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["calls"] => calls(),
        ["calls", layer, count] if let (Some(mut app), Ok(count)) = (app(layer), count.parse()) => {
            current_thread().block_on(call(&mut app, count));
        }
        [layer] if let Some(app) = app(layer) => serve(app),
        _ => {
            eprintln!("usage: tidegate-tower-bench LAYER|calls [LAYER COUNT], of {LAYERS:?}");
            std::process::exit(2);
        }
    }
}
