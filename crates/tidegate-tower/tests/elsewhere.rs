//! Limits that the program keeps elsewhere: `Builder::stores`.

#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{Hand, builder, from, header, send, status, with};
use tidegate::{FixedWindow, Map, Quota, Timestamp, TokenBucket};
use tidegate_tower::{
    Answer, Builder, Counting, Everyone, Header, Headers, Key, Limit, Mistake, OnFailure,
    PeerAddress, Policy, RateLimitLayer, Store, StoreRequest,
};

/// What a request for a store says, for comparison.
type Asked = (String, Option<String>, bool, String);

fn asked(request: &StoreRequest<'_>) -> Asked {
    let burst = request.burst().map(|burst| format!(" burst {burst}"));
    (
        request.policy().to_owned(),
        request.tier().map(str::to_owned),
        request.is_candidate(),
        format!(
            "{} {}{}",
            request.counting(),
            request.quota(),
            burst.unwrap_or_default()
        ),
    )
}

/// What several processes would share: a map for each limit, asked by name. It answers after others have run, and not
/// at all while it is down.
#[derive(Clone, Default)]
struct Server {
    limits: Arc<Mutex<BTreeMap<Asked, Limits>>>,
    is_down: Arc<AtomicBool>,
}

#[derive(Clone)]
enum Limits {
    Bucket(Arc<Map<Key, TokenBucket>>),
    Window(Arc<Map<Key, FixedWindow>>),
}

struct Remote {
    limits: Limits,
    is_down: Arc<AtomicBool>,
}

impl Server {
    fn open(&self, request: &StoreRequest<'_>) -> Arc<dyn Store> {
        let mut limits = self.limits.lock().unwrap();
        let limits = limits.entry(asked(request)).or_insert_with(|| {
            let quota = request.quota();
            match request.burst() {
                Some(burst) => Limits::Bucket(Arc::new(Map::new(
                    TokenBucket::try_new_with_burst(quota, burst).unwrap(),
                ))),
                None => Limits::Window(Arc::new(Map::new(FixedWindow::new(quota)))),
            }
        });
        Arc::new(Remote {
            limits: limits.clone(),
            is_down: Arc::clone(&self.is_down),
        })
    }

    /// Adds it to a builder.
    fn keeps(&self, builder: Builder) -> Builder {
        let server = self.clone();
        builder.stores(move |request| Ok(Some(server.open(request))))
    }

    fn asked(&self) -> Vec<Asked> {
        self.limits.lock().unwrap().keys().cloned().collect()
    }
}

impl Store for Remote {
    fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer {
        let (limits, key) = (self.limits.clone(), key.clone());
        let is_down = self.is_down.load(Ordering::Relaxed);
        Answer::later(async move {
            tokio::task::yield_now().await;
            if is_down {
                return Err("connection refused".into());
            }
            Ok(match limits {
                Limits::Bucket(map) => map.check_n(&key, now, cost),
                Limits::Window(map) => map.check_n(&key, now, cost),
            })
        })
    }

    fn refund(&self, key: &Key, taken_at: Timestamp, cost: u64) {
        match &self.limits {
            Limits::Bucket(map) => map.refund(key, taken_at, cost),
            Limits::Window(map) => map.refund(key, taken_at, cost),
        };
    }
}

fn per_minute(limit: u64) -> Limit {
    Limit::fixed_window(Quota::per_minute(limit))
}

async fn admitted(layer: &RateLimitLayer, address: &str) -> u32 {
    let mut admitted = 0;
    for _ in 0..15 {
        admitted += u32::from(status(layer, from(address)).await == 200);
    }
    admitted
}

/// Each limit of policies, tiers and candidates; neither what has its store, nor what failures fall back on.
#[test]
fn which_limits_are_asked_for() {
    let server = Server::default();
    let own: Map<Key, _> = Map::new(FixedWindow::new(Quota::per_minute(1)));
    let fallback = OnFailure::Fallback(per_minute(7));
    let built = server
        .keeps(RateLimitLayer::builder(fallback))
        .tiers(["gold"], |_| None)
        .policy(
            Policy::new("a", Everyone)
                .limit(Limit::token_bucket(Quota::per_second(10)).with_burst(20))
                .tier("gold", per_minute(2))
                .candidate(Limit::token_bucket(Quota::per_second(9))),
        )
        .policy(Policy::new("b", Everyone).limit(Limit::in_store(Quota::per_minute(1), own)))
        .policy(Policy::new("c", Everyone).limit(per_minute(3)).monitor())
        .build();
    assert!(built.is_ok());
    let asked = |policy: &str, tier: Option<&str>, is_candidate, limit: &str| {
        let tier = tier.map(str::to_owned);
        (policy.to_owned(), tier, is_candidate, limit.to_owned())
    };
    assert_eq!(
        server.asked(),
        [
            asked("a", None, false, "token-bucket 10/s burst 20"),
            asked("a", None, true, "token-bucket 9/s burst 9"),
            asked("a", Some("gold"), false, "fixed-window 2/min"),
            asked("c", None, false, "fixed-window 3/min"),
        ]
    );
}

