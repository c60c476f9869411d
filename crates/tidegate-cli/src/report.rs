//! What a replay has found, for programs and for people.

mod text;

use serde::Serialize;

use crate::log::time::rfc3339;
use crate::replay::Replay;
use crate::sizing::Row;

pub(crate) use text::{bad_lines, print, shown, thousands};

/// Everything there is to say. Its JSON is the output of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) requests: u64,
    pub(crate) unreadable: u64,
    pub(crate) unreadable_lines: Vec<UnreadableLine>,
    /// Whether the input was cut short by an interrupt.
    pub(crate) interrupted: bool,
    /// Oldest and newest request, RFC 3339.
    pub(crate) first: Option<String>,
    pub(crate) last: Option<String>,
    pub(crate) backward: Backward,
    pub(crate) candidates: Vec<Verdict>,
    pub(crate) sizing: Sizes,
}

/// A line that could not be read.
#[derive(Debug, Serialize)]
pub(crate) struct UnreadableLine {
    pub(crate) line: u64,
    pub(crate) why: String,
    pub(crate) text: String,
}

/// Requests older than one before them.
#[derive(Debug, Serialize)]
pub(crate) struct Backward {
    pub(crate) requests: u64,
    pub(crate) most_ns: u64,
}

/// What one candidate did.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) policy: String,
    pub(crate) key: &'static str,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    /// Refused requests in percent of all.
    pub(crate) refused_percent: f64,
    pub(crate) keys: u64,
    pub(crate) keys_refused: u64,
    pub(crate) top: Vec<Hurt>,
}

/// A key that was refused.
#[derive(Debug, Serialize)]
pub(crate) struct Hurt {
    pub(crate) key: String,
    pub(crate) refused: u64,
    pub(crate) requests: u64,
}

/// The smallest limits.
#[derive(Debug, Serialize)]
pub(crate) struct Sizes {
    pub(crate) period_ns: u64,
    pub(crate) algorithms: Vec<Size>,
}

/// The smallest limits of one algorithm.
#[derive(Debug, Serialize)]
pub(crate) struct Size {
    pub(crate) algorithm: &'static str,
    /// A token bucket's burst where it was given; else it is the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<u64>,
    pub(crate) limits: [Goal; 3],
    /// Keys that send more than the given burst at one instant, which no limit can admit.
    pub(crate) keys_beyond_any_limit: u64,
}

/// The smallest limit that refuses at most a share of the keys.
#[derive(Debug, Serialize)]
pub(crate) struct Goal {
    pub(crate) percent_of_keys: f64,
    /// How many keys that is.
    pub(crate) keys_at_most: u64,
    /// `null` if no limit is enough.
    pub(crate) limit: Option<u64>,
    /// How many keys this limit refuses.
    pub(crate) keys_refused: u64,
}

/// The shares of [`Row::limits`].
const PERCENT: [f64; 3] = [0.0, 0.1, 1.0];

impl Report {
    /// Sums a replay up, with the `top` keys hurt most by each candidate.
    pub(crate) fn new(replay: &Replay, top: usize, interrupted: bool) -> Self {
        let keys = replay.keys.len() as u64;
        let candidates = replay
            .candidates
            .iter()
            .map(|candidate| Verdict {
                policy: candidate.policy.to_string(),
                key: replay.key_kind.name(),
                admitted: candidate.admitted,
                refused: candidate.refused,
                refused_percent: percent(candidate.refused, replay.requests),
                keys,
                keys_refused: candidate.keys_refused(),
                top: candidate
                    .top(top)
                    .into_iter()
                    .map(|(id, refused)| Hurt {
                        key: replay.keys.text(id),
                        refused,
                        requests: replay.requests_of(id),
                    })
                    .collect(),
            })
            .collect();
        Self {
            requests: replay.requests,
            unreadable: replay.unreadable,
            unreadable_lines: replay
                .bad_lines
                .iter()
                .map(|bad| UnreadableLine {
                    line: bad.number,
                    why: bad.why.to_string(),
                    text: bad.head.clone(),
                })
                .collect(),
            interrupted,
            first: replay.span.map(|span| rfc3339(span.0)),
            last: replay.span.map(|span| rfc3339(span.1)),
            backward: Backward {
                requests: replay.backward,
                most_ns: replay.backward_most,
            },
            candidates,
            sizing: Sizes {
                period_ns: replay.sizing.period(),
                algorithms: replay.sizing.rows().iter().map(Size::new).collect(),
            },
        }
    }
}

impl Size {
    fn new(row: &Row) -> Self {
        let mut percent = PERCENT.into_iter();
        Self {
            algorithm: row.kind.name(),
            burst: row.burst,
            limits: row.limits.map(|target| Goal {
                percent_of_keys: percent.next().unwrap_or_default(),
                keys_at_most: target.keys,
                limit: target.limit,
                keys_refused: target.refused,
            }),
            keys_beyond_any_limit: row.hopeless,
        }
    }
}

/// A part in percent, rounded to thousandths; 0 of nothing is 0.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    (part as f64 * 100_000.0 / whole as f64).round() / 1_000.0
}
