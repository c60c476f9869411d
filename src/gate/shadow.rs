//! Limits on trial: counted, and not enforced.

use core::fmt;

use crate::decision::{Allowed, Denied, Reason};
use crate::gate::Gate;
use crate::sync::private::Cells;
use crate::sync::{Count, Ordering};
use crate::time::Timestamp;
use crate::word::sealed::Arithmetic;

/// How many of something there were: 64 bits where the target has such atomics, else 32. Wraps.
///
/// Relaxed: a count says nothing about anything but itself, and no decision depends on it.
struct Counter {
    cell: <Count as Cells>::Atomic,
}

impl Counter {
    #[cfg(not(tidegate_loom))]
    const fn new() -> Self {
        Self {
            cell: Count::ZERO_CELL,
        }
    }

    #[cfg(tidegate_loom)]
    fn new() -> Self {
        Self {
            cell: Count::cell(0),
        }
    }

    #[inline]
    fn bump(&self) {
        Count::fetch_add(&self.cell, 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        Count::load(&self.cell, Ordering::Relaxed).widen()
    }
}

/// `const`, but for loom, whose atomics are made at run time.
macro_rules! const_unless_loom {
    ($(#[$doc:meta])* pub fn $name:ident($($argument:ident: $type:ty),*) -> Self $body:block) => {
        $(#[$doc])*
        #[cfg(not(tidegate_loom))]
        pub const fn $name($($argument: $type),*) -> Self $body

        $(#[$doc])*
        #[cfg(tidegate_loom)]
        pub fn $name($($argument: $type),*) -> Self $body
    };
}

/// A limit on trial: counts what its gate would refuse, by reason, and refuses nothing.
///
/// The gate counts what it would admit, so that it behaves as if it were enforced and the refused requests had been
/// turned away. An admission in spite of the gate [is not counted](Allowed::is_counted); it tells what the
/// gate's refusal tells about `remaining` and `reset_after`.
///
/// Inside [`All`](crate::All) it is asked about the requests which all enforced gates admit, so it counts what it
/// would refuse on top of them. To try a replacement for a limit, see [`Beside`].
///
/// # Cost
///
/// The gate's, and one `Relaxed` addition to a counter.
///
/// ```
/// use tidegate::{Limiter, Quota, Shadow, Timestamp, TokenBucket};
///
/// static CANDIDATE: Shadow<Limiter<TokenBucket>> =
///     Shadow::new(Limiter::new(TokenBucket::new(Quota::per_second(10)).with_burst(2)));
///
/// let now = Timestamp::from_secs(1);
/// for _ in 0..5 {
///     assert!(CANDIDATE.check(now).is_ok());
/// }
/// assert!(CANDIDATE.check_n(now, 3).is_ok());
/// let counts = CANDIDATE.counts();
/// assert_eq!((counts.admitted, counts.limited, counts.too_costly), (2, 3, 1));
/// assert_eq!(counts.to_string(), "2 admitted, 4 would be refused: 3 limited, 1 too costly, 0 table full");
/// ```
pub struct Shadow<G> {
    gate: G,
    admitted: Counter,
    limited: Counter,
    too_costly: Counter,
    table_full: Counter,
}

impl<G> Shadow<G> {
    const_unless_loom! {
        /// Puts a gate on trial.
        pub fn new(gate: G) -> Self {
            Self {
                gate,
                admitted: Counter::new(),
                limited: Counter::new(),
                too_costly: Counter::new(),
                table_full: Counter::new(),
            }
        }
    }

    /// The gate.
    pub const fn gate(&self) -> &G {
        &self.gate
    }

    /// What was counted so far.
    ///
    /// The counts are read one after the other, while others may be counting.
    pub fn counts(&self) -> ShadowCounts {
        ShadowCounts {
            admitted: self.admitted.get(),
            limited: self.limited.get(),
            too_costly: self.too_costly.get(),
            table_full: self.table_full.get(),
        }
    }
}

impl<G: Gate> Shadow<G> {
    /// Asks the gate and counts its answer, which is returned as it is: for who wants to know.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the gate would refuse the request.
    #[inline]
    pub fn observe(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        let answer = self.gate.check_n(now, cost);
        if cost > 0 {
            match &answer {
                Ok(_) => &self.admitted,
                Err(denied) => match denied.reason() {
                    Reason::Limited => &self.limited,
                    Reason::TooCostly => &self.too_costly,
                    Reason::TableFull => &self.table_full,
                },
            }
            .bump();
        }
        answer
    }

    /// Admits one request, and counts what the gate says.
    ///
    /// # Errors
    ///
    /// Never: a `Result`, so that a shadow can stand where a gate will.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.check_n(now, 1)
    }

    /// Admits a request of this cost, and counts what the gate says. Cost 0 is not counted.
    ///
    /// # Errors
    ///
    /// Never: a `Result`, so that a shadow can stand where a gate will.
    #[inline]
    pub fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.observe(now, cost)
            .or_else(|denied| Ok(denied.overruled()))
    }
}

impl<G: Gate> Gate for Shadow<G> {
    #[inline]
    fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(now, cost)
    }

    #[inline]
    fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.gate
            .peek_n(now, cost)
            .or_else(|denied| Ok(denied.overruled()))
    }

