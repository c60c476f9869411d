//! What a limiter answers.
//!
//! A decision carries the raw operands of what it can tell; the divisions happen in the accessors. So a
//! caller that only asks `is_ok()` pays for no more than that.

mod basis;

use core::fmt;
use core::time::Duration;

use crate::gate::Lapse;
use crate::time::saturating_nanos;

pub(crate) use basis::Basis;

/// The request may pass, and has been counted.
#[derive(Clone, Copy)]
pub struct Allowed {
    pub(crate) limit: u64,
    pub(crate) basis: Basis,
    /// False if the request passed although the gate would have refused it.
    pub(crate) counted: bool,
}

impl Allowed {
    /// An answer for an [`Algorithm`](crate::Algorithm) or a store of your own.
    pub const fn new(limit: u64, remaining: u64, reset_after: Duration) -> Self {
        Self {
            limit,
            basis: Basis::Plain {
                remaining,
                retry: 0,
                reset: saturating_nanos(reset_after),
            },
            counted: true,
        }
    }

    /// The answer of a store of your own whose limits count in windows: everything used comes back at once,
    /// `until_end` from now, when the window ends.
    ///
    /// It differs from [`new`](Self::new) in that a [`LeaseState`](crate::LeaseState) may keep what it took until
    /// then; after `new` it lets permits lapse one by one, which is right whatever the store's algorithm, but loses
    /// some of a window's.
    pub const fn in_window(limit: u64, remaining: u64, until_end: Duration) -> Self {
        let nanos = saturating_nanos(until_end);
        Self {
            limit,
            basis: Basis::Plain {
                remaining,
                retry: nanos,
                reset: nanos,
            },
            counted: true,
        }
    }

    /// The same answer of a store of your own, which also knows when one permit more than `remaining` passes.
    ///
    /// It is for stores whose permits come back one by one.
    #[must_use]
    pub const fn with_next_after(mut self, next: Duration) -> Self {
        self.basis = self.basis.with_next(saturating_nanos(next));
        self
    }

    /// The same, for a request that passes without being counted.
    #[inline]
    pub(crate) fn uncounted(self) -> Self {
        Self {
            counted: false,
            ..self
        }
    }

    /// Whether the request was counted. False if it passed a [`Shadow`](crate::Shadow) whose gate would have
    /// refused it, or a full table under [`OnFull::Allow`](crate::OnFull::Allow): then there is nothing to
    /// [`refund`](crate::Gate::refund).
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.counted
    }

    /// How long what was just taken may be kept unspent.
    pub(crate) fn lapse(&self) -> Lapse {
        if !self.counted {
            // Nothing was taken that could be kept.
            return Lapse::NEVER;
        }
        // The time until full is rounded up, to what the state's clock can tell.
        let evenly = |reset: u64, resolution: u64| {
            let used = self.limit.saturating_sub(self.remaining());
            Lapse::evenly(reset.saturating_sub(resolution), used)
        };
        match self.basis {
            Basis::Bucket { ramp, .. } => evenly(self.basis.reset_ns(), 1 << ramp.shift),
            Basis::Sliding { end, .. } => Lapse::at_once(end),
            Basis::Plain {
                retry: 0, reset, ..
            }
            | Basis::Log { reset, .. } => evenly(reset, 1),
            Basis::Plain { retry, .. } => Lapse::at_once(retry),
            Basis::Together { lapse, .. } => lapse,
            Basis::Refused { .. } => Lapse::NEVER,
        }
    }

    /// The most permits that can ever be left: the burst of a token bucket, the limit of a window.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How many more requests of cost 1 would pass at this same instant. Exact. One division.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.basis.remaining(self.limit)
    }

    /// How long until everything used so far has come back, if nothing more is taken. One division.
    #[inline]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.basis.reset_ns())
    }

    /// How long until one more than [`remaining`](Self::remaining) would pass, if nothing more is taken; `None` if
    /// there are never more.
    ///
    /// Exact to the nanosecond; but an answer made by [`new`](Self::new) only knows when everything is back. Two
    /// divisions.
    #[inline]
    pub fn next_after(&self) -> Option<Duration> {
        self.basis.next_ns(self.limit).map(Duration::from_nanos)
    }
}

impl PartialEq for Allowed {
    fn eq(&self, other: &Self) -> bool {
        self.limit == other.limit
            && self.remaining() == other.remaining()
            && self.reset_after() == other.reset_after()
    }
}

impl Eq for Allowed {}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed")
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Reason {
    /// Not now: it passes after [`Denied::retry_after`].
    Limited,
    /// Never: the cost is above the limit, or above the burst.
    TooCostly,
    /// The keyed table has no room for another live key.
    TableFull,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limited => "limited",
            Self::TooCostly => "too costly",
            Self::TableFull => "table full",
        })
    }
}

