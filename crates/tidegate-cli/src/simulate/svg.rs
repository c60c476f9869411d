//! The lanes as a picture.
//!
//! All places are whole pixels, so that the same simulation gives the same bytes on every machine.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::lane::{Lane, Stack, Verdict, marks};
use super::span::span_text;
use super::{Simulation, beyond_text, headline, most_caption, most_number, totals};
use crate::policy::Kind;
use crate::report::thousands;

const WIDTH: i32 = 1_100;
const MARGIN: i32 = 24;
/// Where the lanes' plots begin, and how wide they may be.
const LEFT: i32 = 236;
const PLOT_MAX: i32 = WIDTH - LEFT - MARGIN;
/// How wide the texts at their left may be.
const LABELS: i32 = 200;
const HEADER: i32 = 140;
const FOOTER: i32 = 52;

/// From mark to mark, and half of a mark.
const PITCH: i32 = 14;
const RADIUS: i32 = 5;
/// Most marks in a stack, and the fewest for which there is room.
const STACK_MAX: u64 = 8;
const STACK_MIN: u64 = 4;

/// The chart of the count in the last period, what is between it and the marks, and between lanes.
const CHART: i32 = 50;
const GAP: i32 = 12;
const LANE_GAP: i32 = 26;

/// An excess over the limit is drawn at least this high.
const EXCESS_MIN: i32 = 4;

const FONT: &str = "sans-serif";

// Blue and vermilion, which are told apart by colour-blind people; and by lightness and shape without colour.
const ADMITTED: RGBColor = RGBColor(0x1b, 0x5e, 0xa8);
const ADMITTED_AREA: RGBColor = RGBColor(0xa9, 0xcb, 0xea);
const BEYOND: RGBColor = RGBColor(0xd5, 0x3e, 0x0c);
const REFUSED: RGBColor = RGBColor(0x6a, 0x6f, 0x78);
const TEXT: RGBColor = RGBColor(0x1c, 0x1f, 0x24);
const QUIET: RGBColor = RGBColor(0x5a, 0x60, 0x6a);
const LINE: RGBColor = RGBColor(0xc9, 0xcd, 0xd3);
const WINDOW: RGBColor = RGBColor(0xf3, 0xf5, 0xf8);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn core::error::Error>>;

/// Draws a simulation into an SVG file.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn draw(path: &Path, simulation: &Simulation) -> Result<()> {
    let mut svg = String::new();
    render(&mut svg, simulation).map_err(|error| anyhow!("{error}"))?;
    std::fs::write(path, svg)?;
    Ok(())
}

fn render(svg: &mut String, simulation: &Simulation) -> Drawn {
    let arrivals = &simulation.arrivals;
    let bins = (PLOT_MAX / PITCH) as usize;
    let axis = Axis::new(simulation.period, arrivals.from, arrivals.until, bins);
    let stacks: Vec<Vec<Stack>> = simulation
        .lanes
        .iter()
        .map(|lane| lane.stacks(&arrivals.times, &axis))
        .collect();
    let (per, highest) = marks(&stacks, STACK_MAX);
    let marks_height = highest.max(STACK_MIN) as i32 * PITCH;
    let lane_height = marks_height + GAP + CHART + LANE_GAP;
    let lanes = simulation.lanes.len() as i32;
    let bottom = HEADER + lanes * lane_height - LANE_GAP;

    let page = Page {
        simulation,
        axis,
        width: axis.len() as i32 * PITCH,
        marks_height,
        per,
        most: simulation
            .lanes
            .iter()
            .map(|lane| lane.most.count)
            .max()
            .unwrap_or(0),
    };
    let height = (bottom + FOOTER) as u32;
    let area = SVGBackend::with_string(svg, (WIDTH as u32, height)).into_drawing_area();
    area.fill(&WHITE)?;
    page.windows(&area, bottom)?;
    page.header(&area)?;
    for (number, (lane, stacks)) in (0..).zip(simulation.lanes.iter().zip(&stacks)) {
        page.lane(&area, HEADER + number * lane_height, lane, stacks)?;
    }
    page.labels(&area, bottom)?;
    area.present()?;
    Ok(())
}

