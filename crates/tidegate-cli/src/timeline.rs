//! Counts over time, in bins that widen as the time grows: a picture needs no more.

const SECOND: u64 = 1_000_000_000;

/// Most bins that are kept. The coarsest step between two widths is five, so a long log has at least a fifth.
const BINS_MAX: u64 = 720;

/// Widths in seconds, each a multiple of the one before. After the last they double.
const WIDTHS: [u64; 14] = [
    1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800,
];

/// Admitted and refused requests of one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bin {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
}

/// The bins of one candidate.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Seconds.
    width: u64,
    /// Which multiple of the width the first bin begins at.
    first: u64,
    bins: Vec<Bin>,
}

impl Timeline {
    /// No bins yet.
    pub(crate) fn new() -> Self {
        Self {
            width: WIDTHS[0],
            first: 0,
            bins: Vec::new(),
        }
    }

    /// Counts one request.
    pub(crate) fn count(&mut self, time: u64, is_admitted: bool) {
        let seconds = time / SECOND;
        let mut number = seconds / self.width;
        if self.bins.is_empty() {
            self.first = number;
        }
        let end = self.first + self.bins.len() as u64;
        if number < self.first || number >= end {
            loop {
                let first = number.min(self.first);
                let last = number.max(self.first + (self.bins.len() as u64).saturating_sub(1));
                if last - first < BINS_MAX {
                    self.reach(first, last);
                    break;
                }
                self.widen();
                number = seconds / self.width;
            }
        }
        let bin = &mut self.bins[(number - self.first) as usize];
        if is_admitted {
            bin.admitted += 1;
        } else {
            bin.refused += 1;
        }
    }

    /// Adds empty bins so that they go from `first` to `last`.
    fn reach(&mut self, first: u64, last: u64) {
        let missing = (self.first - first) as usize;
        self.bins
            .splice(0..0, core::iter::repeat_n(Bin::default(), missing));
        self.first = first;
        self.bins
            .resize((last - first) as usize + 1, Bin::default());
    }

    fn widen(&mut self) {
        let wider = WIDTHS.iter().find(|&&width| width > self.width);
        let ratio = wider.map_or(2, |width| width / self.width);
        let first = self.first / ratio;
        let mut bins: Vec<Bin> = Vec::new();
        for (at, bin) in self.bins.iter().enumerate() {
            let number = (self.first + at as u64) / ratio - first;
            if number as usize == bins.len() {
                bins.push(*bin);
            } else if let Some(sum) = bins.last_mut() {
                sum.admitted += bin.admitted;
                sum.refused += bin.refused;
            }
        }
        self.width *= ratio;
        self.first = first;
        self.bins = bins;
    }

    /// How long a bin is, in seconds.
    pub(crate) fn width(&self) -> u64 {
        self.width
    }

    /// When the first bin begins, in seconds since 1970.
    pub(crate) fn start(&self) -> u64 {
        self.first * self.width
    }

    /// The bins, one after the other.
    pub(crate) fn bins(&self) -> &[Bin] {
        &self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_divide_each_other() {
        for pair in WIDTHS.windows(2) {
            assert_eq!(pair[1] % pair[0], 0);
            assert!(pair[1] / pair[0] <= 5);
        }
    }

    #[test]
    fn nothing_is_lost_and_nothing_moves() {
        // Times that jump about, forwards and backwards, over years.
        let mut random = oorandom::Rand64::new(7);
        let mut timeline = Timeline::new();
        let mut seen = Vec::new();
        let mut time = 1_445_742_685_u64;
        for round in 0_u64..3_000 {
            let reach = 1 << (round / 120).min(26);
            time = (time + random.rand_range(0..2 * reach)).saturating_sub(reach);
            let is_admitted = random.rand_range(0..3) > 0;
            timeline.count(time * SECOND, is_admitted);
            seen.push((time, is_admitted));
        }
        assert!(timeline.bins().len() as u64 <= BINS_MAX);
        assert!(timeline.width() > 86_400);
        for (at, bin) in timeline.bins().iter().enumerate() {
            let from = timeline.start() + at as u64 * timeline.width();
            let within = |want: bool| {
                let range = from..from + timeline.width();
                seen.iter()
                    .filter(|(time, is)| range.contains(time) && *is == want)
                    .count() as u64
            };
            assert_eq!((bin.admitted, bin.refused), (within(true), within(false)));
        }
    }

    #[test]
    fn a_short_log_keeps_its_seconds() {
        let mut timeline = Timeline::new();
        for second in [100, 160, 100, 99] {
            timeline.count(second * SECOND + 5, true);
        }
        assert_eq!(
            (timeline.width(), timeline.start(), timeline.bins().len()),
            (1, 99, 62)
        );
        assert_eq!(timeline.bins()[1].admitted, 2);
    }
}
