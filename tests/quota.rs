//! The text form of a quota.

use core::time::Duration;

use proptest::prelude::*;
use tidegate::{ParseQuotaErrorKind as Kind, Quota, QuotaError};

fn quota(limit: u64, nanos: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(nanos)).unwrap()
}

const S: u64 = 1_000_000_000;

#[test]
fn reads_what_people_write() {
    for (text, limit, nanos) in [
        ("100/s", 100, S),
        ("5/min", 5, 60 * S),
        ("3/10s", 3, 10 * S),
        ("10r/s", 10, S),
        ("30r/m", 30, 60 * S),
        ("5 per 10 minutes", 5, 600 * S),
        ("1000/day", 1_000, 86_400 * S),
        ("1_000/Day", 1_000, 86_400 * S),
        (" 7 requests per 2 hours ", 7, 7_200 * S),
        ("5 PER minute", 5, 60 * S),
        ("1/250ms", 1, S / 4),
        ("9/3µs", 9, 3_000),
        ("9 / 3 us", 9, 3_000),
        ("1/ns", 1, 1),
        (
            "18446744073709551615/18446744073709551615ns",
            u64::MAX,
            u64::MAX,
        ),
    ] {
        assert_eq!(text.parse(), Ok(quota(limit, nanos)), "{text}");
    }
}

#[test]
fn says_what_is_wrong_and_where() {
    for (text, at, kind, says) in [
        ("", 0, Kind::NoLimit, "a whole number should come first"),
        ("  /s", 2, Kind::NoLimit, "a whole number should come first"),
        ("-5/s", 0, Kind::NoLimit, "a whole number should come first"),
        ("_5/s", 0, Kind::NoLimit, "a whole number should come first"),
        ("5", 1, Kind::NoSeparator, "expected '/' or 'per'"),
        ("5 in 10s", 2, Kind::NoSeparator, "expected '/' or 'per'"),
        ("1.5/s", 1, Kind::NoSeparator, "expected '/' or 'per'"),
        ("5/", 2, Kind::NoUnit, "a unit of time is missing"),
        ("5/10", 4, Kind::NoUnit, "a unit of time is missing"),
        ("5/10%", 4, Kind::NoUnit, "a unit of time is missing"),
        ("5/sek", 2, Kind::UnknownUnit, "not a unit of time"),
        ("5/10 ſ", 5, Kind::UnknownUnit, "not a unit of time"),
        ("5/s!", 3, Kind::Trailing, "unexpected text"),
        ("5/s 2", 4, Kind::Trailing, "unexpected text"),
        (
            "18446744073709551616/s",
            0,
            Kind::NumberTooLarge,
            "a number above 18446744073709551615",
        ),
        (
            "0/s",
            0,
            Kind::Quota(QuotaError::ZeroLimit),
            "nothing would ever pass",
        ),
        (
            "5/0s",
            2,
            Kind::Quota(QuotaError::ZeroPeriod),
            "the rate would be infinite",
        ),
        (
            "5/999999999999 days",
            2,
            Kind::Quota(QuotaError::PeriodTooLong),
            "longer than 584 years",
        ),
    ] {
        let error = text.parse::<Quota>().unwrap_err();
        assert_eq!((error.position(), error.kind()), (at, kind), "{text}");
        let message = error.to_string();
        assert!(message.contains(says), "{text}: {message}");
        assert!(message.contains(&format!("at byte {at}:")), "{message}");
    }
}

#[test]
fn writes_the_shortest_text() {
    for (text, limit, nanos) in [
        ("100/s", 100, S),
        ("5/min", 5, 60 * S),
        ("3/10s", 3, 10 * S),
        ("5/90s", 5, 90 * S),
        ("1000/day", 1_000, 86_400 * S),
        ("1/7day", 1, 7 * 86_400 * S),
        ("2/1500ms", 2, 3 * S / 2),
        ("2/7ns", 2, 7),
    ] {
        assert_eq!(quota(limit, nanos).to_string(), text);
    }
}

#[test]
fn refuses_nothing_and_for_ever() {
    assert_eq!(Quota::new(0, Duration::MAX), Err(QuotaError::ZeroLimit));
    assert_eq!(Quota::new(1, Duration::ZERO), Err(QuotaError::ZeroPeriod));
    assert_eq!(Quota::new(1, Duration::MAX), Err(QuotaError::PeriodTooLong));
}

proptest! {
    #[test]
    fn round_trip(limit in 1_u64.., nanos in 1_u64.., unit in 0_usize..7) {
        let unit = [1, 1_000, 1_000_000, S, 60 * S, 3_600 * S, 86_400 * S][unit];
        let quota = quota(limit, nanos / unit * unit + if nanos < unit { unit } else { 0 });
        prop_assert_eq!(quota.to_string().parse(), Ok(quota));
    }

    /// Any text gets an answer, and an error points into it.
    #[test]
    fn total(text in "[0-9_ ]{0,22}(r|per|/|µ|\\PC){0,3}[0-9 ]{0,3}(s|min|ms|\\PC){0,2}") {
        if let Err(error) = text.parse::<Quota>() {
            prop_assert!(error.position() <= text.len());
            prop_assert!(text.is_char_boundary(error.position()));
        }
    }
}

#[cfg(feature = "serde")]
#[test]
fn serde_uses_the_text() {
    let json = serde_json::to_string(&Quota::per_minute(5)).unwrap();
    assert_eq!(json, "\"5/min\"");
    assert_eq!(
        serde_json::from_str::<Quota>(&json).unwrap(),
        Quota::per_minute(5)
    );
    let error = serde_json::from_str::<Quota>("\"5/sek\"").unwrap_err();
    assert!(error.to_string().contains("not a unit of time"), "{error}");
    let stamp = tidegate::Timestamp::from_millis(5);
    assert_eq!(serde_json::to_string(&stamp).unwrap(), "5000000");
}
