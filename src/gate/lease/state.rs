//! The accounting of a lease, apart from the gate: how much to take, what may be spent, what goes back.
//!
//! # Never over
//!
//! A token bucket admits `c` permits at `t0`: its virtual time moves on by `c * per`, where `per` is how long one
//! permit takes to come back. The batch is an interval of virtual time, `[t0, t0 + c * per]`. The holder spends it by
//! the bucket's own rule, without the refill: it keeps a virtual time `v`, `t0` at first; a permit moves it from
//! `max(v, now)` on by `per`, and may not move it beyond the interval's end. So of a batch that nobody spends, one
//! permit lapses for each that trickles into the bucket.
//!
//! Let `F` be the virtual time of the bucket, `V` that of a bucket which sees only what is spent, when it is spent, and
//! `m` what a holder can still spend. Then always, summed over all holders,
//!
//! ```text
//! max(V, now) + sum(m) * per <= max(F, now)
//! ```
//!
//! Taking a batch adds the same to both sides, giving back subtracts the same, and spending changes neither. Time
//! changes the left side only while `V <= now`. Then every holder that can still spend has `v <= V <= now`, so its `m` is
//! the interval's rest, `(t0 + c * per - now) / per`, which shrinks as fast as `now` grows. If no holder can spend, the
//! left side is `now`. So the bucket that sees what is spent is at no time emptier than the real one, which was never
//! over, whatever other holders and other callers do.
//!
//! Windows count an admission in the window in which its permit was taken. What is spent before that window ends is
//! counted where it was spent.
//!
//! An exact log has no such room: it counts each admission for a period from its own instant, so what is spent
//! later lasts longer than what was counted.

use core::ops::RangeInclusive;
use core::time::Duration;

use crate::decision::Allowed;
use crate::gate::Lapse;
use crate::scale::LATE_MIN;
use crate::time::{Timestamp, saturating_nanos};

/// The accounting of a [`Lease`](crate::Lease), apart from any gate: for a store that is asked asynchronously, or over a
/// network.
///
/// Before the store is asked: [`spend`](Self::spend). If that does not suffice, and the request
/// [is not late](Self::is_late), hand the store what [`give_back`](Self::give_back) says, and ask it for as many permits as [`wanted`](Self::wanted) says. Then tell the
/// state what came of it: [`granted`](Self::granted) or [`refused`](Self::refused). After a refusal of more than the
/// request needs, ask once more for just its cost.
///
/// The promises are those of [`Lease`](crate::Lease). A network adds this: a permit counts for the store from the
/// instant that the *store* takes for `now`, so tell [`granted`](Self::granted) an instant that is not later, such as
/// one from before the question was sent.
///
/// ```
/// use core::time::Duration;
/// use tidegate::{Allowed, LeaseState, Timestamp};
///
/// let mut lease = LeaseState::new(1..=64).with_interval(Duration::from_millis(20));
/// let now = Timestamp::from_secs(1);
/// assert!(!lease.spend(now, 1), "nothing is held");
///
/// // A store of 100 a second, burst 100, admits the first permit, ...
/// assert_eq!(lease.wanted(now, 1), 1);
/// lease.granted(now, 1, 1, &Allowed::new(100, 99, Duration::from_millis(10)));
/// // ... and is asked for more as soon as that was too little.
/// assert!(!lease.spend(now, 1));
/// assert_eq!(lease.wanted(now, 1), 2);
/// lease.granted(now, 2, 1, &Allowed::new(100, 97, Duration::from_millis(30)));
/// assert!(lease.spend(now, 1) && !lease.spend(now, 1));
/// ```
#[derive(Clone, Debug)]
pub struct LeaseState {
    min: u64,
    max: u64,
    interval_ns: u64,
    max_age_ns: u64,
    /// How many to take next, if the gate has plenty.
    size: u64,
    /// How many to take at most, so that others find something too.
    share: u64,
    /// The batch: when it was taken, how many permits, and how many of them are still there.
    taken_at: Timestamp,
    taken: u64,
    held: u64,
    lapse: Lapse,
    /// The holder's virtual time, as an age of the batch: until then nothing lapses that is not spent already. In
    /// fractions of a nanosecond, and never beyond `oldest`.
    steady: u64,
    /// What the gate said when the batch was taken.
    limit: u64,
    reset_ns: u64,
}

impl LeaseState {
    /// Takes between `start` and `end` permits at a time.
    ///
    /// # Panics
    ///
    /// If the range is empty or begins at 0; in a `const` that is a compile error.
    pub const fn new(permits: RangeInclusive<u64>) -> Self {
        let (min, max) = (*permits.start(), *permits.end());
        assert!(
            min > 0,
            "a batch of no permits would never be enough; the least is 1"
        );
        assert!(
            min <= max,
            "the most permits of a batch are fewer than the least"
        );
        Self {
            min,
            max,
            interval_ns: 1_000_000,
            max_age_ns: Lapse::OLDEST,
            size: min,
            share: 0,
            taken_at: Timestamp::ZERO,
            taken: 0,
            held: 0,
            lapse: Lapse::NEVER,
            steady: 0,
            limit: 0,
            reset_ns: 0,
        }
    }

    /// How long a batch should last: batches grow until they do. 1 ms unless this says otherwise, which is right for
    /// threads on one machine; a store over a network wants some round trips.
    #[must_use]
    pub const fn with_interval(mut self, interval: Duration) -> Self {
        self.interval_ns = saturating_nanos(interval);
        if self.interval_ns == 0 {
            self.interval_ns = 1;
        }
        self
    }

