//! Header fields: which there are, and how each value is written.

use core::fmt::{self, Display};
use core::iter::FusedIterator;
use core::time::Duration;

use super::standing::{Standing, lead, retry_after};
use super::text::{ByteSequence, Integer, Quoted, clamp, millis_up, seconds_up};
use super::{Draft, Headers};

macro_rules! field_names {
    ($($variant:ident $name:literal $lower:literal,)*) => {
        /// The name of a header field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[non_exhaustive]
        pub enum FieldName {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl FieldName {
            /// All of them, in the order in which they are sent.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it is usually written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// In lower case, as HTTP/2 and HTTP/3 send it.
            pub const fn as_lower_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $lower,)*
                }
            }
        }
    };
}

field_names! {
    XRateLimitLimit "X-RateLimit-Limit" "x-ratelimit-limit",
    XRateLimitRemaining "X-RateLimit-Remaining" "x-ratelimit-remaining",
    XRateLimitReset "X-RateLimit-Reset" "x-ratelimit-reset",
    XRateLimitWindowMs "X-RateLimit-Window-Ms" "x-ratelimit-window-ms",
    XRateLimitStrategy "X-RateLimit-Strategy" "x-ratelimit-strategy",
    RateLimitPolicy "RateLimit-Policy" "ratelimit-policy",
    RateLimit "RateLimit" "ratelimit",
    RateLimitLimit "RateLimit-Limit" "ratelimit-limit",
    RateLimitRemaining "RateLimit-Remaining" "ratelimit-remaining",
    RateLimitReset "RateLimit-Reset" "ratelimit-reset",
    RetryAfter "Retry-After" "retry-after",
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What all fields of one response are made from.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    headers: Headers,
    standings: &'a [Standing<'a>],
    /// The standing that is told where only one can be.
    lead: Option<&'a Standing<'a>>,
    unix_now: Option<Duration>,
}

/// The header fields of one response; see [`Headers::fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    source: Source<'a>,
    names: core::slice::Iter<'static, FieldName>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        headers: Headers,
        standings: &'a [Standing<'a>],
        unix_now: Option<Duration>,
    ) -> Self {
        Self {
            source: Source {
                headers,
                standings,
                lead: headers.tell_one().then(|| lead(standings)).flatten(),
                unix_now,
            },
            names: FieldName::ALL.iter(),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let source = self.source;
        self.names.find_map(|&name| {
            let content = source.content(name)?;
            Some(Field {
                name,
                value: Value(content),
            })
        })
    }
}

impl FusedIterator for Fields<'_> {}

/// A header field: a name, and a value that is written when it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    name: FieldName,
    value: Value<'a>,
}

impl<'a> Field<'a> {
    /// Its name.
    pub const fn name(&self) -> FieldName {
        self.name
    }

    /// Its value, to be displayed. Printable ASCII, whatever the policy.
    pub const fn value(&self) -> Value<'a> {
        self.value
    }
}

/// The value of a header field: displaying it writes it.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a>(Content<'a>);

impl Value<'_> {
    /// The value if it is an integer, for whoever has a faster way to write one.
    ///
    /// ```
    /// use tidegate::http::{Headers, Policy, Standing};
    /// use tidegate::{Allowed, Quota};
    ///
    /// let allowed = Ok(Allowed::new(5, 4, core::time::Duration::from_secs(1)));
    /// let standings = [Standing::new(Policy::new("default", Quota::per_second(5)), allowed)];
    /// let fields = Headers::new().with_legacy().fields(&standings, None);
    /// assert_eq!(fields.map(|field| field.value().as_integer()).collect::<Vec<_>>(), [Some(5), Some(4)]);
    /// ```
    pub const fn as_integer(&self) -> Option<u64> {
        match self.0 {
            Content::Integer(integer) => Some(clamp(integer)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    Integer(u64),
    Text(&'a str),
    /// `100, 100;w=10`
    LimitAndPolicies(u64, &'a [Standing<'a>]),
    /// `100;w=10`
    Policies(&'a [Standing<'a>]),
    /// `limit=100, remaining=50, reset=5`
    State(&'a Standing<'a>),
    /// `"default";q=100;w=10`
    NamedPolicies(&'a [Standing<'a>]),
    /// `"default";r=50;t=5`
    NamedStates(&'a [Standing<'a>]),
}

