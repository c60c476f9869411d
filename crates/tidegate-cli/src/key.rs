//! What a limit is counted by, as small numbers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ahash::RandomState;
use clap::ValueEnum;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::log::Record;
use crate::log::clf::address;

/// What requests share a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyKind {
    /// Each client address or host name
    Ip,
    /// Each IPv4 /24 and IPv6 /56
    Net,
    /// Each path, without the query
    Path,
    /// Each path of each client
    #[value(name = "ip+path")]
    IpPath,
    /// Everything together
    All,
}

impl KeyKind {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Net => "net",
            Self::Path => "path",
            Self::IpPath => "ip+path",
            Self::All => "all",
        }
    }

    /// Whether the log must have paths.
    pub(crate) fn needs_path(self) -> bool {
        matches!(self, Self::Path | Self::IpPath)
    }

    /// What a number of keys is a number of.
    pub(crate) fn noun(self, count: u64) -> &'static str {
        let (one, many) = match self {
            Self::Ip => ("client", "clients"),
            Self::Net => ("network", "networks"),
            Self::Path => ("path", "paths"),
            Self::IpPath => ("client and path", "clients and paths"),
            Self::All => ("key", "keys"),
        };
        if count == 1 { one } else { many }
    }
}

/// All keys seen, each with a number from 0 on in the order in which they came.
#[derive(Debug)]
pub(crate) struct Keys {
    kind: KeyKind,
    hasher: RandomState,
    table: HashTable<u32>,
    /// The keys' bytes, one after the other.
    arena: Vec<u8>,
    /// Where each key ends in `arena`.
    ends: Vec<usize>,
    scratch: Vec<u8>,
}

/// First byte of an encoded client: what follows it.
const V4: u8 = 4;
const V6: u8 = 6;
const NAME: u8 = 0;

impl Keys {
    /// No keys yet.
    pub(crate) fn new(kind: KeyKind) -> Self {
        Self {
            kind,
            hasher: RandomState::new(),
            table: HashTable::new(),
            arena: Vec::new(),
            ends: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a record's key.
    pub(crate) fn intern(&mut self, record: &Record<'_>) -> usize {
        self.scratch.clear();
        encode(self.kind, record, &mut self.scratch);
        let (arena, ends, scratch) = (&self.arena, &self.ends, &self.scratch);
        let entry = self.table.entry(
            self.hasher.hash_one(scratch.as_slice()),
            |&id| bytes(arena, ends, id as usize) == scratch.as_slice(),
            |&id| self.hasher.hash_one(bytes(arena, ends, id as usize)),
        );
        match entry {
            Entry::Occupied(found) => *found.get() as usize,
            Entry::Vacant(vacant) => {
                let id = ends.len();
                // Four billion keys would take half a terabyte.
                vacant.insert(id as u32);
                self.arena.extend_from_slice(&self.scratch);
                self.ends.push(self.arena.len());
                id
            }
        }
    }

    /// A key as text.
    pub(crate) fn text(&self, id: usize) -> String {
        let bytes = bytes(&self.arena, &self.ends, id);
        match self.kind {
            KeyKind::All => "everything".to_owned(),
            KeyKind::Path => String::from_utf8_lossy(bytes).into_owned(),
            KeyKind::Ip | KeyKind::IpPath => {
                let (client, path) = client_text(bytes);
                match self.kind {
                    KeyKind::IpPath => format!("{client} {}", String::from_utf8_lossy(path)),
                    _ => client,
                }
            }
            KeyKind::Net => match bytes {
                [V4, a, b, c] => format!("{a}.{b}.{c}.0/24"),
                [V6, prefix @ ..] => {
                    let mut octets = [0; 16];
                    octets[..NET6_BYTES].copy_from_slice(prefix);
                    format!("{}/56", Ipv6Addr::from(octets))
                }
                _ => client_text(bytes).0,
            },
        }
    }
}

/// Bytes of a /24 and of a /56.
const NET4_BYTES: usize = 3;
const NET6_BYTES: usize = 7;

fn bytes<'a>(arena: &'a [u8], ends: &[usize], id: usize) -> &'a [u8] {
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &arena[start..ends[id]]
}

fn encode(kind: KeyKind, record: &Record<'_>, to: &mut Vec<u8>) {
    match kind {
        KeyKind::Ip => encode_client(record.client, 4, 16, to),
        KeyKind::Net => encode_client(record.client, NET4_BYTES, NET6_BYTES, to),
        KeyKind::Path => to.extend_from_slice(record.path),
        KeyKind::IpPath => {
            encode_client(record.client, 4, 16, to);
            to.extend_from_slice(record.path);
        }
        KeyKind::All => {}
    }
}

