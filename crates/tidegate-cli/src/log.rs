//! Reading logs: from bytes to who asked for what, and when.

pub(crate) mod clf;
pub(crate) mod json;
pub(crate) mod reader;
pub(crate) mod time;

use core::fmt;

/// What one readable line says, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    /// The client: an address, a host name, or whatever the chosen field holds.
    pub(crate) client: &'a [u8],
    /// The request target, without its query. Empty where the log has none.
    pub(crate) path: &'a [u8],
}

/// Why a line could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// No host in front.
    NoHost,
    /// No `[time]` after host, identity and user.
    NoTime,
    /// Something in brackets that is no time, or one outside 1970 to 2554.
    BadTime,
    /// No request in quotes.
    NoRequest,
    /// No three-digit status after the request.
    NoStatus,
    /// Longer than [`reader::LINE_MAX`].
    TooLong,
    /// Not a JSON object.
    NotJson,
    /// A JSON object without the field for the time.
    NoTimeField,
    /// A JSON object without the field for the key, or with one that is neither text nor number.
    NoKeyField,
    /// A JSON object without the field for the path, or with one that is no text.
    NoPathField,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHost => "no client address in front",
            Self::NoTime => "no time in brackets",
            Self::BadTime => "the time is not one, or not between 1970 and 2554",
            Self::NoRequest => "no request in quotes after the time",
            Self::NoStatus => "no status after the request",
            Self::TooLong => "longer than 1 MiB",
            Self::NotJson => "not a JSON object",
            Self::NoTimeField => "the time field is missing",
            Self::NoKeyField => "the key field is missing, or neither text nor number",
            Self::NoPathField => "the path field is missing, or not a text",
        })
    }
}

/// Reads lines of one format.
#[derive(Debug)]
pub(crate) enum LineParser {
    /// Common or Combined Log Format.
    Clf(time::ClfTimes),
    /// One JSON object a line.
    Json(json::Fields),
}

impl LineParser {
    /// Reads one line, given without its line ending.
    pub(crate) fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Record<'a>, Unreadable> {
        match self {
            Self::Clf(times) => clf::parse(line, times),
            Self::Json(fields) => fields.parse(line),
        }
    }

    /// What the format is called in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Clf(_) => "Common or Combined Log Format",
            Self::Json(_) => "JSON lines with these fields",
        }
    }
}

/// The path of a request target: no query, no fragment, no scheme and authority.
pub(crate) fn path_of(target: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
    let target = &target[..end];
    // `GET http://host/path HTTP/1.1`, as proxies are asked.
    if target.first() != Some(&b'/')
        && let Some(scheme) = memchr::memmem::find(target, b"://")
        && target[..scheme].iter().all(u8::is_ascii_alphabetic)
    {
        let rest = &target[scheme + 3..];
        return match memchr::memchr(b'/', rest) {
            Some(slash) => &rest[slash..],
            None => b"/",
        };
    }
    target
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn paths() {
        for (target, path) in [
            ("/", "/"),
            ("/a?b=/c", "/a"),
            ("/a#b", "/a"),
            ("/go?to=http://x/y", "/go"),
            ("http://host/a/b?c", "/a/b"),
            ("https://host", "/"),
            ("*", "*"),
            ("-", "-"),
            ("host:443", "host:443"),
            ("", ""),
        ] {
            assert_eq!(path_of(target.as_bytes()), path.as_bytes(), "{target}");
        }
    }
}
