//! `100/s`, `3/10s`, `10r/s`, `5 per 10 minutes`: reading and writing a [`Quota`].

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::{Quota, QuotaError};

/// Unit names by length in nanoseconds; the first name of each is the one that is written.
const UNITS: [(u64, &[&str]); 7] = [
    (86_400_000_000_000, &["day", "d", "days"]),
    (3_600_000_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    (60_000_000_000, &["min", "m", "mins", "minute", "minutes"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (1_000_000, &["ms", "msec", "millisecond", "milliseconds"]),
    (
        1_000,
        &["us", "µs", "μs", "usec", "microsecond", "microseconds"],
    ),
    (1, &["ns", "nsec", "nanosecond", "nanoseconds"]),
];

/// What may stand after the limit, and says nothing.
const THINGS: [&str; 10] = [
    "r", "req", "reqs", "request", "requests", "permit", "permits", "time", "times", "x",
];

impl fmt::Display for Quota {
    /// The shortest text that reads back as the same quota: `5/min`, `3/10s`, `1000/day`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, names) = UNITS
            .iter()
            .find(|(unit, _)| self.period_ns.is_multiple_of(*unit))
            .unwrap_or(&UNITS[UNITS.len() - 1]);
        write!(f, "{}/", self.limit)?;
        match self.period_ns / unit {
            1 => {}
            count => write!(f, "{count}")?,
        }
        f.write_str(names[0])
    }
}

impl FromStr for Quota {
    type Err = ParseQuotaError;

    /// Reads `LIMIT [requests] / [COUNT] UNIT`, where the slash may also be `per`.
    ///
    /// Blanks may stand anywhere between words, `_` between digits; letters may be upper or lower case.
    /// Units: ns, us, ms, s, min (`m` is a minute, as in nginx), h, day, and their longer names.
    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        let mut rest = Scanner { text, at: 0 };
        let limit = rest.number(ParseQuotaErrorKind::NoLimit)?;
        let limit_at = limit.at;

        let mut word = rest.word();
        if THINGS.iter().any(|thing| word.is(thing)) {
            word = rest.word();
        }
        if word.text.is_empty() {
            rest.blanks();
            if !rest.take(b'/') {
                return Err(rest.error(ParseQuotaErrorKind::NoSeparator));
            }
        } else if !word.is("per") {
            return Err(word.error(ParseQuotaErrorKind::NoSeparator));
        }

        rest.blanks();
        let count_at = rest.at;
        let count = if rest.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            rest.number(ParseQuotaErrorKind::NoUnit)?.value
        } else {
            1
        };
        let unit = rest.word();
        if unit.text.is_empty() {
            return Err(rest.error(ParseQuotaErrorKind::NoUnit));
        }
        let Some((unit_ns, _)) = UNITS
            .iter()
            .find(|(_, names)| names.iter().any(|name| unit.is(name)))
        else {
            return Err(unit.error(ParseQuotaErrorKind::UnknownUnit));
        };
        rest.blanks();
        if rest.peek().is_some() {
            return Err(rest.error(ParseQuotaErrorKind::Trailing));
        }

        let period_ns = count.checked_mul(*unit_ns).ok_or(ParseQuotaError {
            at: count_at,
            kind: ParseQuotaErrorKind::Quota(QuotaError::PeriodTooLong),
        })?;
        Self::new(limit.value, Duration::from_nanos(period_ns)).map_err(|error| ParseQuotaError {
            at: match error {
                QuotaError::ZeroLimit => limit_at,
                _ => count_at,
            },
            kind: ParseQuotaErrorKind::Quota(error),
        })
    }
}

struct Number {
    value: u64,
    at: usize,
}

struct WordAt<'a> {
    text: &'a str,
    at: usize,
}

