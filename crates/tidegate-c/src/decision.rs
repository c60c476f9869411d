//! The numbers that go with an answer.

use core::time::Duration;

use tidegate::{Allowed, Denied};

use crate::config::TIDEGATE_SECOND;
use crate::status::tidegate_status::{self, *};

/// A wait that never ends.
pub const TIDEGATE_NEVER: u64 = u64::MAX;

/// The numbers that go with an answer. After a mistake in the call, all are 0 but the wait, which is TIDEGATE_NEVER.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct tidegate_decision {
    /// The most permits that can ever be left: the burst of a token bucket, the limit of a window.
    pub limit: u64,
    /// How many more requests of cost 1 would pass at this same instant. Exact.
    pub remaining: u64,
    /// How long until the same request passes, if nothing else does meanwhile: exact to the nanosecond. 0 if it was
    /// admitted, TIDEGATE_NEVER if waiting is no cure.
    pub retry_after_ns: u64,
    /// How long until everything used so far has come back, if nothing more is taken.
    pub reset_after_ns: u64,
}

/// Where a decision goes: nowhere, if C does not want the numbers, which then are not computed.
pub(crate) struct Out(*mut tidegate_decision);

impl Out {
    /// # Safety
    ///
    /// `out` is null, or misaligned, or valid for writing a decision.
    pub(crate) unsafe fn at(out: *mut tidegate_decision) -> Result<Self, tidegate_status> {
        if out.is_aligned() {
            Ok(Self(out))
        } else {
            Err(TIDEGATE_ERROR_MISALIGNED)
        }
    }

    fn put(self, decision: impl FnOnce() -> tidegate_decision) {
        if !self.0.is_null() {
            // SAFETY: aligned, as checked when this was made, and valid for writing, as promised then.
            unsafe { self.0.write(decision()) }
        }
    }

    pub(crate) fn answer(self, outcome: Result<Allowed, Denied>) -> tidegate_status {
        match outcome {
            Ok(allowed) => {
                self.put(|| tidegate_decision {
                    limit: allowed.limit(),
                    remaining: allowed.remaining(),
                    retry_after_ns: 0,
                    reset_after_ns: nanos(allowed.reset_after()),
                });
                TIDEGATE_OK
            }
            Err(denied) => {
                self.put(|| tidegate_decision {
                    limit: denied.limit(),
                    remaining: denied.remaining(),
                    retry_after_ns: denied.retry_after().map_or(TIDEGATE_NEVER, nanos),
                    reset_after_ns: nanos(denied.reset_after()),
                });
                denied.reason().into()
            }
        }
    }

    pub(crate) fn mistake(self, status: tidegate_status) -> tidegate_status {
        self.put(|| tidegate_decision {
            limit: 0,
            remaining: 0,
            retry_after_ns: TIDEGATE_NEVER,
            reset_after_ns: 0,
        });
        status
    }
}

/// What the core tells in durations never exceeds `u64` nanoseconds.
fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(TIDEGATE_SECOND)
        .saturating_add(u64::from(duration.subsec_nanos()))
}
