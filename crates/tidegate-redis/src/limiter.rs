//! One limit on the server.

use core::fmt;
use std::sync::Arc;

use tidegate::Timestamp;

use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key;
use crate::limit::{Limit, Rule};
use crate::script::{Ask, When};
use crate::store::RedisStore;

/// One limit on the server, for any number of keys.
///
/// Clones are the same limiter. A key costs the server memory from its first request until everything that it has used
/// is back, and then nothing.
#[derive(Clone)]
pub struct RedisLimiter {
    store: RedisStore,
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    limit: Limit,
    rule: Rule,
    /// What its keys begin with.
    start: String,
    tag: Option<String>,
}

impl RedisLimiter {
    pub(crate) fn new(store: RedisStore, name: &str, limit: Limit, rule: Rule) -> Self {
        let start = key::start(&store.link.options.prefix, name, rule.kind);
        Self {
            store,
            shared: Arc::new(Shared {
                limit,
                rule,
                start,
                tag: None,
            }),
        }
    }

    /// Keeps all keys of this limiter on one server of a cluster, together with those of other limiters of this tag.
    ///
    /// # Panics
    ///
    /// If the tag is not made like a [name](RedisStore::limiter).
    #[must_use]
    pub fn with_tag(mut self, tag: &str) -> Self {
        assert!(
            key::is_name(tag),
            "a tag is 1 to 64 letters, digits, underscores, hyphens and dots"
        );
        Arc::make_mut(&mut self.shared).tag = Some(tag.to_owned());
        self
    }

    /// The limit.
    pub fn limit(&self) -> Limit {
        self.shared.limit
    }

    /// The server.
    pub fn store(&self) -> &RedisStore {
        &self.store
    }

    pub(crate) fn rule(&self) -> &Rule {
        &self.shared.rule
    }

    /// What a key is called on the server.
    pub(crate) fn key(&self, key: &[u8]) -> Vec<u8> {
        key::full(&self.shared.start, self.shared.tag.as_deref(), key)
    }

    /// May one request of this key pass now? If so, it is counted.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no decision. The request may have been counted all the same.
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Result<Decision, Error> {
        self.check_n(key, 1).await
    }

    /// May a request of this cost pass now? All or nothing. Cost 0 is admitted, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no decision. The request may have been counted all the same.
    pub async fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision, Error> {
        self.decide(key.as_ref(), cost, When::Server, true).await
    }

    /// What [`check`](Self::check) would answer; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no answer.
    pub async fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision, Error> {
        self.peek_n(key, 1).await
    }

    /// What [`check_n`](Self::check_n) would answer; changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no answer.
    pub async fn peek_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision, Error> {
        self.decide(key.as_ref(), cost, When::Server, false).await
    }

    /// [`check_n`](Self::check_n) by another clock than the server's, in nanoseconds since 1970, of which the server
    /// sees the whole microseconds.
    ///
    /// For replays and tests: clocks of several machines differ, and their differences are permits. A key is kept a day
    /// longer than it is used, by the server's clock, since this one may be slower.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no decision.
    pub async fn check_at(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, Error> {
        self.decide(key.as_ref(), cost, When::At(now), true).await
    }

    /// [`peek_n`](Self::peek_n) by another clock than the server's: see [`check_at`](Self::check_at).
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no answer.
    pub async fn peek_at(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, Error> {
        self.decide(key.as_ref(), cost, When::At(now), false).await
    }

    async fn decide(
        &self,
        key: &[u8],
        cost: u64,
        when: When,
        commit: bool,
    ) -> Result<Decision, Error> {
        let key = self.key(key);
        let ask = self.ask(&key, cost, Timestamp::ZERO);
        let decisions = self.store.decide(when, commit, &[ask]).await?;
        decisions
            .first()
            .copied()
            .ok_or(Error::new(ErrorKind::Reply))
    }

    fn ask<'a>(&'a self, key: &'a [u8], cost: u64, taken_at: Timestamp) -> Ask<'a> {
        Ask {
            rule: self.rule(),
            key,
            cost,
            taken_at,
        }
    }

    /// Gives back at most what was [taken at](Decision::taken_at) an instant; tells whether anything was.
    ///
    /// A window takes back only what it has counted itself, a log only what is still in use.
    ///
    /// # Errors
    ///
    /// [`Error`] if the server could not do it. It may have done it all the same.
    pub async fn refund(
        &self,
        key: impl AsRef<[u8]>,
        taken_at: Timestamp,
        cost: u64,
    ) -> Result<bool, Error> {
        self.give_back(key.as_ref(), taken_at, cost, When::Server)
            .await
    }

    /// [`refund`](Self::refund) by another clock than the server's: see [`check_at`](Self::check_at).
    ///
    /// # Errors
    ///
    /// [`Error`] if the server could not do it.
    pub async fn refund_at(
        &self,
        key: impl AsRef<[u8]>,
        taken_at: Timestamp,
        cost: u64,
        now: Timestamp,
    ) -> Result<bool, Error> {
        self.give_back(key.as_ref(), taken_at, cost, When::At(now))
            .await
    }

    async fn give_back(
        &self,
        key: &[u8],
        taken_at: Timestamp,
        cost: u64,
        when: When,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let ask = self.ask(&key, cost, taken_at);
        self.store.give_back(when, &[ask]).await
    }

    /// Forgets what a key has used.
    ///
    /// # Errors
    ///
    /// [`Error`] if the server could not do it. It may have done it all the same.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        let key = self.key(key.as_ref());
        let command = |_| {
            let mut command = redis::cmd("DEL");
            command.arg(&key);
            command
        };
        self.store.link.run(command).await?;
        Ok(())
    }
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("keys", &self.shared.start)
            .field("tag", &self.shared.tag)
            .field("limit", &self.shared.limit)
            .finish_non_exhaustive()
    }
}
