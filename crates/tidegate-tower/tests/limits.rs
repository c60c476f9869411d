//! What passes and what does not, and what clients are told.

mod common;

use common::{Hand, builder, from, get, header, secs, send, status, text, with};
use tidegate::Quota;
use tidegate::http::{Draft, Headers};
use tidegate_tower::{Header, Limit, PeerAddress, Policy};

fn per_address(limit: Limit) -> Policy {
    Policy::new("per-address", PeerAddress::new()).limit(limit)
}

#[tokio::test]
async fn fifteen_requests_against_five_a_minute() {
    let hand = Hand::new();
    let limits = [
        Limit::token_bucket(Quota::per_minute(5)),
        Limit::fixed_window(Quota::per_minute(5)),
        Limit::anchored_window(Quota::per_minute(5)),
        Limit::sliding_window(Quota::per_minute(5)),
        Limit::sliding_log(Quota::per_minute(5)),
    ];
    for limit in limits {
        let layer = builder(&hand).policy(per_address(limit)).build().unwrap();
        let mut statuses = Vec::new();
        for _ in 0..15 {
            statuses.push(status(&layer, from("192.0.2.1")).await);
        }
        assert_eq!(statuses[..5], [200; 5]);
        assert_eq!(statuses[5..], [429; 10]);
        let stats = layer.stats();
        let stats = stats.policy("per-address").unwrap();
        assert_eq!((stats.admitted, stats.refused), (5, 10));
        // Somebody else is not concerned.
        assert_eq!(status(&layer, from("192.0.2.2")).await, 200);
    }
}

/// Every 2 s against 3 per 10 s: windows of ten begin at 0 and 10.
#[tokio::test]
async fn three_in_ten_seconds_every_two() {
    let quota = Quota::new(3, secs(10)).unwrap();
    let passes = |limit: Limit| async move {
        let hand = Hand::new();
        let layer = builder(&hand).policy(per_address(limit)).build().unwrap();
        let mut pattern = String::new();
        for _ in 0..10 {
            let passes = status(&layer, from("192.0.2.1")).await == 200;
            pattern.push(if passes { 'y' } else { '-' });
            hand.advance(secs(2));
        }
        pattern
    };
    assert_eq!(passes(Limit::fixed_window(quota)).await, "yyy--yyy--");
    assert_eq!(passes(Limit::anchored_window(quota)).await, "yyy--yyy--");
    assert_eq!(passes(Limit::sliding_log(quota)).await, "yyy--yyy--");
    // Three at first, and 0.6 more every 2 s: at 10 s the sixth has just come.
    assert_eq!(passes(Limit::token_bucket(quota)).await, "yyyyyy-y-y");
}

#[tokio::test]
async fn fields_on_every_response() {
    let hand = Hand::new();
    let layer = builder(&hand)
        .policy(per_address(Limit::fixed_window(Quota::per_minute(2))))
        .headers(
            Headers::new()
                .with_draft(Draft::V10)
                .with_legacy()
                .with_details(),
        )
        .build()
        .unwrap();
    hand.advance(secs(10));
    let response = send(&layer, from("192.0.2.1")).await;
    assert_eq!(
        header(&response, "ratelimit-policy"),
        Some("\"per-address\";q=2;w=60")
    );
    assert_eq!(
        header(&response, "ratelimit"),
        Some("\"per-address\";r=1;t=50")
    );
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("1"));
    assert_eq!(header(&response, "x-ratelimit-reset"), Some("1780000260"));
    assert_eq!(
        header(&response, "x-ratelimit-strategy"),
        Some("fixed-window")
    );
    assert_eq!(header(&response, "retry-after"), None);
    assert_eq!(text(response).await, "hello");

    assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    let response = send(&layer, from("192.0.2.1")).await;
    assert_eq!(response.status(), 429);
    assert_eq!(
        header(&response, "ratelimit"),
        Some("\"per-address\";r=0;t=50")
    );
    assert_eq!(header(&response, "retry-after"), Some("50"));
    assert_eq!(
        header(&response, "content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(
        text(response).await,
        "Too many requests. Try again in 50 seconds.\n"
    );

    let json = with(from("192.0.2.1"), "accept", b"application/json");
    assert_eq!(
        text(send(&layer, json).await).await,
        concat!(
            r#"{"error":"too_many_requests","message":"Too many requests. Try again in 50 seconds.","#,
            r#""policies":["per-address"],"retry_after":50}"#,
        )
    );
    let problem = with(from("192.0.2.1"), "accept", b"application/problem+json");
    let response = send(&layer, problem).await;
    assert_eq!(
        header(&response, "content-type"),
        Some("application/problem+json")
    );
    assert!(
        text(response)
            .await
            .contains(r#""violated-policies":["per-address"]"#)
    );
}

/// Each in base64, in both fields, and of the policies that tell it alone.
#[tokio::test]
async fn partition_keys() {
    let hand = Hand::new();
    let user = Header::new("x-user".parse().unwrap());
    let layer = builder(&hand)
        .policy(
            Policy::new("user", user)
                .limit(Limit::fixed_window(Quota::per_minute(2)))
                .partition_key(|key| key.to_string().into_bytes()),
        )
        .policy(per_address(Limit::fixed_window(Quota::per_minute(9))))
        .build()
        .unwrap();
    let request = || with(from("192.0.2.1"), "x-user", b"alice");
    for (left, others, passes) in [(1, 8, true), (0, 7, true), (0, 7, false)] {
        let response = send(&layer, request()).await;
        assert_eq!(response.status() == 200, passes);
        assert_eq!(
            header(&response, "ratelimit-policy"),
            Some("\"user\";q=2;w=60;pk=:YWxpY2U=:, \"per-address\";q=9;w=60")
        );
        let expected =
            format!("\"user\";r={left};t=60;pk=:YWxpY2U=:, \"per-address\";r={others};t=60");
        assert_eq!(header(&response, "ratelimit"), Some(&*expected));
    }
}

/// The table of the issue: two clients, two routes, four limits.
#[tokio::test]
async fn by_route_and_by_tier() {
    let hand = Hand::new();
    let key = || Header::new("x-api-key".parse().unwrap());
    let minute = |limit| Limit::fixed_window(Quota::per_minute(limit));
    let layer = builder(&hand)
        .tiers(["client-1", "client-2"], |request| {
            match request.headers.get("x-api-key")?.as_bytes() {
                b"one" => Some("client-1".into()),
                b"two" => Some("client-2".into()),
                _ => None,
            }
        })
        .policy(
            Policy::new("foo", key())
                .routes(["/foo"])
                .tier("client-1", minute(10))
                .tier("client-2", minute(20)),
        )
        .policy(
            Policy::new("bar", key())
                .routes(["/bar"])
                .tier("client-1", minute(5))
                .tier("client-2", minute(10)),
        )
        .build()
        .unwrap();
    for (client, path, limit) in [
        ("one", "/foo", 10),
        ("two", "/foo", 20),
        ("one", "/bar", 5),
        ("two", "/bar", 10),
    ] {
        let mut admitted = 0;
        for _ in 0..30 {
            let request = with(get(path, "192.0.2.1"), "x-api-key", client.as_bytes());
            let response = send(&layer, request).await;
            let policy = header(&response, "ratelimit-policy").unwrap();
            assert_eq!(policy, format!("\"{}\";q={limit};w=60", &path[1..]));
            admitted += u32::from(response.status() == 200);
        }
        assert_eq!(admitted, limit, "{client} {path}");
    }
    // No policy for others: nothing is told either.
    let response = send(&layer, get("/foo", "192.0.2.1")).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "ratelimit")),
        (200, None)
    );
}

