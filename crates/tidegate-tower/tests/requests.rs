//! Which requests count, and which count no more when they have ended.

mod common;

use core::convert::Infallible;

use bytes::Bytes;
use common::{Hand, builder, from, get, header, secs, send, status, text, with};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tidegate::Quota;
use tidegate_tower::{Everyone, Limit, PeerAddress, Policy, RateLimitLayer, Refusal};
use tower::{Layer, Service, service_fn};

fn two() -> Limit {
    Limit::fixed_window(Quota::per_minute(2))
}

fn policy() -> Policy {
    Policy::new("two", PeerAddress::new()).limit(two())
}

async fn statuses(layer: &RateLimitLayer, path: &str, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(status(layer, get(path, "192.0.2.1")).await);
    }
    statuses
}

#[tokio::test]
async fn successes_or_failures_are_given_back() {
    let hand = Hand::new();
    let login = builder(&hand)
        .policy(policy().give_back_successes())
        .build()
        .unwrap();
    assert_eq!(statuses(&login, "/200", 5).await, [200; 5]);
    assert_eq!(statuses(&login, "/401", 3).await, [401, 401, 429]);
    assert_eq!(login.stats().policy("two").unwrap().given_back, 5);

    let failures = builder(&hand)
        .policy(policy().give_back_failures())
        .build()
        .unwrap();
    assert_eq!(statuses(&failures, "/500", 5).await, [500; 5]);
    // What is told is what is left after it was given back.
    let response = send(&failures, get("/500", "192.0.2.1")).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"two\";r=2"));
    assert_eq!(statuses(&failures, "/200", 3).await, [200, 200, 429]);
}

#[tokio::test]
async fn clients_that_go_away() {
    let hand = Hand::new();
    let layers = [
        (policy().give_back_failures(), 2),
        (policy().give_back_successes(), 1),
        (policy(), 1),
    ];
    for (policy, left) in layers {
        let layer = builder(&hand).policy(policy).build().unwrap();
        let never = service_fn(|_: Request<Full<Bytes>>| {
            core::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
        });
        let mut service = layer.layer(never);
        drop(service.call(from("192.0.2.1")));
        let (request, _) = from("192.0.2.1").into_parts();
        let standing = &layer.standings(&request)[0];
        assert_eq!(standing.decision.as_ref().unwrap().remaining(), left - 1);
    }
}

#[tokio::test]
async fn services_that_fail() {
    let layer = builder(&Hand::new())
        .policy(policy().give_back_failures())
        .build()
        .unwrap();
    let failing = service_fn(async |_: Request<Full<Bytes>>| Err::<Response<Full<Bytes>>, _>("no"));
    let mut service = layer.layer(failing);
    for _ in 0..5 {
        assert_eq!(service.call(from("192.0.2.1")).await.unwrap_err(), "no");
    }
    assert_eq!(layer.stats().policy("two").unwrap().given_back, 5);
}

#[tokio::test]
async fn requests_that_do_not_count() {
    let hand = Hand::new();
    let preflight = || {
        let mut request = with(from("192.0.2.1"), "origin", b"https://example.org");
        *request.method_mut() = Method::OPTIONS;
        with(request, "access-control-request-method", b"PUT")
    };
    let layer = builder(&hand)
        .policy(policy().methods([Method::POST, Method::OPTIONS]))
        .skip(|request| request.uri.path() == "/health")
        .build()
        .unwrap();
    let mut post = get("/health", "192.0.2.1");
    for _ in 0..5 {
        assert_eq!(status(&layer, preflight()).await, 200);
        assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
        *post.method_mut() = Method::POST;
        let response = send(&layer, post.clone()).await;
        assert_eq!(
            (response.status().as_u16(), header(&response, "ratelimit")),
            (200, None)
        );
    }
    *post.uri_mut() = "/".parse().unwrap();
    let response = send(&layer, post).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"two\";r=1;t=60"));

    let layer = builder(&hand)
        .policy(policy())
        .count_preflight()
        .build()
        .unwrap();
    assert_eq!(status(&layer, preflight()).await, 200);
    assert_eq!(status(&layer, preflight()).await, 200);
    assert_eq!(status(&layer, preflight()).await, 429);
}

