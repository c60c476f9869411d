//! The server, as limiters see it.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tidegate::Timestamp;

use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key;
use crate::limit::{Limit, LimitError};
use crate::limiter::RedisLimiter;
use crate::link::{Link, Options, Target};
use crate::script::{self, Ask, Commit, When};
use crate::stats::Stats;

/// A Redis server, or anything that speaks its protocol and runs Lua, on which limits are kept.
///
/// Clones share one connection, over which any number of tasks have their requests under way at the same time.
///
/// # When the server is slow, or gone
///
/// A decision takes at most the [deadline](Builder::deadline), and then is an [`Error`]. After some such in a row, or
/// if the connection fails or the server says that it cannot serve, it is *down*: decisions fail at once with
/// [`ErrorKind::Down`], without a system call, until a task in the background has reached it again and seen it write.
/// [`guarded`](RedisLimiter::guarded) chooses what happens meanwhile.
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) link: Arc<Link>,
}

impl RedisStore {
    /// A server by its URL, such as `redis://127.0.0.1:6379/0`.
    ///
    /// # Errors
    ///
    /// If the URL cannot be understood.
    pub fn builder(url: &str) -> Result<Builder, Error> {
        #[cfg(feature = "tls")]
        choose_cryptography(url);
        let client = redis::Client::open(url)?;
        Ok(Builder::new(Target::Single(Box::new(client))))
    }

    /// A cluster, by the URLs of some of its nodes.
    ///
    /// # Errors
    ///
    /// If a URL cannot be understood.
    #[cfg(feature = "cluster")]
    pub fn cluster<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Builder, Error> {
        #[cfg(feature = "tls")]
        let urls = urls.into_iter().inspect(|url| choose_cryptography(url));
        let client = redis::cluster::ClusterClientBuilder::new(urls).build()?;
        Ok(Builder::new(Target::Cluster(Box::new(client))))
    }

    /// A limiter on this server. Limiters of one name share their keys, on all machines.
    ///
    /// The same name may be given another limit later: what a key has used stays used, in permits, if it is counted in
    /// the same way. While both are used, as in a rolling deployment, they count together, and admit no more than the
    /// larger would; but what is older than the shorter period may be forgotten, and what is told of waits may be too short
    /// until what a larger limit has counted is back.
    ///
    /// # Errors
    ///
    /// If the server cannot count this limit exactly, or the name is not 1 to 64 of `A` to `Z`, `a` to `z`, `0` to
    /// `9`, `_`, `-` and `.`.
    pub fn limiter(&self, name: &str, limit: Limit) -> Result<RedisLimiter, ConfigError> {
        if !key::is_name(name) {
            return Err(ConfigError::Name);
        }
        let rule = limit.rule().map_err(ConfigError::Limit)?;
        Ok(RedisLimiter::new(self.clone(), name, limit, rule))
    }

