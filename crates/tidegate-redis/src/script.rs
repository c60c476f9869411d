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
