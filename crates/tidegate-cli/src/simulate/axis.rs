//! Time on paper: bins, window boundaries and labels.

use core::ops::Range;

use super::input::is_calendar;
use crate::plot;

/// Time in bins of equal length, of which whole numbers make up a window, or the other way round. So each boundary
/// of windows lies between two bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    period: u64,
    /// Bins in a window; 1 if there are several windows in a bin.
    per_window: u64,
    /// Windows in a bin; 1 if there are several bins in a window.
    windows: u64,
    /// The number of the first bin, counted from time zero.
    first: u64,
    count: usize,
}

impl Axis {
    /// An axis for the times from `from` to just before `until`, of as many bins as there may be: at least two.
    pub(crate) fn new(period: u64, from: u64, until: u64, bins_max: usize) -> Self {
        let last = until.saturating_sub(1).max(from);
        // A single instant has no length of its own.
        let last = match last > from {
            true => last,
            false => from.saturating_add(period / 20),
        };
        let most = u128::from(bins_max as u64);
        let span = u128::from(last - from) + 1;
        let mut axis = Self {
            period,
            per_window: 1,
            windows: 1,
            first: 0,
            count: 0,
        };
        // The span's ends lie anywhere in their bins: it may take one more than fit by length alone, and with one less to
        // begin with never does.
        for fitting in [most, most - 1] {
            // A bin is at least a nanosecond.
            let fine = (fitting * u128::from(period) / span).min(period.into());
            axis.per_window = (fine as u64).max(1);
            if fine == 0 {
                axis.windows = span.div_ceil(u128::from(period) * fitting) as u64;
            }
            if axis.bins(from, last) <= most {
                break;
            }
        }
        axis.first = axis.number(from);
        axis.count = axis.bins(from, last) as usize;
        axis
    }

    fn bins(&self, from: u64, last: u64) -> u128 {
        u128::from(self.number(last) - self.number(from)) + 1
    }

    /// The number of the bin that holds a time.
    fn number(&self, time: u64) -> u64 {
        if self.windows > 1 {
            return time / self.period / self.windows;
        }
        let part = u128::from(time % self.period) * u128::from(self.per_window);
        time / self.period * self.per_window + (part / u128::from(self.period)) as u64
    }

    /// When a bin begins.
    pub(crate) fn begin(&self, bin: usize) -> u64 {
        let number = u128::from(self.first) + bin as u128;
        let period = u128::from(self.period);
        let begin = if self.windows > 1 {
            number * u128::from(self.windows) * period
        } else {
            let per_window = u128::from(self.per_window);
            number / per_window * period + (number % per_window * period).div_ceil(per_window)
        };
        // The end of the last bin may be beyond what can be told.
        u64::try_from(begin).unwrap_or(u64::MAX)
    }

    /// How many bins there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The bin that holds a time; `None` beyond the end. There is nothing before the beginning.
    pub(crate) fn bin(&self, time: u64) -> Option<usize> {
        let bin = self.number(time).saturating_sub(self.first) as usize;
        (bin < self.count).then_some(bin)
    }

    /// From the beginning of the first bin to the end of the last.
    pub(crate) fn range(&self) -> Range<u64> {
        self.begin(0)..self.begin(self.count)
    }

    /// How many bins make up a window; 0 if that is less than one.
    pub(crate) fn bins_in_window(&self) -> u64 {
        match self.windows {
            1 => self.per_window,
            _ => 0,
        }
    }

    /// Whether a window begins with a bin.
    pub(crate) fn is_boundary(&self, bin: usize) -> bool {
        (self.first + bin as u64).is_multiple_of(self.per_window)
    }

    /// Where a time lies on a line of so many units; `None` beyond the end.
    pub(crate) fn place(&self, time: u64, units: usize) -> Option<usize> {
        let range = self.range();
        let length = u128::from(range.end - range.start).max(1);
        let after = u128::from(time.saturating_sub(range.start));
        let place = (after * units as u128 / length) as usize;
        (place < units).then_some(place)
    }

    /// Times to label, at most so many, with their texts. The last may be the end.
    pub(crate) fn labels(&self, most: u64) -> Vec<(u64, String)> {
        let range = self.range();
        let step = step(range.end - range.start, most.max(1));
        let format = |time| match is_calendar(range.start) {
            true => calendar(time, calendar_format(&range, step)),
            false => stopwatch(time, step),
        };
        let mut labels = Vec::new();
        let mut next = range.start.div_ceil(step).checked_mul(step);
        while let Some(time) = next
            && time <= range.end
        {
            labels.push((time, format(time)));
            next = time.checked_add(step);
        }
        labels
    }

    /// What the labels are.
    pub(crate) fn title(&self) -> String {
        let range = self.range();
        match is_calendar(range.start) {
            true if is_within_a_day(&range) => {
                format!("time on {} (UTC)", calendar(range.start, "%Y-%m-%d"))
            }
            true => "time (UTC)".to_owned(),
            false => "time".to_owned(),
        }
    }
}

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = plot::DAY * SECOND;

fn is_within_a_day(range: &Range<u64>) -> bool {
    range.start / DAY == range.end.saturating_sub(1) / DAY
}

