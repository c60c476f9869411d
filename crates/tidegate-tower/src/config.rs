//! The whole set of policies from a file.

mod file;
mod position;

use core::fmt;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use tidegate::http::Policy as Told;

use crate::builder::Builder;
use crate::key::KeyExtractor;
use crate::layer::RateLimitLayer;
use crate::limit::LimitError;
use crate::mistake::{BuildError, Mistake, Part};

use file::File;
use position::Position;

/// Reads a set of policies from TOML.
///
/// ```
/// use tidegate_tower::ConfigReader;
///
/// let config = ConfigReader::new().parse(r#"
///     on-failure = "refuse"              # or "admit", or { fallback = "100/s" }; must be there
///     headers = ["draft-10", "legacy"]
///
///     [tiers]                            # whose header has one of these values is of that tier
///     header = "x-api-key"
///     clients = { client-1 = ["one"], client-2 = ["two"] }
///
///     [[policy]]
///     name = "per-address"
///     key = "peer"
///     quota = "100/min"
///     burst = 20
///
///     [[policy]]
///     name = "foo"
///     key = "header:x-api-key"
///     algorithm = "fixed-window"
///     routes = ["/foo"]
///     tiers = { client-1 = "10/min", client-2 = "20/min" }
/// "#)?;
/// let layer = config.layer()?;
/// assert_eq!(layer.stats().iter().count(), 2);
///
/// let wrong = ConfigReader::new().parse("on-failure = \"refuse\"\n[[policy]]\nname = \"a\"\nkey = \"peer\"\nquota = \"0/s\"\n");
/// assert!(wrong.unwrap_err().to_string().starts_with("line 5, field `quota`: "));
/// # Ok::<(), tidegate_tower::ConfigError>(())
/// ```
///
/// # Fields
///
/// | field | |
/// |---|---|
/// | `on-failure` | `"refuse"`, `"admit"` or `{ fallback = QUOTA }`, a token bucket for each key; required |
/// | `on-full` | the same for a full table alone |
/// | `headers` | any of `"legacy"` and `"details"`, and at most one of `"draft-03"`, `"draft-06"`, `"draft-07"`, `"draft-10"`; `["draft-10"]` by default |
/// | `monitor` | `true`: only watches |
/// | `count-preflight` | `true`: counts CORS preflight requests too |
/// | `ipv4-prefix`, `ipv6-prefix` | how many bits of an address count: 32 and 56 |
/// | `proxies` | a table: `count`, `trusted` (networks), and `header`, `"x-forwarded-for"` or `"forwarded"` |
/// | `tiers` | a table: `header`, and `clients`, for each tier the values of that header |
///
/// Of each `[[policy]]`:
///
/// | field | |
/// |---|---|
/// | `name` | what clients are told; required |
/// | `key` | `"peer"`, `"client"` (behind the proxies), `"everyone"`, `"path"` (template), `"header:NAME"`, an [extractor](Self::extractor) of yours, or an array of these, together; required |
/// | `quota` | as in `"10/min"`, for clients of no tier |
/// | `tiers` | a quota for each tier |
/// | `algorithm` | `"token-bucket"` (default), `"fixed-window"`, `"anchored-window"`, `"sliding-window"`, `"sliding-log"` |
/// | `burst`, `capacity` | of the token bucket, and of the table |
/// | `candidate` | a quota to be watched beside the one enforced |
/// | `routes`, `methods` | which requests; all by default |
/// | `cost`, `unit` | of each request, 1 by default, and what is counted, if not requests |
/// | `on-no-key` | `"refuse"` (default) or `"admit"` |
/// | `give-back` | `"successes"` or `"failures"` |
/// | `monitor` | `true`: this policy only watches |
#[derive(Clone, Default)]
pub struct ConfigReader {
    extractors: HashMap<String, Arc<dyn KeyExtractor>>,
}

