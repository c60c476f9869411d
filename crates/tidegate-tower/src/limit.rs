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
    kept: Kept,
    burst: Option<u64>,
    capacity: Option<usize>,
    strategy: Option<Cow<'static, str>>,
}

/// How a limit is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Counting {
    /// See [`Limit::token_bucket`].
    TokenBucket,
    /// See [`Limit::fixed_window`].
    FixedWindow,
    /// See [`Limit::anchored_window`].
    AnchoredWindow,
    /// See [`Limit::sliding_window`].
    SlidingWindow,
    /// See [`Limit::sliding_log`].
    SlidingLog,
}

impl Counting {
    /// As it is called in TOML and in the header `X-RateLimit-Strategy`, such as `token-bucket`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::FixedWindow => "fixed-window",
            Self::AnchoredWindow => "anchored-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
        }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Clone)]
enum Kept {
    /// In memory, or where [`Builder::stores`](crate::Builder::stores) says.
    Here(Counting),
    /// By a store that enforces the limit by itself.
    There(Arc<dyn Store>),
}

impl Limit {
    /// The live keys that a limit has room for, unless it says otherwise.
    pub const CAPACITY: usize = 65_536;

    /// The bytes that the permits of exact logs may take, unless a capacity is given.
    const LOG_BYTES: usize = 64 << 20;

    fn new(quota: Quota, kept: Kept) -> Self {
        Self {
            quota,
            kept,
            burst: None,
            capacity: None,
            strategy: None,
        }
    }

    /// A steady rate, and bursts of up to the quota's limit, or of what [`with_burst`](Self::with_burst) says.
    pub fn token_bucket(quota: Quota) -> Self {
        Self::new(quota, Kept::Here(Counting::TokenBucket))
    }

    /// The quota in each window; windows begin at whole multiples of the period since the clock's epoch.
    pub fn fixed_window(quota: Quota) -> Self {
        Self::new(quota, Kept::Here(Counting::FixedWindow))
    }

    /// The quota in each window; a client's window begins with its first request admitted.
    pub fn anchored_window(quota: Quota) -> Self {
        Self::new(quota, Kept::Here(Counting::AnchoredWindow))
    }

    /// About the quota in any period.
    pub fn sliding_window(quota: Quota) -> Self {
        Self::new(quota, Kept::Here(Counting::SlidingWindow))
    }

    /// Exactly the quota in any period; of up to 1,024 permits.
    pub fn sliding_log(quota: Quota) -> Self {
        Self::new(quota, Kept::Here(Counting::SlidingLog))
    }

