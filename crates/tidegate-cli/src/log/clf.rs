//! Common and Combined Log Format, as Apache httpd, nginx, HAProxy and many others write them:
//! `host identity user [time] "request" status size`, and whatever follows.

use core::net::IpAddr;

use super::time::{CLF_LEN, ClfTimes};
use super::{Record, Unreadable, path_of};

/// Reads one line. What follows the status is not looked at.
///
/// A user name may contain blanks. A virtual host in front, as in Apache's `vhost_combined`, is skipped.
pub(crate) fn parse<'a>(line: &'a [u8], times: &mut ClfTimes) -> Result<Record<'a>, Unreadable> {
    let (mut client, rest) = word(line).ok_or(Unreadable::NoHost)?;
    if client.is_empty() {
        return Err(Unreadable::NoHost);
    }

    // The time is the first thing in brackets that is one: user names are the client's to choose.
    let mut from = 0;
    let mut bracketed = false;
    let (opening, time) = loop {
        let Some(found) = memchr::memmem::find(&rest[from..], b" [") else {
            return Err(if bracketed {
                Unreadable::BadTime
            } else {
                Unreadable::NoTime
            });
        };
        let opening = from + found;
        bracketed = true;
        if let Some(text) = rest[opening + 2..].first_chunk::<CLF_LEN>()
            && rest.get(opening + 2 + CLF_LEN) == Some(&b']')
            && let Some(time) = times.parse(text)
        {
            break (opening, time);
        }
        from = opening + 2;
    };
    if client.last().is_some_and(u8::is_ascii_digit)
        && client.contains(&b':')
        && address(client).is_none()
        && let Some((second, _)) = word(&rest[..opening])
        && address(second).is_some()
    {
        client = second;
    }

    let request = rest[opening + 2 + CLF_LEN + 1..]
        .strip_prefix(b" \"")
        .ok_or(Unreadable::NoRequest)?;
    let closing = closing_quote(request).ok_or(Unreadable::NoRequest)?;
    let after = &request[closing + 1..];
    let status = after
        .strip_prefix(b" ")
        .and_then(|status| word(status).map(|(status, _)| status))
        .ok_or(Unreadable::NoStatus)?;
    let is_status = status.len() == 3 && status.iter().all(u8::is_ascii_digit);
    if !is_status && status != b"-" {
        return Err(Unreadable::NoStatus);
    }

    let request = &request[..closing];
    // Method, target, version; garbage that a client sent instead of a request is its own target.
    let target = match word(request) {
        Some((method, target)) if method.len() < request.len() => {
            word(target).map_or(target, |(target, _)| target)
        }
        _ => request,
    };
    Ok(Record {
        time,
        client,
        path: path_of(target),
    })
}

/// An address, possibly in brackets.
pub(crate) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"))
        .unwrap_or(text);
    let first = text.first()?;
    if !first.is_ascii_hexdigit() && *first != b':' {
        return None;
    }
    let address: IpAddr = core::str::from_utf8(text).ok()?.parse().ok()?;
    // ::ffff:192.0.2.1 is what a dual-stack socket calls 192.0.2.1.
    Some(address.to_canonical())
}

/// What stands before the first blank, and what after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.is_empty() {
        return None;
    }
    match memchr::memchr(b' ', text) {
        Some(blank) => Some((&text[..blank], &text[blank + 1..])),
        None => Some((text, &[])),
    }
}

