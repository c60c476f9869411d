//! Several gates as one: all or nothing.

use core::fmt;
use core::time::Duration;

use crate::decision::{Allowed, Basis, Denied, Reason};
use crate::gate::Gate;
use crate::gate::Lapse;
use crate::gate::gates::Gates;
use crate::time::{Timestamp, saturating_nanos};

/// Several gates as one, all or nothing: a request passes if every one of them admits it, and if one refuses, none
/// has counted it.
///
/// Over a tuple of up to eight gates of any kinds, over an array, or over a slice, such as `&[&dyn Gate]`. It is a
/// [`Gate`] itself, so it nests.
///
/// ```
/// # #[cfg(any(feature = "ahash", feature = "foldhash"))] {
/// use tidegate::{All, FixedWindow, Limiter, Quota, Shadow, Table, Timestamp, TokenBucket};
///
/// static EVERYBODY: Limiter<TokenBucket> = Limiter::new(TokenBucket::new(Quota::per_second(1_000)));
/// static EACH: Table<TokenBucket, 64> = Table::new(TokenBucket::new(Quota::per_second(2)));
/// // To be enforced one day; until then it is only watched.
/// static DAILY: Shadow<Limiter<FixedWindow>> =
///     Shadow::new(Limiter::new(FixedWindow::new(Quota::per_day(1_000_000))));
///
/// let now = Timestamp::from_secs(1);
/// let gates = All((EACH.at("alice"), &EVERYBODY, &DAILY));
/// assert!(gates.check(now).is_ok());
/// assert!(gates.check(now).is_ok());
/// let refused = gates.check(now).unwrap_err();
/// assert_eq!(refused.index(), 0);
/// assert_eq!(refused.retry_after().unwrap().as_millis(), 500);
/// assert_eq!(EVERYBODY.peek(now).unwrap().remaining(), 997);
/// # }
/// ```
///
/// # How it decides
///
/// It peeks at all gates but the first, then checks one after the other. So a refusal that can be foreseen stores
/// nothing in any gate; only where another thread takes the last permit in between, or a table turns out to be
/// full, are permits taken and given back. Gates that [enforce](Gate::enforces) nothing, such as a
/// [`Shadow`](crate::Shadow), are asked when all others have admitted the request.
///
/// Put first what is dearest to ask or may refuse without being foreseen, which is a table's key; then the limit that
/// most requests compete for; last what gives back worst, which is a table that evicts live keys when it is full.
///
/// # Cost
///
/// An admission costs a check of every gate and a peek at all but the first; a foreseen refusal a few loads. To put
/// the numbers of several decisions together takes some divisions for each gate, whether or not anybody looks at them:
/// who only wants to know whether a request passes calls [`admits`](All::admits).
///
/// # What it answers
///
/// - Admitted: `remaining` is the fewest that any gate has left, `limit` that gate's, `reset_after` the longest.
/// - Refused: [`AllDenied::index`] is the first gate that refuses. The wait is the longest of all that would refuse;
///   there is none if for one of them waiting is no cure, and the reason is then the first such one's. The other
///   numbers are as above, with nothing taken.
/// - [`check_each`](All::check_each) tells what every gate says, for as many header fields.
///
/// # What others may see
///
/// Each gate is exact by itself at every moment: none ever admits more than its limit. Between them:
///
/// - Permits that are taken and given back are missing meanwhile. Another thread may be refused for want of them,
///   though in the end nobody else got them either: of two requests for the last permits of two gates, one passes, or
///   neither. Nothing is kept after a refusal, in whatever order others go through the same gates.
/// - A gate may show a request as admitted that is refused in the end.
///
/// # What cannot be given back
///
/// - What was taken in a window that ends before it is given back.
/// - The place of a key that a table under [`OnFull::Evict`](crate::OnFull::Evict) displaced for this request.
/// - A token bucket cannot tell that it has been full since. A thread that is stopped between taking and giving back
///   for longer than the bucket needs to fill adds what it gives back to a budget that has come back by
///   itself; the bucket may so admit that much more, once.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct All<T: ?Sized>(pub T);

