//! Whose request it is: any headers, from any peer, with any proxies trusted, beside a model that is told what each
//! proxy has written and reads no header.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::request::Parts;
use http::{HeaderName, HeaderValue};
use libfuzzer_sys::{arbitrary, fuzz_target};
use tidegate_tower::{ClientAddress, Header, Key, KeyExtractor, Peer, PeerAddress};

/// An address out of few, so that some are trusted.
#[derive(Clone, Copy, Debug, arbitrary::Arbitrary)]
struct Address {
    kind: u8,
    bits: u8,
}

impl Address {
    fn ip(self) -> IpAddr {
        let [high, low] = [self.bits >> 4, self.bits & 15];
        match self.kind % 4 {
            0 => Ipv4Addr::new(10, high, 0, low).into(),
            1 => Ipv4Addr::new(192, 0, high, low).to_ipv6_mapped().into(),
            2 => Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(high) << 8, 0, 0, 0, low.into()).into(),
            _ => Ipv6Addr::from_bits(u128::MAX - u128::from(self.bits)).into(),
        }
    }
}

/// What stands between two commas.
#[derive(Debug, arbitrary::Arbitrary)]
enum Entry {
    /// An address, in one of the forms in which proxies write them.
    Told(Address, u8),
    Empty,
    /// No address.
    Unknown(u8),
}

impl Entry {
    /// The text, and the address in it; `None` if it counts for nothing.
    fn write(&self, is_forwarded: bool) -> (String, Option<Option<IpAddr>>) {
        match self {
            Self::Empty => ("  ".to_owned(), None),
            Self::Unknown(which) => {
                let texts = if is_forwarded {
                    [
                        "for=unknown",
                        "proto=http",
                        "for=_hidden;by=1.2.3.4",
                        "for=1.2.3.4;For=1.2.3.4",
                        "1.2.3.4",
                    ]
                } else {
                    ["unknown", "1.2.3", "1.2.3.4.5", "[::1", "::1]:80:90"]
                };
                (
                    texts[usize::from(*which) % texts.len()].to_owned(),
                    Some(None),
                )
            }
            Self::Told(address, form) => {
                let ip = address.ip();
                let plain = match (ip, form % 3) {
                    (_, 0) => ip.to_string(),
                    (IpAddr::V6(_), 1) => format!("[{ip}]"),
                    _ => SocketAddr::new(ip, 8_080).to_string(),
                };
                let text = match (is_forwarded, form % 4) {
                    (false, _) => plain,
                    (true, 0) => format!("for=\"{plain}\""),
                    (true, 1) => format!("by=10.0.0.1;FOR=\"{plain}\";proto=https"),
                    (true, 2) => format!("for={plain} ; host=\"a,b\""),
                    (true, _) => format!("For = {plain}").replace(" = ", "="),
                };
                (text, Some(Some(ip)))
            }
        }
    }
}

#[derive(Debug, arbitrary::Arbitrary)]
struct Input {
    peer: Address,
    proxies: u8,
    trusted: Vec<(Address, u8)>,
    is_forwarded: bool,
    prefixes: (u8, u8),
    /// What proxies have written, outermost first, and on how many lines.
    entries: Vec<(Entry, bool)>,
    /// What the client has sent before all that.
    sent: Vec<Vec<u8>>,
    max_len: u8,
}

/// The first `bits` bits of both are the same.
fn same_network(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let bits_of = |ip: IpAddr| -> Vec<bool> {
        let bytes = match ip.to_canonical() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        bytes
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1))
            .collect()
    };
    let (one, other) = (bits_of(one), bits_of(other));
    one.len() == other.len()
        && one
            .iter()
            .zip(&other)
            .take(bits.into())
            .all(|(a, b)| a == b)
}

fn check_network(key: &Key, of: IpAddr, (v4, v6): (u8, u8)) {
    let Key::Address(network, bits) = *key else {
        panic!("{key:?}");
    };
    let wanted = if of.to_canonical().is_ipv4() {
        v4.min(32)
    } else {
        v6.min(128)
    };
    assert_eq!(bits, wanted);
    assert!(
        same_network(network, of, bits),
        "{network}/{bits} is not of {of}"
    );
    let rest_is_zero = match network {
        IpAddr::V4(ip) => ip.to_bits().checked_shl(bits.into()).unwrap_or(0) == 0,
        IpAddr::V6(ip) => ip.to_bits().checked_shl(bits.into()).unwrap_or(0) == 0,
    };
    assert!(rest_is_zero, "{network}/{bits}");
}

