//! The replay: every request, in order, against every candidate.

use anyhow::Result;
use tidegate::{OwnedStrategy, Timestamp, VecLogState};

use crate::key::{KeyKind, Keys};
use crate::log::{LineParser, Record, Unreadable};
use crate::policy::{Limiter, Policy};
use crate::sizing::Sizing;
use crate::timeline::Timeline;

/// How many unreadable lines are kept to be shown.
const SHOWN: usize = 5;

/// How much of an unreadable line is kept, in bytes.
const SHOWN_BYTES: usize = 80;

/// One line that could not be read.
#[derive(Debug)]
pub(crate) struct BadLine {
    pub(crate) number: u64,
    pub(crate) why: Unreadable,
    /// How it begins.
    pub(crate) head: String,
}

/// What is known of a key apart from any candidate.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Its newest time.
    newest: u64,
    requests: u64,
}

/// A policy and its verdicts.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) policy: Policy,
    limiter: Limiter,
    /// A key that has been quiet for this long, in nanoseconds, is fresh.
    fresh_after: u64,
    states: Vec<u64>,
    logs: Vec<VecLogState>,
    /// Refused requests by key.
    refused_of: Vec<u64>,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) timeline: Option<Timeline>,
}

/// Where a log has come to.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) keys: Keys,
    pub(crate) key_kind: KeyKind,
    seen: Vec<Seen>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) sizing: Sizing,
    /// Lines, empty ones included.
    pub(crate) lines: u64,
    pub(crate) requests: u64,
    pub(crate) unreadable: u64,
    /// The first of them.
    pub(crate) bad_lines: Vec<BadLine>,
    /// Oldest and newest time, in nanoseconds.
    pub(crate) span: Option<(u64, u64)>,
    /// Requests older than one before them, and by how much at most.
    pub(crate) backward: u64,
    pub(crate) backward_most: u64,
}

impl Replay {
    /// Nothing read yet. There is at least one policy; the first one sets the sizing's period.
    ///
    /// # Errors
    ///
    /// If an algorithm cannot represent a limit.
    pub(crate) fn new(
        key_kind: KeyKind,
        policies: &[Policy],
        sizing: Sizing,
        with_timelines: bool,
    ) -> Result<Self> {
        let candidates = policies
            .iter()
            .map(|policy| Candidate::new(*policy, with_timelines))
            .collect::<Result<_>>()?;
        Ok(Self {
            keys: Keys::new(key_kind),
            key_kind,
            seen: Vec::new(),
            candidates,
            sizing,
            lines: 0,
            requests: 0,
            unreadable: 0,
            bad_lines: Vec::new(),
            span: None,
            backward: 0,
            backward_most: 0,
        })
    }

    /// Takes whole lines. Empty ones say nothing, and are not counted as unreadable.
    pub(crate) fn lines(&mut self, text: &[u8], parser: &mut LineParser) {
        let mut rest = text;
        while !rest.is_empty() {
            let (line, next) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &[][..]),
            };
            rest = next;
            self.lines += 1;
            let mut line = line.strip_suffix(b"\r").unwrap_or(line);
            if self.lines == 1 {
                // A byte order mark.
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            if line.is_empty() {
                continue;
            }
            match parser.parse(line) {
                Ok(record) => self.request(&record),
                Err(why) => self.bad_line(why, line),
            }
        }
    }

    /// Takes a line that was too long to be read.
    pub(crate) fn too_long(&mut self, head: &[u8]) {
        self.lines += 1;
        self.bad_line(Unreadable::TooLong, head);
    }

    fn bad_line(&mut self, why: Unreadable, line: &[u8]) {
        self.unreadable += 1;
        if self.bad_lines.len() < SHOWN {
            let head = &line[..line.len().min(SHOWN_BYTES)];
            self.bad_lines.push(BadLine {
                number: self.lines,
                why,
                head: String::from_utf8_lossy(head).into_owned(),
            });
        }
    }

    /// Takes one request.
    pub(crate) fn request(&mut self, record: &Record<'_>) {
        let time = record.time;
        self.requests += 1;
        let (oldest, newest) = self.span.unwrap_or((time, time));
        if time < newest {
            self.backward += 1;
            self.backward_most = self.backward_most.max(newest - time);
        }
        self.span = Some((oldest.min(time), newest.max(time)));

        let id = self.keys.intern(record);
        if id == self.seen.len() {
            self.seen.push(Seen {
                newest: time,
                requests: 0,
            });
        }
        let seen = &mut self.seen[id];
        let quiet = time.saturating_sub(seen.newest);
        seen.newest = seen.newest.max(time);
        seen.requests += 1;
        for candidate in &mut self.candidates {
            candidate.decide(id, Timestamp::from_nanos(time), quiet);
        }
        self.sizing.request(id, seen.newest);
    }

    /// How many requests a key has made.
    pub(crate) fn requests_of(&self, id: usize) -> u64 {
        self.seen[id].requests
    }
}

