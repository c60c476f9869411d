//! The picture: admitted and refused requests over time, one panel a candidate.

use core::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::replay::Replay;
use crate::report::thousands;
use crate::timeline::{Bin, Timeline};

const WIDTH: u32 = 1_100;
const HEADER: u32 = 48;
const PANEL: u32 = 240;
/// What the time axis takes below the last panel.
const FOOTER: u32 = 40;
const Y_LABELS: u32 = 64;
const FONT: &str = "sans-serif";

// Far apart in hue and in lightness.
const ADMITTED: RGBColor = RGBColor(0x8f, 0xb8, 0xde);
const REFUSED: RGBColor = RGBColor(0xc2, 0x2a, 0x12);

/// Draws the timelines of all candidates into an SVG file.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn draw(path: &Path, replay: &Replay) -> Result<()> {
    let mut svg = String::new();
    render(&mut svg, replay).map_err(|error| anyhow!("{error}"))?;
    std::fs::write(path, svg)?;
    Ok(())
}

fn render(svg: &mut String, replay: &Replay) -> Result<(), Box<dyn core::error::Error>> {
    let panels = replay
        .candidates
        .iter()
        .filter_map(|candidate| Some((candidate, candidate.timeline.as_ref()?)));
    // All candidates see the same requests, so their bins are the same stretches of time.
    let Some((_, any)) = panels.clone().next() else {
        return Ok(());
    };
    let axis = TimeAxis::of(any);
    let most = any.bins().iter().map(|bin| bin.admitted + bin.refused);
    let most = most.max().unwrap_or(0).max(1);

    let count = panels.clone().count() as u32;
    let height = HEADER + count * PANEL + FOOTER;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (header, mut rest) = root.split_vertically(HEADER);
    let width = span_text(any.width());
    legend(&header, &format!("Requests per {width}, by verdict"))?;

    for (number, (candidate, timeline)) in (1..).zip(panels) {
        let is_last = number == count;
        let footer = if is_last { FOOTER } else { 0 };
        let (panel, below) = rest.split_vertically(PANEL + footer);
        rest = below;
        let mut chart = ChartBuilder::on(&panel)
            .caption(
                format!(
                    "{}: {} of {} refused",
                    candidate.policy,
                    thousands(candidate.refused),
                    thousands(replay.requests)
                ),
                (FONT, 17),
            )
            .margin_right(24)
            .margin_left(10)
            .margin_top(4)
            .y_label_area_size(Y_LABELS)
            .x_label_area_size(8 + footer)
            .build_cartesian_2d(axis.clone(), 0..most + most.div_ceil(20))?;
        chart
            .configure_mesh()
            .y_desc(format!("requests per {width}"))
            .x_desc(if is_last { axis.title() } else { String::new() })
            .y_labels(6)
            .y_label_formatter(&|&count| thousands(count))
            .x_label_formatter(&|&second| {
                if is_last {
                    text(second, axis.format)
                } else {
                    String::new()
                }
            })
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 14))
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .draw()?;
        let admitted = area(timeline, |_| 0, |bin| bin.admitted);
        chart.draw_series([Polygon::new(admitted, ADMITTED.filled())])?;
        let refused = area(
            timeline,
            |bin| bin.admitted,
            |bin| bin.admitted + bin.refused,
        );
        chart.draw_series([Polygon::new(refused, REFUSED.filled())])?;
    }
    root.present()?;
    Ok(())
}

/// The title, and what the colours mean.
fn legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
) -> Result<(), Box<dyn core::error::Error>> {
    area.draw(&Text::new(title.to_owned(), (16, 14), (FONT, 22)))?;
    let entries = [
        ("admitted", ADMITTED, WIDTH as i32 - 320),
        ("refused (on top)", REFUSED, WIDTH as i32 - 190),
    ];
    for (name, color, x) in entries {
        area.draw(&Rectangle::new([(x, 16), (x + 18, 32)], color.filled()))?;
        area.draw(&Text::new(name, (x + 26, 16), (FONT, 16)))?;
    }
    Ok(())
}

