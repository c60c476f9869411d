//! What the recorder of `metrics` is told.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::stats::Stats;

const UP: &str = "tidegate_redis_up";
const DECISIONS: &str = "tidegate_redis_decisions_total";
const ERRORS: &str = "tidegate_redis_errors_total";
const EVENTS: &str = "tidegate_redis_events_total";

/// Tells the recorder of `metrics` the unit and the description of each metric of this crate, once it is installed.
pub fn describe_metrics() {
    describe_gauge!(
        UP,
        Unit::Count,
        "Whether the Redis server is taken to be alive"
    );
    describe_counter!(
        DECISIONS,
        Unit::Count,
        "Decisions, by result and by who made them"
    );
    describe_counter!(
        ERRORS,
        Unit::Count,
        "Requests that the Redis server did not decide on, by kind"
    );
    describe_counter!(
        EVENTS,
        Unit::Count,
        "What has happened to the connection and the data"
    );
}

impl Stats {
    /// Tells the recorder of `metrics` how things stand: before it is read, or every few seconds.
    ///
    /// | metric | labels |
    /// |---|---|
    /// | `tidegate_redis_up` | |
    /// | `tidegate_redis_decisions_total` | `result`: `allowed`, `refused`; `by`: `server`, `memory` of refusals, `lease`, `on-error` |
    /// | `tidegate_redis_errors_total` | `kind`: [`ErrorKind::as_str`](crate::ErrorKind::as_str) |
    /// | `tidegate_redis_events_total` | `event`: `connected`, `script-sent`, `state-lost`, `refund-lost` |
    ///
    /// They tell of one store: of several in a process, publish one.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn core::error::Error>> {
    /// let store = tidegate_redis::RedisStore::builder("redis://127.0.0.1/")?.connect_later();
    /// tidegate_redis::describe_metrics();
    /// loop {
    ///     store.stats().publish();
    ///     tokio::time::sleep(core::time::Duration::from_secs(5)).await;
    /// }
    /// # }
    /// ```
    pub fn publish(&self) {
        gauge!(UP).set(f64::from(u8::from(self.is_up)));
        for (result, by, count) in [
            ("allowed", "server", self.allowed),
            ("refused", "server", self.refused),
            ("refused", "memory", self.refused_locally),
            ("allowed", "lease", self.leased),
            ("allowed", "on-error", self.admitted_instead),
            ("refused", "on-error", self.refused_instead),
        ] {
            counter!(DECISIONS, "result" => result, "by" => by).absolute(count);
        }
        for (kind, count) in self.all_errors() {
            counter!(ERRORS, "kind" => kind.as_str()).absolute(count);
        }
        for (event, count) in [
            ("connected", self.connections),
            ("script-sent", self.scripts_sent),
            ("state-lost", self.state_lost),
            ("refund-lost", self.refunds_lost),
        ] {
            counter!(EVENTS, "event" => event).absolute(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::{Arc, Mutex};

    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString};

    use super::*;
    use crate::error::ErrorKind;
    use crate::stats::Counts;

    /// Values, by name and labels; and the names that were described.
    #[derive(Default)]
    struct Recorded {
        values: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
        described: Mutex<BTreeSet<String>>,
    }

    impl Recorded {
        fn cell(&self, key: &Key) -> Arc<AtomicU64> {
            let labels = key
                .labels()
                .map(|it| format!(" {}={}", it.key(), it.value()));
            let name = labels.fold(key.name().to_owned(), |name, label| name + &label);
            Arc::clone(self.values.lock().unwrap().entry(name).or_default())
        }

        fn describe(&self, name: &KeyName) {
            self.described
                .lock()
                .unwrap()
                .insert(name.as_str().to_owned());
        }
    }

    impl Recorder for Recorded {
        fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.describe(&name);
        }

        fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.describe(&name);
        }

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.cell(key))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.cell(key))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn everything_that_is_counted_is_published_and_described() {
        let counts = Counts::default();
        for (count, n) in [
            (&counts.allowed, 2),
            (&counts.refused, 3),
            (&counts.refused_locally, 4),
            (&counts.leased, 5),
            (&counts.admitted_instead, 6),
            (&counts.refused_instead, 7),
            (&counts.refunds_lost, 8),
            (&counts.connections, 9),
            (&counts.scripts_sent, 10),
            (&counts.state_lost, 11),
        ] {
            count.add(n);
        }
        for (place, kind) in ErrorKind::ALL.into_iter().enumerate() {
            (0..=place).for_each(|_| counts.error(kind));
        }
        let recorded = Recorded::default();
        metrics::with_local_recorder(&recorded, || {
            describe_metrics();
            // Twice: what it was, not what is new.
            counts.stats(true).publish();
            counts.stats(true).publish();
        });
        let values = recorded.values.lock().unwrap();
        let value = |name: &str| values[name].load(Ordering::Relaxed);
        assert_eq!(f64::from_bits(value("tidegate_redis_up")), 1.0);
        for (name, n) in [
            ("decisions_total result=allowed by=server", 2),
            ("decisions_total result=refused by=server", 3),
            ("decisions_total result=refused by=memory", 4),
            ("decisions_total result=allowed by=lease", 5),
            ("decisions_total result=allowed by=on-error", 6),
            ("decisions_total result=refused by=on-error", 7),
            ("events_total event=refund-lost", 8),
            ("events_total event=connected", 9),
            ("events_total event=script-sent", 10),
            ("events_total event=state-lost", 11),
            ("errors_total kind=deadline", 1),
            ("errors_total kind=same-key", 9),
        ] {
            assert_eq!(value(&format!("tidegate_redis_{name}")), n, "{name}");
        }
        assert_eq!(values.len(), 1 + 6 + 4 + ErrorKind::ALL.len());
        let names: BTreeSet<String> = values
            .keys()
            .map(|name| name.split(' ').next().unwrap().to_owned())
            .collect();
        assert_eq!(*recorded.described.lock().unwrap(), names);
    }
}