impl<'a> Source<'a> {
    /// What the field of this name says, if there is to be one.
    fn content(&self, name: FieldName) -> Option<Content<'a>> {
        let Self {
            headers, standings, ..
        } = *self;
        let draft = headers.draft;
        let wanted = match name {
            FieldName::XRateLimitLimit
            | FieldName::XRateLimitRemaining
            | FieldName::XRateLimitReset => headers.legacy,
            FieldName::XRateLimitWindowMs | FieldName::XRateLimitStrategy => headers.details,
            FieldName::RateLimitPolicy => {
                matches!(draft, Some(Draft::V06 | Draft::V07 | Draft::V10))
            }
            FieldName::RateLimit => matches!(draft, Some(Draft::V07 | Draft::V10)),
            FieldName::RateLimitLimit
            | FieldName::RateLimitRemaining
            | FieldName::RateLimitReset => matches!(draft, Some(Draft::V03 | Draft::V06)),
            FieldName::RetryAfter => true,
        };
        if !wanted || standings.is_empty() {
            return None;
        }
        Some(match name {
            FieldName::RetryAfter => Content::Integer(retry_after(standings)?),
            FieldName::RateLimitPolicy if draft == Some(Draft::V10) => {
                Content::NamedPolicies(standings)
            }
            FieldName::RateLimitPolicy => Content::Policies(standings),
            // All the others tell of a budget, so somebody's must be known.
            FieldName::RateLimit if draft == Some(Draft::V10) => {
                standings.iter().find(|standing| standing.is_counted())?;
                Content::NamedStates(standings)
            }
            FieldName::RateLimit => Content::State(self.lead?),
            FieldName::RateLimitLimit if draft == Some(Draft::V03) => {
                Content::LimitAndPolicies(self.lead?.limit(), standings)
            }
            FieldName::RateLimitLimit | FieldName::XRateLimitLimit => {
                Content::Integer(self.lead?.limit())
            }
            FieldName::RateLimitRemaining | FieldName::XRateLimitRemaining => {
                Content::Integer(self.lead?.remaining())
            }
            FieldName::RateLimitReset => Content::Integer(seconds_up(self.lead?.reset_after())),
            FieldName::XRateLimitReset => Content::Integer(seconds_up(
                self.unix_now?.saturating_add(self.lead?.reset_after()),
            )),
            FieldName::XRateLimitWindowMs => {
                Content::Integer(millis_up(self.lead?.policy().quota().period()))
            }
            FieldName::XRateLimitStrategy => Content::Text(self.lead?.policy().strategy()?),
        })
    }
}

// Written piece by piece: each `write!` in the middle costs as much as what it writes.
impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Content::Integer(integer) => Integer(integer).fmt(f),
            Content::Text(text) => f.write_str(text),
            Content::LimitAndPolicies(limit, standings) => {
                Integer(limit).fmt(f)?;
                f.write_str(", ")?;
                list(f, standings.iter(), policy)
            }
            Content::Policies(standings) => list(f, standings.iter(), policy),
            Content::State(standing) => {
                f.write_str("limit=")?;
                Integer(standing.limit()).fmt(f)?;
                f.write_str(", remaining=")?;
                Integer(standing.remaining()).fmt(f)?;
                f.write_str(", reset=")?;
                Integer(seconds_up(standing.reset_after())).fmt(f)
            }
            Content::NamedPolicies(standings) => list(f, standings.iter(), named_policy),
            Content::NamedStates(standings) => {
                let counted = standings.iter().filter(|standing| standing.is_counted());
                list(f, counted, named_state)
            }
        }
    }
}

/// Members of a List (RFC 9651, section 4.1.1).
fn list<'a>(
    f: &mut fmt::Formatter<'_>,
    standings: impl Iterator<Item = &'a Standing<'a>>,
    member: impl Fn(&mut fmt::Formatter<'_>, &Standing<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, standing) in standings.enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        member(f, standing)?;
    }
    Ok(())
}

fn policy(f: &mut fmt::Formatter<'_>, standing: &Standing<'_>) -> fmt::Result {
    let quota = standing.policy().quota();
    Integer(quota.limit()).fmt(f)?;
    f.write_str(";w=")?;
    Integer(seconds_up(quota.period())).fmt(f)
}

fn named_policy(f: &mut fmt::Formatter<'_>, standing: &Standing<'_>) -> fmt::Result {
    let policy = standing.policy();
    let quota = policy.quota();
    Quoted(policy.name()).fmt(f)?;
    f.write_str(";q=")?;
    Integer(quota.limit()).fmt(f)?;
    if let Some(unit) = policy.unit() {
        f.write_str(";qu=")?;
        Quoted(unit).fmt(f)?;
    }
    f.write_str(";w=")?;
    Integer(seconds_up(quota.period())).fmt(f)?;
    partition_key(f, standing)
}

fn named_state(f: &mut fmt::Formatter<'_>, standing: &Standing<'_>) -> fmt::Result {
    Quoted(standing.policy().name()).fmt(f)?;
    f.write_str(";r=")?;
    Integer(standing.remaining()).fmt(f)?;
    if let Some(next) = standing.next_after() {
        f.write_str(";t=")?;
        Integer(seconds_up(next)).fmt(f)?;
    }
    partition_key(f, standing)
}

fn partition_key(f: &mut fmt::Formatter<'_>, standing: &Standing<'_>) -> fmt::Result {
    match standing.policy().partition_key() {
        Some(key) => {
            f.write_str(";pk=")?;
            ByteSequence(key).fmt(f)
        }
        None => Ok(()),
    }
}
