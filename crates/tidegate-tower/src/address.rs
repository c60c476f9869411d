//! Keys made of addresses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::HeaderName;
use http::header::FORWARDED;
use http::request::Parts;
use ipnet::IpNet;

use crate::forwarded;
use crate::key::{Key, KeyExtractor, NoKey};

/// The address at the other end of the connection, for servers without axum: whatever accepts the connection adds it
/// to the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

type FindPeer = Arc<dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync>;

/// How many bits of an address tell clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    v4: u8,
    v6: u8,
}

impl Prefix {
    /// Whole IPv4 addresses; a /56 of IPv6, which is what one subscriber usually gets.
    const DEFAULT: Self = Self { v4: 32, v6: 56 };

    fn key(self, address: IpAddr) -> Key {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0);
                let network = Ipv4Addr::from_bits(address.to_bits() & mask);
                Key::Address(network.into(), self.v4)
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0);
                let network = Ipv6Addr::from_bits(address.to_bits() & mask);
                Key::Address(network.into(), self.v6)
            }
        }
    }
}

fn find_peer(request: &Parts) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = request
        .extensions
        .get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(info.0.ip());
    }
    request.extensions.get::<Peer>().map(|peer| peer.0.ip())
}

/// What [`PeerAddress`] and [`ClientAddress`] have in common.
#[derive(Clone)]
struct Source {
    prefix: Prefix,
    find: Option<FindPeer>,
}

impl Source {
    const DEFAULT: Self = Self {
        prefix: Prefix::DEFAULT,
        find: None,
    };

    fn peer(&self, request: &Parts) -> Result<IpAddr, NoKey> {
        let found = match &self.find {
            Some(find) => find(request),
            None => find_peer(request),
        };
        // An IPv4-mapped IPv6 address is the IPv4 address.
        found.map(|address| address.to_canonical()).ok_or_else(|| {
            NoKey::by_server(
                "the peer's address is unknown: serve with into_make_service_with_connect_info::<SocketAddr>() and the feature `axum`, or add a Peer to the request's extensions",
            )
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.prefix.fmt(f)
    }
}

macro_rules! settings {
    () => {
        /// Counts IPv6 clients by the first `bits` bits of their addresses, at most 128. By default 56: a subscriber has
        /// at least that many addresses to rotate through.
        #[must_use]
        pub fn with_ipv6_prefix(mut self, bits: u8) -> Self {
            self.source.prefix.v6 = bits.min(128);
            self
        }

        /// Counts IPv4 clients by the first `bits` bits of their addresses, at most 32, which is the default.
        #[must_use]
        pub fn with_ipv4_prefix(mut self, bits: u8) -> Self {
            self.source.prefix.v4 = bits.min(32);
            self
        }

        /// Finds the peer's address in another way than axum's `ConnectInfo<SocketAddr>` or [`Peer`].
        #[must_use]
        pub fn with_peer(
            mut self,
            find: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
        ) -> Self {
            self.source.find = Some(Arc::new(find));
            self
        }
    };
}

/// The address at the other end of the connection. No header is looked at.
///
/// An IPv4-mapped IPv6 address is the IPv4 address, and IPv6 clients are counted by network, a /56 by default.
#[derive(Clone, Debug)]
pub struct PeerAddress {
    source: Source,
}

impl PeerAddress {
    /// The peer's address.
    pub fn new() -> Self {
        Self {
            source: Source::DEFAULT,
        }
    }

    settings!();
}

impl Default for PeerAddress {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyExtractor for PeerAddress {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        let peer = self.source.peer(request)?;
        Ok(self.source.prefix.key(peer))
    }
}

/// The client's address, as trusted proxies tell it.
///
/// Each proxy appends the address it was connected from, so the header is read from the right, one entry for each
/// trusted proxy, beginning with the peer. Going on takes that the address reached so far is one of the trusted networks:
/// the first that is not is the client, whatever it has sent itself. A client that connects directly, or around
/// the outer proxies, is counted by its own address.
///
/// An entry that a trusted proxy has written and that is no address, such as `unknown`, is no key.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    source: Source,
    trusted: Arc<[IpNet]>,
    proxies: usize,
    header: HeaderName,
}

impl ClientAddress {
    /// Behind up to `proxies` proxies in a row, all of them in these networks: `10.0.0.0/8`, or an address.
    ///
    /// Reads `X-Forwarded-For`.
    ///
    /// # Errors
    ///
    /// If there are no proxies, no networks, or one is not understood.
    pub fn behind<T: AsRef<str>>(
        proxies: usize,
        trusted: impl IntoIterator<Item = T>,
    ) -> Result<Self, ProxyError> {
        let trusted = trusted
            .into_iter()
            .map(|network| {
                let network = network.as_ref();
                forwarded::network(network).ok_or_else(|| ProxyError::Network(network.to_owned()))
            })
            .collect::<Result<Arc<[_]>, _>>()?;
        if proxies == 0 {
            return Err(ProxyError::NoProxies);
        }
        if trusted.is_empty() {
            return Err(ProxyError::NoNetworks);
        }
        Ok(Self {
            source: Source::DEFAULT,
            trusted,
            proxies,
            header: HeaderName::from_static("x-forwarded-for"),
        })
    }

    /// Reads `Forwarded` (RFC 7239) instead.
    ///
    /// Never both: a proxy that writes the one usually passes on the other as the client has sent it.
    #[must_use]
    pub fn with_forwarded(mut self) -> Self {
        self.header = FORWARDED;
        self
    }

    settings!();

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted
            .iter()
            .any(|network| network.contains(&address))
    }

    fn client(&self, request: &Parts) -> Result<IpAddr, NoKey> {
        let mut address = self.source.peer(request)?;
        let lines = request.headers.get_all(&self.header).iter().rev();
        let mut entries = lines.flat_map(|line| forwarded::elements(line.as_bytes()));
        for _ in 0..self.proxies {
            if !self.is_trusted(address) {
                break;
            }
            let Some(entry) = entries.next() else {
                break;
            };
            let told = if self.header == FORWARDED {
                forwarded::forwarded_for(entry)
            } else {
                forwarded::address(entry)
            };
            address = told.ok_or_else(|| {
                NoKey::by_client(format!(
                    "{} does not tell the client's address",
                    self.header
                ))
            })?;
        }
        Ok(address)
    }
}

impl KeyExtractor for ClientAddress {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        let client = self.client(request)?;
        Ok(self.source.prefix.key(client))
    }
}

/// Why [`ClientAddress::behind`] refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyError {
    /// A network is not understood.
    Network(String),
    /// There are trusted networks, but no proxies.
    NoProxies,
    /// There are proxies, but none is trusted: no header would ever be believed.
    NoNetworks,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(text) => write!(
                f,
                "`{text}` is no network: write an address, or an address and a prefix, as in 10.0.0.0/8"
            ),
            Self::NoProxies => f.write_str(
                "0 proxies are trusted to tell the client's address: the least is 1, or use the peer's address",
            ),
            Self::NoNetworks => f.write_str(
                "no network of trusted proxies: no header would ever be believed",
            ),
        }
    }
}

impl core::error::Error for ProxyError {}
