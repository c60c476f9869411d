//! HTTP header fields and problem documents from decisions.
//!
//! Nothing here allocates, and nothing is linked that is not called: a [`Standing`] is a [`Policy`] and what its limiter
//! has just decided, [`Headers`] says which header fields are sent, and each field's value is written to any
//! [`core::fmt::Write`] when it is asked for.
//!
//! ```
//! use core::time::Duration;
//! use tidegate::http::{Buffer, Draft, Headers, Policy, Problem, Standing};
//! use tidegate::{FixedWindow, Limiter, Quota, Timestamp};
//!
//! const POLICY: Policy<'static> = Policy::new("default", Quota::per_minute(2));
//! const HEADERS: Headers = Headers::new().with_draft(Draft::V10);
//! static LIMITER: Limiter<FixedWindow> = Limiter::new(FixedWindow::anchored(POLICY.quota()));
//!
//! /// What a server sends: the status, and header lines.
//! fn answer(uptime_ms: u64) -> (u16, String) {
//!     let decision = LIMITER.check(Timestamp::from_millis(uptime_ms));
//!     let standings = [Standing::new(POLICY, decision)];
//!     let mut lines = String::new();
//!     let mut buffer = Buffer::<128>::new();
//!     for field in HEADERS.fields(&standings, None) {
//!         let value = buffer.render(field.value()).unwrap();
//!         lines += &format!("{}: {value}\n", field.name());
//!     }
//!     (Problem::new(&standings).map_or(200, |problem| problem.status()), lines)
//! }
//!
//! assert_eq!(answer(0), (200, concat!(
//!     "RateLimit-Policy: \"default\";q=2;w=60\n",
//!     "RateLimit: \"default\";r=1;t=60\n",
//! ).into()));
//! assert_eq!(answer(500).0, 200);
//! assert_eq!(answer(1_500), (429, concat!(
//!     "RateLimit-Policy: \"default\";q=2;w=60\n",
//!     "RateLimit: \"default\";r=0;t=59\n",
//!     "Retry-After: 59\n",
//! ).into()));
//! ```
//!
//! # Numbers
//!
//! All are whole and not negative. Times are rounded up, so none promises anything too early: a client that waits as long
//! as it is told is in time. Structured fields carry integers of up to 15 digits (RFC 9651, section 3.3.1), so larger ones
//! are sent as 999,999,999,999,999, in the older fields too: fewer permits than there are, and 31 million years.
//!
//! Limits and what remains of them are those of the decision: for a token bucket, of its burst. The quota and window of a
//! policy are those of its [`Quota`](crate::Quota): 100 per 500 ms is sent as 100 in a window of 1 s, since none has a
//! smaller unit, which promises half of what is there.
//!
//! # Several policies
//!
//! Give the standing under each. Where only one can be told, it is the one that hurts most: of those that refused the
//! request the one to wait for longest, else the one with the fewest permits left. `Retry-After` is the longest wait
//! of those that refused; it says nothing of the others.
//!
//! # A full table
//!
//! [`Reason::TableFull`](crate::Reason::TableFull) says nothing about the client: its budget is not known. So such a
//! standing tells its policy and nothing else, and if no other refused, the [`Problem`] is that the server's capacity is
//! reduced.

mod field;
mod policy;
mod problem;
mod standing;
mod text;

pub use field::{Field, FieldName, Fields, Value};
#[cfg(feature = "alloc")]
pub use policy::PolicyBuf;
pub use policy::{Policy, PolicyError};
pub use problem::Problem;
pub use standing::Standing;
pub use text::Buffer;

use core::time::Duration;

/// A revision of draft-ietf-httpapi-ratelimit-headers, and what is sent under it.
///
/// `reset` below is the time until everything used so far has come back; on a refusal it is the wait, so that it
/// tells the same moment as `Retry-After`, as these drafts ask for. Policies are those of all standings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Draft {
    /// Revisions 00 to 03: `RateLimit-Limit: 100, 100;w=10` with the policies after the limit,
    /// `RateLimit-Remaining: 50` and `RateLimit-Reset: 5`.
    V03,
    /// Revisions 04 to 06: `RateLimit-Policy: 100;w=10`, `RateLimit-Limit: 100`, `RateLimit-Remaining: 50` and
    /// `RateLimit-Reset: 5`.
    V06,
    /// Revision 07: `RateLimit-Policy: 100;w=10` and `RateLimit: limit=100, remaining=50, reset=5`.
    V07,
    /// Revisions 08 to 10: `RateLimit-Policy: "default";q=100;w=10` and `RateLimit: "default";r=50;t=5`, an item for each
    /// standing, with the parameters `qu` and `pk` (in both fields) where the policy has them.
    ///
    /// `t` is, as revision 10 has made clear, the time until more than `r` is there; on a refusal it is the wait. It is
    /// left out when there is never more, because everything is there.
    V10,
}

/// Which header fields are sent; `Retry-After` always is, on refusals that waiting cures.
///
/// At most one [`Draft`], since they use the same names for different things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Headers {
    draft: Option<Draft>,
    legacy: bool,
    details: bool,
}

impl Headers {
    /// `Retry-After` alone.
    pub const fn new() -> Self {
        Self {
            draft: None,
            legacy: false,
            details: false,
        }
    }

    /// Also those of this draft.
    pub const fn with_draft(mut self, draft: Draft) -> Self {
        self.draft = Some(draft);
        self
    }

    /// Also `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`: the last in seconds since 1970, for
    /// the same moment as the drafts' `reset`.
    pub const fn with_legacy(mut self) -> Self {
        self.legacy = true;
        self
    }

    /// Also `X-RateLimit-Window-Ms`, the period of the policy in milliseconds, and `X-RateLimit-Strategy`, if the
    /// policy tells it.
    pub const fn with_details(mut self) -> Self {
        self.details = true;
        self
    }

    /// The draft, if any.
    pub const fn draft(&self) -> Option<Draft> {
        self.draft
    }

    /// The header fields for these standings, one for each policy that the request was held against.
    ///
    /// `unix_now` is the wall-clock time since 1970; without it, `X-RateLimit-Reset` is left out, and nothing else.
    pub fn fields<'a>(
        &self,
        standings: &'a [Standing<'a>],
        unix_now: Option<Duration>,
    ) -> Fields<'a> {
        Fields::new(*self, standings, unix_now)
    }

    /// Whether a field is wanted that has room for one standing only.
    const fn tell_one(&self) -> bool {
        self.legacy
            || self.details
            || matches!(self.draft, Some(Draft::V03 | Draft::V06 | Draft::V07))
    }
}