impl WordAt<'_> {
    fn is(&self, name: &str) -> bool {
        self.text.eq_ignore_ascii_case(name)
    }

    fn error(&self, kind: ParseQuotaErrorKind) -> ParseQuotaError {
        ParseQuotaError { at: self.at, kind }
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// The letters that come next, possibly none.
    fn word(&mut self) -> WordAt<'a> {
        self.blanks();
        let at = self.at;
        let text = &self.text[at..];
        let end = text
            .find(|letter: char| !letter.is_alphabetic())
            .unwrap_or(text.len());
        self.at += end;
        WordAt {
            text: &text[..end],
            at,
        }
    }

    fn number(&mut self, missing: ParseQuotaErrorKind) -> Result<Number, ParseQuotaError> {
        self.blanks();
        let at = self.at;
        let mut value = 0_u64;
        while let Some(byte) = self.peek() {
            match byte {
                b'0'..=b'9' => {
                    value = value
                        .checked_mul(10)
                        .and_then(|value| value.checked_add(u64::from(byte - b'0')))
                        .ok_or(ParseQuotaError {
                            at,
                            kind: ParseQuotaErrorKind::NumberTooLarge,
                        })?;
                }
                b'_' if self.at > at => {}
                _ => break,
            }
            self.at += 1;
        }
        if self.at == at {
            return Err(self.error(missing));
        }
        Ok(Number { value, at })
    }

    fn error(&self, kind: ParseQuotaErrorKind) -> ParseQuotaError {
        ParseQuotaError { at: self.at, kind }
    }
}

/// A text that is no quota: what is wrong, and where.
///
/// ```
/// use tidegate::Quota;
///
/// let error = "5 per fortnight".parse::<Quota>().unwrap_err();
/// assert_eq!(error.position(), 6);
/// assert_eq!(
///     error.to_string(),
///     "at byte 6: not a unit of time (ns, us, ms, s, min, h, day)"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ParseQuotaError {
    at: usize,
    kind: ParseQuotaErrorKind,
}

impl ParseQuotaError {
    /// Where it went wrong: an offset in bytes from the beginning of the text.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// What is wrong there.
    pub const fn kind(&self) -> ParseQuotaErrorKind {
        self.kind
    }
}

/// What [`ParseQuotaError`] found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ParseQuotaErrorKind {
    /// A whole number must come first.
    NoLimit,
    /// Neither `/` nor `per` after the limit.
    NoSeparator,
    /// Nothing where the unit of time should be.
    NoUnit,
    /// A word that is no unit of time.
    UnknownUnit,
    /// A number above `u64::MAX`.
    NumberTooLarge,
    /// More text after the unit.
    Trailing,
    /// Well formed, but not a possible quota.
    Quota(QuotaError),
}

impl fmt::Display for ParseQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.at)?;
        match self.kind {
            ParseQuotaErrorKind::NoLimit => {
                f.write_str("a whole number should come first, as in 5/min")
            }
            ParseQuotaErrorKind::NoSeparator => {
                f.write_str("expected '/' or 'per' after the limit, as in 5/min")
            }
            ParseQuotaErrorKind::NoUnit => {
                f.write_str("a unit of time is missing (ns, us, ms, s, min, h, day)")
            }
            ParseQuotaErrorKind::UnknownUnit => {
                f.write_str("not a unit of time (ns, us, ms, s, min, h, day)")
            }
            ParseQuotaErrorKind::NumberTooLarge => write!(f, "a number above {}", u64::MAX),
            ParseQuotaErrorKind::Trailing => f.write_str("unexpected text after the unit of time"),
            ParseQuotaErrorKind::Quota(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ParseQuotaError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.kind {
            ParseQuotaErrorKind::Quota(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(feature = "serde")]
mod with_serde {
    use super::Quota;
    use core::fmt;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    impl Serialize for Quota {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Quota {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Text;

            impl de::Visitor<'_> for Text {
                type Value = Quota;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a quota such as \"5/min\"")
                }

                fn visit_str<E: de::Error>(self, text: &str) -> Result<Quota, E> {
                    text.parse().map_err(E::custom)
                }
            }

            deserializer.deserialize_str(Text)
        }
    }
}
