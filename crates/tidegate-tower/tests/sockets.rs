//! Over real sockets: axum on loopback, and clients that speak HTTP/1.1 by hand.
#![cfg(feature = "axum")]
#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use common::{Hand, builder};
use tidegate::Quota;
use tidegate_tower::{
    ClientAddress, Header, KeyExtractor, Limit, PathTemplate, PeerAddress, Policy, RateLimitLayer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

fn per_minute(limit: u64, key: impl KeyExtractor + 'static) -> RateLimitLayer {
    let limit = Limit::fixed_window(Quota::per_minute(limit));
    builder(&Hand::new())
        .policy(Policy::new("p", key).limit(limit))
        .build()
        .unwrap()
}

fn app(layer: &RateLimitLayer) -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/users/{id}", get(|| async { "user" }))
        .layer(layer.clone())
}

async fn serve(layer: &RateLimitLayer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app(layer).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

/// Sends bytes, and returns the whole response; the server closes.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    String::from_utf8(response).unwrap()
}

async fn fetch(address: SocketAddr, path: &str, headers: &[u8]) -> String {
    let mut request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n").into_bytes();
    request.extend_from_slice(headers);
    request.extend_from_slice(b"\r\n");
    exchange(address, &request).await
}

fn status(response: &str) -> u16 {
    let code = response
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    code.and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no status: {response}"))
}

