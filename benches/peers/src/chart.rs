//! The main rows as a chart.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Results, number};
use crate::rows::{FLOOR, GOVERNOR, NARROW, WIDE};
use crate::speed::Mode;

/// What is shown: the name in the legend, the row, how it was driven, and the colour.
const BARS: [(&str, &str, Mode, RGBColor); 10] = [
    (
        "floor: hash, probe, CAS",
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
        "governor, as shipped, own clock",
        Mode::OneByOne,
        RGBColor(240, 150, 90),
    ),
    (
        "DashMap by hand",
        "DashMap by hand, ahash",
        Mode::OneByOne,
        RGBColor(60, 140, 70),
    ),
    (
        "Mutex<HashMap> by hand",
        "Mutex<HashMap> by hand, SipHash",
        Mode::OneByOne,
        RGBColor(150, 195, 110),
    ),
    (
        "tokio-rate-limit",
        "tokio-rate-limit, own clock",
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
        .build_cartesian_2d(
            (0..groups.len()).into_segmented(),
            (LOWEST..highest).log_scale(),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(RGBColor(240, 240, 240))
        .y_desc("ns a check (logarithmic)")
        .y_label_formatter(&|value| number_of(*value))
        .x_labels(groups.len())
        .x_label_formatter(&|segment| match segment {
            SegmentValue::CenterOf(group) => groups
                .get(*group)
                .map_or_else(String::new, |(_, label)| (*label).into()),
            _ => String::new(),
        })
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 15))
        .draw()?;

    // Within a group by pixels: the segmented axis knows only whole groups.
    let area = chart.plotting_area();
    let (width, _) = area.dim_in_pixel();
    let group_width = f64::from(width) / groups.len() as f64;
    let bar_width = group_width * 0.92 / bars.len() as f64;
    let left = area.get_pixel_range().0.start;
    let plain = area.strip_coord_spec();
    let bottom = area.map_coordinate(&(SegmentValue::Exact(0), LOWEST)).1;
    let top_of_plot = area.get_pixel_range().1.start;
    let label = ("sans-serif", 11).into_font().into_text_style(&root);
    let label = label.pos(Pos::new(HPos::Center, VPos::Bottom));
    for (group, (keys, _)) in groups.iter().enumerate() {
        for (bar, (_, row, mode, colour)) in bars.iter().enumerate() {
            let Some(value) = results.value(row, keys, *mode) else {
                continue;
            };
            let from = group as f64 * group_width + group_width * 0.04 + bar as f64 * bar_width;
            let top = area.map_coordinate(&(SegmentValue::Exact(0), value)).1 - top_of_plot;
            let (from, to) = (from as i32, (from + bar_width) as i32 - 1);
            let corners = [(from, top), (to, bottom - top_of_plot)];
            plain.draw(&Rectangle::new(corners, colour.filled()))?;
            let text = if value < 10.0 {
                format!("{value:.1}")
            } else {
                format!("{value:.0}")
            };
            plain.draw(&Text::new(text, ((from + to) / 2, top - 2), label.clone()))?;
        }
    }
    let _ = left;

    let entry = ("sans-serif", 14).into_font().into_text_style(&root);
    for (place, (name, _, _, colour)) in bars.iter().enumerate() {
        let (x, y) = (74 + (place % 5) as i32 * 240, 8 + (place / 5) as i32 * 26);
        legend.draw(&Rectangle::new([(x, y), (x + 14, y + 14)], colour.filled()))?;
        legend.draw(&Text::new(*name, (x + 20, y + 1), entry.clone()))?;
    }
    root.present()?;
    Ok(())
}

fn number_of(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.0}")
    } else {
        number(value).trim_end_matches(".00").into()
    }
}
