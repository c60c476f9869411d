//! The report as tables for people.

use std::io::{self, Write};

use super::{Report, Sizes};
use crate::key::KeyKind;
use crate::log::time::{human, human_span};
use crate::replay::{BadLine, Replay};

/// Writes the whole report.
pub(crate) fn print(
    out: &mut impl Write,
    input: &str,
    replay: &Replay,
    report: &Report,
) -> io::Result<()> {
    let keys = replay.keys.len() as u64;
    write!(
        out,
        "{}: {} {} from {} {}",
        shown(input),
        thousands(report.requests),
        plural(report.requests, "request", "requests"),
        thousands(keys),
        replay.key_kind.noun(keys),
    )?;
    if let Some((oldest, newest)) = replay.span {
        write!(
            out,
            ", {} to {} UTC ({})",
            human(oldest),
            human(newest),
            human_span(newest - oldest)
        )?;
    }
    writeln!(out)?;
    if report.interrupted {
        writeln!(out, "Interrupted: this is what was read so far.")?;
    }
    if report.backward.requests > 0 {
        writeln!(
            out,
            "Time runs backwards: {} {} older than one before, by up to {}.",
            thousands(report.backward.requests),
            plural(report.backward.requests, "request is", "requests are"),
            human_span(report.backward.most_ns)
        )?;
    }
    if report.unreadable > 0 {
        writeln!(
            out,
            "{} {} could not be read:",
            thousands(report.unreadable),
            plural(report.unreadable, "line", "lines")
        )?;
        bad_lines(out, &replay.bad_lines, report.unreadable)?;
    }
    writeln!(out)?;
    candidates(out, report)?;
    for verdict in &report.candidates {
        hurt(out, verdict, replay.key_kind)?;
    }
    writeln!(out)?;
    sizes(out, &report.sizing, replay)
}

/// Writes the first unreadable lines, and how many more there are.
pub(crate) fn bad_lines(out: &mut impl Write, bad: &[BadLine], total: u64) -> io::Result<()> {
    for line in bad {
        let number = thousands(line.number);
        writeln!(out, "  line {number}: {}: {}", line.why, shown(&line.head))?;
    }
    match total - bad.len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "  and {} more", thousands(more)),
    }
}

fn candidates(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let mut table = Table::new([
        "candidate",
        "requests",
        "admitted",
        "refused",
        "share",
        "keys",
        "keys refused",
    ]);
    for verdict in &report.candidates {
        table.row([
            verdict.policy.clone(),
            thousands(verdict.admitted + verdict.refused),
            thousands(verdict.admitted),
            thousands(verdict.refused),
            format!("{:.2} %", verdict.refused_percent),
            thousands(verdict.keys),
            thousands(verdict.keys_refused),
        ]);
    }
    table.print(out)
}

fn hurt(out: &mut impl Write, verdict: &super::Verdict, key: KeyKind) -> io::Result<()> {
    if verdict.top.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nHurt most by {}:", verdict.policy)?;
    let mut table = Table::new([key.name(), "refused", "of requests"]);
    for hurt in &verdict.top {
        table.row([
            shown(&hurt.key),
            thousands(hurt.refused),
            thousands(hurt.requests),
        ]);
    }
    table.print(out)?;
    match verdict.keys_refused - verdict.top.len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "  and {} more", thousands(more)),
    }
}

fn sizes(out: &mut impl Write, sizes: &Sizes, replay: &Replay) -> io::Result<()> {
    let period = period_text(sizes.period_ns);
    writeln!(
        out,
        "Smallest limit per {period} that would have refused at most so many keys:"
    )?;
    let total = thousands(replay.keys.len() as u64);
    let few = |at: usize| {
        let keys = sizes
            .algorithms
            .first()
            .map_or(0, |size| size.limits[at].keys_at_most);
        format!("{} of {total}", thousands(keys))
    };
    let headings = [
        "algorithm".to_owned(),
        "no key".to_owned(),
        format!("0.1 % ({})", few(1)),
        format!("1 % ({})", few(2)),
    ];
    let mut table = Table::new(headings);
    for size in &sizes.algorithms {
        let name = match (size.burst, size.algorithm) {
            (Some(burst), name) => format!("{name}, burst {burst}"),
            (None, name @ "token-bucket") => format!("{name}, burst = limit"),
            (None, name) => name.to_owned(),
        };
        let limit = |at: usize| {
            let limit = size.limits[at].limit;
            limit.map_or_else(|| "none".to_owned(), thousands)
        };
        table.row([name, limit(0), limit(1), limit(2)]);
    }
    table.print(out)?;
    for size in &sizes.algorithms {
        if let (Some(burst), keys @ 1..) = (size.burst, size.keys_beyond_any_limit) {
            writeln!(
                out,
                "{} {} more than {burst} requests at one instant, which no limit with that burst admits.",
                thousands(keys),
                plural(keys, "key sends", "keys send"),
            )?;
        }
    }
    Ok(())
}

/// A period as the core writes it: `min`, `10s`.
fn period_text(nanos: u64) -> String {
    let quota = tidegate::Quota::new(1, core::time::Duration::from_nanos(nanos));
    match quota {
        Ok(quota) => quota.to_string().split_off(2),
        Err(_) => format!("{nanos}ns"),
    }
}

fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Longest text from a log that is printed, in characters.
const SHOWN: usize = 72;

/// Text from a log, made harmless for a terminal, and cut.
pub(crate) fn shown(text: &str) -> String {
    let mut safe = String::new();
    for (at, letter) in text.chars().enumerate() {
        if at == SHOWN {
            safe.push('…');
            break;
        }
        if letter.is_control() {
            safe.extend(letter.escape_default());
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Columns: the first aligned left, the others right.
struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    fn new(headings: [impl Into<String>; N]) -> Self {
        Self {
            rows: vec![headings.map(Into::into)],
        }
    }

    fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; N] = core::array::from_fn(width);
        for row in &self.rows {
            write!(out, "  {:<1$}", row[0], widths[0])?;
            for (cell, width) in row.iter().zip(widths).skip(1) {
                write!(out, "  {cell:>width$}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), SHOWN + 1);
        assert_eq!(period_text(60_000_000_000), "min");
        assert_eq!(period_text(10_000_000_000), "10s");
    }
}
