//! Stores of all kinds, those that answer later or not at all among them.

#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use common::{Hand, builder, from, header, send, status, text};
use tidegate::{Allowed, FixedWindow, Limiter, Map, Quota, Table, Timestamp, TokenBucket};
use tidegate_tower::{
    Answer, Counted, Everyone, Key, Limit, OnFailure, PeerAddress, Policy, PolicyStanding,
    RateLimitLayer, Store,
};
use tokio::sync::oneshot;
use tower::{Layer, Service, service_fn};

const FIVE: Quota = Quota::per_minute(5);

fn kept_by(store: impl Store + 'static) -> Policy {
    Policy::new("kept", PeerAddress::new()).limit(Limit::in_store(FIVE, store))
}

async fn admitted(layer: &RateLimitLayer, address: &str) -> u32 {
    let mut admitted = 0;
    for _ in 0..15 {
        admitted += u32::from(status(layer, from(address)).await == 200);
    }
    admitted
}

#[tokio::test]
async fn every_kind_of_store() {
    static TABLE: Table<FixedWindow, 64> = Table::new(FixedWindow::new(FIVE));
    let map: Arc<Map<Key, TokenBucket>> = Arc::new(Map::new(TokenBucket::new(FIVE)));
    let hand = Hand::new();
    let layers = [
        builder(&hand).policy(kept_by(&TABLE)).build().unwrap(),
        builder(&hand)
            .policy(kept_by(Arc::clone(&map)))
            .build()
            .unwrap(),
        builder(&hand)
            .policy(kept_by(Elsewhere::new(1)))
            .build()
            .unwrap(),
    ];
    for layer in layers {
        assert_eq!(admitted(&layer, "192.0.2.1").await, 5);
        assert_eq!(admitted(&layer, "192.0.2.2").await, 5);
    }
    assert_eq!(map.len(), 2);
    // One limiter is one budget, whatever the key.
    let shared = Limiter::new(TokenBucket::new(FIVE));
    let layer = builder(&hand).policy(kept_by(shared)).build().unwrap();
    assert_eq!(admitted(&layer, "192.0.2.1").await, 5);
    assert_eq!(admitted(&layer, "192.0.2.2").await, 0);
}

/// A store that lets others run first, as one on the network does; every `failing`th answer is a failure.
#[derive(Clone)]
struct Elsewhere {
    map: Arc<Map<Key, FixedWindow>>,
    asked: Arc<AtomicU64>,
    failing: u64,
    refunds: Arc<Mutex<Vec<(Key, u64)>>>,
}

impl Elsewhere {
    fn new(failing: u64) -> Self {
        Self {
            map: Arc::new(Map::new(FixedWindow::new(FIVE))),
            asked: Arc::default(),
            failing,
            refunds: Arc::default(),
        }
    }
}

impl Store for Elsewhere {
    fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer {
        let (map, key) = (Arc::clone(&self.map), key.clone());
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = asked.is_multiple_of(self.failing);
        let fails = fails && self.failing > 1;
        Answer::later(async move {
            tokio::task::yield_now().await;
            if fails {
                return Err("the connection was lost".into());
            }
            Ok(map.check_n(&key, now, cost))
        })
    }

    fn refund(&self, key: &Key, taken_at: Timestamp, cost: u64) {
        self.map.refund(key, taken_at, cost);
        self.refunds.lock().unwrap().push((key.clone(), cost));
    }
}

#[tokio::test]
async fn what_a_later_store_took_is_given_back_when_another_refuses() {
    let hand = Hand::new();
    let store = Elsewhere::new(1);
    let layer = builder(&hand)
        .policy(kept_by(store.clone()))
        .policy(Policy::new("all", Everyone).limit(Limit::in_store(FIVE, Elsewhere::new(1))))
        .build()
        .unwrap();
    for _ in 0..5 {
        assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    }
    assert_eq!(status(&layer, from("192.0.2.2")).await, 429);
    assert_eq!(
        *store.refunds.lock().unwrap(),
        [(Key::Address([192, 0, 2, 2].into(), 32), 1)]
    );
}

#[tokio::test]
async fn a_store_that_fails() {
    let hand = Hand::new();
    let layer = |on_failure| {
        RateLimitLayer::builder(on_failure)
            .clock(hand.clock())
            .policy(kept_by(Elsewhere::new(2)))
            .build()
            .unwrap()
    };
    let refusing = layer(OnFailure::Refuse);
    assert_eq!(status(&refusing, from("192.0.2.1")).await, 200);
    let response = send(&refusing, from("192.0.2.1")).await;
    assert_eq!(response.status(), 503);
    assert_eq!(header(&response, "ratelimit"), None);
    assert_eq!(
        text(response).await,
        "The rate limit cannot be checked at present. Try again later.\n"
    );
    let admitting = layer(OnFailure::Admit);
    // Every other request is not counted: five of the ten that are.
    assert_eq!(admitted(&admitting, "192.0.2.1").await, 5 + 5 + 2);
    let fallback = Limit::fixed_window(Quota::per_minute(3));
    let falling_back = layer(OnFailure::Fallback(fallback));
    assert_eq!(admitted(&falling_back, "192.0.2.1").await, 5 + 3);
    for (layer, errors, refused) in [(refusing, 1, 0), (admitting, 7, 3), (falling_back, 7, 7)] {
        let stats = *layer.stats().policy("kept").unwrap();
        assert_eq!(
            (stats.errors, stats.refused, stats.full),
            (errors, refused, 0)
        );
    }
}

