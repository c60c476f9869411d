//! What header fields tell about rate limits.

use core::cmp::Reverse;
use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, header};
use serde::Serialize;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parameters, Parser};

/// What a response tells. Times are in seconds from now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Told {
    /// Which fields it was told in.
    pub(super) fields: Option<Dialect>,
    /// The policy with the least remaining, if policies have names.
    pub(super) policy: Option<String>,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) reset: Option<u64>,
    pub(super) retry_after: Option<u64>,
}

/// Ways of telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Dialect {
    /// draft-ietf-httpapi-ratelimit-headers, 08 to 10.
    #[serde(rename = "draft-10")]
    Draft10,
    #[serde(rename = "draft-07")]
    Draft07,
    /// 00 to 06.
    #[serde(rename = "draft-06")]
    Draft06,
    /// `X-RateLimit-*`.
    Legacy,
}

/// From this number on, a reset is a Unix time.
const UNIX_TIME_FROM: u64 = 1_000_000_000;

impl Told {
    /// What these header fields tell at this time.
    pub(super) fn of(headers: &HeaderMap, now: SystemTime) -> Self {
        // The server's clock, if it tells it: resets are told by it.
        let now = text(headers, header::DATE.as_str())
            .and_then(|date| httpdate::parse_http_date(&date).ok())
            .unwrap_or(now);
        let told = draft_10(headers)
            .or_else(|| draft_07(headers))
            .or_else(|| prefixed(headers, "ratelimit", Dialect::Draft06, now))
            .or_else(|| prefixed(headers, "x-ratelimit", Dialect::Legacy, now));
        Self {
            retry_after: text(headers, header::RETRY_AFTER.as_str())
                .and_then(|value| retry_after(&value, now)),
            ..told.unwrap_or_default()
        }
    }
}

/// All values of a field, as one list.
fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let values: Option<Vec<&str>> = headers
        .get_all(name)
        .iter()
        .map(|value| value.to_str().ok())
        .collect();
    values
        .filter(|values| !values.is_empty())
        .map(|values| values.join(", "))
}

/// `"default";r=2;t=10`, and `"default";q=3;w=10` in the policy.
fn draft_10(headers: &HeaderMap) -> Option<Told> {
    let list = |name| -> Option<Vec<(String, Parameters)>> {
        let list: List = Parser::new(&text(headers, name)?).parse().ok()?;
        let members = list.into_iter().map(|member| match member {
            ListEntry::Item(Item {
                bare_item: BareItem::String(name),
                params,
            }) => Some((String::from(name), params)),
            _ => None,
        });
        members.collect()
    };
    let number = |parameters: &Parameters, name: &str| {
        let value = parameters.get(name)?.as_integer()?;
        u64::try_from(i64::from(value)).ok()
    };
    let quotas = list("ratelimit-policy").unwrap_or_default();
    list("ratelimit")?
        .into_iter()
        .map(|(policy, parameters)| Told {
            fields: Some(Dialect::Draft10),
            limit: quotas
                .iter()
                .find(|(name, _)| *name == policy)
                .and_then(|(_, parameters)| number(parameters, "q")),
            remaining: number(&parameters, "r"),
            reset: number(&parameters, "t"),
            retry_after: None,
            policy: Some(policy),
        })
        .min_by_key(|told| (told.remaining.unwrap_or(u64::MAX), Reverse(told.reset)))
}

/// `limit=3, remaining=2, reset=10`.
fn draft_07(headers: &HeaderMap) -> Option<Told> {
    let fields: Dictionary = Parser::new(&text(headers, "ratelimit")?).parse().ok()?;
    let number = |name: &str| match fields.get(name)? {
        ListEntry::Item(item) => u64::try_from(i64::from(item.bare_item.as_integer()?)).ok(),
        ListEntry::InnerList(_) => None,
    };
    let told = Told {
        fields: Some(Dialect::Draft07),
        limit: number("limit"),
        remaining: number("remaining"),
        reset: number("reset"),
        ..Told::default()
    };
    (told.limit.is_some() || told.remaining.is_some()).then_some(told)
}

/// One field each: `RateLimit-Remaining: 2`. A limit may have policies behind it: `100, 100;w=10`.
fn prefixed(headers: &HeaderMap, prefix: &str, dialect: Dialect, now: SystemTime) -> Option<Told> {
    let number = |name: &str| {
        let value = text(headers, &format!("{prefix}-{name}"))?;
        let digits = value
            .trim_start()
            .split(|letter: char| !letter.is_ascii_digit());
        digits.into_iter().next()?.parse::<u64>().ok()
    };
    let told = Told {
        fields: Some(dialect),
        limit: number("limit"),
        remaining: number("remaining"),
        reset: number("reset").map(|reset| {
            if reset < UNIX_TIME_FROM {
                return reset;
            }
            seconds_until(UNIX_EPOCH.checked_add(Duration::from_secs(reset)), now)
        }),
        ..Told::default()
    };
    (told.limit.is_some() || told.remaining.is_some()).then_some(told)
}

