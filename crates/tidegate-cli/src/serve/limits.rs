//! The policies: where they come from, and the layer that enforces them.

use core::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use arc_swap::ArcSwap;
use tidegate_redis::RedisStore;
use tidegate_tower::{Builder, Config, ConfigReader, RateLimitLayer};

/// The policies when no file is given.
pub(crate) const BUILT_IN: &str = include_str!("../../serve.toml");

/// Where the policies come from.
#[derive(Debug)]
pub(crate) enum Source {
    BuiltIn,
    File(PathBuf),
}

impl Source {
    fn read(&self) -> Result<Config> {
        let reader = ConfigReader::new();
        Ok(match self {
            Self::BuiltIn => reader.parse(BUILT_IN)?,
            Self::File(path) => reader.read(path)?,
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("the built-in policies"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// What the layer is built from: the one place for what a file cannot say, such as where the budgets are kept.
fn builder(config: &Config, redis: Option<&RedisStore>) -> Builder {
    let builder = config.builder();
    let Some(redis) = redis.cloned() else {
        return builder;
    };
    builder.stores(move |limit| redis.for_layer(limit).map(Some))
}

/// The policies as they are now.
#[derive(Debug)]
pub(crate) struct Limits {
    source: Source,
    layer: RateLimitLayer,
    config: ArcSwap<Config>,
    redis: Option<RedisStore>,
}

impl Limits {
    /// Reads the policies.
    ///
    /// # Errors
    ///
    /// If the file has a mistake; the message names its line and field.
    pub(crate) fn open(source: Source, redis: Option<RedisStore>) -> Result<Self> {
        let config = source.read()?;
        Self::new(source, config, redis, |builder| builder)
    }

    /// These policies, with what `finish` adds to the builder.
    pub(crate) fn new(
        source: Source,
        config: Config,
        redis: Option<RedisStore>,
        finish: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        let built = finish(builder(&config, redis.as_ref())).build();
        Ok(Self {
            source,
            layer: built.map_err(|error| config.locate(&error))?,
            config: ArcSwap::from_pointee(config),
            redis,
        })
    }

    /// Reads the policies again, and keeps what was used.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); then the old policies stay.
    pub(crate) fn reload(&self) -> Result<()> {
        if let Source::BuiltIn = self.source {
            bail!("they are built in, and there is no file to read");
        }
        let config = self.source.read()?;
        let reloaded = self.layer.reload(builder(&config, self.redis.as_ref()));
        reloaded.map_err(|error| config.locate(&error))?;
        // For an instant clients are authenticated by the old file, and held against the new one.
        self.config.store(Arc::new(config));
        Ok(())
    }

    /// Where they come from.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The layer that enforces them. Clones share everything.
    pub(crate) fn layer(&self) -> &RateLimitLayer {
        &self.layer
    }

    /// Where the budgets are kept, if not here.
    pub(crate) fn redis(&self) -> Option<&RedisStore> {
        self.redis.as_ref()
    }

    /// What was read: who is of which tier.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }
}