#[tokio::test]
async fn a_table_that_is_full() {
    let hand = Hand::new();
    let layer = |builder: tidegate_tower::Builder| {
        let map = Map::<Key, _>::new(FixedWindow::new(FIVE)).with_max_keys(1);
        builder
            .clock(hand.clock())
            .policy(kept_by(map))
            .build()
            .unwrap()
    };
    let refusing = layer(RateLimitLayer::builder(OnFailure::Refuse));
    let admitting = layer(RateLimitLayer::builder(OnFailure::Refuse).on_full(OnFailure::Admit));
    let shared = Limit::in_store(FIVE, Limiter::new(FixedWindow::new(FIVE)));
    let falling_back = layer(RateLimitLayer::builder(OnFailure::Fallback(shared)));
    for layer in [&refusing, &admitting, &falling_back] {
        assert_eq!(admitted(layer, "192.0.2.1").await, 5);
    }
    let response = send(&refusing, from("192.0.2.2")).await;
    assert_eq!(response.status(), 503);
    assert_eq!(
        header(&response, "ratelimit-policy"),
        Some("\"kept\";q=5;w=60")
    );
    assert_eq!(header(&response, "ratelimit"), None);
    assert_eq!(admitted(&admitting, "192.0.2.2").await, 15);
    // All who find no room share one budget.
    assert_eq!(admitted(&falling_back, "192.0.2.2").await, 5);
    assert_eq!(admitted(&falling_back, "192.0.2.3").await, 0);
    let counted = |layer: &RateLimitLayer| {
        let stats = *layer.stats().policy("kept").unwrap();
        (stats.full, stats.errors, stats.refused)
    };
    assert_eq!(counted(&refusing), (1, 0, 10));
    assert_eq!(counted(&admitting), (15, 0, 10));
    assert_eq!(counted(&falling_back), (30, 0, 10 + 25));
}

/// A flood of new keys finds the table full, and takes nothing from those who are there.
#[tokio::test]
async fn a_flood_of_keys_leaves_a_budget_alone() {
    let hand = Hand::new();
    let limit = Limit::fixed_window(FIVE).with_capacity(1_000);
    let layer = builder(&hand)
        .policy(Policy::new("flood", PeerAddress::new()).limit(limit))
        .build()
        .unwrap();
    for _ in 0..3 {
        assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    }
    for key in 0..20_000_u32 {
        let address = core::net::Ipv4Addr::from_bits(0x0a00_0000 + key).to_string();
        let status = status(&layer, from(&address)).await;
        assert!(status == 200 || status == 503);
    }
    assert_eq!(admitted(&layer, "192.0.2.1").await, 2);
    assert!(layer.stats().policy("flood").unwrap().full > 10_000);
}

/// A store of which each answer waits until the test gives it.
struct Asked(Mutex<Vec<oneshot::Sender<()>>>);

struct Slow {
    asked: Arc<Asked>,
}

impl Store for Slow {
    fn check(&self, _: &Key, _: Timestamp, _: u64) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.asked.0.lock().unwrap().push(sender);
        Answer::later(async move {
            receiver.await?;
            Ok(Ok(tidegate::Allowed::new(5, 4, core::time::Duration::ZERO)))
        })
    }

    fn refund(&self, _: &Key, _: Timestamp, _: u64) {}
}

/// What was taken before a client goes away that still waits for another store comes back.
#[tokio::test]
async fn gone_while_a_store_is_asked() {
    let hand = Hand::new();
    let first = Elsewhere::new(1);
    let asked = Arc::new(Asked(Mutex::default()));
    let slow = Slow {
        asked: Arc::clone(&asked),
    };
    let layer = builder(&hand)
        .policy(kept_by(first.clone()))
        .policy(Policy::new("slow", Everyone).limit(Limit::in_store(FIVE, slow)))
        .build()
        .unwrap();
    let mut service = layer.layer(service_fn(common::echo));
    let waiting = tokio::spawn(service.call(from("192.0.2.1")));
    while asked.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(first.refunds.lock().unwrap().is_empty());
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(first.refunds.lock().unwrap().len(), 1);
    // And who waits for the answer gets it.
    let waiting = tokio::spawn(service.call(from("192.0.2.1")));
    while asked.0.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    asked.0.lock().unwrap().pop().unwrap().send(()).unwrap();
    let response = waiting.await.unwrap().unwrap();
    assert_eq!(
        header(&response, "ratelimit"),
        Some("\"kept\";r=4;t=60, \"slow\";r=4;t=0")
    );
}