impl Candidate {
    /// Nothing decided yet.
    ///
    /// # Errors
    ///
    /// If the algorithm cannot represent the limit.
    pub(crate) fn new(policy: Policy, with_timeline: bool) -> Result<Self> {
        let period = Timestamp::from_duration(policy.quota.period()).as_nanos();
        let fresh_after = match policy.burst {
            // The time to fill the bucket.
            Some(burst) => {
                let fill = (u128::from(burst) * u128::from(period))
                    .div_ceil(u128::from(policy.quota.limit()));
                // A rate that the word can only approximate fills the bucket by up to a millionth later.
                u64::try_from(fill + fill / 100_000 + 1).unwrap_or(u64::MAX)
            }
            None => period.saturating_mul(2),
        };
        Ok(Self {
            policy,
            limiter: policy.limiter()?,
            fresh_after,
            states: Vec::new(),
            logs: Vec::new(),
            refused_of: Vec::new(),
            admitted: 0,
            refused: 0,
            timeline: with_timeline.then(Timeline::new),
        })
    }

    /// Whether one request passes, of a key that has made none for `quiet` nanoseconds. A new key has the
    /// number of those seen before.
    pub(crate) fn decide(&mut self, id: usize, now: Timestamp, quiet: u64) -> bool {
        if id == self.refused_of.len() {
            self.refused_of.push(0);
            match self.limiter {
                Limiter::Log(_) => self.logs.push(VecLogState::default()),
                _ => self.states.push(0),
            }
        }
        // Idle is fresh. Said explicitly, it also rules out that a word's time wraps unnoticed, in logs that
        // last for months.
        if quiet > self.fresh_after
            && let Some(state) = self.states.get_mut(id)
        {
            *state = 0;
        }
        let is_admitted = match &self.limiter {
            Limiter::Bucket(bucket) => admits(bucket, &mut self.states[id], now),
            Limiter::Fixed(window) => admits(window, &mut self.states[id], now),
            Limiter::Sliding(window) => admits(window, &mut self.states[id], now),
            Limiter::Log(log) => admits(log, &mut self.logs[id], now),
        };
        if is_admitted {
            self.admitted += 1;
        } else {
            self.refused += 1;
            self.refused_of[id] += 1;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.count(now.as_nanos(), is_admitted);
        }
        is_admitted
    }

    /// How many keys were refused at least once.
    pub(crate) fn keys_refused(&self) -> u64 {
        self.refused_of
            .iter()
            .filter(|&&refused| refused > 0)
            .count() as u64
    }

    /// The keys refused most, at most `count`, as (number, refused). Of equals, the one seen first leads.
    pub(crate) fn top(&self, count: usize) -> Vec<(usize, u64)> {
        let mut hurt: Vec<(usize, u64)> = self
            .refused_of
            .iter()
            .copied()
            .enumerate()
            .filter(|&(_, refused)| refused > 0)
            .collect();
        hurt.sort_unstable_by_key(|&(id, refused)| (core::cmp::Reverse(refused), id));
        hurt.truncate(count);
        hurt
    }
}

fn admits<S: OwnedStrategy>(limiter: &S, state: &mut S::State, now: Timestamp) -> bool {
    limiter.check_n(state, now, 1).is_ok()
}
