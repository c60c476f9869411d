//! Counters and events.
#![cfg(all(feature = "metrics", feature = "tracing"))]
#![allow(clippy::std_instead_of_alloc, reason = "tests have std")]

mod common;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{Hand, builder, from, status};
use metrics::{Counter, Gauge, Histogram, KeyName, Metadata, Recorder, SharedString, Unit};
use tidegate::Quota;
use tidegate_tower::{Limit, PeerAddress, Policy};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

#[derive(Default)]
struct Recorded(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &Metadata<'_>) -> Counter {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = labels.fold(key.name().to_owned(), |name, label| name + &label);
        let mut counters = self.0.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(name).or_default()))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
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
