//! The lanes as text for a terminal.

use core::fmt::Write as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::axis::Axis;
use super::lane::{Lane, Stack, Verdict, marks};
use super::span::span_text;
use super::{Simulation, headline, most_text, totals};
use crate::report::thousands;

/// Where there is no terminal to ask.
const WIDTH: u16 = 100;
const WIDTH_MIN: u16 = 40;

/// Most rows of marks in a lane.
const ROWS: u64 = 8;

/// Windows of fewer bins are not drawn apart.
const WINDOW_MIN: u64 = 6;

const ADMITTED: Style = AnsiColor::Cyan.on_default();
const BEYOND: Style = AnsiColor::Red.on_default().bold();
const REFUSED: Style = AnsiColor::Yellow.on_default();
const NAME: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();

/// What marks look like.
struct Glyphs {
    admitted: char,
    beyond: char,
    refused: char,
    boundary: char,
    /// From next to nothing to full.
    levels: [char; 8],
}

const UNICODE: Glyphs = Glyphs {
    admitted: '●',
    beyond: '◆',
    refused: '○',
    boundary: '│',
    levels: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
};

const ASCII: Glyphs = Glyphs {
    admitted: '#',
    beyond: '!',
    refused: 'o',
    boundary: '|',
    levels: ['.', ':', '-', '=', '+', '*', '%', '@'],
};

/// Prints the lanes, in colour where standard output is a terminal that wants it.
///
/// # Errors
///
/// If standard output cannot be written.
pub(crate) fn print(width: Option<u16>, ascii: bool, simulation: &Simulation) -> io::Result<()> {
    let width = width.unwrap_or_else(|| match terminal_size::terminal_size() {
        Some((columns, _)) => columns.0.max(WIDTH_MIN),
        None => WIDTH,
    });
    let glyphs = if ascii { &ASCII } else { &UNICODE };
    let text = render(simulation, width.into(), glyphs);
    // It leaves the colours out where they are not wanted.
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A part of a line, and how it is written.
type Item = (Style, String);

fn render(simulation: &Simulation, width: usize, glyphs: &Glyphs) -> String {
    let limit = simulation.quota.limit();
    let over = format!("over {}", thousands(limit));
    let count = format!("in {}", span_text(simulation.period));
    let gutter = ["requests", &over, &count]
        .map(str::len)
        .into_iter()
        .max()
        .unwrap_or(0)
        + 1;
    let page = Page::new(simulation, width.saturating_sub(gutter + 1), gutter, glyphs);

    let stacks: Vec<Vec<Stack>> = simulation
        .lanes
        .iter()
        .map(|lane| lane.stacks(&simulation.arrivals.times, &page.axis))
        .collect();
    let (per, rows) = marks(&stacks, ROWS);

    let mut out = String::new();
    items(&mut out, width, &[(NAME, headline(simulation))]);
    items(
        &mut out,
        width,
        &[(QUIET, simulation.arrivals.about.clone())],
    );
    let mut legend = vec![
        (ADMITTED, format!("{} admitted", glyphs.admitted)),
        (
            BEYOND,
            format!(
                "{} admitted, {}",
                glyphs.beyond,
                super::beyond_text(simulation)
            ),
        ),
        (REFUSED, format!("{} refused", glyphs.refused)),
    ];
    if page.has_boundaries {
        legend.push((QUIET, format!("{} a window begins", glyphs.boundary)));
    }
    if per > 1 {
        legend.push((
            QUIET,
            format!("a mark is up to {} requests", thousands(per)),
        ));
    }
    items(&mut out, width, &legend);

    for (lane, stacks) in simulation.lanes.iter().zip(&stacks) {
        out.push('\n');
        let most = match lane.is_beyond() {
            true => BEYOND,
            false => Style::new(),
        };
        items(
            &mut out,
            width,
            &[
                (NAME, lane.policy.to_string()),
                (Style::new(), totals(lane)),
                (most, most_text(simulation, lane)),
            ],
        );
        for row in (0..rows).rev() {
            let label = if row == 0 { "requests" } else { "" };
            page.row(&mut out, label, |bin| {
                let verdict = stacks[bin].marks(per).verdicts().nth(row as usize);
                verdict.map(|verdict| mark(verdict, glyphs))
            });
        }
        page.count(&mut out, &over, &count, lane, limit);
    }
    page.labels(&mut out);
    out
}

fn mark(verdict: Verdict, glyphs: &Glyphs) -> (Style, char) {
    match verdict {
        Verdict::Admitted => (ADMITTED, glyphs.admitted),
        Verdict::Beyond => (BEYOND, glyphs.beyond),
        Verdict::Refused => (REFUSED, glyphs.refused),
    }
}

/// Writes items, and as many of them in a line as there is room for.
fn items(out: &mut String, width: usize, items: &[Item]) {
    const BETWEEN: &str = "   ";
    let mut used = 0;
    for (style, text) in items {
        let length = text.chars().count();
        if used > 0 && used + BETWEEN.len() + length > width {
            out.push('\n');
            used = 0;
        }
        if used > 0 {
            out.push_str(BETWEEN);
            used += BETWEEN.len();
        }
        used += length;
        let _ = write!(out, "{style}{text}{style:#}");
    }
    out.push('\n');
}

/// Where things stand from left to right: labels, and a column for each bin and each boundary of windows.
struct Page<'a> {
    axis: Axis,
    gutter: usize,
    glyphs: &'a Glyphs,
    has_boundaries: bool,
    columns: usize,
}