/// Where the quoted text ends; a backslash escapes what follows it.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let found = from + memchr::memchr2(b'"', b'\\', &text[from..])?;
        if text[found] == b'"' {
            return Some(found);
        }
        from = found + 2;
        if from > text.len() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &[u8]) -> Result<(u64, String, String), Unreadable> {
        parse(line, &mut ClfTimes::default()).map(|record| {
            (
                record.time / 1_000_000_000,
                String::from_utf8_lossy(record.client).into_owned(),
                String::from_utf8_lossy(record.path).into_owned(),
            )
        })
    }

    #[test]
    fn readable() {
        let at = "[01/Jan/1970:00:01:00 +0000]";
        for (line, client, path) in [
            (
                format!("192.0.2.1 - - {at} \"GET /a?b HTTP/1.1\" 200 5"),
                "192.0.2.1",
                "/a",
            ),
            (
                format!(
                    "2001:db8::1 - bob {at} \"GET /a HTTP/2.0\" 200 5 \"http://r/\" \"UA [x] \\\"y\\\"\""
                ),
                "2001:db8::1",
                "/a",
            ),
            (
                format!("host.example - john q public {at} \"GET /a HTTP/1.1\" 304 -"),
                "host.example",
                "/a",
            ),
            (
                format!("192.0.2.1 - [x] [y {at} \"GET /a HTTP/1.1\" 304 -"),
                "192.0.2.1",
                "/a",
            ),
            (
                format!("www.example:80 192.0.2.1 - - {at} \"GET /a HTTP/1.1\" 304 -"),
                "192.0.2.1",
                "/a",
            ),
            (format!("192.0.2.1 - - {at} \"-\" 408 0"), "192.0.2.1", "-"),
            (format!("192.0.2.1 - - {at} \"\" 400 0"), "192.0.2.1", ""),
            (
                format!("192.0.2.1 - - {at} \"\\x16\\x03\\\"\\\\\" 400 0"),
                "192.0.2.1",
                "\\x16\\x03\\\"\\\\",
            ),
            (
                format!("192.0.2.1 - - {at} \"GET /old\" 200 0"),
                "192.0.2.1",
                "/old",
            ),
            (
                format!("192.0.2.1 - - {at} \"GET /a HTTP/1.1\" 200"),
                "192.0.2.1",
                "/a",
            ),
            (
                format!("192.0.2.1 - - {at} \"GET /a HTTP/1.1\" - -"),
                "192.0.2.1",
                "/a",
            ),
        ] {
            assert_eq!(
                read(line.as_bytes()),
                Ok((60, client.to_owned(), path.to_owned())),
                "{line}"
            );
        }
        let mut line = b"192.0.2.1 - \xff\xfe ".to_vec();
        line.extend(at.bytes());
        line.extend(b" \"GET /\xc3\x28 HTTP/1.1\" 200 1");
        assert_eq!(read(&line).map(|read| read.2), Ok("/\u{fffd}(".to_owned()));
    }

    #[test]
    fn unreadable() {
        let at = "[01/Jan/1970:00:01:00 +0000]";
        for (line, why) in [
            (String::new(), Unreadable::NoHost),
            (
                format!(" - - {at} \"GET / HTTP/1.1\" 200 1"),
                Unreadable::NoHost,
            ),
            ("Lorem ipsum".to_owned(), Unreadable::NoTime),
            (
                "192.0.2.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1".to_owned(),
                Unreadable::BadTime,
            ),
            ("192.0.2.1 - - [01/Jan/1970".to_owned(), Unreadable::BadTime),
            (format!("192.0.2.1 - - {at}"), Unreadable::NoRequest),
            (
                format!("192.0.2.1 - - {at} GET / 200"),
                Unreadable::NoRequest,
            ),
            (
                format!("192.0.2.1 - - {at} \"GET / HTTP/1.1"),
                Unreadable::NoRequest,
            ),
            (
                format!("192.0.2.1 - - {at} \"GET /\\"),
                Unreadable::NoRequest,
            ),
            (
                format!("192.0.2.1 - - {at} \"GET /\\\""),
                Unreadable::NoRequest,
            ),
            (
                format!("192.0.2.1 - - {at} \"GET / HTTP/1.1\""),
                Unreadable::NoStatus,
            ),
            (
                format!("192.0.2.1 - - {at} \"GET / HTTP/1.1\" OK 5"),
                Unreadable::NoStatus,
            ),
            (
                format!("192.0.2.1 - - {at} \"GET / HTTP/1.1\" 20 5"),
                Unreadable::NoStatus,
            ),
        ] {
            assert_eq!(read(line.as_bytes()), Err(why), "{line}");
        }
    }

    #[test]
    fn addresses() {
        let ip = |text: &str| address(text.as_bytes()).map(|ip| ip.to_string());
        assert_eq!(ip("192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(ip("[2001:DB8:0::1]").as_deref(), Some("2001:db8::1"));
        assert_eq!(ip("::ffff:192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(ip("192.0.2"), None);
        assert_eq!(ip("a.example"), None);
        assert_eq!(ip(""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(line: Vec<u8>) {
            let _ = read(&line);
        }

        /// A readable line with one byte changed, or cut off anywhere.
        #[test]
        fn damaged_lines_get_an_answer(at in 0_usize..70, byte: u8, cut: bool) {
            let mut line = b"192.0.2.1 - - [01/Jan/1970:00:01:00 +0000] \"GET /a?b HTTP/1.1\" 200 5".to_vec();
            let at = at.min(line.len() - 1);
            if cut { line.truncate(at) } else { line[at] = byte }
            let _ = read(&line);
        }
    }
}
