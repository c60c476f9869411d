//! One of the algorithms, chosen at run time.

use core::time::Duration;

use tidegate::{
    Algorithm, Allowed, AtomicWord, ConfigError, Denied, FixedWindow, Quota, SlidingWindow,
    Timestamp, TokenBucket, Word,
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Chosen<W> {
    TokenBucket(TokenBucket<W>),
    FixedWindow(FixedWindow<W>),
    SlidingWindow(SlidingWindow<W>),
}

/// A word, and how the algorithms are made for it.
pub(crate) trait Width: AtomicWord {
    fn token_bucket(quota: Quota, burst: u64) -> Result<TokenBucket<Self>, ConfigError>;
    fn fixed_window(quota: Quota) -> Result<FixedWindow<Self>, ConfigError>;
    fn anchored_window(quota: Quota) -> Result<FixedWindow<Self>, ConfigError>;
    fn sliding_window(quota: Quota) -> Result<SlidingWindow<Self>, ConfigError>;
}

impl Width for u32 {
    fn token_bucket(quota: Quota, burst: u64) -> Result<TokenBucket<u32>, ConfigError> {
        TokenBucket::try_narrow_with_burst(quota, burst)
    }

    fn fixed_window(quota: Quota) -> Result<FixedWindow<u32>, ConfigError> {
        FixedWindow::try_narrow(quota)
    }

    fn anchored_window(quota: Quota) -> Result<FixedWindow<u32>, ConfigError> {
        FixedWindow::try_narrow_anchored(quota)
    }

    fn sliding_window(quota: Quota) -> Result<SlidingWindow<u32>, ConfigError> {
        SlidingWindow::try_narrow(quota)
    }
}

#[cfg(feature = "wide")]
impl Width for u64 {
    fn token_bucket(quota: Quota, burst: u64) -> Result<TokenBucket<u64>, ConfigError> {
        TokenBucket::try_new_with_burst(quota, burst)
    }

    fn fixed_window(quota: Quota) -> Result<FixedWindow<u64>, ConfigError> {
        FixedWindow::try_new(quota)
    }

    fn anchored_window(quota: Quota) -> Result<FixedWindow<u64>, ConfigError> {
        FixedWindow::try_anchored(quota)
    }

    fn sliding_window(quota: Quota) -> Result<SlidingWindow<u64>, ConfigError> {
        SlidingWindow::try_new(quota)
    }
}

/// Asks whichever it is.
macro_rules! each {
    ($chosen:expr, $algorithm:ident => $answer:expr) => {
        match $chosen {
            Chosen::TokenBucket($algorithm) => $answer,
            Chosen::FixedWindow($algorithm) => $answer,
            Chosen::SlidingWindow($algorithm) => $answer,
        }
    };
}

impl<W: Word> Algorithm for Chosen<W> {
    type Word = W;

    #[inline]
    fn limit(&self) -> u64 {
        each!(self, algorithm => Algorithm::limit(algorithm))
    }

    #[inline]
    fn step(&self, state: W, now: Timestamp, cost: u64) -> Result<(W, Allowed), Denied> {
        each!(self, algorithm => algorithm.step(state, now, cost))
    }

    #[inline]
    fn refund(&self, state: W, taken_at: Timestamp, cost: u64) -> W {
        each!(self, algorithm => Algorithm::refund(algorithm, state, taken_at, cost))
    }

    #[inline]
    fn idle_after(&self, state: W, now: Timestamp) -> Duration {
        each!(self, algorithm => Algorithm::idle_after(algorithm, state, now))
    }

    #[inline]
    fn is_idle(&self, state: W, now: Timestamp) -> bool {
        each!(self, algorithm => Algorithm::is_idle(algorithm, state, now))
    }

    /// Another algorithm's state means nothing to this one, and so counts as fresh.
    fn adopt(&self, old: &Self, state: W, now: Timestamp) -> W {
        match (self, old) {
            (Self::TokenBucket(new), Self::TokenBucket(old)) => new.adopt(old, state, now),
            (Self::FixedWindow(new), Self::FixedWindow(old)) => new.adopt(old, state, now),
            (Self::SlidingWindow(new), Self::SlidingWindow(old)) => new.adopt(old, state, now),
            _ => W::ZERO,
        }
    }
}