impl<'a> Page<'a> {
    fn new(simulation: &Simulation, columns: usize, gutter: usize, glyphs: &'a Glyphs) -> Self {
        let arrivals = &simulation.arrivals;
        let axis = |bins: usize| Axis::new(simulation.period, arrivals.from, arrivals.until, bins);
        let boundaries = |axis: &Axis| (1..axis.len()).filter(|bin| axis.is_boundary(*bin)).count();
        // The more columns boundaries take, the fewer bins there are.
        let with_boundaries = (0..columns / WINDOW_MIN as usize)
            .map(|reserved| (axis(columns - reserved), reserved))
            .find(|(axis, reserved)| {
                axis.bins_in_window() >= WINDOW_MIN && boundaries(axis) <= *reserved
            });
        Self {
            has_boundaries: with_boundaries.is_some(),
            axis: with_boundaries.map_or_else(|| axis(columns), |(axis, _)| axis),
            gutter,
            glyphs,
            columns,
        }
    }

    fn has_boundary(&self, bin: usize) -> bool {
        self.has_boundaries && bin > 0 && self.axis.is_boundary(bin)
    }

    /// Writes a row of one character for each bin.
    fn row(
        &self,
        out: &mut String,
        label: &str,
        character: impl Fn(usize) -> Option<(Style, char)>,
    ) {
        let boundary = self.glyphs.boundary;
        let start = out.len();
        let width = self.gutter - 1;
        let _ = write!(out, "{label:>width$} {QUIET}{boundary}{QUIET:#}");
        let mut last = Style::new();
        let mut push = |out: &mut String, style: Style, character: char| {
            if style != last {
                let _ = write!(out, "{last:#}{style}");
                last = style;
            }
            out.push(character);
        };
        for bin in 0..self.axis.len() {
            if self.has_boundary(bin) {
                push(out, QUIET, boundary);
            }
            let (style, character) = character(bin).unwrap_or((Style::new(), ' '));
            push(out, style, character);
        }
        push(out, Style::new(), ' ');
        let end = out[start..].trim_end().len();
        out.truncate(start + end);
        out.push('\n');
    }

    /// The count in the last period: a row up to the limit, and above it, where there is any, the excess.
    fn count(&self, out: &mut String, over: &str, count: &str, lane: &Lane, limit: u64) {
        let running = lane.running(self.axis.len(), |time| self.axis.bin(time));
        let level = |style: Style, part: u64| {
            // Full only from the limit on, and never nothing for something.
            let level = u128::from(part.min(limit)) * 8 / u128::from(limit);
            let level = (level as usize).max(1);
            (part > 0).then(|| (style, self.glyphs.levels[level - 1]))
        };
        if lane.is_beyond() {
            self.row(out, over, |bin| {
                level(BEYOND, running[bin].saturating_sub(limit))
            });
        }
        self.row(out, count, |bin| level(ADMITTED, running[bin].min(limit)));
    }

    /// Times, each at the beginning of its bin.
    fn labels(&self, out: &mut String) {
        let mut line = String::new();
        let mut used = 0;
        for (time, text) in self.axis.labels((self.columns as u64 / 12).max(2)) {
            let Some(bin) = self.axis.bin(time) else {
                continue;
            };
            let boundaries = (1..=bin).filter(|bin| self.has_boundary(*bin)).count();
            // At the boundary itself, if it is one.
            let column = bin + boundaries - usize::from(self.has_boundary(bin));
            let column = match bin {
                0 => self.gutter,
                _ => self.gutter + 1 + column,
            };
            let room = self.gutter + 1 + self.columns;
            if column < used || column + text.len() > room {
                continue;
            }
            let _ = write!(line, "{:1$}{text}", "", column - line.len());
            used = column + text.len() + 2;
        }
        let _ = writeln!(out, "{QUIET}{line}{QUIET:#}");
        let title = self.axis.title();
        if title != "time" {
            let _ = writeln!(out, "{QUIET}{:1$}{title}{QUIET:#}", "", self.gutter);
        }
    }
}
