//! What the file looks like.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::{HeaderName, Method};
use serde::Deserialize;
use tidegate::Quota;
use tidegate::http::{Draft, Headers};
use toml::Spanned;

use crate::address::{ClientAddress, PeerAddress};
use crate::builder::{Builder, OnFailure};
use crate::key::{Everyone, Header, Key, KeyExtractor, NoKey, PathTemplate};
use crate::layer::RateLimitLayer;
use crate::limit::Limit;
use crate::policy::{OnNoKey, Policy};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct File {
    pub(super) on_failure: Spanned<Failure>,
    pub(super) on_full: Option<Spanned<Failure>>,
    headers: Option<Spanned<Vec<Fields>>>,
    #[serde(default)]
    monitor: bool,
    #[serde(default)]
    count_preflight: bool,
    ipv4_prefix: Option<Spanned<u8>>,
    ipv6_prefix: Option<Spanned<u8>>,
    proxies: Option<Spanned<Proxies>>,
    pub(super) tiers: Option<Spanned<Tiers>>,
    #[serde(default)]
    pub(super) policy: Vec<PolicyEntry>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Failure {
    Refuse,
    Admit,
    Fallback(Quota),
}

impl Failure {
    fn on_failure(self) -> OnFailure {
        match self {
            Self::Refuse => OnFailure::Refuse,
            Self::Admit => OnFailure::Admit,
            Self::Fallback(quota) => OnFailure::Fallback(Limit::token_bucket(quota)),
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
enum Fields {
    #[serde(rename = "legacy")]
    Legacy,
    #[serde(rename = "details")]
    Details,
    #[serde(rename = "draft-03")]
    Draft03,
    #[serde(rename = "draft-06")]
    Draft06,
    #[serde(rename = "draft-07")]
    Draft07,
    #[serde(rename = "draft-10")]
    Draft10,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Proxies {
    count: usize,
    #[serde(default)]
    trusted: Vec<String>,
    #[serde(default)]
    header: ProxyHeader,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProxyHeader {
    #[default]
    XForwardedFor,
    Forwarded,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Tiers {
    header: Spanned<String>,
    clients: BTreeMap<String, Spanned<Vec<String>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct PolicyEntry {
    pub(super) name: Spanned<String>,
    key: Spanned<Keys>,
    pub(super) quota: Option<Spanned<Quota>>,
    pub(super) tiers: Option<Spanned<BTreeMap<String, Quota>>>,
    #[serde(default)]
    algorithm: Algorithm,
    pub(super) burst: Option<Spanned<u64>>,
    pub(super) capacity: Option<Spanned<usize>>,
    pub(super) candidate: Option<Spanned<Quota>>,
    pub(super) routes: Option<Spanned<Vec<String>>>,
    methods: Option<Spanned<Vec<String>>>,
    cost: Option<u64>,
    pub(super) unit: Option<Spanned<String>>,
    #[serde(default)]
    on_no_key: NoKeyRule,
    give_back: Option<GiveBack>,
    #[serde(default)]
    monitor: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Keys {
    One(String),
    Together(Vec<String>),
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Algorithm {
    #[default]
    TokenBucket,
    FixedWindow,
    AnchoredWindow,
    SlidingWindow,
    SlidingLog,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NoKeyRule {
    #[default]
    Refuse,
    Admit,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GiveBack {
    Successes,
    Failures,
}

/// Where it is wrong, and what.
type Wrong = (Range<usize>, String);

/// Several extractors, or a single one.
struct Together(Vec<Arc<dyn KeyExtractor>>);

impl KeyExtractor for Together {
    fn key(&self, request: &http::request::Parts) -> Result<Key, NoKey> {
        let mut keys = self.0.iter().map(|extractor| extractor.key(request));
        let first = keys.next().unwrap_or(Ok(Key::Everyone))?;
        keys.try_fold(first, |key, next| Ok(key.and(next?)))
    }
}

impl File {
    pub(super) fn builder(
        &self,
        extractors: &HashMap<String, Arc<dyn KeyExtractor>>,
    ) -> Result<Builder, Wrong> {
        let mut builder = RateLimitLayer::builder(self.on_failure.get_ref().on_failure());
        if let Some(on_full) = &self.on_full {
            builder = builder.on_full(on_full.get_ref().on_failure());
        }
        if let Some(headers) = &self.headers {
            builder = builder.headers(fields(headers)?);
        }
        if self.monitor {
            builder = builder.monitor();
        }
        if self.count_preflight {
            builder = builder.count_preflight();
        }
        if let Some(tiers) = &self.tiers {
            builder = tiers.get_ref().apply(builder)?;
        }
        let client = self.client()?;
        for entry in &self.policy {
            let key = self.key(&entry.key, extractors, client.as_ref())?;
            builder = builder.policy(entry.policy(key)?);
        }
        Ok(builder)
    }

    /// The header that tells tiers apart, once [`builder`](Self::builder) has found it to be one.
    pub(super) fn tier_header(&self) -> Option<HeaderName> {
        let tiers = self.tiers.as_ref()?;
        header_name(tiers.get_ref().header.get_ref()).ok()
    }

    fn prefixes(&self) -> Result<(u8, u8), Wrong> {
        let prefix = |bits: Option<&Spanned<u8>>, default, most| match bits {
            None => Ok(default),
            Some(bits) if *bits.get_ref() <= most => Ok(*bits.get_ref()),
            Some(bits) => Err((bits.span(), format!("an address has at most {most} bits"))),
        };
        Ok((
            prefix(self.ipv4_prefix.as_ref(), 32, 32)?,
            prefix(self.ipv6_prefix.as_ref(), 56, 128)?,
        ))
    }

    fn client(&self) -> Result<Option<ClientAddress>, Wrong> {
        let (v4, v6) = self.prefixes()?;
        let Some(proxies) = &self.proxies else {
            return Ok(None);
        };
        let Proxies {
            count,
            trusted,
            header,
        } = proxies.get_ref();
        let client = ClientAddress::behind(*count, trusted)
            .map_err(|error| (proxies.span(), error.to_string()))?
            .with_ipv4_prefix(v4)
            .with_ipv6_prefix(v6);
        Ok(Some(match header {
            ProxyHeader::XForwardedFor => client,
            ProxyHeader::Forwarded => client.with_forwarded(),
        }))
    }

    fn key(
        &self,
        keys: &Spanned<Keys>,
        extractors: &HashMap<String, Arc<dyn KeyExtractor>>,
        client: Option<&ClientAddress>,
    ) -> Result<Together, Wrong> {
        let wrong = |message: String| (keys.span(), message);
        let (v4, v6) = self.prefixes()?;
        let extractor = |name: &String| -> Result<Arc<dyn KeyExtractor>, Wrong> {
            Ok(match (&**name, name.strip_prefix("header:")) {
                ("peer", _) => {
                    Arc::new(PeerAddress::new().with_ipv4_prefix(v4).with_ipv6_prefix(v6))
                }
                ("client", _) => match client {
                    Some(client) => Arc::new(client.clone()),
                    None => {
                        return Err(wrong(
                            "`client` is the address behind trusted proxies, and there are no `proxies`".into(),
                        ));
                    }
                },
                ("everyone", _) => Arc::new(Everyone),
                ("path", _) => Arc::new(PathTemplate),
                (_, Some(header)) => Arc::new(Header::new(header_name(header).map_err(wrong)?)),
                (own, None) => match extractors.get(own) {
                    Some(extractor) => Arc::clone(extractor),
                    None => {
                        return Err(wrong(format!(
                            "`{}` is no key: peer, client, everyone, path, header:NAME, or one the program adds",
                            own.escape_debug()
                        )));
                    }
                },
            })
        };
        let names = match keys.get_ref() {
            Keys::One(name) => core::slice::from_ref(name),
            Keys::Together(names) if names.is_empty() => {
                return Err(wrong(
                    "no key: write \"everyone\" if one budget is meant".into(),
                ));
            }
            Keys::Together(names) => names,
        };
        Ok(Together(
            names.iter().map(extractor).collect::<Result<_, _>>()?,
        ))
    }
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    name.parse()
        .map_err(|_| format!("`{}` is no name of a header", name.escape_debug()))
}

fn fields(wanted: &Spanned<Vec<Fields>>) -> Result<Headers, Wrong> {
    let mut headers = Headers::new();
    for fields in wanted.get_ref() {
        let draft = match fields {
            Fields::Legacy => {
                headers = headers.with_legacy();
                continue;
            }
            Fields::Details => {
                headers = headers.with_details();
                continue;
            }
            Fields::Draft03 => Draft::V03,
            Fields::Draft06 => Draft::V06,
            Fields::Draft07 => Draft::V07,
            Fields::Draft10 => Draft::V10,
        };
        if headers.draft().is_some() {
            let message = "drafts use the same names for different things: choose one";
            return Err((wanted.span(), message.to_owned()));
        }
        headers = headers.with_draft(draft);
    }
    Ok(headers)
}

impl Tiers {
    fn apply(&self, builder: Builder) -> Result<Builder, Wrong> {
        let header =
            header_name(self.header.get_ref()).map_err(|message| (self.header.span(), message))?;
        let mut tier_of: HashMap<Vec<u8>, Cow<'static, str>> = HashMap::new();
        for (tier, clients) in &self.clients {
            for client in clients.get_ref() {
                if let Some(other) = tier_of.insert(client.clone().into(), tier.clone().into()) {
                    let message = format!("one of these clients is of the tier `{other}` already");
                    return Err((clients.span(), message));
                }
            }
        }
        let names: Vec<_> = self.clients.keys().cloned().collect();
        Ok(builder.tiers(names, move |request| {
            let value = request.headers.get(&header)?;
            tier_of.get(value.as_bytes()).cloned()
        }))
    }
}

impl PolicyEntry {
    fn limit(&self, quota: Quota) -> Limit {
        let mut limit = match self.algorithm {
            Algorithm::TokenBucket => Limit::token_bucket(quota),
            Algorithm::FixedWindow => Limit::fixed_window(quota),
            Algorithm::AnchoredWindow => Limit::anchored_window(quota),
            Algorithm::SlidingWindow => Limit::sliding_window(quota),
            Algorithm::SlidingLog => Limit::sliding_log(quota),
        };
        if let Some(burst) = &self.burst {
            limit = limit.with_burst(*burst.get_ref());
        }
        if let Some(capacity) = &self.capacity {
            limit = limit.with_capacity(*capacity.get_ref());
        }
        limit
    }

    fn policy(&self, key: Together) -> Result<Policy, Wrong> {
        let mut policy = Policy::new(self.name.get_ref().clone(), key);
        if let Some(quota) = &self.quota {
            policy = policy.limit(self.limit(*quota.get_ref()));
        }
        for (tier, quota) in self.tiers.iter().flat_map(|tiers| tiers.get_ref()) {
            policy = policy.tier(tier.clone(), self.limit(*quota));
        }
        if let Some(candidate) = &self.candidate {
            policy = policy.candidate(self.limit(*candidate.get_ref()));
        }
        if let Some(routes) = &self.routes {
            policy = policy.routes(routes.get_ref().iter().cloned());
        }
        if let Some(methods) = &self.methods {
            let parsed = methods.get_ref().iter().map(|method| {
                Method::from_bytes(method.as_bytes()).map_err(|_| {
                    let message = format!("`{}` is no method", method.escape_debug());
                    (methods.span(), message)
                })
            });
            policy = policy.methods(parsed.collect::<Result<Vec<_>, _>>()?);
        }
        if let Some(cost) = self.cost {
            policy = policy.cost(move |_| cost);
        }
        if let Some(unit) = &self.unit {
            policy = policy.unit(unit.get_ref().clone());
        }
        policy = policy.on_no_key(match self.on_no_key {
            NoKeyRule::Refuse => OnNoKey::Refuse,
            NoKeyRule::Admit => OnNoKey::Admit,
        });
        policy = match self.give_back {
            Some(GiveBack::Successes) => policy.give_back_successes(),
            Some(GiveBack::Failures) => policy.give_back_failures(),
            None => policy,
        };
        Ok(if self.monitor {
            policy.monitor()
        } else {
            policy
        })
    }
}
