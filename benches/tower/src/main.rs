//! `tidegate-tower-bench none|tidegate|governor`: an axum server on a free port of loopback, which it prints, with
//! that limit by the peer's address. The limits are so high that they refuse nothing, and both say where the client
//! stands.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tidegate::Quota;
use tidegate_tower::{Headers, Limit, OnFailure, PeerAddress, Policy, RateLimitLayer};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

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

fn main() {
    let limit = std::env::args().nth(1).unwrap_or_default();
    let app = Router::new().route("/", get(|| async { "hello" }));
    let Some(app) = limited(app, &limit) else {
        eprintln!("usage: tidegate-tower-bench none|tidegate|governor");
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
