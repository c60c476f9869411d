//! What a drive has found, for people and for programs.

use core::fmt::Display;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::fields::Told;
use super::{DriveArgs, Sent};
use crate::report::shown;

/// A request, as JSON has it.
#[derive(Serialize)]
struct Row {
    number: u64,
    at_ms: f64,
    latency_ms: f64,
    status: Option<u16>,
    error: Option<String>,
    #[serde(flatten)]
    told: Told,
}

/// What was sent so far.
pub(super) struct Report {
    url: String,
    /// `None`: lines are printed as they come.
    rows: Option<Vec<Row>>,
    obeys: bool,
    summary: Summary,
    /// The last request was refused, and it was said when to come again.
    is_promised: bool,
}

#[derive(Default, Serialize)]
struct Summary {
    requests: u64,
    statuses: BTreeMap<u16, u64>,
    /// Requests without an answer.
    errors: u64,
    /// Of status 429.
    refused: u64,
    refused_percent: f64,
    /// How often a request was sent after waiting as Retry-After said, and passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Promises>,
    elapsed_ms: f64,
    interrupted: bool,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Promises {
    kept: u64,
    broken: u64,
}

impl Report {
    pub(super) fn new(args: &DriveArgs) -> Self {
        Self {
            url: args.url.to_string(),
            rows: args.json.then(Vec::new),
            obeys: args.obey,
            summary: Summary {
                retry_after: args.obey.then(Promises::default),
                ..Summary::default()
            },
            is_promised: false,
        }
    }

    /// How many requests were answered.
    pub(super) fn answers(&self) -> u64 {
        self.summary.requests - self.summary.errors
    }

    /// Takes note of a request, and prints it for people.
    pub(super) fn sent(&mut self, out: &mut impl Write, sent: Sent) -> io::Result<()> {
        let summary = &mut self.summary;
        let is_first = summary.requests == 0;
        summary.requests += 1;
        let promise = sent.retry_after();
        match &sent.answer {
            Ok(answer) => {
                *summary.statuses.entry(answer.status).or_default() += 1;
                summary.refused += u64::from(answer.status == 429);
                if let (true, Some(promises)) = (self.is_promised, &mut summary.retry_after) {
                    if promise.is_none() {
                        promises.kept += 1;
                    } else {
                        promises.broken += 1;
                    }
                }
            }
            Err(_) => summary.errors += 1,
        }
        self.is_promised = promise.is_some();
        let ended = millis(sent.at + sent.latency);
        summary.elapsed_ms = summary.elapsed_ms.max(ended);

        let (status, told, error) = match sent.answer {
            Ok(answer) => (Some(answer.status), answer.told, None),
            Err(error) => (None, Told::default(), Some(format!("{error:#}"))),
        };
        let row = Row {
            number: sent.number,
            at_ms: millis(sent.at),
            latency_ms: millis(sent.latency),
            status,
            error,
            told,
        };
        if let Some(rows) = &mut self.rows {
            rows.push(row);
            return Ok(());
        }
        if is_first {
            writeln!(
                out,
                "{:>6}  {:>9}  {:>6}  {:>6}  {:>9}  {:>7}  {:>11}  {:>9}",
                "#", "at", "status", "limit", "remaining", "reset", "retry after", "latency"
            )?;
        }
        let Row { told, .. } = &row;
        write!(
            out,
            "{:>6}  {:>7.3} s  {:>6}  {:>6}  {:>9}  {:>7}  {:>11}  {:>6.2} ms",
            row.number,
            row.at_ms / 1_000.0,
            row.status
                .map_or("error".to_owned(), |status| status.to_string()),
            or_dash(told.limit, ""),
            or_dash(told.remaining, ""),
            or_dash(told.reset, " s"),
            or_dash(told.retry_after, " s"),
            row.latency_ms,
        )?;
        match &row.error {
            // A server may write anything.
            Some(error) => writeln!(out, "  {}", shown(error)),
            None => writeln!(out),
        }
    }

    /// Prints what it comes to.
    pub(super) fn end(&mut self, out: &mut impl Write, interrupted: bool) -> io::Result<()> {
        let summary = &mut self.summary;
        summary.interrupted = interrupted;
        if summary.requests > 0 {
            let share = summary.refused as f64 / summary.requests as f64;
            summary.refused_percent = (share * 100_000.0).round() / 1_000.0;
        }
        if let Some(requests) = self.rows.take() {
            #[derive(Serialize)]
            struct Json<'a> {
                url: &'a str,
                requests: Vec<Row>,
                summary: &'a Summary,
            }
            let json = Json {
                url: &self.url,
                requests,
                summary,
            };
            serde_json::to_writer(&mut *out, &json).map_err(io::Error::from)?;
            return writeln!(out);
        }
        if interrupted {
            writeln!(out, "\nInterrupted: this is what was answered so far.")?;
        }
        let mut parts: Vec<String> = summary
            .statuses
            .iter()
            .map(|(status, count)| format!("{count} of status {status}"))
            .collect();
        if summary.errors > 0 {
            parts.push(format!("{} without an answer", summary.errors));
        }
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        writeln!(
            out,
            "\n{} in {:.3} s: {}; refused {:.2} %",
            match summary.requests {
                1 => "1 request".to_owned(),
                requests => format!("{requests} requests"),
            },
            summary.elapsed_ms / 1_000.0,
            parts.join(", "),
            summary.refused_percent,
        )?;
        match summary.retry_after {
            Some(Promises { kept: 0, broken: 0 }) if self.obeys => {
                writeln!(out, "Retry-After was never waited for")
            }
            Some(Promises { kept, broken }) => {
                let times = match kept + broken {
                    1 => "once".to_owned(),
                    times => format!("{times} times"),
                };
                writeln!(
                    out,
                    "Retry-After was waited for {times}: {kept} passed then, {broken} did not"
                )
            }
            None => Ok(()),
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

fn or_dash(value: Option<impl Display>, unit: &str) -> String {
    value.map_or("-".to_owned(), |value| format!("{value}{unit}"))
}