    /// Gives back to the gate. Only for admissions that [were counted](Allowed::is_counted): the gate has nothing
    /// of the others, and would have that much too much.
    #[inline]
    fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        self.gate.refund(taken_at, cost)
    }

    #[inline]
    fn enforces(&self) -> bool {
        false
    }
}

impl<G: fmt::Debug> fmt::Debug for Shadow<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("gate", &self.gate)
            .field("counts", &self.counts())
            .finish()
    }
}

/// What a [`Shadow`] has counted.
///
/// Each count wraps, after 2^64, or 2^32 where the target has no 64-bit atomics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ShadowCounts {
    /// Admitted by the gate too.
    pub admitted: u64,
    /// Would have been told to wait.
    pub limited: u64,
    /// Cost more than the gate ever admits.
    pub too_costly: u64,
    /// Would have found no room in a table.
    pub table_full: u64,
}

impl ShadowCounts {
    /// How many the gate would have refused, whatever the reason.
    pub const fn refused(&self) -> u64 {
        self.limited
            .wrapping_add(self.too_costly)
            .wrapping_add(self.table_full)
    }
}

impl fmt::Display for ShadowCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} admitted, {} would be refused: {} limited, {} too costly, {} table full",
            self.admitted,
            self.refused(),
            self.limited,
            self.too_costly,
            self.table_full
        )
    }
}

/// A limit that is enforced and a candidate for its place, side by side in one call: the one decides, the other is
/// counted.
///
/// Both are asked about every request, also about one that the enforced limit refuses: in its place the candidate
/// would see them all. So each keeps its own account, and the counts tell in how many decisions they differ.
///
/// # Cost
///
/// Both gates', and one `Relaxed` addition to a counter.
///
/// ```
/// use tidegate::{Beside, FixedWindow, Limiter, Quota, Timestamp, TokenBucket};
///
/// static API: Beside<Limiter<FixedWindow>, Limiter<TokenBucket>> = Beside::new(
///     Limiter::new(FixedWindow::new(Quota::per_minute(3))),
///     Limiter::new(TokenBucket::new(Quota::per_minute(60)).with_burst(2)),
/// );
///
/// // Three at once, and three half a minute later, in the same window.
/// for second in [60, 90] {
///     for _ in 0..3 {
///         let _ = API.check(Timestamp::from_secs(second));
///     }
/// }
/// let counts = API.counts();
/// assert_eq!((counts.both_admit, counts.only_candidate_refuses), (2, 1));
/// assert_eq!((counts.only_enforced_refuses, counts.both_refuse), (2, 1));
/// ```
pub struct Beside<E, C> {
    enforced: E,
    candidate: C,
    both_admit: Counter,
    only_candidate_refuses: Counter,
    only_enforced_refuses: Counter,
    both_refuse: Counter,
}