impl<T: Gates + ?Sized> All<T> {
    /// May one request pass all gates now? If so, each has counted it.
    ///
    /// # Errors
    ///
    /// [`AllDenied`] if not; then none has.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Result<Allowed, AllDenied> {
        self.check_n(now, 1)
    }

    /// May a request of this cost pass all gates now? If so, each has counted it; all or nothing.
    ///
    /// Without gates everything may pass.
    ///
    /// # Errors
    ///
    /// [`AllDenied`] if not; then none has.
    #[inline]
    pub fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, AllDenied> {
        self.decide(now, cost)
            .map_err(|known| self.verdict(now, cost, known, |_, _| ()))
    }

    /// Whether [`check_n`](Self::check_n) admits the request: the same decision, and no numbers put together, which takes
    /// a fraction of the time.
    ///
    /// ```
    /// use tidegate::{All, Limiter, Quota, Timestamp, TokenBucket};
    ///
    /// let per_port = Limiter::new(TokenBucket::new(Quota::per_second(2)));
    /// let link = Limiter::new(TokenBucket::new(Quota::per_second(1_000)));
    /// let now = Timestamp::from_secs(1);
    /// let passed = (0..5).filter(|_| All((&per_port, &link)).admits(now, 1)).count();
    /// assert_eq!(passed, 2);
    /// ```
    #[inline]
    pub fn admits(&self, now: Timestamp, cost: u64) -> bool {
        self.0.take(now, cost, |_| ()).is_ok()
    }

    /// What [`check`](Self::check) would answer now; changes nothing.
    ///
    /// # Errors
    ///
    /// [`AllDenied`] if a request would not pass.
    pub fn peek(&self, now: Timestamp) -> Result<Allowed, AllDenied> {
        self.peek_n(now, 1)
    }

    /// What [`check_n`](Self::check_n) would answer now; changes nothing.
    ///
    /// # Errors
    ///
    /// [`AllDenied`] if a request of this cost would not pass.
    pub fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, AllDenied> {
        let gates = &self.0;
        let mut together = Together::NONE;
        for index in (0..gates.count()).filter(|&index| gates.enforces_at(index)) {
            match gates.peek_at(index, now, cost) {
                Ok(allowed) => together.admit(&allowed),
                Err(denied) => return Err(self.verdict(now, cost, (index, denied), |_, _| ())),
            }
        }
        Ok(together.allowed())
    }

    /// As [`check_n`](Self::check_n), and then tells `each` where every gate stands, once and in order.
    ///
    /// If the request was admitted, that is what each gate has left, to which other threads may have done something
    /// since. If not, it is the refusal of each gate that refuses or would, and what the others have, with nothing
    /// taken.
    ///
    /// # Errors
    ///
    /// [`AllDenied`] if the request may not pass; then no gate has counted it.
    ///
    /// ```
    /// use tidegate::{All, FixedWindow, Limiter, Quota, Timestamp, TokenBucket};
    ///
    /// let burst = Limiter::new(TokenBucket::new(Quota::per_second(1)));
    /// let daily = Limiter::new(FixedWindow::new(Quota::per_day(1_000)));
    /// let policies = [("burst", 1), ("daily", 86_400)];
    /// let now = Timestamp::from_secs(1);
    /// burst.check(now).unwrap();
    ///
    /// let mut fields = String::new();
    /// let refused = All((&burst, &daily)).check_each(now, 1, |index, decision| {
    ///     let remaining = match decision {
    ///         Ok(allowed) => allowed.remaining(),
    ///         Err(denied) => denied.remaining(),
    ///     };
    ///     fields += &format!("{};r={remaining} ", policies[index].0);
    /// });
    /// assert_eq!(refused.unwrap_err().index(), 0);
    /// assert_eq!(fields, "burst;r=0 daily;r=1000 ");
    /// ```
    pub fn check_each(
        &self,
        now: Timestamp,
        cost: u64,
        mut each: impl FnMut(usize, Result<Allowed, Denied>),
    ) -> Result<Allowed, AllDenied> {
        let allowed = match self.decide(now, cost) {
            Ok(allowed) => allowed,
            Err(known) => return Err(self.verdict(now, cost, known, each)),
        };
        for index in 0..self.0.count() {
            each(index, self.0.peek_at(index, now, 0));
        }
        Ok(allowed)
    }

    /// Takes from all gates, or from none and says which refused.
    #[inline]
    fn decide(&self, now: Timestamp, cost: u64) -> Result<Allowed, (usize, Denied)> {
        let mut together = Together::NONE;
        self.0.take(now, cost, |allowed| together.admit(allowed))?;
        Ok(together.allowed())
    }

    /// Puts the refusal together, with one that is known already. Nothing is taken by now.
    #[cold]
    #[inline(never)]
    fn verdict(
        &self,
        now: Timestamp,
        cost: u64,
        (known, denied): (usize, Denied),
        mut each: impl FnMut(usize, Result<Allowed, Denied>),
    ) -> AllDenied {
        let gates = &self.0;
        let mut together = Together::NONE;
        let mut first = None;
        // The first reason for which waiting is no cure, if there is one.
        let mut reason = Reason::Limited;
        let mut retry = Duration::ZERO;
        for index in 0..gates.count() {
            let answer = if index == known {
                Err(denied)
            } else if gates.enforces_at(index) {
                gates.peek_at(index, now, cost)
            } else {
                Ok(Together::NONE.allowed())
            };
            let Err(denied) = answer else {
                let standing = gates.peek_at(index, now, 0);
                if let (true, Ok(allowed)) = (gates.enforces_at(index), &standing) {
                    together.admit(allowed);
                }
                each(index, standing);
                continue;
            };
            together.add(
                (denied.remaining(), denied.limit()),
                denied.next_after(),
                denied.reset_after(),
            );
            first = first.or(Some(index));
            match denied.retry_after() {
                Some(wait) => retry = retry.max(wait),
                None if reason == Reason::Limited => reason = denied.reason(),
                None => {}
            }
            each(index, Err(denied));
        }
        AllDenied {
            index: first.unwrap_or(known),
            denied: together.denied(reason, retry),
        }
    }
}

