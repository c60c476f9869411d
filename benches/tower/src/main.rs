//! `tidegate-tower-bench none|tidegate|governor`: an axum server on a free port of loopback, which it prints, with
//! that limit by the peer's address. The limits are so high that they refuse nothing, and both say where the client
//! stands.
//!
//! `tidegate-tower-bench calls`: nanoseconds a call of the same applications in this thread, without a network: the
//! least of many short rounds in turns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::routing::get;
use tidegate::Quota;
use tidegate_tower::{Headers, Limit, OnFailure, PeerAddress, Policy, RateLimitLayer};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_service::Service;

fn limited(app: Router, limit: &str) -> Option<Router> {
    Some(match limit {
        "none" => app,
        "tidegate" => {
            let policy = Policy::new("per-address", PeerAddress::new())
                .limit(Limit::token_bucket(Quota::per_second(1_000_000)));
            let layer = RateLimitLayer::builder(OnFailure::Refuse)
                .policy(policy)
                .headers(Headers::new().with_legacy())
                .build()
                .expect("the policies are sound");
            app.layer(layer)
        }
        "governor" => {
            let config = GovernorConfigBuilder::default()
                .per_nanosecond(1_000)
                .burst_size(1_000_000)
                .use_headers()
                .finish()
                .expect("neither is zero");
            app.layer(GovernorLayer::new(Arc::new(config)))
        }
        _ => return None,
    })
}

fn calls() {
    const ROUNDS: u32 = 200;
    const CALLS: u32 = 2_000;
    let limits = ["none", "tidegate", "governor"];
    let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4_711)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let mut apps = limits.map(|limit| {
        let app = Router::new().route("/", get(|| async { "hello" }));
        (limited(app, limit).expect("it is known"), Duration::MAX)
    });
    runtime.block_on(async {
        for _ in 0..ROUNDS {
            for (app, least) in &mut apps {
                let start = Instant::now();
                for _ in 0..CALLS {
                    let mut request = Request::new(Body::empty());
                    request.extensions_mut().insert(peer);
                    let response = app.call(request).await.expect("it cannot fail");
                    assert_eq!(response.status(), 200);
                }
                *least = start.elapsed().min(*least);
            }
        }
    });
    for (limit, (_, least)) in limits.iter().zip(&apps) {
        println!("{limit}: {} ns a call", (*least / CALLS).as_nanos());
    }
}

fn main() {
    let limit = std::env::args().nth(1).unwrap_or_default();
    if limit == "calls" {
        return calls();
    }
    let app = Router::new().route("/", get(|| async { "hello" }));
    let Some(app) = limited(app, &limit) else {
        eprintln!("usage: tidegate-tower-bench none|tidegate|governor|calls");
        std::process::exit(2);
    };
    // One thread: the other processor is for the load.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        println!("{}", listener.local_addr().expect("an address").port());
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await.expect("it serves");
    });
}