/// What all lanes share.
struct Page<'a> {
    simulation: &'a Simulation,
    axis: Axis,
    /// Of the plots.
    width: i32,
    marks_height: i32,
    /// Requests a mark.
    per: u64,
    /// The most that any lane admitted in a period.
    most: u64,
}

impl Page<'_> {
    /// Where a time lies.
    fn x(&self, time: u64) -> i32 {
        let place = self.axis.place(time, self.width as usize);
        LEFT + place.map_or(self.width, |place| place as i32)
    }

    /// Whether windows are wide enough to be told apart.
    fn has_windows(&self) -> bool {
        self.axis.bins_in_window() >= 3
    }

    fn header(&self, area: &Area<'_>) -> Drawn {
        write(
            area,
            (MARGIN, 32),
            &headline(self.simulation),
            24,
            TEXT,
            LEFT_BOLD,
        )?;
        let about = &self.simulation.arrivals.about;
        write(area, (MARGIN, 58), about, 17, QUIET, LEFT_PLAIN)?;

        let mut x = MARGIN + RADIUS;
        let y = 86;
        let entry = |x: &mut i32, text: &str, color, place| {
            write(area, (*x + place, y), text, 16, color, LEFT_PLAIN)?;
            // Wide enough for any common font.
            *x += place + text.chars().count() as i32 * 7 + 24;
            Drawn::Ok(())
        };
        mark(area, (x, y), Verdict::Admitted)?;
        entry(&mut x, "admitted", TEXT, 12)?;
        mark(area, (x, y), Verdict::Beyond)?;
        let beyond = format!("admitted, {}", beyond_text(self.simulation));
        entry(&mut x, &beyond, TEXT, 12)?;
        mark(area, (x, y), Verdict::Refused)?;
        entry(&mut x, "refused", TEXT, 12)?;
        swatch(area, (x - RADIUS, y), ADMITTED_AREA)?;
        swatch(area, (x + 12, y), BEYOND)?;
        let count = format!("admitted in the last {}", span_text(self.simulation.period));
        entry(&mut x, &count, TEXT, 34)?;
        let is_anchored = |lane: &Lane| lane.policy.kind == Kind::FixedWindowAnchored;
        if self.has_windows() && self.simulation.lanes.iter().any(is_anchored) {
            bracket(area, (x - RADIUS, x + 24), y)?;
            entry(&mut x, "an anchored window", TEXT, 34)?;
        }
        if self.per > 1 {
            let per = format!("a mark is up to {} requests", thousands(self.per));
            write(area, (WIDTH - MARGIN, 32), &per, 16, TEXT, RIGHT_PLAIN)?;
        }
        Ok(())
    }

    /// The windows behind everything: every second one shaded, and a line where each begins.
    fn windows(&self, area: &Area<'_>, bottom: i32) -> Drawn {
        if !self.has_windows() {
            return Ok(());
        }
        let begins = (0..self.axis.len()).filter(|bin| self.axis.is_boundary(*bin));
        let begins: Vec<i32> = begins.map(|bin| LEFT + bin as i32 * PITCH).collect();
        let top = HEADER - 28;
        let end = LEFT + self.width;
        for (at, &begin) in begins.iter().enumerate() {
            let next = begins.get(at + 1).copied().unwrap_or(end);
            if at % 2 == 1 {
                let corners = [(begin, top), (next, bottom)];
                area.draw(&Rectangle::new(corners, WINDOW.filled()))?;
            }
            if begin > LEFT {
                area.draw(&line([(begin, top), (begin, bottom)], LINE, 1))?;
            }
            if next - begin >= 130 {
                let text = format!("window of {}", span_text(self.simulation.period));
                let middle = (begin + next) / 2;
                write(area, (middle, top + 9), &text, 14, QUIET, CENTER_PLAIN)?;
            }
        }
        Ok(())
    }

    fn lane(&self, area: &Area<'_>, top: i32, lane: &Lane, stacks: &[Stack]) -> Drawn {
        let policy = &lane.policy;
        let name = match policy.burst {
            Some(burst) => format!("{}, burst {burst}", policy.kind.name()),
            None => policy.kind.name().to_owned(),
        };
        let color = if lane.is_beyond() { BEYOND } else { TEXT };
        let label = |down: i32, text: &str, size: i32, color, setting: Setting| {
            // Smaller, if there is no room for it.
            let is_bold = matches!(setting, (_, FontStyle::Bold));
            let room = LABELS * if is_bold { 8 } else { 9 } / 4;
            let size = (room / text.chars().count() as i32).clamp(9, size);
            write(area, (MARGIN, top + down), text, size, color, setting)
        };
        label(8, &name, 18, TEXT, LEFT_BOLD)?;
        label(30, &totals(lane), 15, QUIET, LEFT_PLAIN)?;
        label(68, &most_caption(self.simulation), 15, QUIET, LEFT_PLAIN)?;
        label(92, &most_number(lane), 25, color, LEFT_BOLD)?;

        let floor = top + self.marks_height;
        for (bin, stack) in stacks.iter().enumerate() {
            let x = LEFT + bin as i32 * PITCH + PITCH / 2;
            for (row, verdict) in (0..).zip(stack.marks(self.per).verdicts()) {
                mark(area, (x, floor - row * PITCH - PITCH / 2), verdict)?;
            }
        }
        area.draw(&line([(LEFT, floor), (LEFT + self.width, floor)], LINE, 1))?;
        self.own_windows(area, floor, lane)?;
        self.chart(area, floor + GAP, lane)
    }

    /// An algorithm's own windows, if they are not those of the others, as brackets.
    fn own_windows(&self, area: &Area<'_>, floor: i32, lane: &Lane) -> Drawn {
        if !self.has_windows() {
            return Ok(());
        }
        let begins = lane.own_windows();
        let period = self.simulation.period;
        for begin in &begins {
            let (from, to) = (self.x(*begin), self.x(begin.saturating_add(period)));
            bracket(area, (from + 1, to - 1), floor + 5)?;
        }
        Ok(())
    }

    /// How many were admitted in the last period, with a line at the limit.
    fn chart(&self, area: &Area<'_>, top: i32, lane: &Lane) -> Drawn {
        let limit = lane.policy.quota.limit();
        let base = top + CHART;
        let full = u128::from(self.most.max(limit));
        // Never nothing for something.
        let height = |count: u64| {
            let height = u128::from(count) * (CHART as u128) / full;
            (height as i32).max(i32::from(count > 0))
        };
        let limit_y = base - height(limit);
        let top_of = |count: u64| match base - height(count) {
            y if count > limit => y.min(limit_y - EXCESS_MIN),
            y => y,
        };
        let running = lane.running(self.width as usize, |time| {
            self.axis.place(time, self.width as usize)
        });
        let below = outline(&running, base, |count| top_of(count).max(limit_y));
        area.draw(&Polygon::new(below, ADMITTED_AREA.filled()))?;
        if lane.is_beyond() {
            let above = outline(&running, limit_y, |count| top_of(count).min(limit_y));
            area.draw(&Polygon::new(above, BEYOND.filled()))?;
        }
        area.draw(&line([(LEFT, base), (LEFT + self.width, base)], LINE, 1))?;
        let mut dash = LEFT;
        while dash < LEFT + self.width {
            let end = (dash + 6).min(LEFT + self.width);
            area.draw(&line([(dash, limit_y), (end, limit_y)], TEXT, 1))?;
            dash += 10;
        }
        write(
            area,
            (LEFT - 6, limit_y),
            &thousands(limit),
            14,
            TEXT,
            RIGHT_PLAIN,
        )?;
        if base - limit_y >= 14 {
            write(area, (LEFT - 6, base), "0", 14, QUIET, RIGHT_PLAIN)?;
        }
        Ok(())
    }

    fn labels(&self, area: &Area<'_>, bottom: i32) -> Drawn {
        for (time, text) in self.axis.labels((self.width as u64 / 84).max(2)) {
            let x = self.x(time);
            area.draw(&line([(x, bottom), (x, bottom + 5)], QUIET, 1))?;
            let half = text.chars().count() as i32 * 4;
            let x = x.min(WIDTH - MARGIN / 2 - half);
            write(area, (x, bottom + 17), &text, 15, TEXT, CENTER_PLAIN)?;
        }
        let middle = LEFT + self.width / 2;
        write(
            area,
            (middle, bottom + 38),
            &self.axis.title(),
            15,
            QUIET,
            CENTER_PLAIN,
        )
    }
}