/// The request may not pass, and nothing was counted.
#[derive(Clone, Copy)]
pub struct Denied {
    pub(crate) reason: Reason,
    pub(crate) limit: u64,
    pub(crate) basis: Basis,
}

impl Denied {
    /// Refused for now; for an [`Algorithm`](crate::Algorithm) or a store of your own.
    pub const fn limited(
        limit: u64,
        remaining: u64,
        retry_after: Duration,
        reset_after: Duration,
    ) -> Self {
        Self {
            reason: Reason::Limited,
            limit,
            basis: Basis::Plain {
                remaining,
                retry: saturating_nanos(retry_after),
                reset: saturating_nanos(reset_after),
            },
        }
    }

    /// Refused for ever; for an [`Algorithm`](crate::Algorithm) or a store of your own.
    pub const fn too_costly(limit: u64, remaining: u64, reset_after: Duration) -> Self {
        Self {
            reason: Reason::TooCostly,
            limit,
            basis: Basis::Plain {
                remaining,
                retry: 0,
                reset: saturating_nanos(reset_after),
            },
        }
    }

    /// The same answer of a store of your own, which also knows when one permit more than `remaining` passes.
    #[must_use]
    pub const fn with_next_after(mut self, next: Duration) -> Self {
        self.basis = self.basis.with_next(saturating_nanos(next));
        self
    }

    /// Refused for want of room to count one more key.
    pub(crate) const fn table_full(limit: u64) -> Self {
        Self {
            reason: Reason::TableFull,
            limit,
            basis: Basis::Plain {
                remaining: 0,
                retry: 0,
                reset: 0,
            },
        }
    }

    /// Lets the request pass all the same, uncounted.
    #[inline]
    pub(crate) fn overruled(&self) -> Allowed {
        Allowed {
            limit: self.limit,
            basis: self.basis,
            counted: false,
        }
    }

    /// Why.
    #[inline]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// How long until the same request passes, if nothing else does meanwhile; `None` if waiting is no cure.
    ///
    /// Exact to the nanosecond: it passes after this, and not 1 ns earlier. Never zero. One division.
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.reason {
            Reason::Limited => Some(Duration::from_nanos(self.basis.retry_ns(self.limit))),
            Reason::TooCostly | Reason::TableFull => None,
        }
    }

    /// The most permits that can ever be left: the burst of a token bucket, the limit of a window.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How many requests of cost 1 would pass at this same instant; not always 0, since a refused request
    /// may cost more. One division.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.basis.remaining(self.limit)
    }

    /// How long until everything used so far has come back, if nothing more is taken. One division.
    #[inline]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.basis.reset_ns())
    }

    /// How long until one more than [`remaining`](Self::remaining) would pass, if nothing more is taken; `None` if
    /// there are never more, or if a full table could not tell.
    ///
    /// Exact to the nanosecond; but an answer made by [`limited`](Self::limited) or
    /// [`too_costly`](Self::too_costly) only knows when everything is back, or the request passes. Two divisions.
    #[inline]
    pub fn next_after(&self) -> Option<Duration> {
        match self.reason {
            Reason::TableFull => None,
            _ => self.basis.next_ns(self.limit).map(Duration::from_nanos),
        }
    }
}

impl PartialEq for Denied {
    fn eq(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.limit == other.limit
            && self.remaining() == other.remaining()
            && self.retry_after() == other.retry_after()
            && self.reset_after() == other.reset_after()
    }
}

impl Eq for Denied {}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denied")
            .field("reason", &self.reason)
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Limited => {
                let wait = Duration::from_nanos(self.basis.retry_ns(self.limit));
                write!(f, "rate limited, retry after {wait:?}")
            }
            Reason::TooCostly => write!(f, "cost above the limit of {}, never passes", self.limit),
            Reason::TableFull => f.write_str("no room to count another client"),
        }
    }
}

impl core::error::Error for Denied {}

#[cfg(feature = "defmt")]
mod with_defmt {
    use super::{Allowed, Denied};

    impl defmt::Format for Allowed {
        fn format(&self, f: defmt::Formatter<'_>) {
            defmt::write!(
                f,
                "Allowed {{ limit: {}, remaining: {}, reset_after: {} ns }}",
                self.limit,
                self.remaining(),
                self.basis.reset_ns()
            );
        }
    }

    impl defmt::Format for Denied {
        fn format(&self, f: defmt::Formatter<'_>) {
            defmt::write!(
                f,
                "Denied {{ reason: {}, limit: {}, remaining: {}, retry_after: {} ns, reset_after: {} ns }}",
                self.reason,
                self.limit,
                self.remaining(),
                self.basis.retry_ns(self.limit),
                self.basis.reset_ns()
            );
        }
    }
}
