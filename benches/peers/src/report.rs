//! The results as markdown.

use std::fmt::Write;

use crate::growth::{Filled, Streamed, Task};
use crate::measure::Spread;
use crate::pause::Pause;
use crate::rows::{FLOOR, GOVERNOR, NARROW, WIDE};
use crate::slowest::Slowest;
use crate::speed::{Cell, Mode};

/// Everything that one run found.
#[derive(Default)]
pub struct Results {
    /// What was measured on and when.
    pub machine: String,
    pub effort: String,
    pub cells: Vec<Cell>,
    pub filled: Vec<Filled>,
    pub streamed: Vec<Streamed>,
    pub pauses: Vec<Pause>,
    pub slowest: Vec<Slowest>,
    /// Rows that did not do what they were to do.
    pub wrong: Vec<String>,
}

impl Results {
    fn cell(&self, row: &str, keys: &str, mode: Mode) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.row == row && cell.keys == keys && cell.mode == mode)
    }

    /// The median, where it was measured.
    pub fn value(&self, row: &str, keys: &str, mode: Mode) -> Option<f64> {
        Some(self.cell(row, keys, mode)?.value.median)
    }

    /// Everything as one page.
    pub fn markdown(&self) -> String {
        let mut page = format!("# Keyed limiters, side by side\n\n{}\n", self.machine);
        let _ = writeln!(page, "\n{}", self.effort);
        self.aims(&mut page);
        let modes = [
            (Mode::OneByOne, "One key at a time", "ns a check"),
            (
                Mode::Denied,
                "Every check denied",
                "ns a check; a denial need not write",
            ),
            (
                Mode::Isolated,
                "Each check complete before the next begins",
                "ns a check, a fence after each",
            ),
            (
                Mode::Batches(16),
                "In batches of 16",
                "ns a check; only rows that have such a call",
            ),
            (
                Mode::Batches(32),
                "In batches of 32",
                "ns a check; only rows that have such a call",
            ),
            (
                Mode::TwoThreads,
                "Two threads on one limiter",
                "millions of checks a second in all: more is better",
            ),
        ];
        for (mode, title, unit) in modes {
            self.speeds(&mut page, mode, title, unit);
        }
        self.memory(&mut page);
        self.streams(&mut page);
        self.stalls(&mut page);
        self.single(&mut page);
        if !self.wrong.is_empty() {
            page += "\n## Not comparable\n\n";
            for complaint in &self.wrong {
                let _ = writeln!(page, "- {complaint}");
            }
        }
        page
    }

    fn speeds(&self, page: &mut String, mode: Mode, title: &str, unit: &str) {
        let cells = self.cells.iter().filter(|cell| cell.mode == mode);
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for cell in cells {
            if !rows.contains(&cell.row) {
                rows.push(cell.row);
            }
            if !columns.contains(&cell.keys) {
                columns.push(cell.keys);
            }
        }
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(
            page,
            "\n## {title}\n\n{unit}; × is the ratio to *{FLOOR}*\n"
        );
        let _ = writeln!(page, "| | {} |", columns.join(" | "));
        let _ = writeln!(page, "|---|{}", "---|".repeat(columns.len()));
        for row in rows {
            let _ = write!(page, "| {row} |");
            for keys in &columns {
                match self.cell(row, keys, mode) {
                    Some(cell) => {
                        let ratio = number(cell.ratio.median);
                        let _ = write!(page, " {} ×{ratio} |", spread(cell.value));
                    }
                    None => *page += " |",
                }
            }
            *page += "\n";
        }
    }

    fn memory(&self, page: &mut String) {
        if self.filled.is_empty() {
            return;
        }
        *page += "\n## Memory at a million live keys\n\n\
            bytes a key; the peak is that of resident memory while filling\n\n\
            | | allocated | resident | peak | keys that found no room |\n|---|---|---|---|---|\n";
        for filled in &self.filled {
            let bytes = [filled.allocated, filled.resident, filled.peak].map(number);
            let (row, refused) = (filled.row, filled.refused);
            let _ = writeln!(page, "| {row} | {} | {refused:.0} |", bytes.join(" | "));
        }
    }

    fn streams(&self, page: &mut String) {
        if self.streamed.is_empty() {
            return;
        }
        *page += "\n## An endless stream of new keys\n\n\
            no key comes twice, and each is idle again after 100,000 others; ns a key, with page faults; medians of whole runs\n\n\
            | | ns | resident memory grew by | slowest 64 keys | passed |\n|---|---|---|---|---|\n";
        for streamed in &self.streamed {
            let how = match streamed.task {
                Task::StreamSwept => ", idle keys dropped every million keys",
                Task::StreamFull => ", every slot live",
                _ => "",
            };
            let _ = writeln!(
                page,
                "| {}{how} | {} | {} MB | {} | {} % |",
                streamed.row,
                number(streamed.nanos),
                number(streamed.growth / 1e6),
                time(streamed.worst),
                number(100.0 * streamed.passed),
            );
        }
    }

    fn stalls(&self, page: &mut String) {
        if self.pauses.is_empty() {
            return;
        }
        *page += "\n## Clean-up at a million keys\n\n\
            what another thread's checks feel meanwhile; a row that never cleans up is watched for 10 ms\n\n\
            | | keys | clean-up takes | slowest check | slowest at rest | checks meanwhile, of those at rest |\n\
            |---|---|---|---|---|---|\n";
        for pause in &self.pauses {
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} | {:.0} % |",
                pause.row,
                if pause.live { "all live" } else { "all idle" },
                pause
                    .took
                    .map_or("no such call".into(), |took| time(took.median)),
                time(pause.slowest.median),
                time(pause.slowest_at_rest.median),
                100.0 * pause.speed.median,
            );
        }
    }

    fn single(&self, page: &mut String) {
        if self.slowest.is_empty() {
            return;
        }
        *page += "\n## The slowest single check of a new key\n\n\
            of a million while none is idle, and of two million more when the first million is; each check is timed\n\n\
            | | growing: slowest | above 100 µs | idle keys there: slowest | above 100 µs |\n|---|---|---|---|---|\n";
        for slowest in &self.slowest {
            let range = |spread: Spread| {
                let [median, min, max] = [spread.median, spread.min, spread.max].map(time);
                format!("{median} ({min}–{max})")
            };
            let _ = writeln!(
                page,
                "| {} | {} | {:.0} | {} | {:.0} |",
                slowest.row,
                range(slowest.growing),
                slowest.growing_long,
                range(slowest.dropping),
                slowest.dropping_long,
            );
        }
    }

    /// What we want of our own rows, and whether it is so.
    fn aims(&self, page: &mut String) {
        let mut lines = Vec::new();
        let mut aim = |what: String, wanted: f64, found: Option<f64>, at_most: bool| {
            let Some(found) = found else { return };
            let met = if at_most {
                found <= wanted
            } else {
                found >= wanted
            };
            let sign = if at_most { "≤" } else { "≥" };
            let met = if met { "yes" } else { "**no**" };
            let (wanted, found) = (number(wanted), number(found));
            lines.push(format!("| {what} | {sign} {wanted} | {found} | {met} |"));
        };

        let floor = |keys, mode| Some(self.cell(WIDE, keys, mode)?.ratio.median);
        for (keys, wanted) in [("1 k", 1.6), ("1 M", 2.0), ("10 M", 2.0)] {
            let what = format!("time to the floor's, {keys} keys, one at a time");
            aim(what, wanted, floor(keys, Mode::OneByOne), true);
        }
        for keys in ["1 M", "10 M"] {
            let what = format!("time to the floor's, {keys} keys, isolated");
            aim(what, 1.15, floor(keys, Mode::Isolated), true);
            for size in [16, 32] {
                let what = format!("time to the floor's, {keys} keys, batches of {size}");
                aim(what, 1.1, floor(keys, Mode::Batches(size)), true);
            }
        }
        let what = "throughput to the floor's, 1 M keys, two threads";
        aim(what.into(), 0.7, floor("1 M", Mode::TwoThreads), false);

        let governor = |keys, ours, theirs| {
            Some(self.value(GOVERNOR, keys, theirs)? / self.value(WIDE, keys, ours)?)
        };
        let one = Mode::OneByOne;
        let against = "times as fast as governor with ahash";
        for (keys, mode, wanted, how) in [
            ("1 k", one, 1.8, "one at a time"),
            ("10 M", one, 1.5, "one at a time"),
            ("1 M", Mode::Batches(32), 4.0, "in batches of 32"),
        ] {
            let what = format!("{against}, {keys} keys, {how}");
            aim(what, wanted, governor(keys, mode, one), false);
        }
        let two = governor("1 M", Mode::TwoThreads, Mode::TwoThreads).map(|ratio| 1.0 / ratio);
        let what = format!("{against}, 1 M keys, two threads");
        aim(what, 2.0, two, false);

        for (row, wanted, width) in [(WIDE, 32.0, "u64"), (NARROW, 12.0, "u32")] {
            let mut filled = self.filled.iter();
            let filled = filled.find(|filled| filled.row == row);
            let what = format!("resident bytes a live key, {width} words");
            aim(
                what,
                wanted,
                filled.map(|filled| filled.resident.round()),
                true,
            );
        }
        for streamed in self.streamed.iter().filter(|streamed| streamed.row == WIDE) {
            let how = match streamed.task {
                Task::StreamFull => "on a full table",
                _ => "on a table with room",
            };
            aim(
                format!("ns a new key, {how}"),
                60.0,
                Some(streamed.nanos),
                true,
            );
            let growth = streamed.growth / 1e6;
            aim(
                format!("MB grown by new keys, {how}"),
                1.0,
                Some(growth),
                true,
            );
        }
        if !lines.is_empty() {
            *page += "\n## Aims\n\n| | aim | here | met |\n|---|---|---|---|\n";
            *page += &lines.join("\n");
            *page += "\n";
        }
    }
}

/// Three digits or so.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        1e2.. => 0,
        1e1.. => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn spread(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    format!("{} ({}–{})", number(median), number(min), number(max))
}

fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        1e6.. => (nanos / 1e6, "ms"),
        1e3.. => (nanos / 1e3, "µs"),
        _ => (nanos, "ns"),
    };
    format!("{} {unit}", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(5.256), "5.26");
        assert_eq!(number(-12.34), "-12.3");
        assert_eq!(number(905.4), "905");
        assert_eq!(time(1_500.0), "1.50 µs");
    }
}