/// The smallest round distance of labels of which at most so many fit into a span.
fn step(span: u64, most: u64) -> u64 {
    let tens = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let steps = tens.chain(plot::STEPS.map(|seconds| seconds * SECOND));
    let weeks = (0..).map_while(|power| (7 * DAY).checked_mul(1 << power));
    steps
        .chain(weeks)
        .find(|step| span / step < most)
        .unwrap_or(u64::MAX)
}

fn calendar(time: u64, format: &str) -> String {
    match jiff::Timestamp::from_nanosecond(time.into()) {
        Ok(instant) => instant.strftime(format).to_string(),
        Err(_) => stopwatch(time, SECOND),
    }
}

fn calendar_format(range: &Range<u64>, step: u64) -> &'static str {
    let is_within_a_day = is_within_a_day(range);
    match step {
        0..SECOND => "%H:%M:%S%.f",
        SECOND..60_000_000_000 if is_within_a_day => "%H:%M:%S",
        SECOND..60_000_000_000 => "%b %d %H:%M:%S",
        60_000_000_000..DAY if is_within_a_day => "%H:%M",
        60_000_000_000..DAY => "%b %d %H:%M",
        _ => "%Y-%m-%d",
    }
}

/// A time in the largest unit of which the step is a whole number; minutes and more only if there are several
/// in a step.
fn stopwatch(time: u64, step: u64) -> String {
    let (unit, name) = [
        (DAY, 1, "d"),
        (3_600 * SECOND, 1, "h"),
        (60 * SECOND, 2, "min"),
        (SECOND, 1, "s"),
        (1_000_000, 1, "ms"),
        (1_000, 1, "us"),
    ]
    .into_iter()
    .find(|(unit, several, _)| step.is_multiple_of(*unit) && step / unit >= *several)
    .map_or((1, "ns"), |(unit, _, name)| (unit, name));
    format!("{} {name}", time / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn boundaries_lie_between_bins() {
        let axis = Axis::new(60 * SECOND, 0, 180 * SECOND, 86);
        assert_eq!((axis.len(), axis.bins_in_window()), (84, 28));
        assert_eq!(axis.range(), 0..180 * SECOND);
        assert_eq!(axis.bin(60 * SECOND - 1), Some(27));
        assert_eq!(axis.bin(60 * SECOND), Some(28));
        assert_eq!(axis.bin(180 * SECOND), None);
        assert!(axis.is_boundary(28) && !axis.is_boundary(29));
        // An hour of windows of a second: 3,600 into 86 bins are 42 to a bin.
        let axis = Axis::new(SECOND, 0, 3_600 * SECOND, 86);
        assert_eq!((axis.len(), axis.bins_in_window()), (86, 0));
        assert_eq!(axis.begin(1), 42 * SECOND);
    }

    #[test]
    fn the_end_of_time() {
        for (period, from) in [(60 * SECOND, u64::MAX), (1, u64::MAX - 5), (u64::MAX, 0)] {
            let axis = Axis::new(period, from, u64::MAX, 80);
            assert!((1..=80).contains(&axis.len()));
            assert!(axis.bin(from).is_some() && axis.place(from, 840).is_some());
            assert!(axis.labels(8).len() <= 9);
        }
    }

    #[test]
    fn round_labels() {
        let labels = |period, from, until| {
            let axis = Axis::new(period, from, until, 84);
            let labels = axis.labels(10);
            labels
                .into_iter()
                .map(|(_, text)| text)
                .take(3)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            labels(60 * SECOND, 0, 180 * SECOND),
            ["0 s", "30 s", "60 s"]
        );
        assert_eq!(labels(SECOND, 0, 3 * SECOND), ["0 ms", "500 ms", "1000 ms"]);
        assert_eq!(labels(DAY, 0, 3 * DAY), ["0 h", "12 h", "24 h"]);
        let start = 1_445_742_685 * SECOND;
        assert_eq!(
            labels(60 * SECOND, start, start + 600 * SECOND),
            ["03:12", "03:14", "03:16"]
        );
    }

    proptest! {
        #[test]
        fn every_axis_holds_its_times(
            period in 1_u64..=1 << 62,
            shift in 0_u32..62,
            from in 0_u64..1 << 62,
            span in 0_u64..1 << 62,
            span_shift in 0_u32..62,
            bins in 20_usize..300,
            inside in 0.0_f64..1.0,
        ) {
            let period = (period >> shift).max(1);
            let span = span >> span_shift;
            let axis = Axis::new(period, from, from + span + 1, bins);
            prop_assert!((1..=bins).contains(&axis.len()));
            let time = from + (span as f64 * inside) as u64;
            let bin = axis.bin(time);
            prop_assert!(bin.is_some());
            let bin = bin.unwrap_or_default();
            prop_assert!(axis.begin(bin) <= time && time < axis.begin(bin + 1));
            prop_assert_eq!(axis.bin(axis.begin(bin)), Some(bin));
            prop_assert_eq!(
                axis.is_boundary(bin),
                axis.begin(bin).is_multiple_of(period)
            );
            prop_assert!(axis.place(time, 840).is_some());
            prop_assert!(axis.labels(8).len() <= 9);
        }
    }
}
