//! Whose budget a request comes out of.

use core::fmt;
use core::marker::PhantomData;
use core::net::IpAddr;
use std::borrow::Cow;
use std::sync::Arc;

use http::header::HeaderName;
use http::request::Parts;

/// Whose budget a request comes out of: what a store keeps a limiter for.
///
/// Two keys are equal if and only if they were made in the same way of the same parts. Displaying one writes it for
/// people, which is not injective; a store elsewhere should use the bytes of [`encode`](Self::encode).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Key {
    /// Everybody has one budget together.
    Everyone,
    /// An address or a network, and how many bits of it count.
    Address(IpAddr, u8),
    /// A number, such as a user's.
    Number(u64),
    /// Text, such as a user's name or a path template.
    Text(Arc<str>),
    /// Bytes, such as a header's value.
    Bytes(Arc<[u8]>),
    /// Several together.
    Both(Arc<(Key, Key)>),
}

impl Key {
    /// Text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// Bytes.
    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// This and another together.
    pub fn and(self, other: Self) -> Self {
        Self::Both(Arc::new((self, other)))
    }

    /// Appends bytes that differ for different keys, and are no prefix of each other: for a store elsewhere.
    ///
    /// ```
    /// use tidegate_tower::Key;
    ///
    /// let mut bytes = Vec::new();
    /// Key::text("ab").encode(&mut bytes);
    /// assert_eq!(bytes, b"t\x02\0\0\0\0\0\0\0ab");
    /// ```
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let mut sized = |tag: u8, content: &[u8]| {
            bytes.push(tag);
            bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
            bytes.extend_from_slice(content);
        };
        match self {
            Self::Everyone => bytes.push(b'*'),
            Self::Address(IpAddr::V4(address), bits) => {
                bytes.extend_from_slice(&[b'4', *bits]);
                bytes.extend_from_slice(&address.octets());
            }
            Self::Address(IpAddr::V6(address), bits) => {
                bytes.extend_from_slice(&[b'6', *bits]);
                bytes.extend_from_slice(&address.octets());
            }
            Self::Number(number) => {
                bytes.push(b'n');
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            Self::Text(text) => sized(b't', text.as_bytes()),
            Self::Bytes(content) => sized(b'b', content),
            Self::Both(both) => {
                bytes.push(b'&');
                both.0.encode(bytes);
                both.1.encode(bytes);
            }
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::Address(address @ IpAddr::V4(_), 32) => write!(f, "{address}"),
            Self::Address(address @ IpAddr::V6(_), 128) => write!(f, "{address}"),
            Self::Address(address, bits) => write!(f, "{address}/{bits}"),
            Self::Number(number) => write!(f, "{number}"),
            // Whoever sends a header must not write to somebody's terminal.
            Self::Text(text) => write!(f, "{}", text.escape_debug()),
            Self::Bytes(bytes) => write!(f, "{}", bytes.escape_ascii()),
            Self::Both(both) => write!(f, "{} {}", both.0, both.1),
        }
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKey {
    by_client: bool,
    why: Cow<'static, str>,
}

impl NoKey {
    /// The request lacks what the client should have sent. If it is refused, that is with status 400.
    pub fn by_client(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            by_client: true,
            why: why.into(),
        }
    }

    /// The server does not supply what the key is made of. If the request is refused, that is with status 500.
    pub fn by_server(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            by_client: false,
            why: why.into(),
        }
    }

    /// Whether the client could do something about it.
    pub fn is_by_client(&self) -> bool {
        self.by_client
    }
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl core::error::Error for NoKey {}

/// Finds the key of a request.
///
/// Closures `Fn(&Parts) -> Result<Key, NoKey>` are extractors too. It must not panic, whatever the request.
pub trait KeyExtractor: Send + Sync {
    /// The key of this request.
    ///
    /// # Errors
    ///
    /// [`NoKey`] if there is none; then the policy decides, see [`Policy::on_no_key`](crate::Policy::on_no_key).
    fn key(&self, request: &Parts) -> Result<Key, NoKey>;

    /// This key and another's together: a budget for each pair.
    fn and<E: KeyExtractor>(self, other: E) -> And<Self, E>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// This key, or the other's where there is none.
    ///
    /// Whoever can leave out what the first is made of chooses between the two.
    fn or<E: KeyExtractor>(self, other: E) -> Or<Self, E>
    where
        Self: Sized,
    {
        Or(self, other)
    }
}

impl<F: Fn(&Parts) -> Result<Key, NoKey> + Send + Sync> KeyExtractor for F {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        self(request)
    }
}

