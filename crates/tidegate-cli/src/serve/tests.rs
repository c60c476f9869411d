//! The whole pipeline in this process, on a clock that stands still until it is moved.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use tidegate::Timestamp;
use tidegate_tower::ConfigReader;
use tower::ServiceExt;

use super::app::{self, App};
use super::limits::{Limits, Source};

/// On the minute.
const START: u64 = 1_780_000_200;

struct Server {
    router: Router,
    seconds: Arc<AtomicU64>,
}

impl Server {
    fn new(config: &str) -> Self {
        let seconds = Arc::new(AtomicU64::new(START));
        let clock = Arc::clone(&seconds);
        let config = ConfigReader::new().parse(config).unwrap();
        let limits = Limits::new(Source::BuiltIn, config, None, |builder| {
            builder.clock(move || Timestamp::from_secs(clock.load(Ordering::SeqCst)))
        });
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let app = App::new(limits.unwrap(), None, metrics);
        Self {
            router: app::router(Arc::new(app)),
            seconds,
        }
    }

    fn built_in() -> Self {
        Self::new(include_str!("../../serve.toml"))
    }

    async fn get(&self, path: &str, key: Option<&str>) -> Response<Body> {
        let mut request = Request::get(path);
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let peer: SocketAddr = "192.0.2.77:4711".parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn status(&self, path: &str, key: Option<&str>) -> u16 {
        self.get(path, key).await.status().as_u16()
    }

    async fn text(&self, path: &str, key: Option<&str>) -> String {
        let response = self.get(path, key).await;
        assert_eq!(response.status(), 200);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    let value = response.headers().get(name)?;
    Some(value.to_str().unwrap())
}

/// Windows of 10 s begin at 0 and 10, and the log has room again when a request is 10 s old: three of five pass.
#[tokio::test]
async fn three_in_ten_seconds_every_two() {
    let policies = |route: &str, algorithm: &str| {
        format!(
            "[[policy]]\nname = \"{algorithm}\"\nroutes = [\"{route}\"]\nkey = \"header:x-api-key\"\n\
             algorithm = \"{algorithm}\"\ntiers = {{ seed = \"3/10s\" }}\n"
        )
    };
    let config = "on-failure = \"refuse\"\nheaders = [\"draft-07\"]\n\
        tiers = { header = \"x-api-key\", clients = { seed = [\"s\"] } }\n"
        .to_owned()
        + &policies("/foo", "fixed-window")
        + &policies("/bar", "sliding-log");
    let server = Server::new(&config);
    let mut seen = Vec::new();
    for _ in 0..10 {
        let mut row = Vec::new();
        for path in ["/foo", "/bar"] {
            let response = server.get(path, Some("s")).await;
            let told = header(&response, "ratelimit").unwrap().to_owned();
            let wait = header(&response, "retry-after").map(str::to_owned);
            row.push((response.status().as_u16(), told, wait));
        }
        seen.push(row);
        server.seconds.fetch_add(2, Ordering::SeqCst);
    }
    let row = |status: u16, remaining: u64, reset: u64, wait: Option<u64>| {
        let told = format!("limit=3, remaining={remaining}, reset={reset}");
        (status, told, wait.map(|wait| wait.to_string()))
    };
    let expected: Vec<_> = [
        (200, 2, 10, None),
        (200, 1, 8, None),
        (200, 0, 6, None),
        (429, 0, 4, Some(4)),
        (429, 0, 2, Some(2)),
    ]
    .into_iter()
    .cycle()
    .take(10)
    .map(|(status, remaining, reset, wait)| row(status, remaining, reset, wait))
    .collect();
    let fixed: Vec<_> = seen.iter().map(|row| row[0].clone()).collect();
    assert_eq!(fixed, expected);
    let log: Vec<_> = seen
        .iter()
        .map(|row| (row[1].0, row[1].2.clone()))
        .collect();
    let expected: Vec<_> = expected.into_iter().map(|row| (row.0, row.2)).collect();
    assert_eq!(log, expected);
}

#[tokio::test]
async fn tiers_have_their_limits() {
    let server = Server::built_in();
    for (path, key, limit) in [
        ("/foo", "key-of-client-1", 10),
        ("/foo", "key-of-client-2", 20),
        ("/bar", "key-of-client-1", 5),
        ("/bar", "key-of-client-2", 10),
        ("/anchored", "key-of-client-1", 10),
        ("/sliding", "key-of-client-1", 10),
        // Its burst.
        ("/bucket", "key-of-client-1", 5),
    ] {
        let mut admitted = 0;
        for _ in 0..30 {
            admitted += u32::from(server.status(path, Some(key)).await == 200);
        }
        assert_eq!(admitted, limit, "{path} {key}");
    }
    // Each key has budgets of its own.
    assert_eq!(
        server.status("/foo", Some("another-key-of-client-2")).await,
        200
    );
    // What is not there, and the page, cost nothing.
    for _ in 0..100 {
        assert_eq!(server.status("/nowhere", None).await, 404);
        assert_eq!(server.status("/", None).await, 200);
    }
}

/// A flood without a valid key is refused, and takes nothing from who has one, at the same address.
#[tokio::test]
async fn strangers_are_told_so_and_then_not_listened_to() {
    let server = Server::built_in();
    for number in 0..40 {
        let (key, says) = match number % 2 {
            0 => (None, "This needs an API key, in the header x-api-key.\n"),
            _ => (Some("a guess"), "This API key is not known.\n"),
        };
        let response = server.get("/foo", key).await;
        if number < 30 {
            assert_eq!(response.status(), 401);
            let challenge = "ApiKey realm=\"tidegate\", header=\"x-api-key\"";
            assert_eq!(header(&response, "www-authenticate"), Some(challenge));
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, says);
        } else {
            assert_eq!(response.status(), 429);
            assert_eq!(header(&response, "retry-after"), Some("2"));
        }
    }
    assert_eq!(server.status("/foo", Some("key-of-client-1")).await, 200);
}

#[tokio::test]
async fn the_page_and_its_numbers() {
    let server = Server::built_in();
    for _ in 0..3 {
        assert_eq!(server.status("/bar", Some("key-of-client-1")).await, 200);
    }
    for _ in 0..2 {
        assert_eq!(server.status("/foo", None).await, 401);
    }
    let as_client = server.text("/status.json", Some("key-of-client-1")).await;
    let as_stranger = server.text("/status.json", None).await;
    let budget = |text: &str, policy: &str| {
        let status: serde_json::Value = serde_json::from_str(text).unwrap();
        let budgets = status["you"]["budgets"].as_array().unwrap();
        let budget = budgets.iter().find(|budget| budget["policy"] == policy)?;
        Some((budget["remaining"].as_u64()?, budget["limit"].as_u64()?))
    };
    assert_eq!(budget(&as_client, "bar"), Some((2, 5)));
    assert_eq!(budget(&as_client, "foo"), Some((10, 10)));
    assert_eq!(budget(&as_client, "per-address"), Some((597, 600)));
    assert_eq!(budget(&as_stranger, "bar"), None);
    assert_eq!(budget(&as_stranger, "per-address"), Some((28, 30)));
    let status: serde_json::Value = serde_json::from_str(&as_stranger).unwrap();
    assert_eq!(status["you"]["address"], "192.0.2.77");
    assert_eq!(status["you"]["tier"], serde_json::Value::Null);
    let busy: Vec<_> = status["busiest"]
        .as_array()
        .unwrap()
        .iter()
        .map(|busy| {
            let text = |name: &str| busy[name].as_str().unwrap_or("none").to_owned();
            let number = |name: &str| busy[name].as_u64().unwrap();
            (
                text("policy"),
                text("tier"),
                number("requests"),
                number("remaining"),
            )
        })
        .collect();
    let row = |policy: &str, tier: &str, requests, remaining| {
        (policy.to_owned(), tier.to_owned(), requests, remaining)
    };
    assert_eq!(
        busy,
        [
            row("bar", "client-1", 3, 2),
            row("per-address", "client-1", 3, 597),
            row("per-address", "none", 2, 28),
        ]
    );
    // No key, and no other visitor's whole address.
    for text in [as_client, as_stranger.clone()] {
        assert!(!text.contains("key-of"), "{text}");
    }
    assert!(as_stranger.contains("192.0.2.* #"), "{as_stranger}");

    let page = server.get("/", None).await;
    let policy = header(&page, "content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
    for (path, contains) in [
        ("/", "<script src=\"page.js\""),
        ("/page.js", "textContent"),
        ("/page.css", "body"),
    ] {
        let text = server.text(path, None).await;
        assert!(text.contains(contains), "{path}");
        assert!(
            !text.contains("innerHTML") && !text.contains("://"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn without_tiers_nobody_needs_a_key() {
    let server = Server::new(
        "on-failure = \"refuse\"\npolicy = [{ name = \"all\", key = \"everyone\", quota = \"1/min\" }]",
    );
    assert_eq!(server.status("/foo", None).await, 200);
    assert_eq!(server.status("/foo", None).await, 429);
    // The page is not limited.
    assert_eq!(server.status("/", None).await, 200);
}
