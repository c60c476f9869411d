//! The exact log: it remembers when each permit was taken.

mod plain;
mod ring;
mod rule;
mod slot;
#[cfg(feature = "alloc")]
mod vec_log;

use core::fmt;
use core::time::Duration;

use self::ring::{Ring, Seen};
use self::rule::{Rule, View};
use self::slot::{Head, Slot, places_max, time_bits};
use crate::decision::{Allowed, Denied};
use crate::error::{ConfigError, or_panic};
use crate::quota::Quota;
use crate::strategy::{Strategy, sealed};
use crate::sync::{AtomicWord, Ordering};
use crate::time::Timestamp;
use crate::word::Word;

pub use self::plain::LogState;
#[cfg(feature = "alloc")]
pub use self::vec_log::{VecLog, VecLogState};

/// Exact log: at most `limit` permits in any `(t - period, t]`, wherever it begins.
///
/// It remembers the time of each of the last `limit` permits, in a ring of `N` places; the limit may be anything up to
/// `N`, so it can be configured at run time. Nothing is admitted at a boundary that would not be elsewhere, and a permit
/// comes back exactly one period after it was taken. The price is `N` words instead of one.
///
/// This is the configuration. It goes into a [`Limiter`](crate::Limiter), which then holds the ring, as any
/// [`Strategy`] does; or into an `OwnedTable`, as any [`OwnedStrategy`](crate::OwnedStrategy).
/// `VecLog` is for a single owner, and any limit.
///
/// # Cost
///
/// - Memory: `N + 1` words; with `N` = 7 wide ones a cache line, if it happens to be aligned so.
/// - A denial of cost 1 stores nothing: five loads, of three words. A peek stores nothing either. Only what another thread
///   has begun is finished first.
/// - An admission of cost 1 is two compare-exchanges, and besides those loads as many as the limit has bits, to count
///   what remains. One of cost `n` is `n + 1` compare-exchanges.
/// - A refund of one permit moves those that are older, with two compare-exchanges each; a reset clears every place.
///
/// # All or nothing
///
/// A cost of `n` is admitted by a single exchange, and so either whole or not at all; what others must see of it, they
/// finish. A refund gives back one permit after the other, each at once.
///
/// # Precision
///
/// A place keeps the time beside how many permits were taken at once, which needs as many bits as `N`, and four bits
/// more. In `u64` that leaves nanoseconds for any period that is usual: with 100 places, up to 6 days. Else, and in `u32`,
/// time is kept in a coarser [`resolution`](Self::resolution): a permit never comes back earlier than one period after it
/// was taken, and less than twice the resolution later. A quota for which that would be more than a sixteenth is refused.
///
/// # Late timestamps and leftovers
///
/// A timestamp older than the newest admission counts as that, up to [`horizon`](Self::horizon). If the newest is further
/// ahead, the log is taken for the leftover of a clock that has jumped back, and for a fresh one: the next admission
/// clears it.
///
/// The time wraps. A permit that was taken so long ago may be misread as used, never as free: in `u64` and with 100
/// places after 104 days or 16 times period and lateness, in `u32` after 256 times period and lateness.
/// [`sweep`](crate::Limiter::sweep) rules that out.
///
/// # Progress and memory ordering
///
/// Lock-free, in interrupt handlers too: nobody waits for anybody, and what somebody has begun is finished by whoever
/// comes next. Callers must not conclude from a decision that they see what another thread wrote before its own.
///
/// ```
/// use core::time::Duration;
/// use tidegate::{Limiter, Quota, SlidingLog, Timestamp};
///
/// static LOGIN: Limiter<SlidingLog<5>> = Limiter::new(SlidingLog::new(Quota::per_minute(5)));
///
/// assert_eq!(LOGIN.check_n(Timestamp::from_secs(50), 3)?.remaining(), 2);
/// assert_eq!(LOGIN.check_n(Timestamp::from_secs(70), 2)?.remaining(), 0);
/// let denied = LOGIN.check_n(Timestamp::from_secs(80), 4).unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(50)));
/// assert_eq!(LOGIN.check_n(Timestamp::from_secs(110), 3)?.remaining(), 0);
/// # Ok::<(), tidegate::Denied>(())
/// ```
///
/// More than there is room for does not compile:
///
/// ```compile_fail
/// use tidegate::{Quota, SlidingLog};
///
/// const LOG: SlidingLog<5> = SlidingLog::new(Quota::per_minute(6));
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SlidingLog<const N: usize, W = u64> {
    rule: Rule,
    word: core::marker::PhantomData<W>,
}