impl<T: Gates + ?Sized> Gate for All<T> {
    #[inline]
    fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        Ok(self.check_n(now, cost)?)
    }

    #[inline]
    fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        Ok(self.peek_n(now, cost)?)
    }

    /// Gives back to every gate that [enforces](Gate::enforces). The others may not have counted this request, and
    /// keep what they have.
    fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        (0..self.0.count())
            .filter(|&index| self.0.enforces_at(index))
            .fold(false, |changed, index| {
                self.0.refund_at(index, taken_at, cost) | changed
            })
    }

    fn enforces(&self) -> bool {
        (0..self.0.count()).any(|index| self.0.enforces_at(index))
    }
}

/// The numbers of several decisions as one.
#[derive(Clone, Copy)]
struct Together {
    limit: u64,
    remaining: u64,
    /// Until one permit more remains.
    next: Duration,
    reset: Duration,
    lapse: Lapse,
}

impl Together {
    /// No gates at all.
    const NONE: Self = Self {
        limit: u64::MAX,
        remaining: u64::MAX,
        next: Duration::ZERO,
        reset: Duration::ZERO,
        lapse: Lapse::NEVER,
    };

    #[inline]
    fn add(&mut self, (remaining, limit): (u64, u64), next: Option<Duration>, reset: Duration) {
        let next = next.unwrap_or_default();
        if remaining == self.remaining {
            self.next = self.next.max(next);
        } else if remaining < self.remaining {
            self.next = next;
        }
        if (remaining, limit) < (self.remaining, self.limit) {
            (self.remaining, self.limit) = (remaining, limit);
        }
        self.reset = self.reset.max(reset);
    }

    #[inline]
    fn admit(&mut self, allowed: &Allowed) {
        self.add(
            (allowed.remaining(), allowed.limit()),
            allowed.next_after(),
            allowed.reset_after(),
        );
        self.lapse = self.lapse.or(allowed.lapse());
    }

    #[inline]
    fn allowed(&self) -> Allowed {
        Allowed {
            limit: self.limit,
            basis: Basis::Together {
                remaining: self.remaining,
                next: saturating_nanos(self.next),
                reset: saturating_nanos(self.reset),
                lapse: self.lapse,
            },
            counted: true,
        }
    }

    fn denied(&self, reason: Reason, retry: Duration) -> Denied {
        Denied {
            reason,
            limit: self.limit,
            basis: Basis::Refused {
                remaining: self.remaining,
                next: saturating_nanos(self.next),
                retry: saturating_nanos(retry),
                reset: saturating_nanos(self.reset),
            },
        }
    }
}

/// One of several gates refused, and none has counted the request.
///
/// Converts into the [`Denied`] that [`All`] answers as a [`Gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AllDenied {
    index: usize,
    denied: Denied,
}

impl AllDenied {
    /// The first gate that refuses, counted from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The refusal of all gates together.
    pub fn denied(&self) -> Denied {
        self.denied
    }

    /// Why: `Limited`, unless waiting is no cure for one of the gates; then the first such one's reason.
    pub fn reason(&self) -> Reason {
        self.denied.reason()
    }

    /// How long until the same request passes all gates, if nothing else does meanwhile: the longest wait of those
    /// that refuse. `None` if for one of them waiting is no cure.
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied.retry_after()
    }

    /// The limit of the gate that has the fewest left.
    pub fn limit(&self) -> u64 {
        self.denied.limit()
    }

    /// How many requests of cost 1 would pass all gates at this same instant.
    pub fn remaining(&self) -> u64 {
        self.denied.remaining()
    }

    /// How long until one request more of cost 1 would pass all gates at once, if nothing more is taken; `None` if nothing
    /// is used. See [`Denied::next_after`].
    pub fn next_after(&self) -> Option<Duration> {
        self.denied.next_after()
    }

    /// How long until everything used so far has come back to every gate, if nothing more is taken.
    pub fn reset_after(&self) -> Duration {
        self.denied.reset_after()
    }
}

impl From<AllDenied> for Denied {
    fn from(refusal: AllDenied) -> Self {
        refusal.denied
    }
}

impl fmt::Display for AllDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by gate {}", self.denied, self.index)
    }
}

impl core::error::Error for AllDenied {}