#[tokio::test]
async fn costs_and_routes() {
    let hand = Hand::new();
    let policy = Policy::new("bytes", PeerAddress::new())
        .limit(Limit::token_bucket(Quota::per_second(100)))
        .unit("content-bytes")
        .routes(["/up/*"])
        .cost(|request| {
            let length = request.headers.get("content-length");
            let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
            length.unwrap_or(0)
        });
    let layer = builder(&hand).policy(policy).build().unwrap();
    let up = |path: &str, length: &str| {
        with(get(path, "192.0.2.1"), "content-length", length.as_bytes())
    };
    let response = send(&layer, up("/up/a", "60")).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"bytes\";r=40;t=1"));
    assert_eq!(
        header(&response, "ratelimit-policy"),
        Some("\"bytes\";q=100;qu=\"content-bytes\";w=1")
    );
    assert_eq!(status(&layer, up("/up/a", "60")).await, 429);
    assert_eq!(status(&layer, up("/up", "40")).await, 200);
    assert_eq!(status(&layer, up("/up/a", "0")).await, 200);
    assert_eq!(status(&layer, up("/upper", "60")).await, 200);
    hand.advance(secs(1));
    let response = send(&layer, up("/up/a", "101")).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "retry-after")),
        (429, None)
    );
    assert_eq!(
        text(response).await,
        "This request costs more than the limit allows at all.\n"
    );
}

#[tokio::test]
async fn watching_without_refusing() {
    let hand = Hand::new();
    let one = || Limit::fixed_window(Quota::per_minute(1));
    let layers = [
        builder(&hand).policy(policy()).monitor(),
        builder(&hand).policy(policy().monitor()),
    ];
    for layer in layers {
        let layer = layer.build().unwrap();
        assert_eq!(statuses(&layer, "/", 5).await, [200; 5]);
        let stats = *layer.stats().policy("two").unwrap();
        assert_eq!(
            (stats.admitted, stats.refused, stats.shadow_refused),
            (2, 0, 3)
        );
    }
    // Beside one that refuses, it sees what passes there.
    let layer = builder(&hand)
        .policy(policy())
        .policy(Policy::new("one", Everyone).limit(one()).monitor())
        .build()
        .unwrap();
    assert_eq!(statuses(&layer, "/", 4).await, [200, 200, 429, 429]);
    let stats = layer.stats();
    assert_eq!(stats.policy("one").unwrap().shadow_refused, 1);
    assert_eq!(stats.policy("two").unwrap().refused, 2);

    // A candidate sees everything that the enforced one sees.
    let layer = builder(&hand)
        .policy(policy().candidate(one()))
        .build()
        .unwrap();
    statuses(&layer, "/", 5).await;
    let stats = *layer.stats().policy("two").unwrap();
    assert_eq!(
        (
            stats.candidate_both_admit,
            stats.candidate_only_refuses,
            stats.candidate_both_refuse
        ),
        (1, 1, 3)
    );
    let three = Limit::fixed_window(Quota::per_minute(3));
    let layer = builder(&hand)
        .policy(policy().candidate(three))
        .build()
        .unwrap();
    statuses(&layer, "/", 5).await;
    let stats = *layer.stats().policy("two").unwrap();
    assert_eq!(
        (stats.candidate_only_admits, stats.candidate_both_refuse),
        (1, 2)
    );
}

