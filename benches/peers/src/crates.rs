//! The published crates, each through its own documented calls.

use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::InMemoryState;
use pingora_limits::rate::Rate;
use trypema::RateLimiterBuilder;
use trypema::local::LocalRateLimiterProvider;

use crate::subject::{Keyed, Load, now};

/// Our clock as governor's: one load, and no call into the system.
#[derive(Clone)]
pub struct Frozen;

impl Clock for Frozen {
    type Instant = Nanos;

    #[inline(always)]
    fn now(&self) -> Nanos {
        Nanos::new(now())
    }
}

type Limiter<K, C, S> = governor::RateLimiter<
    K,
    DashMap<K, InMemoryState, S>,
    C,
    NoOpMiddleware<<C as Clock>::Instant>,
>;

/// governor's keyed limiter on its DashMap store.
pub struct Governor<K: Clone + Eq + Hash, C: Clock, S: Clone + BuildHasher>(Limiter<K, C, S>);

fn governor<K: Clone + Eq + Hash, C: Clock, S: Clone + Default + BuildHasher>(
    load: Load,
    clock: C,
    hasher: S,
) -> Governor<K, C, S> {
    let (per, burst) = load.gcra();
    let burst = NonZeroU32::new(burst as u32).unwrap();
    let quota = governor::Quota::with_period(Duration::from_nanos(per)).unwrap();
    Governor(Limiter::dashmap_with_clock_and_hasher(
        quota.allow_burst(burst),
        clock,
        hasher,
    ))
}

impl<K: Clone + Eq + Hash> Governor<K, DefaultClock, RandomState> {
    /// Everything as it ships.
    pub fn shipped(load: Load) -> Self {
        governor(load, DefaultClock::default(), RandomState::new())
    }
}

impl<K: Clone + Eq + Hash> Governor<K, Frozen, RandomState> {
    /// The hasher as it ships.
    pub fn frozen(load: Load) -> Self {
        governor(load, Frozen, RandomState::new())
    }
}

impl<K: Clone + Eq + Hash> Governor<K, Frozen, ahash::RandomState> {
    /// The fastest way to use it that we know.
    pub fn frozen_ahash(load: Load) -> Self {
        governor(load, Frozen, ahash::RandomState::new())
    }
}

impl<K, C, S> Keyed<K> for Governor<K, C, S>
where
    K: Clone + Eq + Hash + Send + Sync,
    C: Clock<Instant: Send + Sync> + Send + Sync,
    S: Clone + BuildHasher + Send + Sync,
{
    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }

    fn sweep(&self) -> bool {
        self.0.retain_recent();
        self.0.shrink_to_fit();
        true
    }
}

/// Two crates take text for a key: 16 hexadecimal digits, written without a formatter.
#[inline(always)]
fn with_text<R>(key: u64, use_text: impl FnOnce(&str) -> R) -> R {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let text: [u8; 16] =
        std::array::from_fn(|place| DIGITS[(key >> (60 - 4 * place)) as usize & 15]);
    use_text(str::from_utf8(&text).unwrap())
}

/// tokio-rate-limit's token bucket on its lock-free map; reads the clock itself.
pub struct TokioRateLimit(tokio_rate_limit::RateLimiter);

impl TokioRateLimit {
    pub fn new(load: Load) -> Self {
        // Whole permits a second, and no burst below them: `Spent` can be no slower than one a second.
        let (requests_per_second, burst) = match load {
            Load::Plenty => (1_000_000_000_000, 1_000_000_000_000_000),
            Load::Spent => (1, 1),
            Load::Lasting => (1, 10),
            Load::Brief => (500, 500),
        };
        let config = tokio_rate_limit::RateLimiterConfig {
            requests_per_second,
            burst,
        };
        Self(tokio_rate_limit::RateLimiter::new(config).unwrap())
    }
}

impl Keyed<u64> for TokioRateLimit {
    #[inline(always)]
    fn check(&self, key: &u64) -> bool {
        with_text(*key, |text| self.0.check(text).permitted)
    }
}

/// trypema's local sliding window; reads the clock itself. Its clean-up thread is off.
pub struct Trypema {
    provider: Arc<LocalRateLimiterProvider>,
    limit: trypema::RateLimit,
}

impl Trypema {
    pub fn new(load: Load) -> Self {
        // A window of an hour is as good as a day's for a run of minutes.
        let (window, limit) = match load {
            Load::Plenty | Load::Brief => (
                trypema::WindowSize::seconds(10),
                trypema::RateLimit::per_second(1e12),
            ),
            Load::Spent => (
                trypema::WindowSize::hours(1),
                trypema::RateLimit::per_hour(1.001),
            ),
            Load::Lasting => (
                trypema::WindowSize::hours(1),
                trypema::RateLimit::per_hour(10.001),
            ),
        };
        let builder = LocalRateLimiterProvider::builder().window_size(window.unwrap());
        Self {
            provider: builder.disable_cleanup().build().unwrap(),
            limit: limit.unwrap(),
        }
    }
}

impl Keyed<u64> for Trypema {
    #[inline(always)]
    fn check(&self, key: &u64) -> bool {
        let decision = with_text(*key, |text| {
            self.provider.absolute().inc(text, &self.limit, 1)
        });
        matches!(decision, trypema::RateLimitDecision::Allowed)
    }
}

/// pingora-limits' rate over a second: a count-min sketch of 4 rows of 1,024 counters, however many the keys.
pub struct Pingora {
    rate: Rate,
    most: isize,
}

impl Pingora {
    pub fn new(load: Load) -> Self {
        Self {
            rate: Rate::new(Duration::from_secs(1)),
            most: match load {
                Load::Plenty => isize::MAX,
                Load::Spent => 0,
                Load::Lasting => 10,
                Load::Brief => 500,
            },
        }
    }
}

impl<K: Hash> Keyed<K> for Pingora {
    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        self.rate.observe(key, 1) <= self.most
    }
}
