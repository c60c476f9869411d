//! The main rows as a chart.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::Results;
use crate::rows::{DASH, FLOOR, GOVERNOR, LOCKED, NARROW, SHIPPED, TOKIO, WIDE};
use crate::speed::Mode;

/// What is shown: the name in the legend, the row, how it was driven, and the colour.
const BARS: [(&str, &str, Mode, RGBColor); 10] = [
    (
        "floor: hash + probe + CAS",
        FLOOR,
        Mode::OneByOne,
        RGBColor(160, 160, 160),
    ),
    (
        "floor, batches of 32",
        FLOOR,
        Mode::Batches(32),
        RGBColor(205, 205, 205),
    ),
    ("tidegate", WIDE, Mode::OneByOne, RGBColor(0, 90, 160)),
    (
        "tidegate, batches of 32",
        WIDE,
        Mode::Batches(32),
        RGBColor(80, 165, 225),
    ),
    (
        "tidegate u32, batches of 32",
        NARROW,
        Mode::Batches(32),
        RGBColor(165, 215, 245),
    ),
    (
        "governor, ahash",
        GOVERNOR,
        Mode::OneByOne,
        RGBColor(200, 80, 30),
    ),
    (
        "governor, as shipped",
        SHIPPED,
        Mode::OneByOne,
        RGBColor(240, 150, 90),
    ),
    (
        "DashMap by hand",
        DASH,
        Mode::OneByOne,
        RGBColor(60, 140, 70),
    ),
    (
        "Mutex<HashMap> by hand",
        LOCKED,
        Mode::OneByOne,
        RGBColor(150, 195, 110),
    ),
    (
        "tokio-rate-limit",
        TOKIO,
        Mode::OneByOne,
        RGBColor(125, 80, 150),
    ),
];

const GROUPS: [(&str, &str); 5] = [
    ("1 k", "1 thousand keys"),
    ("100 k", "100 thousand"),
    ("1 M", "1 million"),
    ("10 M", "10 million"),
    ("1 M, zipf 0.99", "1 million, zipf 0.99"),
];

/// Writes the chart, if there is anything to show.
pub fn draw(results: &Results, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let groups: Vec<_> = GROUPS
        .iter()
        .filter(|(keys, _)| results.value(FLOOR, keys, Mode::OneByOne).is_some())
        .collect();
    let bars: Vec<_> = BARS
        .iter()
        .filter(|(_, row, mode, _)| {
            let mut groups = groups.iter();
            groups.any(|(keys, _)| results.value(row, keys, *mode).is_some())
        })
        .collect();
    if groups.is_empty() {
        return Ok(());
    }
    let values = groups.iter().flat_map(|(keys, _)| {
        let values = bars
            .iter()
            .map(|(_, row, mode, _)| results.value(row, keys, *mode));
        values.flatten()
    });
    let highest = values.fold(10.0, f64::max) * 1.6;
    const LOWEST: f64 = 2.0;

    let root = SVGBackend::new(path, (1280, 660)).into_drawing_area();
    root.fill(&WHITE)?;
    let (title, rest) = root.split_vertically(64);
    let middle = |size| {
        let font = ("sans-serif", size).into_font();
        font.into_text_style(&root)
            .pos(Pos::new(HPos::Center, VPos::Top))
    };
    let heading = "One decision of a keyed rate limiter, one thread: nanoseconds, fewer are better";
    title.draw(&Text::new(heading, (640, 12), middle(22)))?;
    title.draw(&Text::new(
        results.machine.replace('*', ""),
        (640, 42),
        middle(14),
    ))?;
    let (plot, legend) = rest.split_vertically(520);

    let mut chart = ChartBuilder::on(&plot)
        .margin(10)
        .margin_right(24)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..groups.len() as f64, (LOWEST..highest).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(RGBColor(240, 240, 240))
        .y_desc("ns a check (logarithmic)")
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 15))
        .draw()?;

    // A group is 1 wide, with a little air on both sides.
    let width = 0.92 / bars.len() as f64;
    for (group, (keys, label)) in groups.iter().enumerate() {
        let group = group as f64;
        for (bar, (_, row, mode, colour)) in bars.iter().enumerate() {
            let Some(value) = results.value(row, keys, *mode) else {
                continue;
            };
            let from = group + 0.04 + bar as f64 * width;
            let to = from + 0.95 * width;
            let whole = Rectangle::new([(from, LOWEST), (to, value)], colour.filled());
            chart.draw_series([whole])?;
            let (x, y) = chart.backend_coord(&((from + to) / 2.0, value));
            root.draw(&Text::new(short(value), (x, y - 14), middle(12)))?;
        }
        let (x, y) = chart.backend_coord(&(group + 0.5, LOWEST));
        root.draw(&Text::new(*label, (x, y + 10), middle(15)))?;
    }

    let entry = ("sans-serif", 14).into_font().into_text_style(&root);
    for (place, (name, _, _, colour)) in bars.iter().enumerate() {
        let (x, y) = (74 + (place % 5) as i32 * 240, 8 + (place / 5) as i32 * 26);
        legend.draw(&Rectangle::new([(x, y), (x + 14, y + 14)], colour.filled()))?;
        legend.draw(&Text::new(*name, (x + 20, y + 1), entry.clone()))?;
    }
    root.present()?;
    Ok(())
}

/// Two digits are enough above a bar.
fn short(value: f64) -> String {
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$}")
}
