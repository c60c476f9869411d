//! What the server has decided.

use core::time::Duration;

use tidegate::{Allowed, Denied, Timestamp};

/// What the server has decided, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct Decision {
    pub(crate) outcome: Result<Allowed, Denied>,
    pub(crate) server_time: Timestamp,
    pub(crate) taken_at: Timestamp,
    /// Until the window ends in which a windowed limit has counted it.
    pub(crate) window_end: Duration,
}

impl Decision {
    /// One that was made here, and of which the server has no time.
    pub(crate) const fn local(outcome: Result<Allowed, Denied>) -> Self {
        Self {
            outcome,
            server_time: Timestamp::ZERO,
            taken_at: Timestamp::ZERO,
            window_end: Duration::ZERO,
        }
    }

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

    /// When it was decided, by the server's clock, since 1970; zero if the server was not asked.
    pub fn server_time(&self) -> Timestamp {
        self.server_time
    }

    /// When it was counted, by the server's clock; zero if the server was not asked: what [`refund`](crate::RedisLimiter::refund) asks for.
    pub fn taken_at(&self) -> Timestamp {
        self.taken_at
    }
}
