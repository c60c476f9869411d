//! How much, counted how, and kept where.

use core::any::Any;
use core::fmt;
use std::borrow::Cow;
use std::sync::Arc;

use tidegate::{
    Algorithm, AtomicWord, BoxTable, ConfigError, FixedWindow, Map, Quota, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};

use crate::key::Key;
use crate::store::Store;

/// How much is allowed, how it is counted, and where.
///
/// By default that is a [`BoxTable`] for 65,536 live keys: 2 MiB that are allocated once, whatever anybody sends. The
/// exact log, which keeps a word for every permit, is in a [`Map`], which grows up to as many keys and to 64 MiB of
/// permits. Mistakes are told when the layer is built.
///
/// ```
/// use tidegate::Quota;
/// use tidegate_tower::Limit;
///
/// let login = Limit::fixed_window(Quota::per_minute(5)).with_capacity(10_000);
/// let api = Limit::token_bucket(Quota::per_second(100)).with_burst(20);
/// assert_eq!(api.strategy(), Some("token-bucket"));
/// # drop(login);
/// ```
#[derive(Clone)]
pub struct Limit {
    quota: Quota,
    method: Method,
    burst: Option<u64>,
    capacity: Option<usize>,
    strategy: Option<Cow<'static, str>>,
}

#[derive(Clone)]
enum Method {
    TokenBucket,
    FixedWindow,
    AnchoredWindow,
    SlidingWindow,
    SlidingLog,
    Store(Arc<dyn Store>),
}

impl Limit {
    /// The live keys that a limit has room for, unless it says otherwise.
    pub const CAPACITY: usize = 65_536;

    /// The bytes that the permits of exact logs may take, unless a capacity is given.
    const LOG_BYTES: usize = 64 << 20;

    fn new(quota: Quota, method: Method) -> Self {
        Self {
            quota,
            method,
            burst: None,
            capacity: None,
            strategy: None,
        }
    }

    /// A steady rate, and bursts of up to the quota's limit, or of what [`with_burst`](Self::with_burst) says.
    pub fn token_bucket(quota: Quota) -> Self {
        Self::new(quota, Method::TokenBucket)
    }

    /// The quota in each window; windows begin at whole multiples of the period since the clock's epoch.
    pub fn fixed_window(quota: Quota) -> Self {
        Self::new(quota, Method::FixedWindow)
    }

    /// The quota in each window; a client's window begins with its first request admitted.
    pub fn anchored_window(quota: Quota) -> Self {
        Self::new(quota, Method::AnchoredWindow)
    }

    /// About the quota in any period.
    pub fn sliding_window(quota: Quota) -> Self {
        Self::new(quota, Method::SlidingWindow)
    }

    /// Exactly the quota in any period; of up to 1,024 permits.
    pub fn sliding_log(quota: Quota) -> Self {
        Self::new(quota, Method::SlidingLog)
    }

    /// Kept by a store of yours, which enforces the limit by itself; the quota is what clients are told.
    pub fn in_store(quota: Quota, store: impl Store + 'static) -> Self {
        Self::new(quota, Method::Store(Arc::new(store)))
    }

    /// Allows a token bucket bursts of so many.
    #[must_use]
    pub fn with_burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Makes room for so many live keys.
    #[must_use]
    pub fn with_capacity(mut self, live_keys: usize) -> Self {
        self.capacity = Some(live_keys);
        self
    }