impl KeyExtractor for Arc<dyn KeyExtractor> {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        (**self).key(request)
    }
}

/// Everybody together: one budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

impl KeyExtractor for Everyone {
    fn key(&self, _: &Parts) -> Result<Key, NoKey> {
        Ok(Key::Everyone)
    }
}

/// The value of a header, byte for byte, such as an API key that something before has authenticated.
///
/// There is no key without the header, or if it is empty, longer than the limit, or sent more than once with different
/// values. A client that may choose any value has as many budgets as it likes: use it for what has been authenticated.
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
    max_len: usize,
}

impl Header {
    /// The longest value by default, in bytes.
    pub const MAX_LEN: usize = 1_024;

    /// The value of this header.
    pub fn new(name: HeaderName) -> Self {
        Self {
            name,
            max_len: Self::MAX_LEN,
        }
    }

    /// Allows values of up to so many bytes. Each live one is kept, by a store with exact keys.
    #[must_use]
    pub fn with_max_len(mut self, bytes: usize) -> Self {
        self.max_len = bytes;
        self
    }
}

impl KeyExtractor for Header {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        let no_key =
            |what: &str| NoKey::by_client(format!("the request header {} is {what}", self.name));
        let mut values = request.headers.get_all(&self.name).iter();
        let value = values.next().ok_or_else(|| no_key("missing"))?;
        if values.any(|other| other != value) {
            return Err(no_key("there more than once"));
        }
        match value.as_bytes() {
            [] => Err(no_key("empty")),
            bytes if bytes.len() > self.max_len => Err(no_key("too long")),
            bytes => Ok(Key::bytes(bytes)),
        }
    }
}

/// A key made of a request extension, such as the user that something before has authenticated.
pub struct Extension<T, F> {
    key: F,
    of: PhantomData<fn(&T)>,
}

impl<T, F> Extension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Key + Send + Sync,
{
    /// The key that `key` makes of the request extension of type `T`.
    ///
    /// ```
    /// use tidegate_tower::{Extension, Key};
    ///
    /// #[derive(Clone)]
    /// struct User(u64);
    ///
    /// let by_user = Extension::new(|user: &User| Key::Number(user.0));
    /// ```
    pub fn new(key: F) -> Self {
        Self {
            key,
            of: PhantomData,
        }
    }
}

impl<T, F> KeyExtractor for Extension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Key + Send + Sync,
{
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        match request.extensions.get::<T>() {
            Some(extension) => Ok((self.key)(extension)),
            None => Err(NoKey::by_server(format!(
                "the request has no extension {}: what adds it must come before the rate limit",
                core::any::type_name::<T>()
            ))),
        }
    }
}

impl<T, F> fmt::Debug for Extension<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Extension")
            .field(&core::any::type_name::<T>())
            .finish()
    }
}

/// The template of the route that the request has matched, such as `/users/{id}`, for servers without axum: whatever
/// routes the request adds it to the extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTemplate(pub Arc<str>);

/// The path template, such as `/users/{id}`: axum's `MatchedPath` (feature `axum`), or [`RouteTemplate`].
///
/// A request that has matched no route has no key: its path would be a key of the client's choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathTemplate;

impl KeyExtractor for PathTemplate {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        route_template(request).map(Key::text).ok_or_else(|| {
            NoKey::by_server(
                "the request has matched no route: apply the layer with Router::layer or route_layer, or add a RouteTemplate",
            )
        })
    }
}

/// The template of the matched route, if it is known.
pub(crate) fn route_template(request: &Parts) -> Option<&str> {
    #[cfg(feature = "axum")]
    if let Some(matched) = request.extensions.get::<axum::extract::MatchedPath>() {
        return Some(matched.as_str());
    }
    let template = request.extensions.get::<RouteTemplate>()?;
    Some(&template.0)
}

/// Two keys together; see [`KeyExtractor::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for And<A, B> {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        Ok(self.0.key(request)?.and(self.1.key(request)?))
    }
}

/// A key, or else another; see [`KeyExtractor::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for Or<A, B> {
    fn key(&self, request: &Parts) -> Result<Key, NoKey> {
        self.0.key(request).or_else(|_| self.1.key(request))
    }
}
