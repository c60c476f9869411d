//! Counters and events.
#![cfg(all(feature = "metrics", feature = "tracing"))]
#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{Hand, builder, from, status, with};
use metrics::{Counter, Gauge, Histogram, KeyName, Metadata, Recorder, SharedString, Unit};
use tidegate::{FixedWindow, Limiter, Quota};
use tidegate_tower::{Limit, PeerAddress, Policy, describe_metrics};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// Counters, and gauges as bits, by name and labels; and which metrics were described.
#[derive(Default)]
struct Recorded(
    Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    Mutex<BTreeMap<String, (Option<Unit>, String)>>,
);

impl Recorded {
    fn cell(&self, key: &metrics::Key) -> Arc<AtomicU64> {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = labels.fold(key.name().to_owned(), |name, label| name + &label);
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>, description: SharedString) {
        let described = (unit, description.into_owned());
        let old = self
            .1
            .lock()
            .unwrap()
            .insert(name.as_str().to_owned(), described);
        assert_eq!(old, None);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&name, unit, description);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&name, unit, description);
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, _: &metrics::Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Counts events.
#[derive(Default)]
struct Told(Arc<AtomicUsize>);

impl Subscriber for Told {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Every metric that is written is described, and the gauges tell what is live.
#[test]
fn gauges_and_descriptions() {
    let quota = Quota::per_minute(5);
    let hand = Hand::new();
    let layer = builder(&hand)
        .tiers(["gold"], |request| {
            request.headers.contains_key("gold").then(|| "gold".into())
        })
        .policy(
            Policy::new("p", PeerAddress::new())
                .limit(Limit::fixed_window(quota).with_capacity(100))
                .tier("gold", Limit::sliding_log(quota).with_capacity(10))
                .candidate(Limit::token_bucket(quota).with_capacity(50)),
        )
        .policy(
            Policy::new("one", PeerAddress::new()).limit(Limit::in_store(
                quota,
                Limiter::new(FixedWindow::new(quota)),
            )),
        )
        .build()
        .unwrap();
    let recorded = Recorded::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let requests = [
        from("192.0.2.1"),
        from("192.0.2.1"),
        from("192.0.2.2"),
        with(from("192.0.2.2"), "gold", b""),
    ];
    metrics::with_local_recorder(&recorded, || {
        describe_metrics();
        for request in requests {
            assert_eq!(runtime.block_on(status(&layer, request)), 200);
        }
        layer.publish_occupancy();
    });
    let gauge = |name: &str, tier: &str, candidate: &str| {
        let name = format!("{name} policy=p tier={tier} candidate={candidate}");
        f64::from_bits(recorded.0.lock().unwrap()[&name].load(Ordering::Relaxed))
    };
    for (tier, candidate, live, capacity) in [
        ("", "false", 2.0, 100.0),
        ("gold", "false", 1.0, 10.0),
        ("", "true", 2.0, 50.0),
    ] {
        assert_eq!(gauge("tidegate_live_keys", tier, candidate), live);
        assert!(gauge("tidegate_capacity_keys", tier, candidate) >= capacity);
    }
    let described = recorded.1.lock().unwrap();
    for written in recorded.0.lock().unwrap().keys() {
        let name = written.split(' ').next().unwrap();
        assert_eq!(described[name].0, Some(Unit::Count), "{name}");
        // A limiter has no keys.
        assert!(!written.contains("keys policy=one"), "{written}");
    }
    assert_eq!(described.len(), 13);

    // What was used has come back.
    hand.advance(common::secs(61));
    let live = layer.occupancy();
    let live: Vec<_> = live
        .iter()
        .map(|limit| limit.occupancy.live_keys())
        .collect();
    assert_eq!(live, [0, 0, 0]);
}

/// Thousands of refusals are counted, and tell of themselves a few times.
#[test]
fn counters_and_events() {
    let layer = builder(&Hand::new())
        .policy(
            Policy::new("p", PeerAddress::new()).limit(Limit::fixed_window(Quota::per_minute(5))),
        )
        .build()
        .unwrap();
    let recorded = Recorded::default();
    let told = Told::default();
    let events = Arc::clone(&told.0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    tracing::subscriber::with_default(told, || {
        metrics::with_local_recorder(&recorded, || {
            runtime.block_on(async {
                for _ in 0..2_000 {
                    status(&layer, from("192.0.2.1")).await;
                }
            });
        });
    });
    let counters = recorded.0.lock().unwrap();
    let count = |name: &str| counters[&format!("{name} policy=p")].load(Ordering::Relaxed);
    assert_eq!(count("tidegate_admitted_total"), 5);
    assert_eq!(count("tidegate_refused_total"), 1_995);
    // At least what fits at once; how many more depends on how long the loop takes.
    let events = events.load(Ordering::Relaxed);
    assert!((10..1_995).contains(&events), "{events}");
}
