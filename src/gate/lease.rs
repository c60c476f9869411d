//! A handle that takes permits in batches, and spends them alone.

mod state;

use core::fmt;
use core::ops::RangeInclusive;

use crate::decision::{Allowed, Denied};
use crate::gate::Gate;
use crate::scale::LATE_MIN;
use crate::time::{Timestamp, saturating_nanos};

pub use state::LeaseState;

/// A handle on a shared gate that takes permits from it in batches, and spends them without touching it: for threads
/// that would otherwise fight over one cache line.
///
/// Each thread or task has a lease of its own; what they share is the gate. A batch grows, up to a bound, until it lasts
/// about a millisecond, and shrinks when it lasts longer: so a busy thread comes to the gate a thousand times a
/// second, an idle one holds the least. It takes at most a quarter of what the gate has left, so that close to the limit
/// batches are small. The rest goes back when the lease is dropped.
///
/// # Never over
///
/// A permit that is spent later than it was taken could be one too many, since the gate has refilled meanwhile. So
/// permits lapse as the gate refills, and the law of the gate holds for the instants at which permits are *spent*,
/// however many leases there are:
///
/// | gate | unspent permits lapse | what passes |
/// |---|---|---|
/// | token bucket | one by one, as fast as the bucket fills | at most `burst + limit * d / period` in any `d` |
/// | fixed window | when the window ends in which they were taken | at most `limit` in each window |
/// | sliding window | likewise | what the window's rule admits |
/// | [`All`](crate::All) of these | as soon as under any one of them | what each admits |
/// | an exact log, or anything that counts each request for a period from its own instant | evenly, over the time until the gate is full | in any period at most the limit, and what leases held at its start |
///
/// Over an exact log, [`with_max_age`](LeaseState::with_max_age) of zero leaves nothing to exceed the limit by: permits
/// are then spent only at the very timestamp with which they were taken, which still serves a loop that reads its clock once
/// for many requests.
///
/// All of it is measured by the timestamps given. The argument is in the source of the module `gate::lease::state`.
/// What a lease holds is missing to others meanwhile: at most the bound on the batch for each.
///
/// [`LeaseState::with_max_age`] bounds how old a permit may be when it is spent; what is then left goes back.
///
/// # Dropping
///
/// The rest is given back as of the latest timestamp that the lease was asked with. If a token bucket has been full
/// since, it gets back permits that have come back by themselves, and may admit that many too many, once. A lease that
/// is to lie idle should [`give_back`](Self::give_back) first, which knows the time. A lease that is leaked keeps its
/// permits until they lapse.
///
/// # Late timestamps
///
/// A request that is stamped earlier than the batch is not paid from it: the gate is asked. What goes back is reckoned
/// at the latest timestamp that *this* lease has seen. If other threads are ahead of that by `d`, a token
/// bucket may get back up to `limit * d / period` too many permits of a batch.
///
/// # Cost
///
/// Spending a held permit takes two comparisons, a subtraction and an addition on memory of the thread's own. One
/// visit in a batch costs what the gate costs. `Gate` needs `&self`, so a lease is not one.
///
/// ```
/// use tidegate::{Lease, Limiter, Quota, Timestamp, TokenBucket};
///
/// static PACKETS: Limiter<TokenBucket> = Limiter::new(TokenBucket::new(Quota::per_second(1_000_000)));
///
/// let now = Timestamp::from_secs(1);
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let mut lease = Lease::new(&PACKETS, 1..=1_024);
///             for _ in 0..10_000 {
///                 assert!(lease.check(now).is_ok());
///             }
///         });
///     }
/// });
/// // What was not used is back.
/// assert_eq!(PACKETS.check_n(now, 0).unwrap().remaining(), 980_000);
/// ```
pub struct Lease<G: Gate> {
    gate: G,
    state: LeaseState,
    /// The latest timestamp that was asked with.
    last: Timestamp,
}

impl<G: Gate> Lease<G> {
    /// Leases from a gate, or a reference to one, between `start` and `end` permits at a time.
    ///
    /// # Panics
    ///
    /// If the range is empty or begins at 0.
    pub const fn new(gate: G, permits: RangeInclusive<u64>) -> Self {
        Self::with_state(gate, LeaseState::new(permits))
    }

