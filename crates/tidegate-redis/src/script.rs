//! The scripts: what they are asked, and what they answer.

use core::time::Duration;

use redis::{Cmd, Script, Value};
use tidegate::{Allowed, Denied, Timestamp};

use crate::decision::Decision;
use crate::limit::{Method, Rule};

/// What one key is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) key: &'a [u8],
    pub(crate) cost: u64,
    /// When it was taken, if it is to be given back.
    pub(crate) taken_at: Timestamp,
}

/// Whose clock tells the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Server,
    At(Timestamp),
}

/// What becomes of requests that are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// They are counted if all are.
    All,
    /// They are counted, whatever becomes of the others.
    Each,
    /// Nothing: it is only a question.
    Nothing,
}

impl Commit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Each => "each",
            Self::Nothing => "none",
        }
    }
}

/// A script defines no more than it needs: the server runs its definitions each time.
pub(crate) struct Scripts {
    /// For requests that are all counted in one way.
    decide: [Text; WAYS.len()],
    decide_mixed: Text,
    refund: Text,
}

/// How the state of one way of counting is kept, decided on, and given back to.
struct Way {
    kinds: &'static [char],
    keep: &'static str,
    decide: &'static str,
    refund: &'static str,
}

macro_rules! way {
    ($kinds:expr, $name:literal) => {
        Way {
            kinds: &$kinds,
            keep: include_str!(concat!("script/keep/", $name, ".lua")),
            decide: include_str!(concat!("script/decide/", $name, ".lua")),
            refund: include_str!(concat!("script/refund/", $name, ".lua")),
        }
    };
}

const WAYS: [Way; 4] = [
    way!(['b'], "bucket"),
    way!(['f', 'a'], "window"),
    way!(['s'], "sliding"),
    way!(['l'], "log"),
];

/// A script, and the name that the server knows it by.
pub(crate) struct Text {
    text: String,
    hash: String,
}

