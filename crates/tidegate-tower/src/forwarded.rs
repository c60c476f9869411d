//! What proxies say about whom they speak for.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

use ipnet::IpNet;

/// A network or an address; IPv4-mapped ones are IPv4.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let network = IpNet::from_str(text)
        .or_else(|_| IpAddr::from_str(text).map(IpNet::from))
        .ok()?;
    match (network.addr().to_canonical(), network) {
        (IpAddr::V4(address), IpNet::V6(_)) => {
            let bits = network.prefix_len().checked_sub(96)?;
            IpNet::new(address.into(), bits).ok()
        }
        _ => Some(network),
    }
}

/// The elements of a comma-separated list, from the right; commas in quoted strings do not separate.
///
/// From the right since only what stands there was written by somebody we trust: a quotation mark that a client left
/// open swallows nothing after it.
pub(crate) fn elements(line: &[u8]) -> Elements<'_> {
    Elements { rest: Some(line) }
}

pub(crate) struct Elements<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(rest) = self.rest {
            let (element, before) = last_element(rest);
            self.rest = before;
            // Empty elements count for nothing (RFC 9110, section 5.6.1).
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

fn last_element(list: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut quoted = false;
    for (at, &byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => return (list[at + 1..].trim_ascii(), Some(&list[..at])),
            _ => {}
        }
    }
    (list.trim_ascii(), None)
}

/// The address in an entry of `X-Forwarded-For`: with or without a port, IPv6 with or without brackets.
pub(crate) fn address(entry: &[u8]) -> Option<IpAddr> {
    // The longest is a bracketed IPv6 address with an IPv4 tail and a port; more is not worth looking at.
    let text = core::str::from_utf8(entry)
        .ok()
        .filter(|text| text.len() <= 64)?;
    let bare = |text: &str| text.parse().ok();
    let bracketed = |text: &str| {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    };
    let with_port = |text: &str| text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    bare(text)
        .or_else(|| bracketed(text))
        .or_else(|| with_port(text))
        .map(|address: IpAddr| address.to_canonical())
}

/// The address in the `for` parameter of an element of `Forwarded` (RFC 7239, section 4).
pub(crate) fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in element.split(|&byte| byte == b';') {
        let pair = pair.trim_ascii();
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        if pair[..equals].eq_ignore_ascii_case(b"for") {
            // Twice is not allowed, and nobody knows which one counts.
            if found.is_some() {
                return None;
            }
            found = Some(&pair[equals + 1..]);
        }
    }
    let value = found?;
    let unquoted = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value);
    address(unquoted)
}