    /// Calls the way of counting so, in the header `X-RateLimit-Strategy`.
    #[must_use]
    pub fn with_strategy(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.strategy = Some(name.into());
        self
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// What the way of counting is called.
    pub fn strategy(&self) -> Option<&str> {
        self.strategy.as_deref().or(match self.method {
            Method::TokenBucket => Some("token-bucket"),
            Method::FixedWindow => Some("fixed-window"),
            Method::AnchoredWindow => Some("anchored-window"),
            Method::SlidingWindow => Some("sliding-window"),
            Method::SlidingLog => Some("sliding-log"),
            Method::Store(_) => None,
        })
    }

    /// Makes the store, in which what was used in that of `old` is still used, if they count in the same way.
    pub(crate) fn open(
        &self,
        old: Option<&OpenLimit>,
        now: Timestamp,
    ) -> Result<OpenLimit, LimitError> {
        if self.burst.is_some() && !matches!(self.method, Method::TokenBucket) {
            return Err(LimitError::NoBurst);
        }
        if self.capacity == Some(0) {
            return Err(LimitError::NoCapacity);
        }
        if let Method::Store(store) = &self.method {
            if self.capacity.is_some() {
                return Err(LimitError::OwnCapacity);
            }
            return Ok(OpenLimit {
                limit: self.clone(),
                store: Arc::clone(store),
                kept: Arc::new(()),
            });
        }
        if let Some(old) = old
            && old.limit.counts_as(self)
        {
            return Ok(OpenLimit {
                limit: self.clone(),
                ..old.clone()
            });
        }
        let quota = self.quota;
        match self.method {
            Method::TokenBucket => {
                let burst = self.burst.unwrap_or(quota.limit());
                self.table(TokenBucket::try_new_with_burst(quota, burst)?, old, now)
            }
            Method::FixedWindow => self.table(FixedWindow::try_new(quota)?, old, now),
            Method::AnchoredWindow => self.table(FixedWindow::try_anchored(quota)?, old, now),
            Method::SlidingWindow => self.table(SlidingWindow::try_new(quota)?, old, now),
            Method::SlidingLog => match quota.limit() {
                ..=16 => self.log(SlidingLog::<16>::try_new(quota)?, old, now),
                17..=128 => self.log(SlidingLog::<128>::try_new(quota)?, old, now),
                _ => self.log(SlidingLog::<1024>::try_new(quota)?, old, now),
            },
            // Has returned above.
            Method::Store(_) => Err(LimitError::OwnCapacity),
        }
    }

    fn counts_as(&self, other: &Self) -> bool {
        self.quota == other.quota
            && self.burst == other.burst
            && self.capacity == other.capacity
            && core::mem::discriminant(&self.method) == core::mem::discriminant(&other.method)
    }

    fn table<A>(
        &self,
        algorithm: A,
        old: Option<&OpenLimit>,
        now: Timestamp,
    ) -> Result<OpenLimit, LimitError>
    where
        A: Algorithm<Word: AtomicWord> + Send + Sync + 'static,
        BoxTable<A>: Store,
    {
        let old = old.filter(|old| {
            old.limit.capacity == self.capacity
                && core::mem::discriminant(&old.limit.method)
                    == core::mem::discriminant(&self.method)
        });
        let old = old.and_then(|old| old.kept.downcast_ref::<BoxTable<A>>());
        let table = match old {
            Some(old) => old.retuned(algorithm, now),
            None => BoxTable::with_capacity(algorithm, self.capacity.unwrap_or(Self::CAPACITY)),
        };
        Ok(self.opened(table))
    }

    fn log<const N: usize>(
        &self,
        log: SlidingLog<N>,
        old: Option<&OpenLimit>,
        now: Timestamp,
    ) -> Result<OpenLimit, LimitError> {
        let default = Self::CAPACITY.min(Self::LOG_BYTES / (N * size_of::<u64>()));
        let map = Map::with_hasher(log, tidegate::Seeded::default())
            .with_max_keys(self.capacity.unwrap_or(default));
        if let Some(old) = old {
            // It may have had another number of places.
            let _ = copy_log::<16, N>(old, &map, now)
                || copy_log::<128, N>(old, &map, now)
                || copy_log::<1024, N>(old, &map, now);
        }
        Ok(self.opened(map))
    }

    fn opened<S: Store + 'static>(&self, store: S) -> OpenLimit {
        let store = Arc::new(store);
        OpenLimit {
            limit: self.clone(),
            kept: Arc::clone(&store) as Arc<dyn Any + Send + Sync>,
            store,
        }
    }
}

/// What a key has used, as used now.
fn copy_log<const M: usize, const N: usize>(
    old: &OpenLimit,
    new: &Map<Key, SlidingLog<N>>,
    now: Timestamp,
) -> bool {
    let Some(old) = old.kept.downcast_ref::<Map<Key, SlidingLog<M>>>() else {
        return false;
    };
    let most = new.algorithm().quota().limit();
    for entry in old.iter(now) {
        let (key, standing) = entry;
        let used = standing.limit().saturating_sub(standing.remaining());
        // A smaller new map may have no room; then the key is forgotten, as any newcomer would be refused.
        let _ = new.check_n(&key, now, used.min(most));
    }
    true
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit")
            .field("quota", &self.quota)
            .field("strategy", &self.strategy())
            .field("burst", &self.burst)
            .field("capacity", &self.capacity)
            .finish()
    }
}

/// A limit with its store.
#[derive(Clone)]
pub(crate) struct OpenLimit {
    pub(crate) limit: Limit,
    pub(crate) store: Arc<dyn Store>,
    /// The same store, to be recognized.
    kept: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for OpenLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit.fmt(f)
    }
}

/// Why a [`Limit`] cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The way of counting cannot count this quota.
    Quota(ConfigError),
    /// A burst, and no token bucket.
    NoBurst,
    /// Room for no keys.
    NoCapacity,
    /// A capacity for a store that is made elsewhere.
    OwnCapacity,
}

impl From<ConfigError> for LimitError {
    fn from(error: ConfigError) -> Self {
        Self::Quota(error)
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(ConfigError::LimitAboveCapacity) => f.write_str(
                "the exact log is for up to 1024 permits; lower the limit, or use a sliding window",
            ),
            Self::Quota(error) => error.fmt(f),
            Self::NoBurst => f.write_str("only a token bucket has a burst"),
            Self::NoCapacity => f.write_str("a capacity of 0 has room for nobody; the least is 1"),
            Self::OwnCapacity => {
                f.write_str("a store of your own has its own capacity; choose it there")
            }
        }
    }
}

impl core::error::Error for LimitError {}
