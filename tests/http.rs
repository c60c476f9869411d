//! Header fields and problem documents: the drafts' own examples, what express-rate-limit sends, and what must never be
//! sent.
#![cfg(not(tidegate_loom))]

use core::fmt::Write as _;
use core::time::Duration;

use tidegate::http::{Buffer, Draft, FieldName, Headers, Policy, PolicyError, Problem, Standing};
use tidegate::{
    Allowed, Denied, FixedWindow, Gate, Limiter, Quota, Reason, SlidingWindow, Table, Timestamp,
    TokenBucket,
};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn quota(limit: u64, window: u64) -> Quota {
    Quota::new(limit, secs(window)).unwrap()
}

/// An admission that leaves so much, for so long.
fn left(limit: u64, remaining: u64, reset: u64) -> Result<Allowed, Denied> {
    Ok(Allowed::new(limit, remaining, secs(reset)))
}

fn lines(
    headers: Headers,
    standings: &[Standing<'_>],
    unix_now: Option<Duration>,
) -> Vec<(String, String)> {
    headers
        .fields(standings, unix_now)
        .map(|field| (field.name().to_string(), field.value().to_string()))
        .collect()
}

/// What this draft sends, as the lines of a message.
fn drafted(draft: Draft, standings: &[Standing<'_>]) -> String {
    lines(Headers::new().with_draft(draft), standings, None)
        .into_iter()
        .fold(String::new(), |text, (name, value)| {
            text + &name + ": " + &value + "\n"
        })
}

/// A window of 3 per 10 s, after so many requests at once, as express-rate-limit counts.
fn three_per_ten(requests: usize) -> Result<Allowed, Denied> {
    let limiter = Limiter::new(FixedWindow::anchored(quota(3, 10)));
    (0..requests)
        .map(|_| limiter.check(Timestamp::from_secs(1)))
        .last()
        .unwrap()
}

mod examples {
    use super::*;

    fn one(limit: u64, window: u64, remaining: u64, reset: u64) -> Standing<'static> {
        Standing::new(
            Policy::new("default", quota(limit, window)),
            left(limit, remaining, reset),
        )
    }

    /// Revision 03, sections 2.3, 3.1 to 3.3 and the two examples there.
    #[test]
    fn revision_03() {
        assert_eq!(
            drafted(Draft::V03, &[one(100, 10, 50, 50)]),
            "RateLimit-Limit: 100, 100;w=10\nRateLimit-Remaining: 50\nRateLimit-Reset: 50\n"
        );
        let four = [
            one(10, 1, 1, 1),
            one(50, 60, 40, 60),
            one(1_000, 3_600, 900, 3_600),
            one(5_000, 86_400, 4_900, 80_000),
        ];
        assert_eq!(
            drafted(Draft::V03, &four).lines().next().unwrap(),
            "RateLimit-Limit: 10, 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400"
        );
    }

    #[test]
    fn revision_06() {
        assert_eq!(
            drafted(Draft::V06, &[one(100, 10, 50, 5)]),
            "RateLimit-Policy: 100;w=10\nRateLimit-Limit: 100\nRateLimit-Remaining: 50\nRateLimit-Reset: 5\n"
        );
    }

    /// Revision 07, section 3.5.
    #[test]
    fn revision_07() {
        assert_eq!(
            drafted(Draft::V07, &[one(100, 10, 50, 5)]),
            "RateLimit-Policy: 100;w=10\nRateLimit: limit=100, remaining=50, reset=5\n"
        );
        let four = [
            one(10, 1, 9, 1),
            one(50, 60, 40, 60),
            one(1_000, 3_600, 900, 3_600),
            one(5_000, 86_400, 4_900, 80_000),
        ];
        assert_eq!(
            drafted(Draft::V07, &four),
            "RateLimit-Policy: 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400\nRateLimit: limit=10, remaining=9, reset=1\n"
        );
    }

    fn named<'a>(
        policy: Policy<'a>,
        remaining: u64,
        reset: u64,
    ) -> (Option<String>, Option<String>) {
        let standing = [Standing::new(
            policy,
            left(policy.quota().limit(), remaining, reset),
        )];
        let text = drafted(Draft::V10, &standing);
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        (value("RateLimit-Policy: "), value("RateLimit: "))
    }

    /// Revision 10, sections 3.2, 4.2, B.1.3 and B.2.1.
    #[test]
    fn revision_10() {
        let policy = |name, limit, window| Policy::new(name, quota(limit, window));
        let both = |policy_line: &str, state: &str| {
            (
                Some(policy_line.to_owned()).filter(|line| !line.is_empty()),
                Some(state.to_owned()),
            )
        };
        assert_eq!(
            named(policy("default", 100, 10), 50, 30),
            both(r#""default";q=100;w=10"#, r#""default";r=50;t=30"#)
        );
        assert_eq!(
            named(policy("basic", 100, 60), 60, 58),
            both(r#""basic";q=100;w=60"#, r#""basic";r=60;t=58"#)
        );
        assert_eq!(
            named(policy("fixedwindow", 100, 60), 99, 50),
            both(r#""fixedwindow";q=100;w=60"#, r#""fixedwindow";r=99;t=50"#)
        );
        let app = policy("default", 400_000_000, 60).with_partition_key(b"App-999");
        assert_eq!(
            named(app, 300_000_000, 60).1.unwrap(),
            r#""default";r=300000000;t=60;pk=:QXBwLTk5OQ==:"#
        );
        // All is there, and there is never more: no time at which there is.
        let trial = policy("default", 999, 60).with_partition_key(b"trial121323");
        assert_eq!(
            named(trial, 999, 0).1.unwrap(),
            r#""default";r=999;pk=:dHJpYWwxMjEzMjM=:"#
        );
        // The draft's own keys here, cHsdsRa894== and sdfjLJUOUH==, have bits set behind their last byte; these are the
        // same bytes without.
        let user = policy("peruser", 100, 60)
            .with_partition_key(&[0x70, 0x7b, 0x1d, 0xb1, 0x16, 0xbc, 0xf7]);
        assert_eq!(
            named(user, 1, 1).0.unwrap(),
            r#""peruser";q=100;w=60;pk=:cHsdsRa89w==:"#
        );
        let bytes = policy("peruser", 65_535, 10)
            .with_unit("content-bytes")
            .with_partition_key(&[0xb1, 0xd7, 0xe3, 0x2c, 0x95, 0x0e, 0x50]);
        assert_eq!(
            named(bytes, 1, 1).0.unwrap(),
            r#""peruser";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUA==:"#
        );
    }

    /// Revision 10, sections 3, 3.2 and B.3.2. The draft writes some of its lists with a space after the comma and some
    /// without; RFC 9651 serializes with one.
    #[test]
    fn revision_10_lists() {
        let pair = |(a, a_limit, a_window), (b, b_limit, b_window)| {
            let standings = [
                Standing::new(
                    Policy::new(a, quota(a_limit, a_window)),
                    left(a_limit, 1, 7),
                ),
                Standing::new(
                    Policy::new(b, quota(b_limit, b_window)),
                    left(b_limit, 100, 36_000),
                ),
            ];
            drafted(Draft::V10, &standings)
        };
        assert_eq!(
            pair(("hour", 1_000, 3_600), ("day", 5_000, 86_400)),
            concat!(
                "RateLimit-Policy: \"hour\";q=1000;w=3600, \"day\";q=5000;w=86400\n",
                "RateLimit: \"hour\";r=1;t=7, \"day\";r=100;t=36000\n",
            )
        );
        assert!(
            pair(("permin", 50, 60), ("perhr", 1_000, 3_600))
                .replace(", ", ",")
                .starts_with("RateLimit-Policy: \"permin\";q=50;w=60,\"perhr\";q=1000;w=3600\n")
        );
    }

    /// Revision 10, section 5.1.
    #[test]
    fn quota_exceeded() {
        let refused = Err(Denied::limited(100, 0, secs(1), secs(1)));
        let standings = [
            Standing::new(Policy::new("daily", Quota::per_day(100)), refused),
            Standing::new(Policy::new("hourly", Quota::per_hour(100)), left(100, 1, 1)),
            Standing::new(Policy::new("bandwidth", Quota::per_second(100)), refused),
        ];
        let problem = Problem::new(&standings).unwrap();
        assert_eq!(problem.status(), 429);
        assert_eq!(Problem::CONTENT_TYPE, "application/problem+json");
        let expected = r#"{
          "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
          "title": "Request cannot be satisfied as assigned quota has been exceeded",
          "violated-policies": ["daily","bandwidth"]
        }"#;
        assert_eq!(json(&problem.to_string()), json(expected));
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What express-rate-limit 8.7.5 sends at 3 per 10 s.
mod express {
    use super::*;

    fn standing(requests: usize) -> [Standing<'static>; 1] {
        [Standing::new(
            Policy::new("3-in-10sec", quota(3, 10)),
            three_per_ten(requests),
        )]
    }

    #[test]
    fn draft_6() {
        assert_eq!(
            drafted(Draft::V06, &standing(1)),
            "RateLimit-Policy: 3;w=10\nRateLimit-Limit: 3\nRateLimit-Remaining: 2\nRateLimit-Reset: 10\n"
        );
        assert_eq!(
            drafted(Draft::V06, &standing(4)),
            "RateLimit-Policy: 3;w=10\nRateLimit-Limit: 3\nRateLimit-Remaining: 0\nRateLimit-Reset: 10\nRetry-After: 10\n"
        );
    }

    #[test]
    fn draft_7() {
        assert_eq!(
            drafted(Draft::V07, &standing(1)),
            "RateLimit-Policy: 3;w=10\nRateLimit: limit=3, remaining=2, reset=10\n"
        );
    }

    /// It puts spaces behind its semicolons, which parsers skip and serializers do not write, and leaves the partition
    /// key out of `RateLimit`.
    #[test]
    fn draft_8() {
        use sha2::{Digest, Sha256};

        let digest = Sha256::digest(b"127.0.0.1");
        let mut key = String::new();
        for byte in &digest[..6] {
            write!(key, "{byte:02x}").unwrap();
        }
        let policy = Policy::new("3-in-10sec", quota(3, 10)).with_partition_key(key.as_bytes());
        let standings = [Standing::new(policy, three_per_ten(1))];
        assert_eq!(
            drafted(Draft::V10, &standings),
            [
                r#""3-in-10sec"; q=3; w=10; pk=:MTJjYTE3YjQ5YWYy:"#,
                r#""3-in-10sec"; r=2; t=10; pk=:MTJjYTE3YjQ5YWYy:"#,
            ]
            .iter()
            .zip(["RateLimit-Policy", "RateLimit"])
            .map(|(value, name)| format!("{name}: {}\n", value.replace("; ", ";")))
            .collect::<String>()
        );
    }

    #[test]
    fn legacy() {
        let unix_now = Duration::from_millis(1_700_000_000_250);
        let headers = Headers::new().with_legacy();
        let sent = lines(headers, &standing(1), Some(unix_now));
        let expected = [
            ("X-RateLimit-Limit", "3"),
            ("X-RateLimit-Remaining", "2"),
            // 10.25 s after the full second, rounded up.
            ("X-RateLimit-Reset", "1700000011"),
        ];
        assert_eq!(
            sent,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
        // Without a wall clock there is no such moment.
        assert_eq!(lines(headers, &standing(1), None), sent[..2]);
    }
}

#[test]
fn details() {
    let quota = Quota::new(3, Duration::from_nanos(1_500_000_001)).unwrap();
    let policy = Policy::new("a", quota).with_strategy("fixed-window");
    let standings = [Standing::new(policy, left(3, 2, 1))];
    let headers = Headers::new().with_details();
    assert_eq!(
        lines(headers, &standings, None),
        [
            ("X-RateLimit-Window-Ms".into(), "1501".into()),
            ("X-RateLimit-Strategy".into(), "fixed-window".into()),
        ]
    );
    let silent = [Standing::new(Policy::new("a", quota), left(3, 2, 1))];
    assert_eq!(lines(headers, &silent, None).len(), 1);
}

/// A token bucket gives its permits back one by one: revision 10 tells when the next one comes, the older ones when all
/// have.
#[test]
fn when_more_comes() {
    let bucket = Limiter::new(TokenBucket::new(Quota::per_minute(6)));
    let now = Timestamp::from_secs(1);
    let policy = Policy::new("smooth", Quota::per_minute(6));
    let taken = [Standing::new(policy, bucket.check_n(now, 4))];
    assert_eq!(
        drafted(Draft::V10, &taken),
        "RateLimit-Policy: \"smooth\";q=6;w=60\nRateLimit: \"smooth\";r=2;t=10\n"
    );
    assert_eq!(
        drafted(Draft::V07, &taken),
        "RateLimit-Policy: 6;w=60\nRateLimit: limit=6, remaining=2, reset=40\n"
    );
    // A refusal tells the wait, everywhere.
    let refused = [Standing::new(policy, bucket.check_n(now, 5))];
    assert!(drafted(Draft::V10, &refused).ends_with(";r=2;t=30\nRetry-After: 30\n"));
    assert!(drafted(Draft::V07, &refused).ends_with(" reset=30\nRetry-After: 30\n"));
    assert!(drafted(Draft::V03, &refused).ends_with("Reset: 30\nRetry-After: 30\n"));
}

/// Read from the headers alone: after `t` there is more than `r`, after `Retry-After` the request passes.
#[test]
fn who_waits_as_told_is_in_time() {
    fn follow(limiter: &impl Gate, quota: Quota) {
        let headers = Headers::new().with_draft(Draft::V10);
        let parameter = |state: &str, name: &str| {
            let value = state.split(name).nth(1)?;
            value.split(';').next()?.parse::<u64>().ok()
        };
        let (mut now, mut random, mut refusals) = (1_234_567_890_123, 1_u64, 0);
        for _ in 0..2_000 {
            // Knuth's MMIX.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            now += (random >> 33) % 700_000_000;
            let cost = 1 + (random >> 13) % 4;
            let decision = limiter.check_n(Timestamp::from_nanos(now), cost);
            let standings = [Standing::new(Policy::new("a", quota), decision)];
            let sent = lines(headers, &standings, None);
            let value = |name: &str| {
                let found = sent.iter().find(|(sent, _)| sent == name);
                found.map(|(_, value)| value.clone())
            };
            let after = |secs: u64| Timestamp::from_nanos(now + secs * 1_000_000_000);
            let state = value("RateLimit").unwrap();
            let left = parameter(&state, ";r=").unwrap();
            let more_after = parameter(&state, ";t=").unwrap();
            assert!(
                limiter.peek_n(after(more_after), left + 1).is_ok(),
                "{state}"
            );
            if let Some(retry) = value("Retry-After") {
                let retry = retry.parse().unwrap();
                assert!(limiter.peek_n(after(retry), cost).is_ok());
                assert!(retry == 1 || limiter.peek_n(after(retry - 1), cost).is_err());
                refusals += 1;
            }
        }
        assert!((200..1_800).contains(&refusals), "{refusals} refused");
    }

    let quota = quota(7, 3);
    follow(&Limiter::new(TokenBucket::new(quota)), quota);
    follow(&Limiter::new(TokenBucket::narrow(quota)), quota);
    follow(&Limiter::new(FixedWindow::new(quota)), quota);
    follow(&Limiter::new(FixedWindow::narrow_anchored(quota)), quota);
    follow(&Limiter::new(SlidingWindow::new(quota)), quota);
}

#[test]
fn retry_after_is_whole_late_enough_and_only_on_refusals() {
    let policy = Policy::new("a", Quota::per_second(5));
    let retry = |decisions: &[Result<Allowed, Denied>]| {
        let standings: Vec<_> = decisions
            .iter()
            .map(|&decision| Standing::new(policy, decision))
            .collect();
        lines(Headers::new(), &standings, None)
            .into_iter()
            .map(|(name, value)| {
                assert_eq!(name, "Retry-After");
                value
            })
            .collect::<Vec<_>>()
    };
    let wait = |nanos| {
        let wait = Duration::from_nanos(nanos);
        Err(Denied::limited(5, 0, wait, wait))
    };
    let never = Err(Denied::too_costly(5, 5, Duration::ZERO));
    assert_eq!(retry(&[]), [""; 0]);
    assert_eq!(retry(&[left(5, 0, 9)]), [""; 0]);
    assert_eq!(retry(&[wait(0)]), ["1"]);
    assert_eq!(retry(&[wait(1)]), ["1"]);
    assert_eq!(retry(&[wait(1_000_000_000)]), ["1"]);
    assert_eq!(retry(&[wait(1_000_000_001)]), ["2"]);
    assert_eq!(retry(&[wait(1), left(5, 0, 9), wait(2_000_000_001)]), ["3"]);
    assert_eq!(retry(&[never]), [""; 0]);
    assert_eq!(retry(&[wait(1), never]), [""; 0]);
}

/// A client that nobody could count has a budget that nobody knows.
#[test]
fn a_full_table_tells_nothing_of_the_client() {
    let table = Table::<FixedWindow, 1>::new(FixedWindow::anchored(Quota::per_minute(1)));
    let now = Timestamp::from_secs(1);
    let full = (0..100)
        .map(|key| table.check(&key, now))
        .find(|decision| {
            decision
                .as_ref()
                .is_err_and(|denied| denied.reason() == Reason::TableFull)
        })
        .expect("a line of four slots is full soon");
    let crowd = Standing::new(Policy::new("each", Quota::per_minute(1)), full);
    assert_eq!(drafted(Draft::V03, &[crowd]), "");
    assert_eq!(drafted(Draft::V06, &[crowd]), "RateLimit-Policy: 1;w=60\n");
    assert_eq!(drafted(Draft::V07, &[crowd]), "RateLimit-Policy: 1;w=60\n");
    assert_eq!(
        drafted(Draft::V10, &[crowd]),
        "RateLimit-Policy: \"each\";q=1;w=60\n"
    );
    let all = Headers::new().with_legacy().with_details();
    assert_eq!(lines(all, &[crowd], Some(secs(1))), []);
    let only = [crowd];
    let problem = Problem::new(&only).unwrap();
    assert_eq!(problem.status(), 503);
    assert_eq!(
        json(&problem.to_string()),
        serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "title": "Request cannot be satisfied due to temporary server capacity constraints",
            "violated-policies": ["each"],
        })
    );
    // Beside another policy, that one is told; and who has exceeded a quota is told so, whatever else is the matter.
    let global = Standing::new(
        Policy::new("all", quota(3, 10)),
        Err(Denied::limited(3, 0, secs(4), secs(4))),
    );
    let both = [crowd, global];
    assert_eq!(
        drafted(Draft::V10, &both),
        "RateLimit-Policy: \"each\";q=1;w=60, \"all\";q=3;w=10\nRateLimit: \"all\";r=0;t=4\n"
    );
    assert_eq!(
        drafted(Draft::V07, &both),
        "RateLimit-Policy: 1;w=60, 3;w=10\nRateLimit: limit=3, remaining=0, reset=4\n"
    );
    let problem = Problem::new(&both).unwrap();
    assert_eq!(problem.status(), 429);
    assert_eq!(
        json(&problem.to_string())["violated-policies"],
        serde_json::json!(["all"])
    );
}

#[test]
fn the_one_that_hurts_most_is_told() {
    let told = |decisions: &[Result<Allowed, Denied>]| {
        let standings: Vec<_> = decisions
            .iter()
            .map(|&decision| Standing::new(Policy::new("a", Quota::per_second(1)), decision))
            .collect();
        lines(Headers::new().with_legacy(), &standings, None)[0]
            .1
            .clone()
    };
    let wait = |limit, wait| Err(Denied::limited(limit, 1, secs(wait), secs(99)));
    let never = Err(Denied::too_costly(8, 8, Duration::ZERO));
    assert_eq!(told(&[left(1, 5, 9), left(2, 4, 1), left(3, 4, 1)]), "2");
    assert_eq!(told(&[left(1, 4, 1), left(2, 4, 2)]), "2");
    assert_eq!(told(&[left(1, 0, 99), wait(2, 3), wait(3, 2)]), "2");
    assert_eq!(told(&[wait(2, 3), never, left(1, 0, 99)]), "8");
}

#[test]
fn no_standing_no_fields() {
    let everything = Headers::new().with_legacy().with_details();
    for draft in [Draft::V03, Draft::V06, Draft::V07, Draft::V10] {
        assert_eq!(
            everything
                .with_draft(draft)
                .fields(&[], Some(secs(1)))
                .count(),
            0
        );
    }
    assert!(Problem::new(&[]).is_none());
    let admitted = [Standing::new(Policy::new("a", quota(1, 1)), left(1, 0, 1))];
    assert!(Problem::new(&admitted).is_none());
}

#[test]
fn numbers_have_at_most_fifteen_digits() {
    let quota = Quota::new(u64::MAX, Duration::from_nanos(u64::MAX)).unwrap();
    let policy = Policy::new("a", quota);
    let standings = [Standing::new(
        policy,
        Ok(Allowed::new(u64::MAX, u64::MAX - 1, Duration::MAX)),
    )];
    let most = "999999999999999";
    // 584 years, the longest that a decision can tell.
    let age = "18446744074";
    assert_eq!(
        drafted(Draft::V10, &standings),
        format!("RateLimit-Policy: \"a\";q={most};w={age}\nRateLimit: \"a\";r={most};t={age}\n")
    );
    assert_eq!(
        drafted(Draft::V03, &standings),
        format!(
            "RateLimit-Limit: {most}, {most};w={age}\nRateLimit-Remaining: {most}\nRateLimit-Reset: {age}\n"
        )
    );
    let legacy = Headers::new().with_legacy();
    for (name, value) in lines(legacy, &standings, Some(Duration::MAX)) {
        assert_eq!(value, most, "{name}");
    }
}

#[test]
fn names_are_escaped() {
    let name = r#"say "\o/" \"#;
    let refused = Err(Denied::limited(1, 0, secs(1), secs(1)));
    let policy = Policy::new(name, quota(1, 1)).with_unit(r#"a"b"#);
    let standings = [Standing::new(policy, refused)];
    assert_eq!(
        drafted(Draft::V10, &standings),
        concat!(
            r#"RateLimit-Policy: "say \"\\o/\" \\";q=1;qu="a\"b";w=1"#,
            "\n",
            r#"RateLimit: "say \"\\o/\" \\";r=0;t=1"#,
            "\nRetry-After: 1\n",
        )
    );
    let body = json(&Problem::new(&standings).unwrap().to_string());
    assert_eq!(body["violated-policies"], serde_json::json!([name]));
}

/// Whatever could end a header line, or is not to be in one, is refused where a text comes in.
#[test]
fn nothing_but_printable_ascii_gets_in() {
    let quota = Quota::per_second(1);
    let good = Policy::new("good", quota);
    let all = (0..=0x10ffff).filter_map(char::from_u32);
    for c in all {
        let printable = matches!(c, ' '..='~');
        let text = format!("a{c}b");
        let expected = if printable {
            None
        } else {
            Some(PolicyError::NotPrintable)
        };
        assert_eq!(Policy::try_new(&text, quota).err(), expected, "{c:?}");
        assert_eq!(good.try_with_unit(&text).err(), expected, "{c:?}");
        assert_eq!(good.try_with_strategy(&text).err(), expected, "{c:?}");
    }
    assert_eq!(Policy::try_new("", quota), Err(PolicyError::Empty));
    assert_eq!(good.try_with_unit(""), Err(PolicyError::Empty));
    assert_eq!(good.try_with_strategy(""), Err(PolicyError::Empty));
    let message = PolicyError::NotPrintable.to_string();
    assert!(
        message.contains("printable ASCII (0x20 to 0x7e)"),
        "{message}"
    );
}

#[test]
#[should_panic(expected = "printable ASCII")]
fn new_panics_on_a_forged_name() {
    Policy::new("a\r\nb: c", Quota::per_second(1));
}

#[test]
fn names_of_fields() {
    let mut seen = Vec::new();
    for name in FieldName::ALL {
        assert_eq!(name.as_lower_str(), name.as_str().to_ascii_lowercase());
        assert_eq!(name.to_string(), name.as_str());
        assert!(!seen.contains(&name.as_str()));
        seen.push(name.as_str());
    }
}

#[test]
fn a_buffer_holds_what_fits() {
    let mut buffer = Buffer::<5>::new();
    assert_eq!(buffer.as_str(), "");
    assert_eq!(buffer.render("12345"), Ok("12345"));
    assert!(buffer.render("123456").is_err());
    assert_eq!(buffer.as_str(), "");
    assert!(buffer.write_str("123").is_ok());
    assert!(buffer.write_str("456").is_err());
    assert_eq!(buffer.as_bytes(), b"123");
    assert!(buffer.write_str("45").is_ok());
    assert_eq!(format!("{buffer:?}"), "Buffer(\"12345\")");
    buffer.clear();
    assert_eq!(Buffer::<0>::default().render(""), Ok(""));
}
