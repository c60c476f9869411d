//! The picture: admitted and refused requests over time, one panel a candidate.

use core::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::replay::Replay;
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
            .caption(candidate.policy.to_string(), (FONT, 17))
            .margin_right(24)
            .margin_top(4)
            .y_label_area_size(Y_LABELS)
            .x_label_area_size(8 + footer)
            .build_cartesian_2d(axis, 0..most + most.div_ceil(20))?;
        chart
            .configure_mesh()
            .y_desc(format!("requests per {width}"))
            .x_desc(if is_last { axis.title() } else { String::new() })
            .y_labels(6)
            .x_label_formatter(&|&second| {
                if is_last {
                    axis.label(second)
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
#[derive(Clone, Copy)]
struct TimeAxis {
    from: u64,
    to: u64,
    /// Seconds between labels.
    step: u64,
}

const DAY: u64 = 86_400;

/// Distances between labels that people find round.
const STEPS: [u64; 22] = [
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
    30 * DAY,
    365 * DAY,
];

/// Most labels on the time axis.
const LABELS: u64 = 9;

impl TimeAxis {
    fn of(timeline: &Timeline) -> Self {
        let from = timeline.start();
        let to = from + timeline.bins().len() as u64 * timeline.width();
        let step = STEPS
            .into_iter()
            .find(|step| (to - from) / step < LABELS)
            .unwrap_or((to - from) / LABELS);
        Self { from, to, step }
    }

    fn is_within_a_day(&self) -> bool {
        self.from / DAY == (self.to - 1) / DAY
    }

    fn title(&self) -> String {
        if self.is_within_a_day() {
            format!("time on {} (UTC)", text(self.from, "%Y-%m-%d"))
        } else {
            "time (UTC)".to_owned()
        }
    }

    fn label(&self, second: u64) -> String {
        let format = match self.step {
            0..60 if self.is_within_a_day() => "%H:%M:%S",
            0..60 => "%b %d %H:%M:%S",
            60..DAY if self.is_within_a_day() => "%H:%M",
            60..DAY => "%b %d %H:%M",
            _ => "%Y-%m-%d",
        };
        text(second, format)
    }
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
        let first = self.from.div_ceil(self.step) * self.step;
        (first..=self.to).step_by(self.step as usize).collect()
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

    #[test]
    fn labels_are_round_and_few() {
        for length in [
            1,
            59,
            720,
            3_600,
            90_000,
            500_000,
            40_000_000,
            4_000_000_000,
        ] {
            let mut timeline = Timeline::new();
            for second in [1_445_742_685, 1_445_742_685 + length] {
                timeline.count(second * 1_000_000_000, true);
            }
            let axis = TimeAxis::of(&timeline);
            let points = axis.key_points(plotters::coord::ranged1d::LightPoints::new(10, 10));
            assert!(points.len() as u64 <= LABELS + 1, "{length}: {points:?}");
            assert!(!points.is_empty() || length > 40_000_000, "{length}");
            assert!(points.iter().all(|point| point % axis.step == 0));
        }
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
