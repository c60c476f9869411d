//! A key's past as points (time, requests before it), and what the sliding log and the token bucket ask of it.
//!
//! A bucket whose burst is its limit `L` never refuses a key if, for any requests `i <= j`,
//! `j + 1 - i <= L * (1 + (t_j - t_i) / P)`. So `L / P` must be at least the slope from every point `(t_i, i)`
//! to `(t_j + P, j + 1)`. With a burst `B` of its own it is the slope to `(t_j, j + 1 - B)`.
//!
//! Only the lower convex hull of the points can hold the steepest slope, and of that only what begins with an
//! edge steeper than `need / P`, with `need` the limit already known to be necessary: if the first edge is no
//! steeper, then whatever is seen more steeply than `need / P` from its first point is seen more steeply still
//! from its second. So the first point may be dropped. And once the first edge is steeper than `need / P`,
//! and `need / P` at least as steep as the view from the first point, the later points see still less. So
//! looking at the front is enough, and every point is pushed and popped once.

use std::collections::VecDeque;

/// Points in order of time. The last one is kept apart: most keys never have another, and need no heap.
#[derive(Debug)]
pub(super) struct Points {
    earlier: VecDeque<(u64, u64)>,
    last: (u64, u64),
}

impl Points {
    /// The first request, at `time`.
    pub(super) fn new(time: u64) -> Self {
        Self {
            earlier: VecDeque::new(),
            last: (time, 0),
        }
    }

    /// The newest point: the first request of the newest instant.
    pub(super) fn last(&self) -> (u64, u64) {
        self.last
    }

    /// How many points are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.earlier.len() + 1
    }

    /// For the log: adds request number `index`, and returns the number of the first request that is less
    /// than a period older. Keeps the instants of one period.
    pub(super) fn since(&mut self, time: u64, index: u64, period: u64) -> u64 {
        while self
            .earlier
            .front()
            .is_some_and(|point| time - point.0 >= period)
        {
            self.earlier.pop_front();
        }
        if time > self.last.0 {
            if time - self.last.0 < period {
                self.earlier.push_back(self.last);
            }
            self.last = (time, index);
        }
        self.earlier.front().unwrap_or(&self.last).1
    }

    /// For a bucket: adds request number `index` to the hull, and drops what can no longer matter.
    pub(super) fn add(&mut self, time: u64, index: u64, need: u64, period: u64) {
        if time > self.last.0 {
            let new = (time, index);
            // Points on or above the line between their neighbours are not on the lower hull.
            while let Some(&before) = self.earlier.back() {
                if is_below(before, self.last, new) {
                    break;
                }
                self.last = before;
                self.earlier.pop_back();
            }
            self.earlier.push_back(self.last);
            self.last = new;
        }
        self.drop_front(need, period);
    }

    /// The least limit, `need` or more, that is at least `period` times the slope from any point to `(x, y)`.
    ///
    /// No point lies after `x`, and one that lies at `x` lies no lower than `y`: such a one asks for nothing.
    pub(super) fn steepest(&mut self, x: i128, y: i128, mut need: u64, period: u64) -> u64 {
        loop {
            let front = self.earlier.front().unwrap_or(&self.last);
            // A count is far below 2^62 and the period below 2^64; only the limit can be huge.
            let rise = (y - i128::from(front.1)) * i128::from(period);
            let run = x - i128::from(front.0);
            if rise <= i128::from(need).saturating_mul(run) {
                return need;
            }
            // Positive, and rounded up. A limit that needs 64 bits is none.
            let least = (rise + run - 1) / run;
            need = u64::try_from(least).unwrap_or(super::NO_LIMIT);
            self.drop_front(need, period);
        }
    }

    /// Drops points from the front while the first edge is no steeper than `need / period`.
    fn drop_front(&mut self, need: u64, period: u64) {
        while let Some(&first) = self.earlier.front() {
            let second = self.earlier.get(1).unwrap_or(&self.last);
            let rise = i128::from(second.1 - first.1) * i128::from(period);
            let run = i128::from(second.0 - first.0);
            if rise > i128::from(need).saturating_mul(run) {
                return;
            }
            self.earlier.pop_front();
        }
    }
}

/// Whether `b` lies below the line from `a` to `c`.
fn is_below(a: (u64, u64), b: (u64, u64), c: (u64, u64)) -> bool {
    let (first, second) = (
        (i128::from(b.0 - a.0), i128::from(b.1 - a.1)),
        (i128::from(c.0 - b.0), i128::from(c.1 - b.1)),
    );
    first.1 * second.0 < second.1 * first.0
}