/// A mark around a point: filled if it was admitted, of another shape beyond the limit, hollow if refused.
fn mark(area: &Area<'_>, (x, y): (i32, i32), verdict: Verdict) -> Drawn {
    match verdict {
        Verdict::Admitted => area.draw(&Circle::new((x, y), RADIUS, ADMITTED.filled()))?,
        Verdict::Beyond => {
            let reach = RADIUS + 1;
            let corners = [
                (x, y - reach),
                (x + reach, y),
                (x, y + reach),
                (x - reach, y),
            ];
            area.draw(&Polygon::new(corners, BEYOND.filled()))?;
        }
        Verdict::Refused => area.draw(&Circle::new((x, y), RADIUS - 1, REFUSED.stroke_width(2)))?,
    }
    Ok(())
}

/// The outline of an area over a floor, in steps a pixel wide.
fn outline(counts: &[u64], floor: i32, top: impl Fn(u64) -> i32) -> Vec<(i32, i32)> {
    let mut x = LEFT;
    let mut points = vec![(x, floor)];
    for run in counts.chunk_by(|one, next| one == next) {
        let y = top(run[0]);
        points.push((x, y));
        x += run.len() as i32;
        points.push((x, y));
    }
    points.push((x, floor));
    points
}

/// A stretch of time.
fn bracket(area: &Area<'_>, (from, to): (i32, i32), y: i32) -> Drawn {
    area.draw(&line([(from, y), (to, y)], QUIET, 2))?;
    for x in [from, to] {
        area.draw(&line([(x, y - 4), (x, y + 4)], QUIET, 2))?;
    }
    Ok(())
}

/// A piece of the chart, for the legend.
fn swatch(area: &Area<'_>, (x, y): (i32, i32), color: RGBColor) -> Drawn {
    let corners = [(x, y - 6), (x + 14, y + 6)];
    area.draw(&Rectangle::new(corners, color.filled()))?;
    Ok(())
}

fn line(ends: [(i32, i32); 2], color: RGBColor, width: u32) -> PathElement<(i32, i32)> {
    PathElement::new(ends, color.stroke_width(width))
}

/// How a text lies at its point, and whether it is bold.
type Setting = (HPos, FontStyle);

const LEFT_PLAIN: Setting = (HPos::Left, FontStyle::Normal);
const LEFT_BOLD: Setting = (HPos::Left, FontStyle::Bold);
const CENTER_PLAIN: Setting = (HPos::Center, FontStyle::Normal);
const RIGHT_PLAIN: Setting = (HPos::Right, FontStyle::Normal);

fn write(
    area: &Area<'_>,
    at: (i32, i32),
    text: &str,
    size: i32,
    color: RGBColor,
    (side, style): Setting,
) -> Drawn {
    let style = TextStyle::from((FONT, size).into_font().style(style))
        .color(&color)
        .pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}
