//! One limit on the server.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tidegate::Timestamp;

use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key;
use crate::limit::{Limit, Rule};
use crate::refusals::Refusals;
use crate::script::{Ask, Commit, When};
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
    refusals: Option<Arc<Refusals>>,
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
                refusals: None,
            }),
        }
    }

    /// Remembers refusals, so that a key that is blocked costs no round trip: of so many keys at a time, rounded up to a
    /// power of two, in 104 bytes each, allocated now.
    ///
    /// A refusal is repeated here until it would end, and for `at_most` so long: what is given back or reset on
    /// another machine is noticed after that. Clones of this limiter share the memory. Of keys that meet in one place,
    /// the latest stays.
    #[must_use]
    pub fn remembering(mut self, keys: usize, at_most: Duration) -> Self {
        let refusals = Refusals::new(keys, at_most);
        Arc::make_mut(&mut self.shared).refusals = Some(Arc::new(refusals));
        self
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
        self.decide(key.as_ref(), cost, When::Server, Commit::All)
            .await
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
        self.decide(key.as_ref(), cost, When::Server, Commit::Nothing)
            .await
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
        self.decide(key.as_ref(), cost, When::At(now), Commit::All)
            .await
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
        self.decide(key.as_ref(), cost, When::At(now), Commit::Nothing)
            .await
    }

    async fn decide(
        &self,
        key: &[u8],
        cost: u64,
        when: When,
        commit: Commit,
    ) -> Result<Decision, Error> {
        let key = self.key(key);
        match self.recall(&key, cost, when) {
            Some(decision) => Ok(decision),
            None => self.ask_server(&key, cost, when, commit).await,
        }
    }

    /// For a key as it is called on the server, of which no refusal [is known](Self::recall).
    pub(crate) async fn ask_server(
        &self,
        key: &[u8],
        cost: u64,
        when: When,
        commit: Commit,
    ) -> Result<Decision, Error> {
        let asked_at = self.asked_at(when);
        let ask = self.ask(key, cost, Timestamp::ZERO);
        let decisions = self.store.decide(when, commit, &[ask]).await?;
        let decision = *decisions.first().ok_or(Error::new(ErrorKind::Reply))?;
        self.remember(key, cost, asked_at, &decision);
        Ok(decision)
    }

    /// For [`remember`](Self::remember): None if nothing is to be.
    fn asked_at(&self, when: When) -> Option<Timestamp> {
        match when {
            When::Server => self.shared.refusals.as_deref().map(Refusals::now),
            When::At(_) => None,
        }
    }

    fn remember(&self, key: &[u8], cost: u64, asked_at: Option<Timestamp>, decision: &Decision) {
        if let (Some(refusals), Some(asked_at), Err(denied)) =
            (&self.shared.refusals, asked_at, decision.outcome)
        {
            refusals.remember(key, cost, asked_at, denied);
        }
    }

    /// The refusal that the server would repeat.
    pub(crate) fn recall(&self, key: &[u8], cost: u64, when: When) -> Option<Decision> {
        let When::Server = when else { return None };
        let denied = self.shared.refusals.as_ref()?.recall(key, cost)?;
        self.store.link.counts.refused_locally.add(1);
        Some(Decision::local(Err(denied)))
    }

    /// May these requests pass now, each on its own? One script for up to 128 of them, one after the other; all are on
    /// their way at the same time.
    ///
    /// The decisions are in the order of the requests, and those of one key are made in that order, unless the server has
    /// just lost its scripts. On a cluster there is a script for each key. Each script has the whole deadline, and all
    /// have the same: of what the server cannot do in that time, the rest fails.
    ///
    /// A script that fails, because one of its keys holds what is not ours, say, has counted what came before.
    pub async fn check_many<K: AsRef<[u8]>>(
        &self,
        requests: impl IntoIterator<Item = (K, u64)>,
    ) -> Vec<Result<Decision, Error>> {
        /// Longer scripts would keep others waiting.
        const TOGETHER: usize = 128;
        let keys: Vec<(Vec<u8>, u64)> = requests
            .into_iter()
            .map(|(key, cost)| (self.key(key.as_ref()), cost))
            .collect();
        if !self.store.link.is_cluster() || self.shared.tag.is_some() {
            let groups = keys.chunks(TOGETHER).map(|group| self.check_group(group));
            let decisions = futures_util::future::join_all(groups).await;
            return decisions.into_iter().flatten().collect();
        }
        // One key's requests lie on one server, and stay in order.
        let mut places: Vec<usize> = (0..keys.len()).collect();
        places.sort_by(|one, other| keys[*one].0.cmp(&keys[*other].0));
        let sorted: Vec<(Vec<u8>, u64)> = places.iter().map(|it| keys[*it].clone()).collect();
        let groups = sorted.chunk_by(|one, other| one.0 == other.0);
        let groups = groups.map(|group| self.check_group(group));
        let decisions = futures_util::future::join_all(groups).await;
        let mut placed: Vec<_> = places
            .into_iter()
            .zip(decisions.into_iter().flatten())
            .collect();
        placed.sort_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, decision)| decision).collect()
    }

    async fn check_group(&self, keys: &[(Vec<u8>, u64)]) -> Vec<Result<Decision, Error>> {
        let known: Vec<Option<Decision>> = keys
            .iter()
            .map(|(key, cost)| self.recall(key, *cost, When::Server))
            .collect();
        let asks: Vec<Ask<'_>> = keys
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|((key, cost), _)| self.ask(key, *cost, Timestamp::ZERO))
            .collect();
        let asked_at = self.asked_at(When::Server);
        let told = self.store.decide(When::Server, Commit::Each, &asks).await;
        let mut told = told.map(Vec::into_iter);
        let decide = |((key, cost), known): (&(Vec<u8>, u64), &Option<Decision>)| {
            if let Some(decision) = known {
                return Ok(*decision);
            }
            let decision = match &mut told {
                Ok(told) => told.next().ok_or(Error::new(ErrorKind::Reply))?,
                Err(error) => return Err(error.clone()),
            };
            self.remember(key, *cost, asked_at, &decision);
            Ok(decision)
        };
        keys.iter().zip(&known).map(decide).collect()
    }

    fn ask<'a>(&'a self, key: &'a [u8], cost: u64, taken_at: Timestamp) -> Ask<'a> {
        Ask {
            rule: self.rule(),
            key,
            cost,
            taken_at,
        }
    }

    /// Gives back what was [taken at](Decision::taken_at) an instant; tells whether anything was.
    ///
    /// A window takes back only what it has counted itself, a log only what is still in use, and a key is never given more
    /// than it has used. But who has used it is not kept: give back no more than was taken, and once.
    /// And soon: a token bucket cannot tell that it has been full since, when what was taken had come back by itself.
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
        let given_back = self.store.give_back(when, &[ask]).await?;
        self.forget(&key);
        Ok(given_back)
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
        self.forget(&key);
        Ok(())
    }

    pub(crate) fn forget(&self, key: &[u8]) {
        if let Some(refusals) = &self.shared.refusals {
            refusals.forget(key);
        }
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