/// The outline of a stack's layer, between its floor and its ceiling, in steps as wide as the bins.
fn area(
    timeline: &Timeline,
    floor: impl Fn(&Bin) -> u64,
    ceiling: impl Fn(&Bin) -> u64,
) -> Vec<(u64, u64)> {
    let step = |height: &dyn Fn(&Bin) -> u64| {
        let mut points: Vec<(u64, u64)> = Vec::new();
        for (at, bin) in timeline.bins().iter().enumerate() {
            let from = timeline.start() + at as u64 * timeline.width();
            let height = height(bin);
            match points.last_mut() {
                // The same height goes on.
                Some(end) if end.1 == height => end.0 += timeline.width(),
                _ => points.extend([(from, height), (from + timeline.width(), height)]),
            }
        }
        points
    };
    let mut outline = step(&ceiling);
    outline.extend(step(&floor).into_iter().rev());
    outline
}

/// Seconds since 1970, with labels at round times.
#[derive(Clone)]
struct TimeAxis {
    from: u64,
    to: u64,
    /// Where the labels are.
    ticks: Vec<u64>,
    /// How they are written, for `strftime`.
    format: &'static str,
}

pub(crate) const DAY: u64 = 86_400;

/// Distances between labels that people find round. Beyond them, months are counted.
pub(crate) const STEPS: [u64; 20] = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    DAY,
    2 * DAY,
    7 * DAY,
];

/// Most labels on the time axis.
const LABELS: u64 = 10;

impl TimeAxis {
    fn of(timeline: &Timeline) -> Self {
        let from = timeline.start();
        let to = from + timeline.bins().len() as u64 * timeline.width();
        let is_within_a_day = from / DAY == (to - 1) / DAY;
        let step = STEPS.into_iter().find(|step| (to - from) / step < LABELS);
        let format = match step {
            Some(0..60) if is_within_a_day => "%H:%M:%S",
            Some(0..60) => "%b %d %H:%M:%S",
            Some(60..DAY) if is_within_a_day => "%H:%M",
            Some(60..DAY) => "%b %d %H:%M",
            _ => "%Y-%m-%d",
        };
        let ticks = match step {
            Some(step) => (from.div_ceil(step) * step..=to)
                .step_by(step as usize)
                .collect(),
            None => month_ticks(from, to),
        };
        Self {
            from,
            to,
            ticks,
            format,
        }
    }

    fn title(&self) -> String {
        if self.from / DAY == (self.to - 1) / DAY {
            format!("time on {} (UTC)", text(self.from, "%Y-%m-%d"))
        } else {
            "time (UTC)".to_owned()
        }
    }
}

/// The first days of months, or of every so many, for spans of at least ten weeks.
fn month_ticks(from: u64, to: u64) -> Vec<u64> {
    let year_and_month = |second: u64| {
        let parts = text(second, "%Y %m");
        let (year, month) = parts.split_once(' ')?;
        Some(year.parse::<u64>().ok()? * 12 + month.parse::<u64>().ok()? - 1)
    };
    let (Some(first), Some(last)) = (year_and_month(from), year_and_month(to)) else {
        return Vec::new();
    };
    let step = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600]
        .into_iter()
        .find(|step| (last - first) / step < LABELS)
        .unwrap_or(1_200);
    (first.div_ceil(step) * step..=last)
        .step_by(step as usize)
        .filter_map(|month| first_of_month(month / 12, month % 12 + 1))
        .filter(|second| (from..=to).contains(second))
        .collect()
}

/// When a month begins, in seconds since 1970.
fn first_of_month(year: u64, month: u64) -> Option<u64> {
    let date = jiff::civil::DateTime::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        1,
        0,
        0,
        0,
        0,
    );
    let instant = jiff::tz::TimeZone::UTC.to_timestamp(date.ok()?).ok()?;
    u64::try_from(instant.as_second()).ok()
}

