//! The raw operands of a decision, and what can be computed from them.

use crate::gate::Lapse;
use crate::scale::Ramp;

/// What remaining, retry and reset are computed from, when somebody asks.
#[derive(Clone, Copy)]
pub(crate) enum Basis {
    /// Permits, and nanoseconds. In an admission `retry` is when everything comes back at once; 0 if it comes back
    /// bit by bit, or nobody knows how.
    Plain {
        remaining: u64,
        retry: u64,
        reset: u64,
    },
    /// An admission by several gates.
    Together {
        remaining: u64,
        next: u64,
        reset: u64,
        lapse: Lapse,
    },
    /// A refusal by one or more of several gates.
    Refused {
        remaining: u64,
        next: u64,
        retry: u64,
        reset: u64,
    },
    /// An exact log, in nanoseconds: in a refusal, `retry` is when the cost passes.
    Log {
        remaining: u64,
        next: u64,
        retry: u64,
        reset: u64,
    },
    /// A token bucket, in units of its word: how far it is from full, how far from having enough, and what
    /// one permit costs.
    Bucket {
        debt: u64,
        excess: u64,
        per: u64,
        ramp: Ramp,
    },
    /// A sliding window: its counts, what the denied request cost, and nanoseconds until the window ends,
    /// which is more than a period away if it has not begun.
    Sliding {
        previous: u32,
        current: u32,
        cost: u32,
        end: u64,
        period: u64,
    },
}

impl Basis {
    /// The same, and when one permit more passes.
    pub(super) const fn with_next(self, next: u64) -> Self {
        match self {
            Self::Plain {
                remaining,
                retry,
                reset,
            } => Self::Log {
                remaining,
                next,
                retry,
                reset,
            },
            // These know it better.
            other => other,
        }
    }

    pub(super) fn remaining(&self, limit: u64) -> u64 {
        match *self {
            Self::Plain { remaining, .. }
            | Self::Together { remaining, .. }
            | Self::Refused { remaining, .. }
            | Self::Log { remaining, .. } => remaining,
            // The burst's price fits a word. A permit costs more than nothing, which the compiler does not know.
            Self::Bucket { debt, per, .. } => (limit * per).saturating_sub(debt) / per.max(1),
            Self::Sliding {
                previous,
                current,
                end,
                period,
                ..
            } => {
                let rest = end.min(period);
                let weight =
                    (u128::from(previous) * u128::from(rest)).div_ceil(u128::from(period.max(1)));
                // rest <= period, so the weight is at most `previous`.
                limit
                    .saturating_sub(u64::from(current))
                    .saturating_sub(weight as u64)
            }
        }
    }

    pub(super) fn reset_ns(&self) -> u64 {
        match *self {
            Self::Plain { reset, .. }
            | Self::Together { reset, .. }
            | Self::Refused { reset, .. }
            | Self::Log { reset, .. } => reset,
            Self::Bucket { debt, ramp, .. } => ramp.nanos(debt),
            Self::Sliding {
                previous,
                current,
                end,
                period,
                ..
            } => match (previous, current) {
                (0, 0) => 0,
                (_, 0) => end,
                _ => end + period,
            },
        }
    }

    pub(super) fn retry_ns(&self, limit: u64) -> u64 {
        match *self {
            Self::Plain { retry, .. } | Self::Refused { retry, .. } | Self::Log { retry, .. } => {
                retry
            }
            // Only admissions are of this kind.
            Self::Together { .. } => 0,
            Self::Bucket { excess, ramp, .. } => ramp.nanos(excess),
            Self::Sliding {
                previous,
                current,
                cost,
                end,
                period,
            } => sliding_wait(limit, previous, current, u64::from(cost), end, period),
        }
    }

    /// How long until one permit more than now would pass; `None` if there are no more.
    pub(super) fn next_ns(&self, limit: u64) -> Option<u64> {
        let remaining = self.remaining(limit);
        if remaining >= limit {
            return None;
        }
        let wanted = remaining + 1;
        Some(match *self {
            // A retry of 0 is none at all.
            Self::Plain { retry, reset, .. } if retry > 0 => retry.min(reset),
            Self::Plain { reset, .. } => reset,
            Self::Together { next, .. } | Self::Refused { next, .. } | Self::Log { next, .. } => {
                next
            }
            // wanted <= limit, and the burst's price fits a word.
            Self::Bucket {
                debt, per, ramp, ..
            } => ramp.nanos(debt.saturating_sub((limit - wanted) * per)),
            Self::Sliding {
                previous,
                current,
                end,
                period,
                ..
            } => sliding_wait(limit, previous, current, wanted, end, period),
        })
    }
}

/// How long until a cost that does not fit into a sliding window now does.
fn sliding_wait(limit: u64, previous: u32, current: u32, cost: u64, end: u64, period: u64) -> u64 {
    // The cost fits as soon as the fading count weighs no more than the room beside it. If this
    // window has no room at all, that is in the next, when it is the current count that fades.
    let (until, beside, fading) = if u64::from(current) + cost <= limit {
        (end, u64::from(current) + cost, previous)
    } else {
        (end + period, cost, current)
    };
    // It does not fit now, so the room is less than what fades, and that is not zero: below one period.
    let room = limit.saturating_sub(beside);
    let early = u128::from(room) * u128::from(period) / u128::from(fading.max(1));
    until.saturating_sub(early as u64)
}