macro_rules! constructors {
    ($word:ident, $new:ident, $try_new:ident, $(#[doc = $doc:expr])*) => {
        impl<const N: usize> SlidingLog<N, $word> {
            /// An exact log of this quota,
            $(#[doc = $doc])*
            ///
            /// # Panics
            ///
            /// If the limit is above `N`, or the quota cannot be represented, or `N` is too large; in a `const` or
            /// `static` that is a compile error.
            pub const fn $new(quota: Quota) -> Self {
                or_panic!(Self::$try_new(quota))
            }

            /// An exact log of this quota,
            $(#[doc = $doc])*
            ///
            /// # Errors
            ///
            /// If the limit is above `N`, the period is too short or too long for the word, or `N` is above 510 in
            /// 32-bit words or 65,534 in 64-bit words.
            pub const fn $try_new(quota: Quota) -> Result<Self, ConfigError> {
                if quota.limit() > N as u64 {
                    return Err(ConfigError::LimitAboveCapacity);
                }
                let word_bits = <$word as Word>::BITS;
                if N as u64 > places_max(word_bits) {
                    return Err(ConfigError::LogTooLong);
                }
                match Rule::packed(quota, word_bits, time_bits(N, word_bits)) {
                    Ok(rule) => Ok(Self {
                        rule,
                        word: core::marker::PhantomData,
                    }),
                    Err(error) => Err(error),
                }
            }
        }
    };
}

constructors!(u64, new, try_new,
    /// in 64-bit words.
);
constructors!(u32, narrow, try_narrow,
    /// in 32-bit words.
);

impl<const N: usize, W> SlidingLog<N, W> {
    /// The quota it was made from.
    pub const fn quota(&self) -> Quota {
        self.rule.quota
    }

    /// In what steps times are kept.
    pub const fn resolution(&self) -> Duration {
        self.rule.resolution()
    }

    /// How far ahead of a timestamp the newest admission may be before the log counts as the leftover of a clock that has
    /// jumped back: between a minute and an hour, and less than the resolution on top.
    pub const fn horizon(&self) -> Duration {
        self.rule.horizon()
    }
}

/// The ring of a [`SlidingLog`] that threads share: `N` places and a head.
pub struct LogCell<const N: usize, W: AtomicWord> {
    head: W::Atomic,
    places: [W::Atomic; N],
}

impl<const N: usize, W: AtomicWord> SlidingLog<N, W> {
    #[inline]
    fn ring<'a>(&'a self, cell: &'a LogCell<N, W>) -> Ring<'a, N, W> {
        Ring {
            rule: &self.rule,
            head: &cell.head,
            // At most N, which the constructors see to.
            places: cell
                .places
                .get(..self.rule.limit as usize)
                .unwrap_or(&cell.places),
        }
    }
}

impl<const N: usize, W: AtomicWord> sealed::Sealed for SlidingLog<N, W> {}

impl<const N: usize, W: AtomicWord> Strategy for SlidingLog<N, W> {
    type Cell = LogCell<N, W>;

    #[cfg(not(tidegate_loom))]
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "copied into each new limiter"
    )]
    const FRESH: Self::Cell = LogCell {
        head: W::ZERO_CELL,
        places: [const { W::ZERO_CELL }; N],
    };

    fn fresh(&self) -> Self::Cell {
        LogCell {
            head: W::cell(W::ZERO),
            places: core::array::from_fn(|_| W::cell(W::ZERO)),
        }
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.rule.limit
    }

    #[inline]
    fn check_n(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.ring(cell).check_n(now, cost)
    }

    #[inline]
    fn peek_n(&self, cell: &Self::Cell, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.ring(cell).peek_n(now, cost)
    }

    fn refund(&self, cell: &Self::Cell, taken_at: Timestamp, cost: u64) -> bool {
        self.ring(cell).refund(taken_at, cost)
    }

    fn reset(&self, cell: &Self::Cell) {
        self.ring(cell).reset();
    }

    fn idle_after(&self, cell: &Self::Cell, now: Timestamp) -> Duration {
        self.ring(cell).idle_after(now)
    }

    fn sweep(&self, cell: &Self::Cell, now: Timestamp) -> bool {
        self.ring(cell).sweep(now)
    }

    fn adopted(&self, old: &Self, cell: &Self::Cell, now: Timestamp) -> Self::Cell {
        old.ring(cell).read(|seen| {
            let next = self.fresh();
            let limit = self.rule.limit;
            let used = old.rule.used(seen, limit, now);
            let mut taken = 0;
            // From the first place of the first lap on.
            for (place, time) in next.places.iter().zip(used.filter_map(|it| seen.at(it))) {
                let time = self.rule.translated::<Seen<'_, N, W>>(&old.rule, time, now);
                let slot = Slot::<W>::taken(0, 1, time, time_bits(N, W::BITS));
                // Relaxed: nobody else knows of it yet.
                W::store(place, slot.0, Ordering::Relaxed);
                taken += 1;
            }
            let head = Head(W::ZERO).advanced(taken, limit);
            W::store(&next.head, head.0, Ordering::Relaxed);
            next
        })
    }
}

impl<const N: usize, W: AtomicWord> fmt::Debug for LogCell<N, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogCell").finish_non_exhaustive()
    }
}