fn text(second: u64, format: &str) -> String {
    match jiff::Timestamp::from_second(i64::try_from(second).unwrap_or(i64::MAX)) {
        Ok(instant) => instant.strftime(format).to_string(),
        Err(_) => second.to_string(),
    }
}

impl Ranged for TimeAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = u64;

    fn map(&self, value: &u64, limit: (i32, i32)) -> i32 {
        let part = value.saturating_sub(self.from) as f64 / (self.to - self.from) as f64;
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<u64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<u64> {
        self.from..self.to
    }
}

/// The width of a bin: one unit, or a number of the largest unit that fits.
fn span_text(seconds: u64) -> String {
    let (unit, name) = [(DAY, "day"), (3_600, "hour"), (60, "minute"), (1, "second")]
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit))
        .unwrap_or((1, "second"));
    match seconds / unit {
        1 => name.to_owned(),
        count => format!("{count} {name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(from: u64, to: u64) -> TimeAxis {
        let mut timeline = Timeline::new();
        for second in [from, to] {
            timeline.count(second * 1_000_000_000, true);
        }
        TimeAxis::of(&timeline)
    }

    #[test]
    fn labels_are_neither_many_nor_missing() {
        let start = 1_445_742_685;
        for length in (0..32).flat_map(|power| [1_u64 << power, 3 << power]) {
            let axis = axis(start, start + length);
            let labels = axis.ticks.len() as u64;
            assert!(labels <= LABELS + 1, "{length}: {labels}");
            assert!(labels >= 3 || length < 3, "{length}: {labels}");
            assert!(axis.ticks.is_sorted());
            let range = axis.from..=axis.to;
            assert!(
                axis.ticks.iter().all(|tick| range.contains(tick)),
                "{length}"
            );
        }
    }

    #[test]
    fn labels_are_round() {
        let labels = |from: u64, to: u64| -> Vec<String> {
            let axis = axis(from, to);
            let label = |tick: &u64| text(*tick, axis.format);
            axis.ticks.iter().take(2).map(label).collect()
        };
        // 2015-10-25 03:11:25
        let start = 1_445_742_685;
        assert_eq!(labels(start, start + 40), ["03:11:25", "03:11:30"]);
        assert_eq!(labels(start, start + 3_600), ["03:20", "03:30"]);
        assert_eq!(
            labels(start, start + 2 * DAY),
            ["Oct 25 06:00", "Oct 25 12:00"]
        );
        assert_eq!(labels(start, start + 6 * DAY), ["2015-10-26", "2015-10-27"]);
        assert_eq!(
            labels(start, start + 200 * DAY),
            ["2015-11-01", "2015-12-01"]
        );
        assert_eq!(
            labels(start, start + 3_000 * DAY),
            ["2016-01-01", "2017-01-01"]
        );
    }

    #[test]
    fn an_area_encloses_its_bins() {
        let mut timeline = Timeline::new();
        for (second, is_admitted) in [(10, true), (10, false), (11, true), (13, true)] {
            timeline.count(second * 1_000_000_000, is_admitted);
        }
        assert_eq!(
            area(&timeline, |_| 0, |bin| bin.admitted),
            [
                (10, 1),
                (12, 1),
                (12, 0),
                (13, 0),
                (13, 1),
                (14, 1),
                (14, 0),
                (10, 0)
            ]
        );
        assert_eq!(
            area(
                &timeline,
                |bin| bin.admitted,
                |bin| bin.admitted + bin.refused
            )[..2],
            [(10, 2), (11, 2)]
        );
    }

    #[test]
    fn widths_in_words() {
        assert_eq!(span_text(1), "second");
        assert_eq!(span_text(600), "10 minutes");
        assert_eq!(span_text(86_400), "day");
    }
}