impl Text {
    fn new(text: String) -> Self {
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// Runs the script that the server has, or, `in_full`, one that it may not have yet.
    pub(crate) fn command(
        &self,
        in_full: bool,
        when: When,
        commit: Commit,
        asks: &[Ask<'_>],
    ) -> Cmd {
        let mut command = Cmd::new();
        if in_full {
            command.arg("EVAL").arg(&self.text);
        } else {
            command.arg("EVALSHA").arg(&self.hash);
        }
        command.arg(asks.len());
        for ask in asks {
            command.arg(ask.key);
        }
        match when {
            When::Server => command.arg(""),
            When::At(time) => command.arg(micros(time)),
        };
        command.arg(commit.as_str());
        for ask in asks {
            let mut kind = [0; 4];
            command.arg(&*ask.rule.kind.encode_utf8(&mut kind));
            // More than any limit, and still exact.
            command.arg(ask.cost.min(1 << 53));
            command.arg(micros(ask.taken_at));
            for number in &ask.rule.numbers {
                command.arg(number);
            }
        }
        command
    }
}

impl Scripts {
    pub(crate) fn new() -> Self {
        let text = |ways: &[Way], part: fn(&Way) -> &'static str, end| {
            let mut text = include_str!("script/prelude.lua").to_owned();
            for way in ways {
                text.push_str(way.keep);
                text.push_str(part(way));
            }
            Text::new(text + end)
        };
        let decide = |ways: &[Way]| text(ways, |way| way.decide, include_str!("script/decide.lua"));
        Self {
            decide: WAYS
                .each_ref()
                .map(|way| decide(core::slice::from_ref(way))),
            decide_mixed: decide(&WAYS),
            refund: text(&WAYS, |way| way.refund, include_str!("script/refund.lua")),
        }
    }

    /// The script that decides these.
    pub(crate) fn decide(&self, asks: &[Ask<'_>]) -> &Text {
        let of_all = WAYS
            .iter()
            .position(|way| asks.iter().all(|ask| way.kinds.contains(&ask.rule.kind)));
        of_all.map_or(&self.decide_mixed, |way| &self.decide[way])
    }

    /// The script that gives back.
    pub(crate) fn refund(&self) -> &Text {
        &self.refund
    }
}

fn micros(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000
}

/// Reads the answer of the deciding script; `None` if it is none.
pub(crate) fn decisions(reply: &Value, asks: &[Ask<'_>]) -> Option<Vec<Decision>> {
    let Value::Array(values) = reply else {
        return None;
    };
    let mut numbers = values.iter().map(|value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    });
    let now = Timestamp::from_micros(u64::try_from(numbers.next()??).ok()?);
    let mut decisions = Vec::with_capacity(asks.len());
    for ask in asks {
        decisions.push(decision(ask.rule, now, &mut numbers)?);
    }
    numbers.next().is_none().then_some(decisions)
}

fn decision(
    rule: &Rule,
    now: Timestamp,
    numbers: &mut impl Iterator<Item = Option<i64>>,
) -> Option<Decision> {
    let code = numbers.next()??;
    let mut number = || numbers.next()?;
    let left = u64::try_from(number()?).ok()?;
    let mut time = || {
        Some(Duration::from_micros(
            u64::try_from(numbers.next()??).unwrap_or(0),
        ))
    };
    let (retry, next, reset, ends, at) = (time()?, time()?, time()?, time()?, time()?);
    let limit = rule.limit;
    let outcome = match code {
        1 => Ok(match rule.method {
            Method::FixedWindow | Method::AnchoredWindow if !reset.is_zero() => {
                Allowed::in_window(limit, left, reset)
            }
            _ => Allowed::new(limit, left, reset).with_next_after(next),
        }),
        0 => Err(Denied::limited(limit, left, retry, reset).with_next_after(next)),
        -1 => Err(Denied::too_costly(limit, left, reset).with_next_after(next)),
        _ => return None,
    };
    Some(Decision {
        outcome,
        server_time: now,
        taken_at: Timestamp::from_duration(at),
        window_end: ends,
    })
}

/// Reads whether anything was given back.
pub(crate) fn given_back(reply: &Value) -> Option<bool> {
    let Value::Array(values) = reply else {
        return None;
    };
    let mut any = false;
    for value in values {
        match value {
            Value::Int(number) => any |= *number > 0,
            _ => return None,
        }
    }
    Some(any)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate::Quota;

    use super::*;
    use crate::limit::Limit;

    fn values() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            any::<i64>().prop_map(Value::Int),
            (-2_i64..3).prop_map(Value::Int),
        ];
        let odd = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<f64>().prop_map(Value::Double),
            "[a-z]{0,3}".prop_map(Value::SimpleString),
        ];
        let array = prop::collection::vec(prop_oneof![30 => number, 1 => odd.clone()], 0..18);
        prop_oneof![10 => array.prop_map(Value::Array), 1 => odd]
    }

    proptest! {
        /// Whoever is at the other end.
        #[test]
        fn any_answer_is_read_or_not(reply in values(), limit in 1_u64..5, way in 0..5) {
            let quota = Quota::per_minute(limit);
            let limit = match way {
                0 => Limit::token_bucket(quota),
                1 => Limit::fixed_window(quota),
                2 => Limit::anchored_window(quota),
                3 => Limit::sliding_window(quota),
                _ => Limit::sliding_log(quota),
            };
            let rule = limit.rule().unwrap();
            let ask = Ask { rule: &rule, key: b"k", cost: 1, taken_at: Timestamp::ZERO };
            for asks in [&[ask][..], &[ask, ask]] {
                if let Some(decisions) = decisions(&reply, asks) {
                    let Value::Array(numbers) = &reply else { panic!("{reply:?}") };
                    prop_assert_eq!(numbers.len(), 1 + 7 * asks.len());
                    prop_assert_eq!(decisions.len(), asks.len());
                    for decision in decisions {
                        // Nothing panics when it is looked at.
                        let text = format!("{decision:?}");
                        prop_assert!(!text.is_empty());
                        prop_assert_eq!(decision.is_allowed(), decision.result().is_ok());
                    }
                }
            }
            let _ = given_back(&reply);
        }
    }

    #[test]
    fn the_clock_of_this_machine_is_not_sent() {
        let rule = Limit::token_bucket(Quota::per_minute(5)).rule().unwrap();
        let ask = Ask {
            rule: &rule,
            key: b"k",
            cost: 1,
            taken_at: Timestamp::ZERO,
        };
        let command =
            Scripts::new()
                .decide(&[ask])
                .command(false, When::Server, Commit::All, &[ask]);
        let words: Vec<Vec<u8>> = command
            .args_iter()
            .map(|word| match word {
                redis::Arg::Simple(word) => word.to_vec(),
                _ => panic!("a cursor"),
            })
            .collect();
        let after: Vec<&[u8]> = words[2..].iter().map(|it| &**it).collect();
        let expected: [&[u8]; 11] = [
            b"1",
            b"k",
            b"",
            b"all",
            b"b",
            b"1",
            b"0",
            b"1",
            b"12000000",
            b"5",
            b"3660000000",
        ];
        assert_eq!(after, expected);
    }

    #[test]
    fn requests_counted_in_one_way_run_no_more_than_that() {
        let scripts = Scripts::new();
        let quota = Quota::per_minute(5);
        let rules = [
            Limit::token_bucket(quota),
            Limit::fixed_window(quota),
            Limit::anchored_window(quota),
            Limit::sliding_window(quota),
            Limit::sliding_log(quota),
        ]
        .map(|limit| limit.rule().unwrap());
        let asks = rules.each_ref().map(|rule| Ask {
            rule,
            key: b"k",
            cost: 1,
            taken_at: Timestamp::ZERO,
        });
        let names = ["bucket", "window", "window", "sliding", "log"];
        for (place, name) in names.into_iter().enumerate() {
            let text = &scripts.decide(&asks[place..=place]).text;
            for other in ["bucket", "window", "sliding", "log"] {
                let defines = text.contains(&format!("local function {other}("));
                assert_eq!(defines, other == name);
            }
        }
        let both = scripts.decide(&asks[1..3]);
        assert_eq!(both.hash, scripts.decide(&asks[1..2]).hash);
        let mixed = &scripts.decide(&asks).text;
        assert!(
            names
                .iter()
                .all(|name| mixed.contains(&format!("local function {name}(")))
        );
    }
}
