//! Every algorithm and width behind one interface.

use core::time::Duration;

use tidegate::{
    Algorithm, Allowed, Denied, FixedWindow, Quota, SlidingWindow, Timestamp, TokenBucket, Word,
};

use super::model::{Model, Rule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bucket,
    NarrowBucket,
    Aligned,
    NarrowAligned,
    Anchored,
    NarrowAnchored,
    Sliding,
    NarrowSliding,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Bucket,
        Self::NarrowBucket,
        Self::Aligned,
        Self::NarrowAligned,
        Self::Anchored,
        Self::NarrowAnchored,
        Self::Sliding,
        Self::NarrowSliding,
    ];
}

/// An [`Algorithm`] whose states are payloads, whatever its word.
pub trait Subject {
    fn limit(&self) -> u64;
    fn payload_bits(&self) -> u32;
    fn step(&self, state: u64, now: u64, cost: u64) -> Result<(u64, Allowed), Denied>;
    fn refund(&self, state: u64, taken_at: u64, cost: u64) -> u64;
    fn idle_after(&self, state: u64, now: u64) -> Duration;
    fn is_idle(&self, state: u64, now: u64) -> bool;
}

impl<A: Algorithm> Subject for A {
    fn limit(&self) -> u64 {
        Algorithm::limit(self)
    }

    fn payload_bits(&self) -> u32 {
        A::Word::PAYLOAD_BITS
    }

    fn step(&self, state: u64, now: u64, cost: u64) -> Result<(u64, Allowed), Denied> {
        let before = A::Word::from_payload(state);
        let now = Timestamp::from_nanos(now);
        let answer = Algorithm::step(self, before, now, cost);
        assert_eq!(
            self.step_keyed(before, now, cost),
            answer,
            "a table decides the same"
        );
        let (next, allowed) = answer?;
        assert_eq!(
            A::Word::from_payload(next.payload()),
            next,
            "generation bits must stay zero"
        );
        Ok((next.payload(), allowed))
    }

    fn refund(&self, state: u64, taken_at: u64, cost: u64) -> u64 {
        let state = A::Word::from_payload(state);
        Algorithm::refund(self, state, Timestamp::from_nanos(taken_at), cost).payload()
    }

    fn idle_after(&self, state: u64, now: u64) -> Duration {
        let state = A::Word::from_payload(state);
        Algorithm::idle_after(self, state, Timestamp::from_nanos(now))
    }

    fn is_idle(&self, state: u64, now: u64) -> bool {
        let state = A::Word::from_payload(state);
        Algorithm::is_idle(self, state, Timestamp::from_nanos(now))
    }
}

/// A configured algorithm, and the exact model of it where the word holds it exactly.
pub struct Setup {
    pub kind: Kind,
    pub quota: Quota,
    pub burst: u64,
    pub subject: Box<dyn Subject>,
    pub model: Option<Model>,
    /// How long a clock may jump back and still be late, not a fresh start.
    pub horizon: Duration,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Setup {
    /// `None` if the word cannot hold it.
    pub fn new(kind: Kind, quota: Quota, burst: u64) -> Option<Self> {
        let period = quota.period().as_nanos() as u64;
        let bucket = |horizon, exact| {
            let common = gcd(quota.limit(), period);
            let rule = Rule::Bucket {
                num: quota.limit() / common,
                den: period / common,
                burst,
            };
            (horizon, exact, rule)
        };
        let window = |horizon: Duration, resolution: Duration, anchored| {
            let unit = resolution.as_nanos() as u64;
            let rule = Rule::Window {
                limit: quota.limit(),
                unit,
                length: period.div_ceil(unit),
                anchored,
                late_ns: horizon.as_nanos() as u64,
            };
            (horizon, true, rule)
        };
        let sliding = |horizon: Duration| {
            let rule = Rule::Sliding {
                limit: quota.limit(),
                period,
                late_ns: horizon.as_nanos() as u64,
            };
            (horizon, true, rule)
        };
        let (subject, (horizon, exact, rule)): (Box<dyn Subject>, _) = match kind {
            Kind::Bucket => {
                let it = TokenBucket::try_new_with_burst(quota, burst).ok()?;
                (Box::new(it), bucket(it.horizon(), it.shortfall_ppm() == 0))
            }
            Kind::NarrowBucket => {
                let it = TokenBucket::try_narrow_with_burst(quota, burst).ok()?;
                (Box::new(it), bucket(it.horizon(), false))
            }
            Kind::Aligned => {
                let it = FixedWindow::try_new(quota).ok()?;
                (Box::new(it), window(it.horizon(), it.resolution(), false))
            }
            Kind::NarrowAligned => {
                let it = FixedWindow::try_narrow(quota).ok()?;
                (Box::new(it), window(it.horizon(), it.resolution(), false))
            }
            Kind::Anchored => {
                let it = FixedWindow::try_anchored(quota).ok()?;
                (Box::new(it), window(it.horizon(), it.resolution(), true))
            }
            Kind::NarrowAnchored => {
                let it = FixedWindow::try_narrow_anchored(quota).ok()?;
                (Box::new(it), window(it.horizon(), it.resolution(), true))
            }
            Kind::Sliding => {
                let it = SlidingWindow::try_new(quota).ok()?;
                (Box::new(it), sliding(it.horizon()))
            }
            Kind::NarrowSliding => {
                let it = SlidingWindow::try_narrow(quota).ok()?;
                (Box::new(it), sliding(it.horizon()))
            }
        };
        let word_bits = subject.payload_bits() + tidegate::GENERATION_BITS;
        let burst = match kind {
            Kind::Bucket | Kind::NarrowBucket => burst,
            _ => quota.limit(),
        };
        Some(Self {
            kind,
            quota,
            burst,
            subject,
            model: exact.then(|| Model::new(rule, word_bits)),
            horizon,
        })
    }
}