/// Seconds, or a date.
fn retry_after(value: &str, now: SystemTime) -> Option<u64> {
    let value = value.trim();
    value.parse().ok().or_else(|| {
        let date = httpdate::parse_http_date(value).ok()?;
        Some(seconds_until(Some(date), now))
    })
}

/// Rounded up; 0 if it is over.
fn seconds_until(time: Option<SystemTime>, now: SystemTime) -> u64 {
    let left = time.and_then(|time| time.duration_since(now).ok());
    left.map_or(0, |left| {
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    /// Sunday, 6 November 1994, 08:49:37 GMT.
    const NOW: u64 = 784_111_777;

    fn told(fields: &[(&str, &str)]) -> Told {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        Told::of(&headers, UNIX_EPOCH + Duration::from_secs(NOW))
    }

    /// Dialect, limit, remaining, reset.
    type Row = (Dialect, Option<u64>, Option<u64>, Option<u64>);

    #[test]
    fn dialects() {
        let rows: [(&[(&str, &str)], Row); 9] = [
            (
                &[
                    ("RateLimit-Policy", "\"default\";q=3;w=10"),
                    ("RateLimit", "\"default\";r=2;t=10"),
                ],
                (Dialect::Draft10, Some(3), Some(2), Some(10)),
            ),
            // The least remaining of several, on several lines, whatever their order.
            (
                &[
                    (
                        "RateLimit-Policy",
                        "\"day\";q=1000;w=86400, \"a, \\\"b\\\"\";q=3;w=10",
                    ),
                    ("RateLimit", "\"day\";r=900;t=80000"),
                    ("RateLimit", "\"a, \\\"b\\\"\";r=2;t=10;pk=:AAAA:"),
                ],
                (Dialect::Draft10, Some(3), Some(2), Some(10)),
            ),
            (
                &[("RateLimit", "\"a\";r=0")],
                (Dialect::Draft10, None, Some(0), None),
            ),
            (
                &[
                    ("RateLimit-Policy", "3;w=10"),
                    ("RateLimit", "limit=3, remaining=2, reset=10"),
                ],
                (Dialect::Draft07, Some(3), Some(2), Some(10)),
            ),
            (
                &[
                    ("RateLimit-Limit", "100, 100;w=10"),
                    ("RateLimit-Remaining", "50"),
                    ("RateLimit-Reset", "5"),
                ],
                (Dialect::Draft06, Some(100), Some(50), Some(5)),
            ),
            // Unix time, by the server's clock.
            (
                &[
                    ("X-RateLimit-Limit", "3"),
                    ("X-RateLimit-Remaining", "1"),
                    ("X-RateLimit-Reset", "1780000060"),
                    ("Date", "Thu, 28 May 2026 20:26:40 GMT"),
                ],
                (Dialect::Legacy, Some(3), Some(1), Some(60)),
            ),
            (
                &[("X-RateLimit-Limit", "3"), ("X-RateLimit-Reset", "7")],
                (Dialect::Legacy, Some(3), None, Some(7)),
            ),
            // What is broken does not hide what is not.
            (
                &[
                    ("RateLimit", "\"a;r=1"),
                    ("X-RateLimit-Limit", "3"),
                    ("X-RateLimit-Remaining", "2"),
                ],
                (Dialect::Legacy, Some(3), Some(2), None),
            ),
            (
                &[("RateLimit", "\"a\";r=-1;t=1.5")],
                (Dialect::Draft10, None, None, None),
            ),
        ];
        for (fields, (dialect, limit, remaining, reset)) in rows {
            let told = told(fields);
            assert_eq!(
                (told.fields, told.limit, told.remaining, told.reset),
                (Some(dialect), limit, remaining, reset),
                "{fields:?}"
            );
        }
        assert_eq!(told(&[("content-type", "text/plain")]), Told::default());
    }

    #[test]
    fn waits() {
        for (value, seconds) in [
            ("12", Some(12)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(
                told(&[("retry-after", value)]).retry_after,
                seconds,
                "{value}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_value_gets_an_answer(name in 0_usize..7, value: Vec<u8>) {
            let names = ["ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-reset", "x-ratelimit-reset", "retry-after", "date"];
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                let mut headers = HeaderMap::new();
                headers.insert(names[name], value);
                let _ = Told::of(&headers, UNIX_EPOCH);
            }
        }
    }
}