#[tokio::test]
async fn grpc_is_told_in_its_own_way() {
    let layer = builder(&Hand::new()).policy(policy()).build().unwrap();
    let request = || with(from("192.0.2.1"), "content-type", b"application/grpc+proto");
    for _ in 0..2 {
        assert_eq!(header(&send(&layer, request()).await, "grpc-status"), None);
    }
    let response = send(&layer, request()).await;
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-type"), Some("application/grpc"));
    assert_eq!(header(&response, "grpc-status"), Some("8"));
    assert_eq!(
        header(&response, "grpc-message"),
        Some("Too many requests. Try again in 60 seconds.")
    );
    assert_eq!(header(&response, "grpc-retry-pushback-ms"), Some("60000"));
    assert!(header(&response, "grpc-status-details-bin").is_some());
    assert_eq!(header(&response, "retry-after"), Some("60"));
    assert_eq!(text(response).await, "");
}

#[tokio::test]
async fn a_handler_of_ones_own() {
    let layer = builder(&Hand::new())
        .policy(policy())
        .on_refusal(|refusal: &Refusal<'_>, request| {
            let names: Vec<_> = refusal.policies().collect();
            let body = format!(
                "{} {} {:?}",
                request.uri,
                names.join(","),
                refusal.retry_after()
            );
            let mut response = Response::new(Bytes::from(body));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response.headers_mut().insert("retry-after", 1.into());
            response
        })
        .build()
        .unwrap();
    statuses(&layer, "/", 2).await;
    let response = send(&layer, get("/x", "192.0.2.1")).await;
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    assert_eq!(header(&response, "retry-after"), Some("1"));
    assert_eq!(header(&response, "ratelimit"), Some("\"two\";r=0;t=60"));
    assert_eq!(text(response).await, "/x two Some(60)");
}

/// A layer inside another: lists are lists.
#[tokio::test]
async fn layers_that_nest() {
    let hand = Hand::new();
    let inner = builder(&hand).policy(policy()).build().unwrap();
    let outer = Policy::new("all", Everyone).limit(Limit::fixed_window(Quota::per_minute(9)));
    let outer = builder(&hand).policy(outer).build().unwrap();
    let mut service = outer.layer(inner.layer(service_fn(common::echo)));
    let response = service.call(from("192.0.2.1")).await.unwrap();
    let told: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    assert_eq!(told, ["\"two\";r=1;t=60", "\"all\";r=8;t=60"]);
}

#[tokio::test]
async fn reloading_keeps_what_was_used() {
    let hand = Hand::new();
    let kinds: [fn(Quota) -> Limit; 5] = [
        Limit::token_bucket,
        Limit::fixed_window,
        Limit::anchored_window,
        Limit::sliding_window,
        Limit::sliding_log,
    ];
    for limit in kinds {
        let with_limit = |permits| {
            builder(&hand).policy(
                Policy::new("p", PeerAddress::new()).limit(limit(Quota::per_minute(permits))),
            )
        };
        let layer = with_limit(5).build().unwrap();
        // A service made before knows the new policies, too.
        let mut service = layer.layer(service_fn(common::echo));
        assert_eq!(
            statuses(&layer, "/", 6).await,
            [200, 200, 200, 200, 200, 429]
        );
        layer.reload(with_limit(8)).unwrap();
        let mut after = Vec::new();
        for _ in 0..4 {
            after.push(
                service
                    .call(from("192.0.2.1"))
                    .await
                    .unwrap()
                    .status()
                    .as_u16(),
            );
        }
        assert_eq!(after, [200, 200, 200, 429]);
        layer.reload(with_limit(3)).unwrap();
        assert_eq!(statuses(&layer, "/", 1).await, [429]);
        // The same again changes nothing at all, and what is wrong is refused.
        layer.reload(with_limit(3)).unwrap();
        assert_eq!(statuses(&layer, "/", 1).await, [429]);
        assert!(layer.reload(builder(&hand)).is_err());
        assert_eq!(layer.stats().policy("p").unwrap().admitted, 8);
        hand.advance(secs(121));
        assert_eq!(statuses(&layer, "/", 4).await, [200, 200, 200, 429]);
    }
}
