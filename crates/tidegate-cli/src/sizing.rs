//! The smallest limit that would have refused nobody, or hardly anybody: per key and algorithm, in one pass.
//!
//! As long as a key is never refused, what an algorithm remembers of it depends on its requests alone, and not on
//! the limit. So the least limit that never refuses it is the largest that any of its requests asks for,
//! and smaller ones refuse at least one. Time never runs backwards here: a request older than the one before
//! it, of the same key, counts as of the same instant.

mod points;
#[cfg(test)]
mod tests;

use points::Points;

use crate::policy::Kind;

/// How many rows a sizing can have: one for each algorithm, and one for a token bucket with a given burst.
pub(crate) const ROWS: usize = Kind::ALL.len() + 1;

/// A key that no limit can serve: more requests than the burst came at one instant.
pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// Shares of keys that may be refused, as divisors of their number; the first is none at all.
const SHARES: [Option<usize>; 3] = [None, Some(1_000), Some(100)];

/// Everything that is kept of one key.
#[derive(Debug)]
struct Key {
    /// Requests so far.
    count: u64,
    /// Number of the current aligned window, and requests in it and in the one before.
    window: u64,
    current: u64,
    previous: u64,
    /// Where the anchored window began, and requests in it.
    anchor: u64,
    anchored: u64,
    log: Points,
    bucket: Points,
    /// The least limit so far: [`Kind::ALL`] in order, then the bucket with the given burst.
    needs: [u64; ROWS],
}

/// The least limits of all keys.
#[derive(Debug)]
pub(crate) struct Sizing {
    period: u64,
    burst: Option<u64>,
    keys: Vec<Key>,
    /// For the bucket with a given burst, if there is one.
    fixed_burst: Vec<Points>,
}

/// One row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    /// The given burst; the limit itself if absent.
    pub(crate) burst: Option<u64>,
    /// For each share of keys, the smallest limit that refuses no more of them.
    pub(crate) limits: [Target; 3],
    /// Keys that send more than the burst at one instant.
    pub(crate) hopeless: u64,
}

/// A limit, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Keys that may be refused.
    pub(crate) keys: u64,
    /// The smallest limit that refuses at most those; `None` if no limit does.
    pub(crate) limit: Option<u64>,
    /// How many it refuses in fact.
    pub(crate) refused: u64,
}

impl Sizing {
    /// For limits per `period` nanoseconds, and also for a token bucket of this burst, if given.
    pub(crate) fn new(period: u64, burst: Option<u64>) -> Self {
        Self {
            period,
            burst,
            keys: Vec::new(),
            fixed_burst: Vec::new(),
        }
    }

    /// The period that the limits are for.
    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// Counts a request of a key at `time`, which is no earlier than the key's last one. A new key has the
    /// number of those seen before.
    pub(crate) fn request(&mut self, id: usize, time: u64) {
        let period = self.period;
        if id == self.keys.len() {
            self.keys.push(Key::new(time, time / period));
            if self.burst.is_some() {
                self.fixed_burst.push(Points::new(time));
            }
        }
        let key = &mut self.keys[id];
        let index = key.count;
        key.count += 1;
        let count = key.count;
        let raise = |need: &mut u64, to: u64| *need = (*need).max(to);

        let window = time / period;
        if window != key.window {
            key.previous = if window == key.window + 1 {
                key.current
            } else {
                0
            };
            key.window = window;
            key.current = 0;
        }
        key.current += 1;
        let [bucket, fixed, anchored, sliding, log, burst] = &mut key.needs;
        raise(fixed, key.current);
        let rest = u128::from(period - time % period);
        // The rest is at most the period, so the weight is at most the count.
        let fading = (u128::from(key.previous) * rest).div_ceil(u128::from(period)) as u64;
        raise(sliding, fading + key.current);

        if time - key.anchor >= period {
            key.anchor = time;
            key.anchored = 0;
        }
        key.anchored += 1;
        raise(anchored, key.anchored);

        let earliest = key.log.since(time, index, period);
        raise(log, count - earliest);

        key.bucket.add(time, index, *bucket, period);
        let until = i128::from(time) + i128::from(period);
        *bucket = key
            .bucket
            .steepest(until, i128::from(count), *bucket, period);

        if let Some(size) = self.burst {
            let points = &mut self.fixed_burst[id];
            points.add(time, index, *burst, period);
            if count - points.last().1 > size {
                *burst = NO_LIMIT;
            } else {
                let count = i128::from(count) - i128::from(size);
                *burst = points.steepest(i128::from(time), count, *burst, period);
            }
        }
    }

    /// The smallest limits.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Kind::ALL
            .iter()
            .enumerate()
            .map(|(at, &kind)| self.row(at, kind, None))
            .collect();
        if self.burst.is_some() {
            rows.insert(1, self.row(ROWS - 1, Kind::TokenBucket, self.burst));
        }
        rows
    }

    fn row(&self, at: usize, kind: Kind, burst: Option<u64>) -> Row {
        let mut needs: Vec<u64> = self.keys.iter().map(|key| key.needs[at]).collect();
        needs.sort_unstable_by(|a, b| b.cmp(a));
        let limits = SHARES.map(|share| {
            let keys = share.map_or(0, |divisor| needs.len() / divisor);
            let limit = needs.get(keys).copied().unwrap_or(1);
            Target {
                keys: keys as u64,
                limit: (limit != NO_LIMIT).then_some(limit),
                refused: needs.partition_point(|&need| need > limit) as u64,
            }
        });
        Row {
            kind,
            burst,
            limits,
            hopeless: needs.partition_point(|&need| need == NO_LIMIT) as u64,
        }
    }
}

impl Key {
    fn new(time: u64, window: u64) -> Self {
        Self {
            count: 0,
            window,
            current: 0,
            previous: 0,
            anchor: time,
            anchored: 0,
            log: Points::new(time),
            bucket: Points::new(time),
            needs: [1; ROWS],
        }
    }
}