fn encode_client(client: &[u8], keep4: usize, keep6: usize, to: &mut Vec<u8>) {
    match address(client) {
        Some(IpAddr::V4(address)) => {
            to.push(V4);
            to.extend_from_slice(&address.octets()[..keep4]);
        }
        Some(IpAddr::V6(address)) => {
            to.push(V6);
            to.extend_from_slice(&address.octets()[..keep6]);
        }
        None => {
            to.push(NAME);
            // So that no name can run over into the path. A line has at most a mebibyte.
            to.extend_from_slice(&(client.len() as u32).to_le_bytes());
            to.extend_from_slice(client);
        }
    }
}

/// A whole client's text, and the bytes after it.
fn client_text(bytes: &[u8]) -> (String, &[u8]) {
    match bytes {
        [V4, a, b, c, d, rest @ ..] => (Ipv4Addr::new(*a, *b, *c, *d).to_string(), rest),
        [V6, rest @ ..] => match rest.split_first_chunk::<16>() {
            Some((octets, rest)) => (Ipv6Addr::from(*octets).to_string(), rest),
            None => (String::new(), rest),
        },
        [NAME, rest @ ..] => match rest.split_first_chunk::<4>() {
            Some((length, rest)) => {
                let (name, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
                (String::from_utf8_lossy(name).into_owned(), rest)
            }
            None => (String::new(), rest),
        },
        _ => (String::new(), bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(kind: KeyKind, records: &[(&str, &str)]) -> (Vec<usize>, Vec<String>) {
        let mut keys = Keys::new(kind);
        let ids = records
            .iter()
            .map(|(client, path)| {
                keys.intern(&Record {
                    time: 0,
                    client: client.as_bytes(),
                    path: path.as_bytes(),
                })
            })
            .collect();
        (ids, (0..keys.len()).map(|id| keys.text(id)).collect())
    }

    const RECORDS: [(&str, &str); 6] = [
        ("192.0.2.1", "/a"),
        ("192.0.2.9", "/a"),
        ("::ffff:192.0.2.1", "/b"),
        ("2001:db8:0:1ff::1", "/a"),
        ("2001:DB8:0:100::2", "/a"),
        ("a.example", "/a"),
    ];

    #[test]
    fn by_client() {
        let (ids, texts) = texts(KeyKind::Ip, &RECORDS);
        assert_eq!(ids, [0, 1, 0, 2, 3, 4]);
        assert_eq!(
            texts,
            [
                "192.0.2.1",
                "192.0.2.9",
                "2001:db8:0:1ff::1",
                "2001:db8:0:100::2",
                "a.example"
            ]
        );
    }

    #[test]
    fn by_network() {
        let (ids, texts) = texts(KeyKind::Net, &RECORDS);
        assert_eq!(ids, [0, 0, 0, 1, 1, 2]);
        assert_eq!(texts, ["192.0.2.0/24", "2001:db8:0:100::/56", "a.example"]);
    }

    #[test]
    fn by_path_and_both_and_all() {
        let (ids, found) = texts(KeyKind::Path, &RECORDS);
        assert_eq!(ids, [0, 0, 1, 0, 0, 0]);
        assert_eq!(found, ["/a", "/b"]);
        let (ids, found) = texts(KeyKind::IpPath, &RECORDS);
        assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
        assert_eq!(found[2], "192.0.2.1 /b");
        assert_eq!(found[3], "2001:db8:0:1ff::1 /a");
        assert_eq!(found[5], "a.example /a");
        let (ids, found) = texts(KeyKind::All, &RECORDS);
        assert_eq!(ids, [0; 6]);
        assert_eq!(found, ["everything"]);
    }

    #[test]
    fn a_name_does_not_run_into_the_path() {
        let (ids, _) = texts(KeyKind::IpPath, &[("a", "b/c"), ("ab", "/c"), ("a", "b/c")]);
        assert_eq!(ids, [0, 1, 0]);
    }

    #[test]
    fn many_keys_keep_their_numbers() {
        let mut keys = Keys::new(KeyKind::Ip);
        let client = |n: u32| Ipv4Addr::from(n).to_string();
        for round in 0..2 {
            for n in 0..5_000 {
                let client = client(n);
                let record = Record {
                    time: 0,
                    client: client.as_bytes(),
                    path: b"",
                };
                assert_eq!(keys.intern(&record), n as usize, "round {round}");
            }
        }
        assert_eq!(keys.len(), 5_000);
        assert_eq!(keys.text(4_999), client(4_999));
    }
}
