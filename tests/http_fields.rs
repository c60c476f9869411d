//! Whatever is decided under whatever policy: parsers of structured fields and of JSON read what was meant.
#![cfg(not(tidegate_loom))]

use core::time::Duration;

use proptest::prelude::*;
use sfv::{BareItem, Dictionary, FieldType, Item, List, ListEntry, Parser};
use tidegate::http::{Buffer, Draft, FieldName, Headers, Policy, PolicyError, Problem, Standing};
use tidegate::{Allowed, Denied, Quota, Reason};

const MOST: u64 = 999_999_999_999_999;
const DRAFTS: [Draft; 4] = [Draft::V03, Draft::V06, Draft::V07, Draft::V10];

/// The texts and numbers that a standing is made of.
#[derive(Clone, Debug)]
struct Given {
    name: String,
    unit: Option<String>,
    key: Option<Vec<u8>>,
    quota: Quota,
    decision: Result<Allowed, Denied>,
}

impl Given {
    fn standing(&self) -> Standing<'_> {
        let mut policy = Policy::new(&self.name, self.quota);
        if let Some(unit) = &self.unit {
            policy = policy.with_unit(unit).with_strategy(unit);
        }
        if let Some(key) = &self.key {
            policy = policy.with_partition_key(key);
        }
        Standing::new(policy, self.decision)
    }

    fn is_refused(&self) -> bool {
        self.decision.is_err()
    }
}

/// Numbers of every size.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(MOST),
        Just(MOST + 1),
        Just(u64::MAX),
        0..10_u64,
        (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift),
    ]
}

/// Whole seconds, and a little more or less.
fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        number().prop_map(Duration::from_nanos),
        (0..1_000_000_u64, -1..=1_i64).prop_map(|(secs, off)| Duration::from_nanos(
            (secs * 1_000_000_000).saturating_add_signed(off)
        )),
        number().prop_map(Duration::from_secs),
    ]
}

fn decision() -> impl Strategy<Value = Result<Allowed, Denied>> {
    (0..4_u8, number(), number(), time(), time()).prop_map(
        |(kind, limit, remaining, retry, reset)| match kind {
            0 => Err(Denied::limited(limit, remaining, retry, reset)),
            1 => Err(Denied::too_costly(limit, remaining, reset)),
            _ => Ok(Allowed::new(limit, remaining, reset)),
        },
    )
}