    /// Leases by the rules of a state that holds nothing yet.
    ///
    /// ```
    /// use core::time::Duration;
    /// use tidegate::{Lease, LeaseState, Limiter, Quota, Timestamp, TokenBucket};
    ///
    /// let gate = Limiter::new(TokenBucket::new(Quota::per_second(1_000)));
    /// let rules = LeaseState::new(8..=64).with_max_age(Duration::from_millis(1));
    /// let mut lease = Lease::with_state(&gate, rules);
    /// let now = Timestamp::from_secs(1);
    /// assert!(lease.check(now).is_ok());
    /// assert_eq!(lease.held(now), 7);
    /// assert_eq!(lease.held(Timestamp::from_millis(1_002)), 0);
    /// ```
    pub const fn with_state(gate: G, state: LeaseState) -> Self {
        Self {
            gate,
            state,
            last: Timestamp::ZERO,
        }
    }

    /// May one request pass now? Spends a permit that is held, or takes a batch from the gate.
    ///
    /// # Errors
    ///
    /// The gate's [`Denied`] if not.
    #[inline]
    pub fn check(&mut self, now: Timestamp) -> Result<Allowed, Denied> {
        self.check_n(now, 1)
    }

    /// May a request of this cost pass now? All or nothing.
    ///
    /// The answer's `remaining` is what this lease still holds: so many pass at this instant whatever others do. Its
    /// `reset_after` is the gate's, as it was when the batch was taken. Cost 0 asks the gate, and changes nothing.
    ///
    /// # Errors
    ///
    /// The gate's [`Denied`] if not. Others may hold permits that the gate lacks, so its wait may be too long.
    #[inline]
    pub fn check_n(&mut self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.last = self.last.max(now);
        if cost > 0 && self.state.spend(now, cost) {
            return Ok(self.state.allowed(now));
        }
        if cost > 0 && self.state.is_short(cost) {
            // Close to the limit most requests are refused, and that is to be as quick as without a lease.
            let allowed = self.gate.check_n(now, cost)?;
            self.took(now, cost, &allowed);
            return Ok(self.state.allowed(now));
        }
        self.visit(now, cost)
    }

    /// The gate has admitted just the cost of a request.
    #[cold]
    #[inline(never)]
    fn took(&mut self, now: Timestamp, cost: u64, allowed: &Allowed) {
        self.state.granted(now, cost, cost, allowed);
    }

    #[cold]
    #[inline(never)]
    fn visit(&mut self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        if cost == 0 || self.state.is_late(now) {
            return self.gate.check_n(now, cost);
        }
        // What is held does not suffice, but may be what the gate lacks.
        self.give_back(now);
        if saturating_nanos(self.last.saturating_duration_since(now)) > LATE_MIN {
            // The clock has jumped back: what it said before tells nothing about the next batch.
            self.last = now;
        }
        let wanted = self.state.wanted(now, cost);
        if wanted > cost {
            if let Ok(allowed) = self.gate.check_n(now, wanted) {
                self.state.granted(now, wanted, cost, &allowed);
                return Ok(self.state.allowed(now));
            }
            self.state.refused();
        }
        let allowed = self.gate.check_n(now, cost)?;
        self.state.granted(now, cost, cost, &allowed);
        Ok(self.state.allowed(now))
    }

    /// Gives back what is held and has not lapsed, and says how many permits that were.
    pub fn give_back(&mut self, now: Timestamp) -> u64 {
        // Not by a late timestamp: permits that have lapsed already must not go back.
        match self.state.give_back(now.max(self.last)) {
            Some((taken_at, rest)) => {
                self.gate.refund(taken_at, rest);
                rest
            }
            None => 0,
        }
    }

    /// How many permits can be spent without asking the gate.
    pub fn held(&self, now: Timestamp) -> u64 {
        self.state.held(now)
    }

    /// The gate.
    pub const fn gate(&self) -> &G {
        &self.gate
    }
}

impl<G: Gate> Drop for Lease<G> {
    fn drop(&mut self) {
        self.give_back(self.last);
    }
}

impl<G: Gate + fmt::Debug> fmt::Debug for Lease<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("gate", &self.gate)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
