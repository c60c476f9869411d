//! The body of a refusal.

use core::fmt;

use super::standing::Standing;
use super::text::Quoted;
use crate::decision::Reason;

/// The body of a refusal: a problem document (RFC 9457) of the types that revision 10 of
/// draft-ietf-httpapi-ratelimit-headers defines in section 5. Displaying it writes JSON.
///
/// ```
/// use core::time::Duration;
/// use tidegate::http::{Policy, Problem, Standing};
/// use tidegate::{Denied, Quota};
///
/// let hour = Duration::from_secs(3_600);
/// let refused = Err(Denied::limited(1_000, 0, hour, hour));
/// let standings = [Standing::new(Policy::new("daily", Quota::per_day(1_000)), refused)];
/// let problem = Problem::new(&standings).unwrap();
/// assert_eq!(problem.status(), 429);
/// assert_eq!(
///     problem.to_string(),
///     concat!(
///         r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
///         r#""title":"Request cannot be satisfied as assigned quota has been exceeded","#,
///         r#""violated-policies":["daily"]}"#,
///     )
/// );
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    standings: &'a [Standing<'a>],
    /// Whether the client has exceeded a quota; else the server has no room to count it.
    exceeded: bool,
}

impl<'a> Problem<'a> {
    /// The media type of the body.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";

    /// The problem of these standings; `None` if no policy has refused.
    ///
    /// It is `quota-exceeded`, unless a full table is the only reason: then it is `temporary-reduced-capacity`.
    pub fn new(standings: &'a [Standing<'a>]) -> Option<Self> {
        let mut refused = standings
            .iter()
            .filter(|standing| standing.decision().is_err())
            .peekable();
        refused.peek()?;
        Some(Self {
            standings,
            exceeded: refused.any(Standing::is_counted),
        })
    }

    /// The status that the response should have: 429, or 503 if the server's capacity is the problem.
    pub const fn status(&self) -> u16 {
        if self.exceeded { 429 } else { 503 }
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, title) = if self.exceeded {
            (
                "quota-exceeded",
                "Request cannot be satisfied as assigned quota has been exceeded",
            )
        } else {
            (
                "temporary-reduced-capacity",
                "Request cannot be satisfied due to temporary server capacity constraints",
            )
        };
        write!(
            f,
            r#"{{"type":"https://iana.org/assignments/http-problem-types#{kind}","title":"{title}","violated-policies":["#
        )?;
        let violated = self.standings.iter().filter(|standing| {
            standing.decision().is_err()
                && standing.is_refused_for(Reason::TableFull) != self.exceeded
        });
        for (index, standing) in violated.enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}", Quoted(standing.policy().name()))?;
        }
        f.write_str("]}")
    }
}
