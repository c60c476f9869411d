//! What the tests share: a clock that stands still until it is moved, requests, and services.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::std_instead_of_alloc,
    reason = "each test file uses some of it"
)]

use core::convert::Infallible;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tidegate::Timestamp;
use tidegate_tower::{Builder, OnFailure, Peer, RateLimitLayer, ResponseBody};
use tower::{Layer, Service, ServiceExt, service_fn};

/// Half an hour into a day of 2026, so on the minute.
const START: u64 = 1_780_000_200;

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START * 1_000_000_000)))
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap();
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    pub fn clock(&self) -> impl Fn() -> Timestamp + Send + Sync + use<> {
        let hand = self.clone();
        move || hand.now()
    }
}

/// A layer whose failures refuse, on this clock.
pub fn builder(hand: &Hand) -> Builder {
    RateLimitLayer::builder(OnFailure::Refuse).clock(hand.clock())
}

pub fn peer(address: &str) -> Peer {
    let ip: core::net::IpAddr = address.parse().unwrap();
    Peer(SocketAddr::new(ip, 4_711))
}

/// A request from this address.
pub fn from(address: &str) -> Request<Full<Bytes>> {
    get("/", address)
}

pub fn get(path: &str, address: &str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.uri_mut() = path.parse().unwrap();
    request.extensions_mut().insert(peer(address));
    request
}

/// With this header.
pub fn with(
    mut request: Request<Full<Bytes>>,
    name: &'static str,
    value: &[u8],
) -> Request<Full<Bytes>> {
    let value = http::HeaderValue::from_bytes(value).unwrap();
    request.headers_mut().append(name, value);
    request
}

pub type Answer = Response<ResponseBody<Full<Bytes>>>;

/// What the service behind answers, by the path: a status of three digits, else 200.
pub async fn echo(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::from("hello"));
    if let Ok(status) = request.uri().path()[1..].parse::<u16>() {
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
    }
    Ok(response)
}

/// Sends one request through the layer.
pub async fn send(layer: &RateLimitLayer, request: Request<Full<Bytes>>) -> Answer {
    let mut service = layer.layer(service_fn(echo));
    let service = ServiceExt::<Request<Full<Bytes>>>::ready(&mut service);
    service.await.unwrap().call(request).await.unwrap()
}

pub async fn status(layer: &RateLimitLayer, request: Request<Full<Bytes>>) -> u16 {
    send(layer, request).await.status().as_u16()
}

/// The first value of a header.
pub fn header<'a, B>(response: &'a Response<B>, name: &str) -> Option<&'a str> {
    response
        .headers()
        .get(name)
        .map(|value| value.to_str().unwrap())
}

pub async fn text(response: Answer) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