    /// May a request pass by all of these? It is counted by all of them, or by none: one script, one round trip.
    ///
    /// The decisions are in the order of the requests. If one refuses, the others tell how they stand without the
    /// request. On a cluster, all keys must lie on one server: they do if they are the same key of several limiters, or
    /// if the limiters have one [tag](RedisLimiter::with_tag).
    ///
    /// ```no_run
    /// use tidegate::Quota;
    /// use tidegate_redis::{Limit, RedisStore, Request};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn core::error::Error>> {
    /// let store = RedisStore::builder("redis://127.0.0.1/")?.connect().await?;
    /// let second = store.limiter("second", Limit::token_bucket(Quota::per_second(10)))?;
    /// let day = store.limiter("day", Limit::fixed_window(Quota::per_day(10_000)))?;
    /// let client = "client-1";
    /// let decisions = store.check_all(&[Request::new(&second, client), Request::new(&day, client)]).await?;
    /// let may_pass = decisions.iter().all(|decision| decision.is_allowed());
    /// # let _ = may_pass;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no decision.
    pub async fn check_all(&self, requests: &[Request<'_>]) -> Result<Vec<Decision>, Error> {
        self.decide_all(requests, When::Server, Commit::All).await
    }

    /// What [`check_all`](Self::check_all) would answer; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no answer.
    pub async fn peek_all(&self, requests: &[Request<'_>]) -> Result<Vec<Decision>, Error> {
        self.decide_all(requests, When::Server, Commit::Nothing)
            .await
    }

    /// [`check_all`](Self::check_all) by another clock than the server's: see [`RedisLimiter::check_at`].
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no decision.
    pub async fn check_all_at(
        &self,
        requests: &[Request<'_>],
        now: Timestamp,
    ) -> Result<Vec<Decision>, Error> {
        self.decide_all(requests, When::At(now), Commit::All).await
    }

    async fn decide_all(
        &self,
        requests: &[Request<'_>],
        when: When,
        commit: Commit,
    ) -> Result<Vec<Decision>, Error> {
        let keys: Vec<Vec<u8>> = requests
            .iter()
            .map(|request| request.limiter.key(request.key))
            .collect();
        for (place, key) in keys.iter().enumerate() {
            if keys[..place].contains(key) {
                return Err(Error::new(ErrorKind::SameKey));
            }
        }
        let asks: Vec<Ask<'_>> = requests
            .iter()
            .zip(&keys)
            .map(|(request, key)| Ask {
                rule: request.limiter.rule(),
                key,
                cost: request.cost,
                taken_at: Timestamp::ZERO,
            })
            .collect();
        self.decide(when, commit, &asks).await
    }

    pub(crate) async fn decide(
        &self,
        when: When,
        commit: Commit,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Decision>, Error> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let script = self.link.scripts.decide(asks);
        let reply = self
            .link
            .run(|in_full| script.command(in_full, when, commit, asks))
            .await?;
        let decisions = script::decisions(&reply, asks).ok_or_else(|| self.not_ours())?;
        if commit != Commit::Nothing {
            let counts = &self.link.counts;
            let allowed = decisions.iter().filter(|it| it.is_allowed()).count() as u64;
            counts.allowed.add(allowed);
            counts.refused.add(decisions.len() as u64 - allowed);
        }
        Ok(decisions)
    }

    pub(crate) async fn give_back(&self, when: When, asks: &[Ask<'_>]) -> Result<bool, Error> {
        let script = self.link.scripts.refund();
        let reply = self
            .link
            .run(|in_full| script.command(in_full, when, Commit::All, asks))
            .await?;
        script::given_back(&reply).ok_or_else(|| self.not_ours())
    }

    /// An answer that is none of the scripts'.
    fn not_ours(&self) -> Error {
        self.link.counts.error(ErrorKind::Reply);
        Error::new(ErrorKind::Reply)
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        self.link.counts.stats(self.link.is_up())
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No URL: it may hold a password.
        f.debug_struct("RedisStore")
            .field("options", &self.link.options)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// TLS panics if the process has not chosen who is to do its cryptography: `ring`, unless the program has.
#[cfg(feature = "tls")]
fn choose_cryptography(url: &str) {
    use rustls::crypto::{CryptoProvider, ring};

    let is_encrypted = ["rediss:", "valkeys:"].iter().any(|it| url.starts_with(it));
    if is_encrypted && CryptoProvider::get_default().is_none() {
        // If it fails, somebody else has chosen just now.
        let _ = ring::default_provider().install_default();
    }
}

/// One of several limits that a request must pass.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    limiter: &'a RedisLimiter,
    key: &'a [u8],
    cost: u64,
}

impl<'a> Request<'a> {
    /// A request of cost 1.
    pub fn new(limiter: &'a RedisLimiter, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            limiter,
            key: key.as_ref(),
            cost: 1,
        }
    }

    /// One of another cost.
    #[must_use]
    pub fn with_cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

/// How a server is used.
#[derive(Clone)]
pub struct Builder {
    target: Target,
    options: Options,
}

impl Builder {
    fn new(target: Target) -> Self {
        Self {
            target,
            options: Options {
                deadline: Duration::from_millis(50),
                connect_deadline: Duration::from_secs(2),
                patience: 5,
                backoff: (Duration::from_millis(50), Duration::from_secs(5)),
                prefix: "tidegate".to_owned(),
            },
        }
    }

    /// How long a decision may take; 50 ms unless this says otherwise.
    ///
    /// Only what misses this deadline tells that a server is dead: a shorter one around a decision does not.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = deadline;
        self
    }

    /// How long making a connection may take; 2 s unless this says otherwise. No decision waits for it.
    #[must_use]
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.options.connect_deadline = deadline;
        self
    }

    /// After how many missed deadlines in a row the server counts as down; 5 unless this says otherwise, and at least 1.
    #[must_use]
    pub fn patience(mut self, missed: u32) -> Self {
        self.options.patience = missed.max(1);
        self
    }

    /// How long to wait before connecting is tried again: `least` at first, then twice as long each time, up to `most`;
    /// 50 ms and 5 s unless this says otherwise, and at least 1 ms.
    #[must_use]
    pub fn backoff(mut self, least: Duration, most: Duration) -> Self {
        let least = least.max(Duration::from_millis(1));
        self.options.backoff = (least, most.max(least));
        self
    }

    /// What all keys on the server begin with; `tidegate` unless this says otherwise.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Name`], as [`RedisStore::limiter`].
    pub fn prefix(mut self, prefix: &str) -> Result<Self, ConfigError> {
        if !key::is_name(prefix) {
            return Err(ConfigError::Name);
        }
        prefix.clone_into(&mut self.options.prefix);
        Ok(self)
    }

    /// Connects to the server.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub async fn connect(self) -> Result<RedisStore, Error> {
        let link = Link::new(self.target, self.options);
        link.connect().await?;
        Ok(RedisStore { link })
    }

    /// Connects in the background, and as often as it takes; until then, the server is down.
    ///
    /// Outside of a Tokio runtime, it begins with the first decision.
    pub fn connect_later(self) -> RedisStore {
        let link = Link::new(self.target, self.options);
        link.reconnect();
        RedisStore { link }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

/// Why a limiter cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name or prefix of other characters than letters, digits, `_`, `-` and `.`, or not of 1 to 64.
    Name,
    /// A limit that the server cannot count.
    Limit(LimitError),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => {
                f.write_str("a name is 1 to 64 letters, digits, underscores, hyphens and dots")
            }
            Self::Limit(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConfigError {}