/// Two layers, as of two processes, admit together what one may.
#[tokio::test]
async fn two_layers_share_a_budget() {
    let hand = Hand::new();
    let server = Server::default();
    let layer = || {
        let policy = Policy::new("shared", PeerAddress::new())
            .limit(per_minute(5))
            .candidate(per_minute(2));
        let headers = Headers::new().with_legacy().with_details();
        let builder = builder(&hand).headers(headers).policy(policy);
        server.keeps(builder).build().unwrap()
    };
    let (one, other) = (layer(), layer());
    for left in [4, 2] {
        let response = send(&one, from("192.0.2.1")).await;
        assert_eq!(
            header(&response, "x-ratelimit-remaining"),
            Some(&*left.to_string())
        );
        // Who counts elsewhere still counts so.
        assert_eq!(
            header(&response, "x-ratelimit-strategy"),
            Some("fixed-window")
        );
        assert_eq!(status(&other, from("192.0.2.1")).await, 200);
    }
    assert_eq!(admitted(&one, "192.0.2.1").await, 1);
    assert_eq!(admitted(&other, "192.0.2.1").await, 0);
    assert_eq!(admitted(&other, "192.0.2.2").await, 5);
    let stats = *one.stats().policy("shared").unwrap();
    // The candidate's budget is shared too.
    assert_eq!(
        (stats.candidate_both_admit, stats.candidate_only_refuses),
        (1, 2)
    );
}

#[tokio::test]
async fn tiers_have_budgets_of_their_own() {
    let hand = Hand::new();
    let server = Server::default();
    let layer = server
        .keeps(builder(&hand))
        .tiers(["gold"], |request| {
            let is_gold = request.headers.get("x-tier")? == "gold";
            is_gold.then(|| "gold".into())
        })
        .policy(
            Policy::new("all", Everyone)
                .limit(per_minute(2))
                .tier("gold", per_minute(4)),
        )
        .build()
        .unwrap();
    let mut passed = [0, 0];
    for _ in 0..10 {
        passed[0] += u32::from(status(&layer, from("192.0.2.1")).await == 200);
        let gold = with(from("192.0.2.1"), "x-tier", b"gold");
        passed[1] += u32::from(status(&layer, gold).await == 200);
    }
    assert_eq!(passed, [2, 4]);
}

/// Of three policies elsewhere and one in memory, each refuses once: the others have counted nothing.
#[tokio::test]
async fn all_or_nothing() {
    let hand = Hand::new();
    let server = Server::default();
    let by = |name: &'static str| Header::new(name.parse().unwrap());
    let opened = server.clone();
    let layer = builder(&hand)
        .stores(move |request| {
            Ok(if request.policy() == "memory" {
                None
            } else {
                Some(opened.open(request))
            })
        })
        .policy(Policy::new("first", by("x-first")).limit(per_minute(3)))
        .policy(Policy::new("memory", by("x-memory")).limit(per_minute(3)))
        .policy(
            Policy::new("second", by("x-second")).limit(Limit::token_bucket(Quota::per_minute(3))),
        )
        .policy(Policy::new("third", by("x-third")).limit(per_minute(3)))
        .build()
        .unwrap();
    let names = ["x-first", "x-memory", "x-second", "x-third"];
    let request = |keys: [&str; 4]| {
        let keyed = names.iter().zip(keys);
        keyed.fold(from("192.0.2.1"), |request, (name, key)| {
            with(request, name, key.as_bytes())
        })
    };
    for used in 0..4 {
        // One key is used up, beside three that are fresh.
        for _ in 0..3 {
            let mut keys = ["u", "v", "w", "x"].map(|key| format!("{key}{used}"));
            keys[used] = "used up".to_owned();
            let keys = [0, 1, 2, 3].map(|index| &*keys[index]);
            assert_eq!(status(&layer, request(keys)).await, 200);
        }
        for _ in 0..4 {
            let mut keys = ["fresh"; 4];
            keys[used] = "used up";
            assert_eq!(status(&layer, request(keys)).await, 429, "{used}");
        }
    }
    let response = send(&layer, request(["fresh"; 4])).await;
    assert_eq!(
        header(&response, "ratelimit").map(|told| told.matches(";r=2;").count()),
        Some(4),
        "{:?}",
        header(&response, "ratelimit")
    );
}