impl ConfigReader {
    /// A reader that knows the keys of this crate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets policies name this extractor of yours as their key. Names of this crate's come first.
    #[must_use]
    pub fn extractor(
        mut self,
        name: impl Into<String>,
        extractor: impl KeyExtractor + 'static,
    ) -> Self {
        self.extractors.insert(name.into(), Arc::new(extractor));
        self
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the file, the line and the field.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let in_file = |mut error: ConfigError| {
            error.path = Some(path.to_owned());
            error
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| in_file(ConfigError::new(None, error.to_string())))?;
        let mut config = self.parse(&text).map_err(in_file)?;
        config.path = Some(path.to_owned());
        Ok(config)
    }

    /// Reads text.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the line and the field.
    pub fn parse(&self, text: &str) -> Result<Config, ConfigError> {
        let at = |span: core::ops::Range<usize>| Position::of(text, span);
        let file: File = toml::from_str(text)
            .map_err(|error| ConfigError::new(error.span().map(at), error.message().to_owned()))?;
        let builder = file
            .builder(&self.extractors)
            .map_err(|(span, message)| ConfigError::new(Some(at(span)), message))?;
        let spans = file.policy.iter().map(|policy| Spans {
            name: policy.name.get_ref().clone(),
            at_name: at(policy.name.span()),
            at_quota: policy.quota.as_ref().map(|quota| at(quota.span())),
            at_burst: policy.burst.as_ref().map(|burst| at(burst.span())),
            at_capacity: policy.capacity.as_ref().map(|keys| at(keys.span())),
            at_candidate: policy.candidate.as_ref().map(|quota| at(quota.span())),
            at_routes: policy.routes.as_ref().map(|routes| at(routes.span())),
            at_tiers: policy.tiers.as_ref().map(|tiers| at(tiers.span())),
            at_unit: policy.unit.as_ref().map(|unit| at(unit.span())),
        });
        let at_on_failure = at(file.on_failure.span());
        Ok(Config {
            builder,
            path: None,
            spans: spans.collect(),
            at_tiers: file.tiers.as_ref().map(|tiers| at(tiers.span())),
            at_on_full: match &file.on_full {
                Some(on_full) => at(on_full.span()),
                None => at_on_failure.clone(),
            },
            at_on_failure,
            tier_header: file.tier_header(),
        })
    }
}

impl fmt::Debug for ConfigReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.extractors.keys()).finish()
    }
}

/// A set of policies that was read, and where in the file they are.
#[derive(Clone, Debug)]
pub struct Config {
    builder: Builder,
    path: Option<PathBuf>,
    spans: Vec<Spans>,
    at_tiers: Option<Position>,
    at_on_failure: Position,
    at_on_full: Position,
    tier_header: Option<HeaderName>,
}

#[derive(Clone, Debug)]
struct Spans {
    name: String,
    at_name: Position,
    at_quota: Option<Position>,
    at_burst: Option<Position>,
    at_capacity: Option<Position>,
    at_candidate: Option<Position>,
    at_routes: Option<Position>,
    at_tiers: Option<Position>,
    at_unit: Option<Position>,
}

impl Config {
    /// A layer with these policies.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the line and the field.
    pub fn layer(&self) -> Result<RateLimitLayer, ConfigError> {
        self.builder().build().map_err(|error| self.locate(&error))
    }

    /// Replaces the policies of a layer by these, as [`RateLimitLayer::reload`].
    ///
    /// What was set on the old layer's builder by code alone, such as its handler of refusals, is lost: for that,
    /// complete [`builder`](Self::builder).
    ///
    /// # Errors
    ///
    /// [`ConfigError`]; then the old policies stay.
    pub fn reload(&self, layer: &RateLimitLayer) -> Result<(), ConfigError> {
        let done = layer.reload(self.builder());
        done.map_err(|error| self.locate(&error))
    }

    /// The builder with these policies, for what a file cannot say.
    pub fn builder(&self) -> Builder {
        self.builder.clone()
    }

