//! The layer around a tonic server on loopback, and tonic's own client: what passes, and how a refusal looks to it.

use std::net::SocketAddr;
use std::time::Duration;

use http::request::Parts;
use http_body_util::BodyExt;
use tidegate::{Quota, Timestamp};
use tidegate_tower::{
    Answer, Decision, Header, Key, KeyExtractor, Limit, OnFailure, PeerAddress, Policy,
    RateLimitLayer, Store, StoreError,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codegen::Service;
use tonic::transport::server::TcpConnectInfo;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

/// Half a minute into a minute, for ever.
const NOW: Timestamp = Timestamp::from_secs(1_780_000_230);

/// tonic tells the peer in an extension of its own.
fn peer() -> PeerAddress {
    PeerAddress::new().with_peer(|request: &Parts| {
        let connection = request.extensions.get::<TcpConnectInfo>()?;
        connection.remote_addr().map(|address| address.ip())
    })
}

fn layer(key: impl KeyExtractor + 'static, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::builder(OnFailure::Refuse)
        .clock(|| NOW)
        .policy(Policy::new("calls", key).limit(limit))
        .build()
        .expect("the policy is sound")
}

fn per_minute(limit: u64) -> Limit {
    Limit::fixed_window(Quota::per_minute(limit))
}

/// Serves health checks behind the layer, and connects.
async fn connect(layer: &RateLimitLayer) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder()
        .layer(layer.clone())
        .add_service(health)
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("it is a URI");
    endpoint.connect().await.expect("it listens")
}

async fn check(channel: &Channel) -> Result<tonic::metadata::MetadataMap, Status> {
    let response = HealthClient::new(channel.clone())
        .check(HealthCheckRequest::default())
        .await?;
    assert_eq!(response.get_ref().status(), ServingStatus::Serving);
    Ok(response.metadata().clone())
}

fn text<'a>(metadata: &'a tonic::metadata::MetadataMap, name: &str) -> Option<&'a str> {
    metadata
        .get(name)
        .map(|value| value.to_str().expect("it is ASCII"))
}

async fn refusals_and_their_details() {
    let layer = layer(peer(), per_minute(3));
    let channel = connect(&layer).await;
    for left in [2, 1, 0] {
        let metadata = check(&channel).await.expect("three pass");
        let expected = format!("\"calls\";r={left};t=30");
        assert_eq!(text(&metadata, "ratelimit"), Some(&*expected));
        assert_eq!(
            text(&metadata, "ratelimit-policy"),
            Some("\"calls\";q=3;w=60")
        );
    }
    let refused = check(&channel).await.expect_err("the fourth does not");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(
        refused.message(),
        "Too many requests. Try again in 30 seconds."
    );
    let details = refused.get_error_details();
    let retry = details.retry_info().expect("it has a RetryInfo");
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(30)));
    assert_eq!(
        text(refused.metadata(), "grpc-retry-pushback-ms"),
        Some("30000")
    );
    assert_eq!(
        text(refused.metadata(), "ratelimit"),
        Some("\"calls\";r=0;t=30")
    );

    // A call whose response is a stream is refused in the same way.
    let mut client = HealthClient::new(channel.clone());
    let watched = client.watch(HealthCheckRequest::default()).await;
    assert_eq!(
        watched.expect_err("no more").code(),
        Code::ResourceExhausted
    );

    // As it is on the wire: trailers only, in the header fields of a response of status 200.
    let (response, body) = raw(channel.clone(), "application/grpc+proto").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.headers["content-type"], "application/grpc");
    assert_eq!(response.headers["grpc-status"], "8");
    assert_eq!(body, 0);
    // To what is no gRPC, it is an HTTP response.
    let (response, body) = raw(channel, "application/json").await;
    assert_eq!(response.status, 429);
    assert!(!response.headers.contains_key("grpc-status") && body > 0);
    let stats = layer.stats();
    let stats = stats.policy("calls").expect("it is there");
    assert_eq!((stats.admitted, stats.refused), (3, 4));
}

/// One request as HTTP/2 carries it: the head of the response, and the length of its body.
async fn raw(mut channel: Channel, content_type: &str) -> (http::response::Parts, usize) {
    let request = http::Request::post("/grpc.health.v1.Health/Check")
        .header("content-type", content_type)
        .body(tonic::body::Body::empty())
        .expect("it is a request");
    std::future::poll_fn(|context| channel.poll_ready(context))
        .await
        .expect("it is connected");
    let response = channel.call(request).await.expect("it answers");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("it arrives").to_bytes();
    (parts, body.len())
}

async fn four_hundred_at_once_against_a_hundred() {
    let layer = layer(peer(), per_minute(100));
    let channel = connect(&layer).await;
    let calls: Vec<_> = (0..400)
        .map(|_| {
            let channel = channel.clone();
            tokio::spawn(async move { check(&channel).await })
        })
        .collect();
    let mut admitted = 0;
    for call in calls {
        match call.await.expect("it does not panic") {
            Ok(_) => admitted += 1,
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
        }
    }
    assert_eq!(admitted, 100);
}

struct Down;

impl Store for Down {
    fn check(&self, _: &Key, _: Timestamp, _: u64) -> Answer {
        Answer::later(async { Err::<Decision, StoreError>("connection refused".into()) })
    }

    fn refund(&self, _: &Key, _: Timestamp, _: u64) {}
}

async fn other_codes() {
    let down = layer(peer(), Limit::in_store(Quota::per_minute(3), Down));
    let failed = check(&connect(&down).await).await.expect_err("it is down");
    assert_eq!(failed.code(), Code::Unavailable);
    assert!(failed.get_error_details().retry_info().is_none());

    let by_user = layer(
        Header::new("x-user".parse().expect("a name")),
        per_minute(1),
    );
    let channel = connect(&by_user).await;
    let nobody = check(&channel).await.expect_err("no user");
    assert_eq!(nobody.code(), Code::InvalidArgument);
    for (user, expected) in [
        ("one", None),
        ("other", None),
        ("one", Some(Code::ResourceExhausted)),
    ] {
        let with_user = |mut request: Request<()>| {
            let user = user.parse().expect("it is ASCII");
            request.metadata_mut().insert("x-user", user);
            Ok(request)
        };
        let mut client = HealthClient::with_interceptor(channel.clone(), with_user);
        let checked = client.check(HealthCheckRequest::default()).await;
        assert_eq!(
            checked.err().map(|status| status.code()),
            expected,
            "{user}"
        );
    }

    // Without anything that tells the peer, the server is to blame.
    let lost = layer(PeerAddress::new(), per_minute(1));
    let failed = check(&connect(&lost).await).await.expect_err("no peer");
    assert_eq!(failed.code(), Code::Internal);
    assert_eq!(
        failed.message(),
        "The server cannot tell whose request this is."
    );
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    refusals_and_their_details().await;
    four_hundred_at_once_against_a_hundred().await;
    other_codes().await;
    println!(
        "tonic: admitted, refused with RetryInfo, 100 of 400 at once, and the other codes as they should be"
    );
}