    /// Kept by a store of yours, which enforces the limit by itself; the quota is what clients are told.
    pub fn in_store(quota: Quota, store: impl Store + 'static) -> Self {
        Self::new(quota, Kept::There(Arc::new(store)))
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

    /// How it is counted; `None` if that is a [store](Self::in_store)'s business.
    pub fn counting(&self) -> Option<Counting> {
        match self.kept {
            Kept::Here(counting) => Some(counting),
            Kept::There(_) => None,
        }
    }

    /// How much a token bucket holds: the quota's limit, unless [`with_burst`](Self::with_burst) says otherwise. `None` if
    /// it is no token bucket.
    pub fn burst(&self) -> Option<u64> {
        let is_bucket = self.counting() == Some(Counting::TokenBucket);
        is_bucket.then(|| self.burst.unwrap_or(self.quota.limit()))
    }

    /// The live keys there is to be room for, if [`with_capacity`](Self::with_capacity) says.
    pub fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    /// What the way of counting is called.
    pub fn strategy(&self) -> Option<&str> {
        let own = || self.counting().map(Counting::as_str);
        self.strategy.as_deref().or_else(own)
    }

    /// Whether its parts go together; whether the quota can be counted is found when it is opened.
    pub(crate) fn check(&self) -> Result<(), LimitError> {
        if self.burst.is_some() && self.counting() != Some(Counting::TokenBucket) {
            return Err(LimitError::NoBurst);
        }
        match (self.capacity, &self.kept) {
            (Some(0), _) => Err(LimitError::NoCapacity),
            (Some(_), Kept::There(_)) => Err(LimitError::OwnCapacity),
            _ => Ok(()),
        }
    }

    /// Makes the store, in which what was used in that of `old` is still used, if they count in the same way.
    pub(crate) fn open(
        &self,
        old: Option<&OpenLimit>,
        now: Timestamp,
    ) -> Result<OpenLimit, LimitError> {
        self.check()?;
        let counting = match &self.kept {
            Kept::Here(counting) => *counting,
            Kept::There(store) => return Ok(self.opened_elsewhere(Arc::clone(store))),
        };
        // What a store elsewhere has counted cannot be copied.
        let old = old.filter(|old| old.kept.is_some());
        if let Some(old) = old
            && old.limit.counts_as(self)
        {
            return Ok(OpenLimit {
                limit: self.clone(),
                ..old.clone()
            });
        }
        let quota = self.quota;
        match counting {
            Counting::TokenBucket => {
                let burst = self.burst.unwrap_or(quota.limit());
                self.table(TokenBucket::try_new_with_burst(quota, burst)?, old, now)
            }
            Counting::FixedWindow => self.table(FixedWindow::try_new(quota)?, old, now),
            Counting::AnchoredWindow => self.table(FixedWindow::try_anchored(quota)?, old, now),
            Counting::SlidingWindow => self.table(SlidingWindow::try_new(quota)?, old, now),
            Counting::SlidingLog => match quota.limit() {
                ..=16 => self.log(SlidingLog::<16>::try_new(quota)?, old, now),
                17..=128 => self.log(SlidingLog::<128>::try_new(quota)?, old, now),
                _ => self.log(SlidingLog::<1024>::try_new(quota)?, old, now),
            },
        }
    }

    fn counts_as(&self, other: &Self) -> bool {
        self.quota == other.quota
            && self.burst == other.burst
            && self.capacity == other.capacity
            && self.counting() == other.counting()
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
            old.limit.capacity == self.capacity && old.limit.counting() == self.counting()
        });
        let old = old.and_then(OpenLimit::kept_as::<BoxTable<A>>);
        let table = match old {
            Some(old) => old.retuned(algorithm, now),
            None => {
                let capacity = self.capacity.unwrap_or(Self::CAPACITY);
                has_memory(capacity)?;
                BoxTable::with_capacity(algorithm, capacity)
            }
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
            kept: Some(Arc::clone(&store) as Arc<dyn Any + Send + Sync>),
            store,
        }
    }

    /// Kept by this store.
    pub(crate) fn opened_elsewhere(&self, store: Arc<dyn Store>) -> OpenLimit {
        OpenLimit {
            limit: self.clone(),
            store,
            kept: None,
        }
    }
}

/// Finds out whether the memory for so many keys can be had, 32 bytes each: a table that cannot have it panics. That the
/// system gives it is no promise that it is there.
fn has_memory(live_keys: usize) -> Result<(), LimitError> {
    let bytes = live_keys.checked_mul(33).ok_or(LimitError::NoMemory)?;
    let mut memory = Vec::<u8>::new();
    // Else it could be left out.
    let reserved = core::hint::black_box(&mut memory).try_reserve_exact(bytes);
    reserved.map_err(|_| LimitError::NoMemory)
}

/// What a key has used, as used now.
fn copy_log<const M: usize, const N: usize>(
    old: &OpenLimit,
    new: &Map<Key, SlidingLog<N>>,
    now: Timestamp,
) -> bool {
    let Some(old) = old.kept_as::<Map<Key, SlidingLog<M>>>() else {
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
    /// The same store, to be recognized, if it is one that was made here.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl OpenLimit {
    fn kept_as<S: 'static>(&self) -> Option<&S> {
        self.kept.as_ref()?.downcast_ref()
    }
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
    /// More capacity than there is memory.
    NoMemory,
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
            Self::NoMemory => {
                f.write_str("there is no memory for so many keys; lower the capacity")
            }
            Self::OwnCapacity => {
                f.write_str("a store of your own has its own capacity; choose it there")
            }
        }
    }
}

impl core::error::Error for LimitError {}