    /// The request header that tells clients of tiers apart; `None` if the file has no `tiers`.
    pub fn tier_header(&self) -> Option<&HeaderName> {
        self.tier_header.as_ref()
    }

    /// The tier of whoever sends this request; `None` if the file names no such client. So whatever authenticates
    /// clients need not read the file a second time.
    ///
    /// ```
    /// # use tidegate_tower::ConfigReader;
    /// let config = ConfigReader::new().parse(r#"
    ///     on-failure = "refuse"
    ///     tiers = { header = "x-api-key", clients = { paying = ["one", "two"] } }
    ///     policy = [{ name = "all", key = "header:x-api-key", tiers = { paying = "9/s" } }]
    /// "#)?;
    /// let (mut request, ()) = http::Request::new(()).into_parts();
    /// assert_eq!(config.tier_of(&request), None);
    /// request.headers.insert(config.tier_header().unwrap(), "two".parse().unwrap());
    /// assert_eq!(config.tier_of(&request).as_deref(), Some("paying"));
    /// # Ok::<(), tidegate_tower::ConfigError>(())
    /// ```
    pub fn tier_of(&self, request: &Parts) -> Option<Cow<'static, str>> {
        self.builder.tier_of(request)
    }

    /// Where in the file a mistake is that was found when the layer was built.
    pub fn locate(&self, error: &BuildError) -> ConfigError {
        // Of two of the same name, the second is the mistake.
        let spans = error
            .policy()
            .and_then(|name| self.spans.iter().rev().find(|spans| spans.name == name));
        let position = match spans {
            Some(spans) => self.locate_in(spans, error),
            None => self.at_tiers.clone(),
        };
        ConfigError {
            path: self.path.clone(),
            position,
            message: error.to_string(),
        }
    }

    fn locate_in(&self, spans: &Spans, error: &BuildError) -> Option<Position> {
        let position = match (error.part(), error.mistake()) {
            (Part::OnFull, _) => return Some(self.at_on_full.clone()),
            (Part::OnError, _) => return Some(self.at_on_failure.clone()),
            (_, Mistake::Limit(LimitError::NoCapacity | LimitError::NoMemory)) => {
                &spans.at_capacity
            }
            // A quota is never zero.
            (
                _,
                Mistake::Limit(
                    LimitError::NoBurst | LimitError::Quota(tidegate::ConfigError::ZeroBurst),
                ),
            ) => &spans.at_burst,
            (Part::Candidate, _) => &spans.at_candidate,
            (Part::Tier(_), _) => &spans.at_tiers,
            (_, Mistake::Limit(_) | Mistake::Store(_)) => &spans.at_quota,
            (_, Mistake::Route(_)) => &spans.at_routes,
            (_, Mistake::UnknownTier(_) | Mistake::SameTier(_)) => &spans.at_tiers,
            // The name is looked at first.
            (_, Mistake::Text(_))
                if Told::try_new(&spans.name, tidegate::Quota::per_second(1)).is_ok() =>
            {
                &spans.at_unit
            }
            _ => &None,
        };
        // The name is always there.
        position.clone().or_else(|| Some(spans.at_name.clone()))
    }
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    path: Option<PathBuf>,
    position: Option<Position>,
    message: String,
}

impl ConfigError {
    fn new(position: Option<Position>, message: String) -> Self {
        Self {
            path: None,
            position,
            message,
        }
    }

    /// The line, counted from 1.
    pub fn line(&self) -> Option<usize> {
        self.position.as_ref().map(|position| position.line)
    }

    /// The field.
    pub fn field(&self) -> Option<&str> {
        self.position.as_ref()?.field.as_deref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(line) = self.line() {
            write!(f, "line {line}")?;
            match self.field() {
                Some(field) => write!(f, ", field `{field}`: ")?,
                None => f.write_str(": ")?,
            }
        }
        f.write_str(&self.message)
    }
}

impl core::error::Error for ConfigError {}