#[tokio::test]
async fn while_the_server_is_down() {
    let hand = Hand::new();
    let server = Server::default();
    let layer = |on_failure| {
        let builder = RateLimitLayer::builder(on_failure).clock(hand.clock());
        let policy = Policy::new("kept", PeerAddress::new()).limit(per_minute(5));
        server.keeps(builder.policy(policy)).build().unwrap()
    };
    let refusing = layer(OnFailure::Refuse);
    let admitting = layer(OnFailure::Admit);
    let falling_back = layer(OnFailure::Fallback(per_minute(3)));
    assert_eq!(admitted(&refusing, "192.0.2.1").await, 5);
    server.is_down.store(true, Ordering::Relaxed);
    assert_eq!(status(&refusing, from("192.0.2.2")).await, 503);
    assert_eq!(admitted(&admitting, "192.0.2.2").await, 15);
    assert_eq!(admitted(&falling_back, "192.0.2.2").await, 3);
    let errors = |layer: &RateLimitLayer| layer.stats().policy("kept").unwrap().errors;
    assert_eq!(
        [&refusing, &admitting, &falling_back].map(errors),
        [1, 15, 15]
    );
    server.is_down.store(false, Ordering::Relaxed);
    // What has passed while it was down was not counted there.
    assert_eq!(admitted(&admitting, "192.0.2.2").await, 5);
    assert_eq!(errors(&admitting), 15);
}

/// The server keeps what was used, also if the new builder does not name it; memory begins anew beside it.
#[tokio::test]
async fn reloading() {
    let hand = Hand::new();
    let server = Server::default();
    let policy = || Policy::new("kept", PeerAddress::new()).limit(per_minute(5));
    let layer = builder(&hand).policy(policy()).build().unwrap();
    assert_eq!(admitted(&layer, "192.0.2.1").await, 5);

    layer
        .reload(server.keeps(builder(&hand).policy(policy())))
        .unwrap();
    assert_eq!(server.asked().len(), 1);
    for expected in [200, 200, 200] {
        assert_eq!(status(&layer, from("192.0.2.1")).await, expected);
    }
    layer.reload(builder(&hand).policy(policy())).unwrap();
    assert_eq!(admitted(&layer, "192.0.2.1").await, 2);

    // Back in memory, which is not what the server's store was.
    let none = builder(&hand).policy(policy()).stores(|_| Ok(None));
    layer.reload(none).unwrap();
    assert_eq!(admitted(&layer, "192.0.2.1").await, 5);
    let other = Policy::new("kept", PeerAddress::new()).limit(per_minute(6));
    layer.reload(builder(&hand).policy(other)).unwrap();
    assert_eq!(admitted(&layer, "192.0.2.1").await, 1);
}

#[derive(Debug)]
struct TooMuch(core::num::ParseIntError);

impl core::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the server cannot count so far")
    }
}

impl core::error::Error for TooMuch {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn a_store_that_cannot_be() {
    let hand = Hand::new();
    let kept = |limit| Policy::new("kept", Everyone).limit(limit);
    let failing = || {
        builder(&hand).stores(|request| {
            if request.quota().limit() < 10 {
                return Ok(None);
            }
            Err(TooMuch("".parse::<u8>().unwrap_err()).into())
        })
    };
    let error = failing().policy(kept(per_minute(10))).build().unwrap_err();
    assert_eq!(error.policy(), Some("kept"));
    assert!(matches!(error.mistake(), Mistake::Store(_)));
    assert_eq!(
        error.to_string(),
        "policy `kept`: no store for this limit: the server cannot count so far: cannot parse integer from empty string"
    );
    // The old policies stay.
    let layer = failing().policy(kept(per_minute(5))).build().unwrap();
    assert!(
        layer
            .reload(builder(&hand).policy(kept(per_minute(11))))
            .is_err()
    );
    assert_eq!(admitted(&layer, "192.0.2.1").await, 5);
    // What does not go together is told before anybody is asked.
    let never = builder(&hand).stores(|_| unreachable!());
    let error = never.policy(kept(per_minute(5).with_burst(1))).build();
    assert!(matches!(error.unwrap_err().mistake(), Mistake::Limit(_)));
}

#[test]
fn counting_is_called_as_in_toml() {
    let quota = Quota::per_minute(5);
    for (limit, counting, burst) in [
        (Limit::token_bucket(quota), Counting::TokenBucket, Some(5)),
        (Limit::fixed_window(quota), Counting::FixedWindow, None),
        (
            Limit::anchored_window(quota),
            Counting::AnchoredWindow,
            None,
        ),
        (Limit::sliding_window(quota), Counting::SlidingWindow, None),
        (Limit::sliding_log(quota), Counting::SlidingLog, None),
    ] {
        assert_eq!(limit.counting(), Some(counting));
        assert_eq!((limit.burst(), limit.capacity()), (burst, None));
        assert_eq!(limit.strategy(), Some(counting.as_str()));
    }
}