#[tokio::test]
async fn fifteen_requests() {
    let layer = per_minute(5, PeerAddress::new());
    let address = serve(&layer).await;
    for number in 0..15 {
        let response = fetch(address, "/", b"").await;
        let expected = if number < 5 { 200 } else { 429 };
        assert_eq!(status(&response), expected);
        let left = 4_u32.saturating_sub(number);
        assert!(
            response.contains(&format!("\r\nratelimit: \"p\";r={left};t=60\r\n")),
            "{response}"
        );
        assert_eq!(
            response.contains("\r\nretry-after: 60\r\n"),
            expected == 429
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_hundred_at_once_against_a_hundred() {
    let layer = per_minute(100, PeerAddress::new());
    let address = serve(&layer).await;
    let all = Arc::new(Barrier::new(400));
    let requests: Vec<_> = (0..400)
        .map(|_| {
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                all.wait().await;
                status(&fetch(address, "/", b"").await)
            })
        })
        .collect();
    let mut counts = [0; 2];
    for request in requests {
        match request.await.unwrap() {
            200 => counts[0] += 1,
            429 => counts[1] += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(counts, [100, 300]);
    let stats = *layer.stats().policy("p").unwrap();
    assert_eq!((stats.admitted, stats.refused), (100, 300));
}

/// The peer is loopback, which is no proxy here, and in the second server it is one.
#[tokio::test]
async fn spoofed_headers() {
    let untrusting = per_minute(1, ClientAddress::behind(1, ["10.0.0.0/8"]).unwrap());
    let trusting = per_minute(1, ClientAddress::behind(1, ["127.0.0.0/8"]).unwrap());
    for (layer, admitted) in [(untrusting, 1), (trusting, 20)] {
        let address = serve(&layer).await;
        let mut passed = 0;
        for last in 0..20 {
            let header = format!("X-Forwarded-For: 192.0.2.{last}\r\n");
            passed += u32::from(status(&fetch(address, "/", header.as_bytes()).await) == 200);
        }
        assert_eq!(passed, admitted);
    }
}

#[tokio::test]
async fn templates_and_not_paths() {
    let layer = per_minute(2, PathTemplate);
    let address = serve(&layer).await;
    for (path, expected) in [
        ("/users/1", 200),
        ("/users/2", 200),
        ("/users/3", 429),
        ("/", 200),
    ] {
        assert_eq!(status(&fetch(address, path, b"").await), expected, "{path}");
    }
    let layer = builder(&Hand::new())
        .policy(
            Policy::new("users", PeerAddress::new())
                .limit(Limit::fixed_window(Quota::per_minute(1)))
                .routes(["/users/{id}"]),
        )
        .build()
        .unwrap();
    let address = serve(&layer).await;
    for (path, expected) in [("/users/1", 200), ("/users/2", 429), ("/", 200), ("/", 200)] {
        assert_eq!(status(&fetch(address, path, b"").await), expected, "{path}");
    }
}

#[tokio::test]
async fn bad_input() {
    let layer = per_minute(1_000, ClientAddress::behind(1, ["127.0.0.0/8"]).unwrap());
    let address = serve(&layer).await;
    // An entry that only a proxy could have written, and that is no address: a clear answer.
    for entry in [
        &b"\xff\xfe"[..],
        b"unknown",
        b"1.2.3.4.5",
        b"[::",
        b"\"",
        &[b'a'; 65_536],
    ] {
        let header = [b"X-Forwarded-For: ", entry, b"\r\n"].concat();
        let response = fetch(address, "/", &header).await;
        assert_eq!(status(&response), 400, "{response}");
        assert!(response.contains("does not tell the client's address"));
    }
    let long = [
        b"X-Forwarded-For: ".as_slice(),
        &b",".repeat(65_536),
        b"192.0.2.1\r\n",
    ]
    .concat();
    assert_eq!(status(&fetch(address, "/", &long).await), 200);
    let accept = [b"Accept: ".as_slice(), &b"a/b;q=,".repeat(9_000), b"\r\n"].concat();
    assert_eq!(status(&fetch(address, "/", &accept).await), 200);
    // What is no HTTP at all never gets here, and the server goes on.
    assert!(
        exchange(address, b"\x16\x03\x01\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 400")
    );
    assert_eq!(status(&fetch(address, "/", b"").await), 200);
}

/// A header as the key: whatever is in it is a key or a clear answer, and never somebody else's budget.
#[tokio::test]
async fn bad_keys() {
    let layer = per_minute(2, Header::new("x-api-key".parse().unwrap()));
    let address = serve(&layer).await;
    let line = |value: &[u8]| [b"X-Api-Key: ", value, b"\r\n"].concat();
    // Bytes are a key as good as text, and one of 1 KiB is the longest.
    let long = [b'k'; 1_024];
    for key in [&b"\xff\xfe\x80"[..], b"caf\xc3\xa9", b"\"", &long] {
        for expected in [200, 200, 429] {
            assert_eq!(status(&fetch(address, "/", &line(key)).await), expected);
        }
    }
    let twice = [line(b"one"), line(b"other")].concat();
    for (headers, what) in [
        (&b""[..], "missing"),
        (&line(b""), "empty"),
        (&line(b" \t "), "empty"),
        (&line(&[b'k'; 1_025]), "too long"),
        (&line(&[b'k'; 65_536]), "too long"),
        (&twice, "there more than once"),
    ] {
        let response = fetch(address, "/", headers).await;
        assert_eq!(status(&response), 400, "{response}");
        let said =
            format!("The request cannot be counted: the request header x-api-key is {what}.\n");
        assert!(response.ends_with(&said), "{response}");
    }
    // What is malformed never gets here.
    for headers in [
        &b"X-Api-Key\r\n"[..],
        b"X-Api Key: one\r\n",
        b": one\r\n",
        b"X-Api-Key: a\0b\r\n",
        b"X-Api-Key: a\x01b\r\n",
    ] {
        let response = fetch(address, "/", headers).await;
        assert_eq!(status(&response), 400, "{response}");
        assert!(!response.contains("cannot be counted"));
    }
    let stats = *layer.stats().policy("p").unwrap();
    assert_eq!((stats.admitted, stats.refused, stats.no_key), (8, 4, 6));
}

/// Without connection information, the server says what is missing to itself alone.
#[tokio::test]
async fn no_connect_info() {
    let layer = per_minute(5, PeerAddress::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app(&layer);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let response = fetch(address, "/", b"").await;
    assert_eq!(status(&response), 500);
    assert!(response.ends_with("The server cannot tell whose request this is.\n"));
    assert_eq!(layer.stats().policy("p").unwrap().no_key, 1);
}
