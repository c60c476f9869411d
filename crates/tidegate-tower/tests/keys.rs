//! Whose budget it is, whatever clients send.

mod common;

use core::net::{IpAddr, Ipv4Addr};

use common::{Hand, builder, from, get, status, with};
use http::HeaderValue;
use http::request::Parts;
use proptest::prelude::*;
use tidegate::Quota;
use tidegate_tower::{
    ClientAddress, Everyone, Extension, Header, Key, KeyExtractor, Limit, Mistake, NoKey, OnNoKey,
    PathTemplate, PeerAddress, Policy, ProxyError, RateLimitLayer, RouteTemplate,
};

fn parts(peer: Option<&str>, headers: &[(&'static str, &[u8])]) -> Parts {
    let (mut parts, ()) = http::Request::new(()).into_parts();
    if let Some(peer) = peer {
        parts.extensions.insert(common::peer(peer));
    }
    for (name, value) in headers {
        parts
            .headers
            .append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    parts
}

fn address(text: &str) -> Key {
    match text.split_once('/') {
        Some((address, bits)) => Key::Address(address.parse().unwrap(), bits.parse().unwrap()),
        None => Key::Address(text.parse().unwrap(), 32),
    }
}

fn one_a_minute(key: impl KeyExtractor + 'static) -> RateLimitLayer {
    let limit = Limit::fixed_window(Quota::per_minute(1));
    builder(&Hand::new())
        .policy(Policy::new("one", key).limit(limit))
        .build()
        .unwrap()
}

#[test]
fn peers() {
    let key = |peer: &str| PeerAddress::new().key(&parts(Some(peer), &[])).unwrap();
    assert_eq!(key("192.0.2.1"), address("192.0.2.1"));
    assert_eq!(key("::ffff:192.0.2.1"), address("192.0.2.1"));
    assert_eq!(key("2001:db8:0:12ff::1"), address("2001:db8:0:1200::/56"));
    let whole = PeerAddress::new().with_ipv6_prefix(200).with_ipv4_prefix(0);
    assert_eq!(
        whole.key(&parts(Some("2001:db8::1"), &[])),
        Ok(address("2001:db8::1/128"))
    );
    assert_eq!(
        whole.key(&parts(Some("192.0.2.1"), &[])),
        Ok(address("0.0.0.0/0"))
    );
    assert_eq!(
        PeerAddress::new()
            .with_ipv6_prefix(0)
            .key(&parts(Some("2001:db8::1"), &[])),
        Ok(address("::/0"))
    );
    let missing = PeerAddress::new().key(&parts(None, &[])).unwrap_err();
    assert!(
        !missing.is_by_client()
            && missing
                .to_string()
                .contains("into_make_service_with_connect_info")
    );
    let own = PeerAddress::new().with_peer(|_| Some(Ipv4Addr::LOCALHOST.into()));
    assert_eq!(own.key(&parts(None, &[])), Ok(address("127.0.0.1")));
}

#[tokio::test]
async fn addresses_inside_a_prefix_share_a_budget() {
    let layer = one_a_minute(PeerAddress::new());
    let mut passed = 0;
    for last in 0..100 {
        let peer = format!("2001:db8:0:12{last:02x}:{last:x}::{last:x}");
        passed += u32::from(status(&layer, from(&peer)).await == 200);
    }
    assert_eq!(passed, 1);
    assert_eq!(status(&layer, from("2001:db8:0:1300::1")).await, 200);
}

/// Whatever a client that is no proxy sends, it is counted by its own address.
#[tokio::test]
async fn a_spoofed_header_buys_nothing() {
    for proxies in [1, 2, 5] {
        let key = ClientAddress::behind(proxies, ["10.0.0.0/8"]).unwrap();
        let layer = one_a_minute(key);
        let mut passed = 0;
        for last in 0..50 {
            let spoofed = format!("198.51.100.{last}, 10.0.0.1, 10.0.0.2");
            let direct = with(from("192.0.2.1"), "x-forwarded-for", spoofed.as_bytes());
            passed += u32::from(status(&layer, direct).await == 200);
            // Through a proxy that appends the same client's address, and around the outer ones.
            let appended = format!("{spoofed}, 192.0.2.1");
            let proxied = with(from("10.0.0.9"), "x-forwarded-for", appended.as_bytes());
            passed += u32::from(status(&layer, proxied).await == 200);
        }
        assert_eq!(passed, 1, "{proxies} proxies");
    }
}

#[test]
fn clients_behind_proxies() {
    let key = |proxies, peer: &str, lines: &[&str]| {
        let headers: Vec<_> = lines
            .iter()
            .map(|line| ("x-forwarded-for", line.as_bytes()))
            .collect();
        let extractor = ClientAddress::behind(proxies, ["10.0.0.0/8", "2001:db8:f::1"]).unwrap();
        extractor.key(&parts(Some(peer), &headers))
    };
    let client = Ok(address("192.0.2.1"));
    assert_eq!(key(1, "10.0.0.1", &["192.0.2.1"]), client);
    assert_eq!(key(1, "::ffff:10.0.0.1", &["::ffff:192.0.2.1"]), client);
    assert_eq!(
        key(1, "2001:db8:f::1", &["198.51.100.1, 192.0.2.1"]),
        client
    );
    assert_eq!(
        key(2, "10.0.0.1", &["8.8.8.8, 192.0.2.1, 10.0.0.2"]),
        client
    );
    assert_eq!(
        key(
            2,
            "10.0.0.1",
            &["8.8.8.8", "192.0.2.1", "", " , 10.0.0.2 ,"]
        ),
        client
    );
    assert_eq!(key(1, "10.0.0.1", &["192.0.2.1:4711"]), client);
    assert_eq!(
        key(1, "10.0.0.1", &["[2001:db8::1]:4711"]),
        Ok(address("2001:db8::/56"))
    );
    assert_eq!(
        key(1, "10.0.0.1", &["[2001:db8::1]"]),
        Ok(address("2001:db8::/56"))
    );
    // One proxy is trusted to speak for one client, not for a chain.
    assert_eq!(
        key(1, "10.0.0.1", &["192.0.2.1, 10.0.0.2"]),
        Ok(address("10.0.0.2"))
    );
    // Nobody has told anything: then it is who is there.
    assert_eq!(key(1, "10.0.0.1", &[]), Ok(address("10.0.0.1")));
    assert_eq!(key(3, "10.0.0.1", &["10.0.0.3"]), Ok(address("10.0.0.3")));
    for garbage in [
        "unknown",
        "192.0.2",
        "192.0.2.1, x",
        "[::1",
        "1.2.3.4:99999",
    ] {
        assert!(
            key(1, "10.0.0.1", &[garbage]).unwrap_err().is_by_client(),
            "{garbage}"
        );
    }
    // What is garbage from a client's mouth does not matter.
    assert_eq!(key(1, "10.0.0.1", &["\u{e9}, \"x, 192.0.2.1"]), client);
}

#[test]
fn forwarded() {
    let key = |line: &str| {
        let extractor = ClientAddress::behind(2, ["10.0.0.0/8"])
            .unwrap()
            .with_forwarded();
        extractor.key(&parts(
            Some("10.0.0.1"),
            &[
                ("forwarded", line.as_bytes()),
                ("x-forwarded-for", b"8.8.8.8"),
            ],
        ))
    };
    let client = Ok(address("192.0.2.1"));
    assert_eq!(key("for=192.0.2.1"), client);
    assert_eq!(
        key("For=\"192.0.2.1:47\"; proto=http ;by=203.0.113.43"),
        client
    );
    assert_eq!(
        key("for=8.8.8.8, for=192.0.2.1;host=\"a,b\", for=10.1.1.1"),
        client
    );
    assert_eq!(
        key("for=\"[2001:db8:cafe::17]:4711\""),
        Ok(address("2001:db8:cafe::/56"))
    );
    // A quotation mark that the client has left open swallows nothing.
    assert_eq!(key("for=\"8.8.8.8, for=192.0.2.1"), client);
    for garbage in [
        "for=_hidden",
        "for=",
        "by=10.0.0.1",
        "for=192.0.2.1;for=192.0.2.2",
        "=",
        ";;",
    ] {
        assert!(key(garbage).is_err(), "{garbage}");
    }
}

#[test]
fn proxies_that_cannot_be() {
    let none: [&str; 0] = [];
    assert_eq!(
        ClientAddress::behind(1, none).unwrap_err(),
        ProxyError::NoNetworks
    );
    assert_eq!(
        ClientAddress::behind(0, ["10.0.0.0/8"]).unwrap_err(),
        ProxyError::NoProxies
    );
    for wrong in ["10.0.0.0/33", "example.org", "", "::ffff:10.0.0.0/95"] {
        assert_eq!(
            ClientAddress::behind(1, [wrong]).unwrap_err(),
            ProxyError::Network(wrong.to_owned())
        );
    }
    // A mapped network is the IPv4 network.
    let mapped = ClientAddress::behind(1, ["::ffff:10.0.0.0/104"]).unwrap();
    let request = parts(Some("10.9.9.9"), &[("x-forwarded-for", b"192.0.2.1")]);
    assert_eq!(mapped.key(&request), Ok(address("192.0.2.1")));
}

#[test]
fn headers() {
    let key = |values: &[&[u8]]| {
        let headers: Vec<_> = values.iter().map(|&value| ("x-api-key", value)).collect();
        Header::new("x-api-key".parse().unwrap()).key(&parts(None, &headers))
    };
    assert_eq!(key(&[b"\xff\xfe"]), Ok(Key::bytes(*b"\xff\xfe")));
    assert_eq!(key(&[b"a", b"a"]), Ok(Key::bytes(*b"a")));
    let why = |values: &[&[u8]]| key(values).unwrap_err().to_string();
    assert_eq!(why(&[]), "the request header x-api-key is missing");
    assert_eq!(why(&[b""]), "the request header x-api-key is empty");
    assert_eq!(
        why(&[b"a", b"b"]),
        "the request header x-api-key is there more than once"
    );
    assert_eq!(
        why(&[&[b'a'; 65_536]]),
        "the request header x-api-key is too long"
    );
    let long = Header::new("x".parse().unwrap()).with_max_len(70_000);
    assert!(long.key(&parts(None, &[("x", &[b'a'; 65_536])])).is_ok());
}

#[test]
fn extensions_templates_and_several_together() {
    #[derive(Clone)]
    struct User(u64);
    let user = || Extension::new(|user: &User| Key::Number(user.0));
    let mut request = parts(Some("192.0.2.1"), &[]);
    assert!(
        user()
            .key(&request)
            .unwrap_err()
            .to_string()
            .contains("User")
    );
    assert_eq!(user().or(Everyone).key(&request), Ok(Key::Everyone));
    assert!(!PathTemplate.key(&request).unwrap_err().is_by_client());
    request.extensions.insert(User(7));
    request
        .extensions
        .insert(RouteTemplate("/users/{id}".into()));
    assert_eq!(user().or(Everyone).key(&request), Ok(Key::Number(7)));
    let both = PathTemplate.and(user()).key(&request).unwrap();
    assert_eq!(both, Key::text("/users/{id}").and(Key::Number(7)));
    assert_eq!(both.to_string(), "/users/{id} 7");
    let closure = |request: &Parts| match request.uri.path() {
        "/" => Ok(Key::from("root")),
        _ => Err(NoKey::by_client("not the root")),
    };
    assert_eq!(KeyExtractor::key(&closure, &request), Ok(Key::text("root")));
}

#[tokio::test]
async fn without_a_key() {
    let hand = Hand::new();
    let limit = || Limit::fixed_window(Quota::per_minute(1));
    let key = || Header::new("x-api-key".parse().unwrap());
    let strict = builder(&hand)
        .policy(Policy::new("key", key()).limit(limit()))
        .build()
        .unwrap();
    let lenient = Policy::new("key", key())
        .limit(limit())
        .on_no_key(OnNoKey::Admit);
    let lenient = builder(&hand).policy(lenient).build().unwrap();
    for _ in 0..3 {
        let response = common::send(&strict, from("192.0.2.1")).await;
        assert_eq!(response.status(), 400);
        assert_eq!(
            common::text(response).await,
            "The request cannot be counted: the request header x-api-key is missing.\n"
        );
        assert_eq!(status(&lenient, from("192.0.2.1")).await, 200);
    }
    for layer in [strict, lenient] {
        assert_eq!(layer.stats().policy("key").unwrap().no_key, 3);
    }
    // The server's own mistake, about which clients are told nothing.
    let layer = one_a_minute(PathTemplate);
    let response = common::send(&layer, get("/x", "192.0.2.1")).await;
    assert_eq!(response.status(), 500);
    assert_eq!(
        common::text(response).await,
        "The server cannot tell whose request this is.\n"
    );
}

#[test]
fn mistakes_are_found_when_the_layer_is_built() {
    let hand = Hand::new();
    let limit = || Limit::fixed_window(Quota::per_minute(1));
    let policy = |name: &'static str| Policy::new(name, Everyone).limit(limit());
    let mistake = |builder: tidegate_tower::Builder| {
        let error = builder.build().unwrap_err();
        (
            error.policy().map(str::to_owned),
            error.mistake().clone(),
            error.to_string(),
        )
    };
    assert_eq!(mistake(builder(&hand)).1, Mistake::NoPolicies);
    let twice = builder(&hand).policy(policy("a")).policy(policy("a"));
    assert_eq!(mistake(twice).1, Mistake::SameName);
    assert_eq!(
        mistake(builder(&hand).policy(Policy::new("a", Everyone))).1,
        Mistake::NoLimit
    );
    let route = builder(&hand).policy(policy("a").routes(["foo"]));
    assert_eq!(mistake(route).1, Mistake::Route("foo".into()));
    let unknown = builder(&hand).policy(policy("a").tier("gold", limit()));
    assert_eq!(mistake(unknown).1, Mistake::UnknownTier("gold".into()));
    let unused = builder(&hand)
        .tiers(["gold", "free"], |_| None)
        .policy(Policy::new("a", Everyone).tier("gold", limit()));
    assert_eq!(mistake(unused).1, Mistake::TierWithoutPolicy("free".into()));
    let name = builder(&hand).policy(policy("a\r\nb"));
    assert!(matches!(mistake(name).1, Mistake::Text(_)));
    let zero =
        Policy::new("a", Everyone).limit(Limit::token_bucket(Quota::per_second(1)).with_burst(0));
    let (name, _, text) = mistake(builder(&hand).policy(zero));
    assert_eq!(name.as_deref(), Some("a"));
    assert!(
        text.contains("a burst or limit of 0 would admit nothing"),
        "{text}"
    );
    for wrong in [
        limit().with_burst(2),
        limit().with_capacity(0),
        Limit::sliding_log(Quota::per_day(1_025)),
    ] {
        let wrong = builder(&hand).policy(Policy::new("a", Everyone).limit(wrong));
        assert!(matches!(mistake(wrong).1, Mistake::Limit(_)));
    }
}

/// Bytes that a header may have, many of them such as mean something here.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let telling = prop::sample::select(b"0123456789abf.:[],;=\"\\ for%\xff\xc3".to_vec());
    let any = any::<u8>().prop_filter("no header has it", |byte| *byte >= 32 && *byte != 127);
    prop::collection::vec(prop_oneof![4 => telling, 1 => any], 0..200)
}

proptest! {
    /// No panic; and a client is counted by its own address whatever it sends.
    #[test]
    fn any_header(values in prop::collection::vec(value(), 0..4), proxies in 1_usize..5, client: u32) {
        let client = IpAddr::from(Ipv4Addr::from_bits(client));
        prop_assume!(client.to_string().split('.').next() != Some("10"));
        for name in ["x-forwarded-for", "forwarded"] {
            let headers: Vec<_> = values.iter().map(|value| (name, &value[..])).collect();
            let mut extractor = ClientAddress::behind(proxies, ["10.0.0.0/8"]).unwrap();
            if name == "forwarded" {
                extractor = extractor.with_forwarded();
            }
            let own = Ok(Key::Address(client, 32));
            let direct = parts(Some(&client.to_string()), &headers);
            prop_assert_eq!(extractor.key(&direct), own.clone());
            // A proxy of ours tells it apart, in a line of its own or at the end of the client's last.
            let told = if name == "forwarded" { format!("for={client}") } else { client.to_string() };
            let mut proxied = parts(Some("10.0.0.1"), &headers);
            proxied.headers.append(name, told.parse().unwrap());
            prop_assert_eq!(extractor.key(&proxied), own.clone());
            let mut lines = values.clone();
            let mut last = lines.pop().unwrap_or_default();
            last.extend_from_slice(b", ");
            last.extend_from_slice(told.as_bytes());
            lines.push(last);
            let headers: Vec<_> = lines.iter().map(|value| (name, &value[..])).collect();
            prop_assert_eq!(extractor.key(&parts(Some("10.0.0.1"), &headers)), own);
        }
        let headers: Vec<_> = values.iter().map(|value| ("x-api-key", &value[..])).collect();
        let _ = Header::new("x-api-key".parse().unwrap()).key(&parts(None, &headers));
    }

    /// Whatever only a trusted proxy could have sent: an answer, whichever.
    #[test]
    fn any_header_of_a_proxy(values in prop::collection::vec(value(), 0..4), proxies in 1_usize..5) {
        for name in ["x-forwarded-for", "forwarded"] {
            let headers: Vec<_> = values.iter().map(|value| (name, &value[..])).collect();
            let mut extractor = ClientAddress::behind(proxies, ["0.0.0.0/0", "::/0"]).unwrap();
            if name == "forwarded" {
                extractor = extractor.with_forwarded();
            }
            match extractor.key(&parts(Some("10.0.0.1"), &headers)) {
                Ok(key) => prop_assert!(matches!(key, Key::Address(..))),
                Err(no_key) => prop_assert!(no_key.is_by_client()),
            }
        }
    }

    /// Different keys are told apart elsewhere, too.
    #[test]
    fn encodings_differ(texts in prop::collection::vec("[a-b]{0,3}", 3), numbers: [u64; 2]) {
        let text = |index: usize| Key::text(&*texts[index]);
        let keys = [
            Key::Everyone, text(0), text(1), Key::bytes(texts[0].as_bytes()), Key::Number(numbers[0]), Key::Number(numbers[1]),
            text(0).and(text(1)), text(1).and(text(0)), text(0).and(text(1).and(text(2))), text(0).and(text(1)).and(text(2)),
        ];
        let encoded = |key: &Key| { let mut bytes = Vec::new(); key.encode(&mut bytes); bytes };
        for one in &keys {
            for other in &keys {
                prop_assert_eq!(one == other, encoded(one) == encoded(other));
                prop_assert!(one == other || !encoded(one).starts_with(&encoded(other)));
            }
        }
    }
}