impl<E, C> Beside<E, C> {
    const_unless_loom! {
        /// Puts a candidate beside the limit that is enforced.
        pub fn new(enforced: E, candidate: C) -> Self {
            Self {
                enforced,
                candidate,
                both_admit: Counter::new(),
                only_candidate_refuses: Counter::new(),
                only_enforced_refuses: Counter::new(),
                both_refuse: Counter::new(),
            }
        }
    }

    /// The gate that decides.
    pub const fn enforced(&self) -> &E {
        &self.enforced
    }

    /// The gate that is only counted.
    pub const fn candidate(&self) -> &C {
        &self.candidate
    }

    /// What was counted so far.
    ///
    /// The counts are read one after the other, while others may be counting.
    pub fn counts(&self) -> BesideCounts {
        BesideCounts {
            both_admit: self.both_admit.get(),
            only_candidate_refuses: self.only_candidate_refuses.get(),
            only_enforced_refuses: self.only_enforced_refuses.get(),
            both_refuse: self.both_refuse.get(),
        }
    }
}

impl<E: Gate, C: Gate> Beside<E, C> {
    /// Asks both about a request, counts how they answer, and returns both answers: the first one decides.
    #[inline]
    pub fn observe(
        &self,
        now: Timestamp,
        cost: u64,
    ) -> (Result<Allowed, Denied>, Result<Allowed, Denied>) {
        let enforced = self.enforced.check_n(now, cost);
        let candidate = self.candidate.check_n(now, cost);
        // A candidate may be a shadow, or contain one.
        let would_pass = candidate.as_ref().is_ok_and(Allowed::is_counted);
        if cost > 0 {
            match (enforced.is_ok(), would_pass) {
                (true, true) => &self.both_admit,
                (true, false) => &self.only_candidate_refuses,
                (false, true) => &self.only_enforced_refuses,
                (false, false) => &self.both_refuse,
            }
            .bump();
        }
        (enforced, candidate)
    }

    /// May one request pass now, as the enforced gate sees it?
    ///
    /// # Errors
    ///
    /// [`Denied`] if the enforced gate refuses it; then nothing has changed there.
    #[inline]
    pub fn check(&self, now: Timestamp) -> Result<Allowed, Denied> {
        self.check_n(now, 1)
    }

    /// May a request of this cost pass now, as the enforced gate sees it? Cost 0 is not counted.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the enforced gate refuses it; then nothing has changed there.
    #[inline]
    pub fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.observe(now, cost).0
    }
}

impl<E: Gate, C: Gate> Gate for Beside<E, C> {
    #[inline]
    fn check_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(now, cost)
    }

    #[inline]
    fn peek_n(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.enforced.peek_n(now, cost)
    }

    /// Gives back to the enforced gate. Whether the candidate has counted this very request is not known here, so it
    /// keeps what it has; who has both answers of [`observe`](Beside::observe) can refund the
    /// [candidate](Beside::candidate) likewise.
    #[inline]
    fn refund(&self, taken_at: Timestamp, cost: u64) -> bool {
        self.enforced.refund(taken_at, cost)
    }

    #[inline]
    fn enforces(&self) -> bool {
        self.enforced.enforces()
    }
}

impl<E: fmt::Debug, C: fmt::Debug> fmt::Debug for Beside<E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside")
            .field("enforced", &self.enforced)
            .field("candidate", &self.candidate)
            .field("counts", &self.counts())
            .finish()
    }
}

/// How the two gates of a [`Beside`] have answered.
///
/// Each count wraps, after 2^64, or 2^32 where the target has no 64-bit atomics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BesideCounts {
    /// Admitted, and would be.
    pub both_admit: u64,
    /// Admitted, and would be refused: what the candidate would cost.
    pub only_candidate_refuses: u64,
    /// Refused, and would be admitted.
    pub only_enforced_refuses: u64,
    /// Refused, and would be.
    pub both_refuse: u64,
}

impl fmt::Display for BesideCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "both admit {}, only the candidate refuses {}, only the enforced refuses {}, both refuse {}",
            self.both_admit,
            self.only_candidate_refuses,
            self.only_enforced_refuses,
            self.both_refuse
        )
    }
}