/// What one policy refuses, none counts.
#[tokio::test]
async fn all_or_nothing() {
    let hand = Hand::new();
    let user = || Header::new("x-user".parse().unwrap());
    let layer = builder(&hand)
        .policy(per_address(Limit::fixed_window(Quota::per_minute(3))))
        .policy(Policy::new("per-user", user()).limit(Limit::fixed_window(Quota::per_minute(1))))
        .build()
        .unwrap();
    let request = |user: &str| with(from("192.0.2.1"), "x-user", user.as_bytes());
    assert_eq!(status(&layer, request("a")).await, 200);
    for _ in 0..5 {
        let response = send(&layer, request("a")).await;
        assert_eq!(response.status(), 429);
        assert_eq!(
            header(&response, "ratelimit"),
            Some("\"per-address\";r=2;t=60, \"per-user\";r=0;t=60")
        );
    }
    assert_eq!(status(&layer, request("b")).await, 200);
    assert_eq!(status(&layer, request("c")).await, 200);
    assert_eq!(status(&layer, request("d")).await, 429);
    let stats = layer.stats();
    let refused = |policy| stats.policy(policy).unwrap().refused;
    assert_eq!((refused("per-address"), refused("per-user")), (1, 5));
}

/// The field that describes the policy is that of the client's tier, of the policies as they are, and of its partition.
#[tokio::test]
async fn policies_are_described_as_they_are() {
    let hand = Hand::new();
    let minute = |limit| Limit::fixed_window(Quota::per_minute(limit));
    let policies = |gold, headers: Headers| {
        builder(&hand)
            .headers(headers)
            .tiers(["gold"], |request| {
                let is_gold = request.headers.contains_key("gold");
                is_gold.then(|| "gold".into())
            })
            .policy(
                Policy::new("a", PeerAddress::new())
                    .limit(minute(100))
                    .tier("gold", minute(gold)),
            )
    };
    let draft = |draft| Headers::new().with_draft(draft);
    let layer = policies(200, draft(Draft::V10)).build().unwrap();
    let told = async |is_gold: bool, address| {
        let mut request = from(address);
        if is_gold {
            request.headers_mut().insert("gold", "".parse().unwrap());
        }
        let response = send(&layer, request).await;
        header(&response, "ratelimit-policy").unwrap().to_owned()
    };
    for _ in 0..2 {
        assert_eq!(told(false, "192.0.2.1").await, "\"a\";q=100;w=60");
        assert_eq!(told(true, "192.0.2.1").await, "\"a\";q=200;w=60");
    }
    layer.reload(policies(300, draft(Draft::V10))).unwrap();
    assert_eq!(told(true, "192.0.2.1").await, "\"a\";q=300;w=60");
    layer.reload(policies(300, draft(Draft::V06))).unwrap();
    assert_eq!(told(true, "192.0.2.1").await, "300;w=60");

    let partitioned = policies(300, draft(Draft::V10)).policy(
        Policy::new("b", PeerAddress::new())
            .limit(minute(7))
            .partition_key(|key| key.to_string().into_bytes()),
    );
    layer.reload(partitioned).unwrap();
    let one = told(false, "192.0.2.1").await;
    let two = told(false, "192.0.2.2").await;
    assert_ne!(one, two);
    for told in [one, two] {
        assert!(
            told.starts_with("\"a\";q=100;w=60, \"b\";q=7;w=60;pk=:"),
            "{told}"
        );
    }
    let alone = builder(&hand).headers(draft(Draft::V10)).policy(
        Policy::new("b", PeerAddress::new())
            .limit(minute(7))
            .partition_key(|key| key.to_string().into_bytes()),
    );
    layer.reload(alone).unwrap();
    assert_ne!(
        told(false, "192.0.2.1").await,
        told(false, "192.0.2.2").await
    );
}