    /// Spends no permit that is older than this; what is left of its batch goes back to the gate. Unlimited unless
    /// this says otherwise.
    #[must_use]
    pub const fn with_max_age(mut self, age: Duration) -> Self {
        let nanos = saturating_nanos(age);
        if nanos < Lapse::OLDEST {
            self.max_age_ns = nanos;
        }
        self
    }

    /// Spends permits that are held; `false`, and nothing is spent, if there are too few.
    #[inline]
    pub fn spend(&mut self, now: Timestamp, cost: u64) -> bool {
        if cost > self.held {
            return false;
        }
        let Some(age) = now.as_nanos().checked_sub(self.taken_at.as_nanos()) else {
            return false;
        };
        if age > self.steady >> Lapse::FRACTION {
            self.settle(age);
            if age > self.max_age_ns || cost > self.held {
                return false;
            }
        }
        self.held -= cost;
        self.advance(cost);
        true
    }

    /// Whether the timestamp is older than the batch that is held, but by no more than a minute. Then ask the gate for
    /// just the cost, and leave the state alone: what was taken later is not to be spent earlier. A timestamp that is
    /// older still is that of a clock that has jumped back.
    pub fn is_late(&self, now: Timestamp) -> bool {
        let late = self.taken_at.saturating_duration_since(now);
        self.held > 0 && !late.is_zero() && saturating_nanos(late) <= LATE_MIN
    }

    /// How many permits can be spent.
    pub fn held(&self, now: Timestamp) -> u64 {
        let age = self.age(now);
        if age > self.max_age_ns || now < self.taken_at {
            return 0;
        }
        self.live(age)
    }

    /// How many permits to ask the gate for, when this cost cannot be spent: at least the cost.
    pub fn wanted(&mut self, now: Timestamp, cost: u64) -> u64 {
        if self.taken > 0 {
            let intervals = self.age(now) / self.interval_ns;
            if intervals == 0 && self.taken >= self.size {
                self.size = self.size.saturating_mul(2).min(self.max);
            } else if intervals > 1 {
                self.size = (self.size / intervals).max(self.min);
            }
        }
        self.size.min(self.share.max(self.min)).max(cost)
    }

    /// Whether nothing is held, and nothing more than the cost would be asked for, as after a refusal.
    #[inline]
    pub(crate) fn is_short(&self, cost: u64) -> bool {
        self.held == 0 && self.share.max(self.min) <= cost
    }

    /// The gate has let go of `taken` permits, stamped with `now`, of which `cost` are spent at once.
    ///
    /// `allowed` is the gate's answer. A batch that is held already is replaced: [give it back](Self::give_back) first.
    pub fn granted(&mut self, now: Timestamp, taken: u64, cost: u64, allowed: &Allowed) {
        self.share = allowed.remaining() / 4;
        self.limit = allowed.limit();
        self.reset_ns = saturating_nanos(allowed.reset_after());
        self.lapse = allowed.lapse();
        self.taken_at = now;
        // More permits than the price of all has bits for: only where the store's numbers contradict each other.
        let countable = u64::MAX.checked_div(self.lapse.price);
        self.taken = taken.min(countable.unwrap_or(u64::MAX));
        // What was not counted was not taken either.
        self.held = if allowed.is_counted() {
            self.taken.saturating_sub(cost)
        } else {
            0
        };
        self.steady = if self.lapse.price == 0 {
            self.oldest()
        } else {
            0
        };
        self.advance(cost);
    }

    /// The gate has refused as many as were [wanted](Self::wanted).
    pub fn refused(&mut self) {
        self.size = (self.size / 2).max(self.min);
        self.share = 0;
    }

    /// Ends the batch. If anything is left of it to refund: the timestamp with which it was taken, and how many.
    pub fn give_back(&mut self, now: Timestamp) -> Option<(Timestamp, u64)> {
        let rest = self.live(self.age(now));
        self.held = 0;
        if rest > self.taken / 2 {
            self.size = (self.size / 2).max(self.min);
        }
        (rest > 0).then_some((self.taken_at, rest))
    }

    /// What spending just now leaves: the gate's limit, the permits that are held, and the gate's reset, as it was
    /// when they were taken.
    #[inline]
    pub fn allowed(&self, now: Timestamp) -> Allowed {
        let reset = self.reset_ns.saturating_sub(self.age(now));
        Allowed::new(self.limit, self.held, Duration::from_nanos(reset))
    }

    #[inline]
    fn age(&self, now: Timestamp) -> u64 {
        now.as_nanos().saturating_sub(self.taken_at.as_nanos())
    }

    /// The age that no permit may exceed, in fractions of a nanosecond.
    #[inline]
    fn oldest(&self) -> u64 {
        self.lapse.until.min(self.max_age_ns) << Lapse::FRACTION
    }

    /// Moves the virtual time on by what `cost` permits take.
    #[inline]
    fn advance(&mut self, cost: u64) {
        let price = self.lapse.price.saturating_mul(cost);
        self.steady = self.steady.saturating_add(price).min(self.oldest());
    }

    /// How many of the permits have not lapsed at this age, whether or not they are too old to be spent.
    fn live(&self, age: u64) -> u64 {
        if age > self.lapse.until {
            return 0;
        }
        if self.lapse.price == 0 {
            return self.held;
        }
        let end = self.lapse.price.saturating_mul(self.taken);
        let rest = end.saturating_sub(age << Lapse::FRACTION) / self.lapse.price;
        self.held.min(rest)
    }

    /// Lets lapse what has.
    #[cold]
    fn settle(&mut self, age: u64) {
        self.held = self.live(age);
        let age = age.min(Lapse::OLDEST) << Lapse::FRACTION;
        self.steady = self.steady.max(age).min(self.oldest());
    }
}