fn given() -> impl Strategy<Value = Given> {
    let quota = (number(), number()).prop_filter_map("a quota of nothing", |(limit, period)| {
        Quota::new(limit, Duration::from_nanos(period)).ok()
    });
    let text = prop_oneof!["[ -~]{1,20}", r#"["\\]{1,6}"#];
    let key = prop::collection::vec(any::<u8>(), 0..20);
    (
        text,
        prop::option::of("[ -~]{1,9}"),
        prop::option::of(key),
        quota,
        decision(),
    )
        .prop_map(|(name, unit, key, quota, decision)| Given {
            name,
            unit,
            key,
            quota,
            decision,
        })
}

fn value(draft: Draft, standings: &[Standing<'_>], name: FieldName) -> Option<String> {
    Headers::new()
        .with_draft(draft)
        .fields(standings, None)
        .find(|field| field.name() == name)
        .map(|field| field.value().to_string())
}

/// Parses, and shows that a serializer would have written it in the same way.
fn parse<T: FieldType>(text: &str) -> T {
    let parsed: T = Parser::new(text)
        .parse()
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(parsed.serialize().into().as_deref(), Some(text));
    parsed
}

fn items(list: List) -> Vec<Item> {
    list.into_iter()
        .map(|entry| match entry {
            ListEntry::Item(item) => item,
            ListEntry::InnerList(_) => panic!("an inner list"),
        })
        .collect()
}

fn integer(item: &BareItem) -> u64 {
    let integer = item.as_integer().expect("an integer");
    u64::try_from(i64::from(integer)).expect("not negative")
}

/// What a field can carry of this time: not less, and not a second more.
fn up(time: Duration) -> u64 {
    let secs = time.as_nanos().div_ceil(1_000_000_000);
    secs.min(MOST.into()) as u64
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(debug_assertions) {
            1_000
        } else {
            20_000
        },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn revision_10_reads_back(given in prop::collection::vec(given(), 1..4)) {
        let standings: Vec<_> = given.iter().map(Given::standing).collect();
        let policies = value(Draft::V10, &standings, FieldName::RateLimitPolicy).unwrap();
        let states = value(Draft::V10, &standings, FieldName::RateLimit).unwrap();
        let (policies, states) = (items(parse(&policies)), items(parse(&states)));
        prop_assert_eq!(policies.len(), given.len());
        prop_assert_eq!(states.len(), given.len());
        for ((given, policy), state) in given.iter().zip(&policies).zip(&states) {
            let text = |item: &BareItem| item.as_string().unwrap().as_str().to_owned();
            let key = |item: &Item| {
                let key = item.params.get("pk")?;
                Some(key.as_byte_sequence().unwrap().to_vec())
            };
            prop_assert_eq!(&text(&policy.bare_item), &given.name);
            prop_assert_eq!(&text(&state.bare_item), &given.name);
            prop_assert_eq!(&key(policy), &given.key);
            prop_assert_eq!(&key(state), &given.key);
            prop_assert_eq!(&policy.params.get("qu").map(text), &given.unit);
            prop_assert_eq!(integer(&policy.params["q"]), given.quota.limit().min(MOST));
            prop_assert_eq!(integer(&policy.params["w"]), up(given.quota.period()));
            let (remaining, next) = match &given.decision {
                Ok(allowed) => (allowed.remaining(), allowed.next_after()),
                Err(denied) => (
                    denied.remaining(),
                    denied.retry_after().or_else(|| denied.next_after()),
                ),
            };
            prop_assert_eq!(integer(&state.params["r"]), remaining.min(MOST));
            prop_assert_eq!(state.params.get("t").map(integer), next.map(up));
        }
    }

    #[test]
    fn the_older_revisions_read_back(given in prop::collection::vec(given(), 1..4)) {
        let standings: Vec<_> = given.iter().map(Given::standing).collect();
        let field = |draft, name| value(draft, &standings, name).unwrap();

        let policies = field(Draft::V06, FieldName::RateLimitPolicy);
        prop_assert_eq!(&policies, &field(Draft::V07, FieldName::RateLimitPolicy));
        for (given, item) in given.iter().zip(items(parse(&policies))) {
            prop_assert_eq!(integer(&item.bare_item), given.quota.limit().min(MOST));
            prop_assert_eq!(integer(&item.params["w"]), up(given.quota.period()));
        }

        let state: Dictionary = parse(&field(Draft::V07, FieldName::RateLimit));
        let entry = |key: &str| match &state[key] {
            ListEntry::Item(item) => integer(&item.bare_item),
            ListEntry::InnerList(_) => panic!("an inner list"),
        };
        let number = |draft, name| integer(&parse::<Item>(&field(draft, name)).bare_item);
        let told = [entry("limit"), entry("remaining"), entry("reset")];
        let names = [
            FieldName::RateLimitLimit,
            FieldName::RateLimitRemaining,
            FieldName::RateLimitReset,
        ];
        prop_assert_eq!(told, names.map(|name| number(Draft::V06, name)));
        prop_assert_eq!(told[1], number(Draft::V03, FieldName::RateLimitRemaining));
        prop_assert_eq!(told[2], number(Draft::V03, FieldName::RateLimitReset));
        let limit = field(Draft::V03, FieldName::RateLimitLimit);
        prop_assert_eq!(limit, format!("{}, {policies}", told[0]));

        // It is the standing of one of them, and one that refused if any did.
        let any_refused = given.iter().any(Given::is_refused);
        let found = given.iter().any(|given| {
            let (limit, remaining, reset) = match &given.decision {
                Ok(allowed) => (allowed.limit(), allowed.remaining(), allowed.reset_after()),
                Err(denied) => (
                    denied.limit(),
                    denied.remaining(),
                    denied.retry_after().unwrap_or(denied.reset_after()),
                ),
            };
            given.is_refused() == any_refused
                && told == [limit.min(MOST), remaining.min(MOST), up(reset)]
        });
        prop_assert!(found, "{:?} is nobody's", told);
    }

    /// Late enough, by less than a second; not before any refusing policy's own `t` or `reset`; and only if waiting
    /// helps.
    #[test]
    fn retry_after_is_the_longest_wait(given in prop::collection::vec(given(), 0..4)) {
        let standings: Vec<_> = given.iter().map(Given::standing).collect();
        let waits: Vec<_> = given
            .iter()
            .filter_map(|given| given.decision.as_ref().err())
            .map(Denied::retry_after)
            .collect();
        for draft in DRAFTS {
            let sent = value(draft, &standings, FieldName::RetryAfter);
            if waits.is_empty() || waits.contains(&None) {
                prop_assert_eq!(sent, None);
                continue;
            }
            let sent: u64 = sent.unwrap().parse().unwrap();
            let longest = waits.iter().flatten().max().unwrap();
            let sent_time = Duration::from_secs(sent);
            prop_assert!(sent >= 1);
            prop_assert!(sent_time >= *longest);
            prop_assert!(sent == 1 || sent_time < *longest + Duration::from_secs(1));
            let resets = match draft {
                Draft::V10 => items(parse(&value(draft, &standings, FieldName::RateLimit).unwrap()))
                    .iter()
                    .zip(&given)
                    .filter(|(_, given)| given.is_refused())
                    .map(|(item, _)| integer(&item.params["t"]))
                    .max(),
                Draft::V07 => value(draft, &standings, FieldName::RateLimit)
                    .and_then(|state| state.rsplit('=').next()?.parse().ok()),
                _ => value(draft, &standings, FieldName::RateLimitReset)
                    .and_then(|reset| reset.parse().ok()),
            };
            // The same moment, but for a wait of nothing.
            prop_assert_eq!(resets.unwrap().max(1), sent);
        }
    }

    /// In seconds since 1970, never before the moment it stands for.
    #[test]
    fn legacy_reset_is_a_moment(given in given(), unix_now in time()) {
        let standings = [given.standing()];
        let text = Headers::new()
            .with_legacy()
            .fields(&standings, Some(unix_now))
            .find(|field| field.name() == FieldName::XRateLimitReset)
            .unwrap()
            .value()
            .to_string();
        let reset = match &given.decision {
            Ok(allowed) => allowed.reset_after(),
            Err(denied) => denied.retry_after().unwrap_or(denied.reset_after()),
        };
        prop_assert_eq!(text.parse::<u64>().unwrap(), up(unix_now.saturating_add(reset)));
    }

    #[test]
    fn problems_read_back(given in prop::collection::vec(given(), 1..4)) {
        let standings: Vec<_> = given.iter().map(Given::standing).collect();
        let names: Vec<_> = given
            .iter()
            .filter(|given| given.is_refused())
            .map(|given| given.name.as_str())
            .collect();
        match Problem::new(&standings) {
            None => prop_assert!(names.is_empty()),
            Some(problem) => {
                let body: serde_json::Value = serde_json::from_str(&problem.to_string()).unwrap();
                prop_assert_eq!(&body["violated-policies"], &serde_json::json!(names));
                prop_assert_eq!(body.as_object().unwrap().len(), 3);
                prop_assert_eq!(problem.status(), 429);
            }
        }
    }

    /// No header line is ever broken, and one policy's values fit where their docs say they do.
    #[test]
    fn values_are_printable_and_bounded(given in given(), unix_now in time()) {
        let standings = [given.standing()];
        let room = 100
            + 2 * (given.name.len() + given.unit.as_ref().map_or(0, String::len))
            + given.key.as_ref().map_or(0, |key| key.len().div_ceil(3) * 4);
        for draft in DRAFTS {
            let headers = Headers::new().with_draft(draft).with_legacy().with_details();
            for field in headers.fields(&standings, Some(unix_now)) {
                let mut buffer = Buffer::<300>::new();
                let value = buffer.render(field.value()).unwrap();
                prop_assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')));
                prop_assert!(!value.is_empty());
                prop_assert!(value.len() <= room, "{} of {room}: {value}", value.len());
            }
        }
    }

    /// Any text at all: refused, or sent as it is.
    #[test]
    fn any_name(name in prop_oneof![any::<String>(), "[ -~]{0,20}"]) {
        let quota = Quota::per_second(1);
        let printable = name.chars().all(|c| matches!(c, ' '..='~'));
        match Policy::try_new(&name, quota) {
            Err(PolicyError::Empty) => prop_assert!(name.is_empty()),
            Err(_) => prop_assert!(!printable),
            Ok(policy) => {
                prop_assert!(printable);
                let denied = Denied::too_costly(1, 1, Duration::ZERO);
                prop_assert_eq!(denied.reason(), Reason::TooCostly);
                let standings = [Standing::new(policy, Err(denied))];
                let policies = value(Draft::V10, &standings, FieldName::RateLimitPolicy).unwrap();
                let item = items(parse(&policies)).remove(0);
                prop_assert_eq!(item.bare_item.as_string().unwrap().as_str(), &name);
            }
        }
    }
}