fn parts(peer: IpAddr) -> Parts {
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.extensions.insert(Peer(SocketAddr::new(peer, 4_711)));
    parts
}

fuzz_target!(|input: Input| {
    let peer = input.peer.ip();
    let name = if input.is_forwarded {
        "forwarded"
    } else {
        "x-forwarded-for"
    };
    let name = HeaderName::from_static(name);
    let (v4, v6) = input.prefixes;

    // By the peer alone: no header is looked at.
    let bare = parts(peer);
    let by_peer = PeerAddress::new().with_ipv4_prefix(v4).with_ipv6_prefix(v6);
    let own = by_peer.key(&bare).expect("the peer is known");
    check_network(&own, peer, input.prefixes);

    // What the proxies have written.
    let mut lines = vec![String::new()];
    let mut told = Vec::new();
    for (entry, begins_line) in &input.entries {
        let (text, address) = entry.write(input.is_forwarded);
        match lines.last_mut() {
            Some(line) if !begins_line => {
                line.push(',');
                line.push_str(&text);
            }
            _ => lines.push(text),
        }
        told.extend(address);
    }
    let written = lines
        .iter()
        .map(|line| HeaderValue::from_str(line).expect("it is printable"));
    let mut honest = parts(peer);
    for line in written {
        honest.headers.append(name.clone(), line);
    }
    // The same behind whatever the client has sent.
    let mut spoofed = parts(peer);
    for value in input
        .sent
        .iter()
        .filter_map(|value| HeaderValue::from_bytes(value).ok())
    {
        spoofed.headers.append(name.clone(), value);
    }
    let sent: Vec<_> = spoofed.headers.get_all(&name).iter().cloned().collect();
    for line in honest.headers.get_all(&name) {
        spoofed.headers.append(name.clone(), line.clone());
    }
    assert_eq!(by_peer.key(&spoofed), Ok(own));

    // The header as a key: all values the same, neither empty nor too long.
    let as_key = Header::new(name.clone()).with_max_len(input.max_len.into());
    let mut values = parts(peer);
    for value in &sent {
        values.headers.append(name.clone(), value.clone());
    }
    let expected = sent.first().filter(|first| {
        sent.iter().all(|value| value == first)
            && (1..=usize::from(input.max_len)).contains(&first.len())
    });
    match (as_key.key(&values), expected) {
        (Ok(key), Some(first)) => assert_eq!(key, Key::bytes(first.as_bytes())),
        (Err(error), None) => assert!(error.is_by_client()),
        other => panic!("{other:?} of {sent:?}"),
    }

    let networks: Vec<_> = input
        .trusted
        .iter()
        .map(|(address, bits)| (address.ip().to_canonical(), *bits))
        .map(|(ip, bits)| (ip, if ip.is_ipv4() { bits % 33 } else { bits % 129 }))
        .collect();
    let trusted = networks.iter().map(|(ip, bits)| format!("{ip}/{bits}"));
    let proxies = usize::from(input.proxies % 5);
    let client = ClientAddress::behind(proxies, trusted);
    assert_eq!(client.is_ok(), proxies > 0 && !networks.is_empty());
    let Ok(mut client) = client else {
        return;
    };
    client = client.with_ipv4_prefix(v4).with_ipv6_prefix(v6);
    if input.is_forwarded {
        client = client.with_forwarded();
    }

    // From the right, one for each trusted proxy; the first that is not trusted is the client.
    let is_trusted = |ip: IpAddr| {
        networks
            .iter()
            .any(|&(of, bits)| same_network(ip, of, bits))
    };
    let mut expected = Some(peer);
    let mut has_all = false;
    for read in 0..=proxies {
        has_all = read == proxies || expected.is_none_or(|ip| !is_trusted(ip));
        if has_all || read == told.len() {
            break;
        }
        expected = told[told.len() - 1 - read];
    }
    let check = |request: &Parts| match (client.key(request), expected) {
        (Ok(key), Some(ip)) => check_network(&key, ip, input.prefixes),
        (Err(error), None) => assert!(error.is_by_client()),
        other => panic!("{other:?}"),
    };
    check(&honest);
    // If the proxies have written enough, it does not matter what the client has sent; and if not, it is no panic.
    if has_all {
        check(&spoofed);
    } else {
        let _ = client.key(&spoofed);
    }
});