/// A store that has a clock of its own: what it took is given back by that clock.
struct OwnClock {
    refunds: Arc<Mutex<Vec<Timestamp>>>,
}

const THERE: Timestamp = Timestamp::from_secs(1_700_000_000);

impl Store for OwnClock {
    fn check(&self, _: &Key, _: Timestamp, _: u64) -> Answer {
        Answer::later(async {
            let allowed = Allowed::new(5, 4, Duration::from_secs(60));
            Ok(Counted::at(Ok(allowed), THERE))
        })
    }

    fn refund(&self, _: &Key, taken_at: Timestamp, _: u64) {
        self.refunds.lock().unwrap().push(taken_at);
    }
}

#[tokio::test]
async fn a_store_is_given_back_by_its_own_clock() {
    let hand = Hand::new();
    let refunds = Arc::<Mutex<Vec<_>>>::default();
    let own = OwnClock {
        refunds: Arc::clone(&refunds),
    };
    let layer = builder(&hand)
        .policy(kept_by(own))
        .policy(Policy::new("all", Everyone).limit(Limit::in_store(FIVE, Elsewhere::new(1))))
        .build()
        .unwrap();
    for _ in 0..6 {
        status(&layer, from("192.0.2.1")).await;
    }
    assert_eq!(*refunds.lock().unwrap(), [THERE]);
}

/// A store elsewhere that is full by its own clock, and what stands in for it, by ours.
#[tokio::test]
async fn what_stands_in_is_given_back_by_its_own_clock() {
    struct Full;

    impl Store for Full {
        fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer {
            let full = Map::<Key, _>::new(FixedWindow::new(FIVE)).with_max_keys(1);
            full.check(&Key::Number(1), now).unwrap();
            let decision = full.check_n(key, now, cost);
            Answer::later(async move { Ok(Counted::at(decision, THERE)) })
        }

        fn refund(&self, _: &Key, _: Timestamp, _: u64) {
            panic!("it has taken nothing");
        }
    }

    let hand = Hand::new();
    let ten = Quota::per_minute(10);
    let fallback = Arc::new(Limiter::new(FixedWindow::new(ten)));
    let on_failure = OnFailure::Fallback(Limit::in_store(ten, Arc::clone(&fallback)));
    let layer = RateLimitLayer::builder(on_failure)
        .clock(hand.clock())
        .policy(kept_by(Full))
        .policy(Policy::new("all", Everyone).limit(Limit::in_store(FIVE, Elsewhere::new(1))))
        .build()
        .unwrap();
    assert_eq!(admitted(&layer, "192.0.2.1").await, 5);
    // What was taken for the ten that the other refused is back.
    let next = Limiter::peek(&fallback, hand.now()).unwrap();
    assert_eq!(next.remaining(), 10 - 5 - 1);
}

/// Where a request stands can be told of stores elsewhere too, if one waits for it.
#[tokio::test]
async fn standings_of_stores_elsewhere() {
    struct Slow(Map<Key, FixedWindow>);

    impl Store for Slow {
        fn check(&self, key: &Key, now: Timestamp, cost: u64) -> Answer {
            let decision = self.0.check_n(key, now, cost);
            Answer::later(async move { Ok(decision) })
        }

        fn look(&self, key: &Key, now: Timestamp, cost: u64) -> Option<Answer> {
            let decision = self.0.peek_n(key, now, cost);
            Some(Answer::later(async move {
                tokio::task::yield_now().await;
                Ok(decision)
            }))
        }

        fn refund(&self, _: &Key, _: Timestamp, _: u64) {}
    }

    let hand = Hand::new();
    let limit = Limit::in_store(FIVE, Slow(Map::new(FixedWindow::new(FIVE))));
    let layer = builder(&hand)
        .policy(Policy::new("slow", PeerAddress::new()).limit(limit))
        .policy(Policy::new("here", PeerAddress::new()).limit(Limit::fixed_window(FIVE)))
        .policy(kept_by(Elsewhere::new(1)))
        .build()
        .unwrap();
    assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
    let (request, _) = from("192.0.2.1").into_parts();
    let names: Vec<_> = layer
        .budgets(&request)
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(
        names.iter().map(|it| &**it).collect::<Vec<_>>(),
        ["slow", "here", "kept"]
    );
    let told = |standings: Vec<PolicyStanding>| -> Vec<(String, u64)> {
        let told = standings.iter().map(|standing| {
            let left = standing.decision.as_ref().unwrap().remaining();
            (standing.budget.name.to_string(), left)
        });
        told.collect()
    };
    assert_eq!(told(layer.standings(&request)), [("here".to_owned(), 3)]);
    let all = [("slow".to_owned(), 3), ("here".to_owned(), 3)];
    for _ in 0..2 {
        // Looking changes nothing.
        assert_eq!(told(layer.standings_later(&request).await), all);
    }
}
