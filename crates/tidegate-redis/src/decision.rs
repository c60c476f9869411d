//! What the server has decided.

use core::time::Duration;

use tidegate::{Allowed, Denied, Timestamp};

/// What the server has decided, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub(crate) outcome: Result<Allowed, Denied>,
    pub(crate) server_time: Timestamp,
    pub(crate) taken_at: Timestamp,
    /// Until the window ends in which a windowed limit has counted it.
    pub(crate) window_end: Duration,
}

impl Decision {
    /// Whether the request may pass.
    pub fn is_allowed(&self) -> bool {
        self.outcome.is_ok()
    }

    /// What [`tidegate`] would answer.
    ///
    /// Times are rounded up to microseconds, the unit of the server's clock: a request that waits for
    /// [`retry_after`](Denied::retry_after) passes, and one that comes a microsecond earlier does not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the request may not pass.
    pub fn result(self) -> Result<Allowed, Denied> {
        self.outcome
    }

    /// When it was decided, by the server's clock, since 1970.
    pub fn server_time(&self) -> Timestamp {
        self.server_time
    }

    /// When it was counted, by the server's clock: what [`refund`](crate::RedisLimiter::refund) asks for.
    pub fn taken_at(&self) -> Timestamp {
        self.taken_at
    }
}
