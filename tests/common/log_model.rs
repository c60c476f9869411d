//! The exact log once more, by its definition: a list of admissions in unbounded integers. And a player that checks
//! every form of the log against it, and the laws after each call.

use core::time::Duration;

use tidegate::{
    Allowed, AtomicWord, Denied, Limiter, OwnedStrategy, Quota, Reason, SlidingLog, Timestamp,
};

use super::model::Answer;

/// A form of the log to be played.
pub trait Form: Sized {
    fn check(&mut self, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;
    fn peek(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;
    fn refund(&mut self, taken_at: Timestamp, cost: u64) -> bool;
    fn reset(&mut self);
    /// Whether it was idle.
    fn sweep(&mut self, now: Timestamp) -> bool;
    fn idle_after(&self, now: Timestamp) -> Option<Duration>;
    fn retune(&mut self, quota: Quota, now: Timestamp) -> bool;
    /// The same, to try something on; if it can be had.
    fn copy(&self) -> Option<Self>;
}

/// A width of the words.
pub trait Width: AtomicWord {
    const TIME_BITS: u32 = Self::BITS - tidegate::GENERATION_BITS;
    fn log<const N: usize>(quota: Quota) -> Option<SlidingLog<N, Self>>;
}

impl Width for u64 {
    fn log<const N: usize>(quota: Quota) -> Option<SlidingLog<N, u64>> {
        SlidingLog::try_new(quota).ok()
    }
}

impl Width for u32 {
    fn log<const N: usize>(quota: Quota) -> Option<SlidingLog<N, u32>> {
        SlidingLog::try_narrow(quota).ok()
    }
}

impl<const N: usize, W: Width> Form for Limiter<SlidingLog<N, W>> {
    fn check(&mut self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(now, cost)
    }

    fn peek(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.peek_n(now, cost)
    }

    fn refund(&mut self, taken_at: Timestamp, cost: u64) -> bool {
        Limiter::refund(self, taken_at, cost)
    }

    fn reset(&mut self) {
        Limiter::reset(self);
    }

    fn sweep(&mut self, now: Timestamp) -> bool {
        Limiter::sweep(self, now)
    }

    fn idle_after(&self, _: Timestamp) -> Option<Duration> {
        None
    }

    fn retune(&mut self, quota: Quota, now: Timestamp) -> bool {
        let Some(log) = W::log::<N>(quota) else {
            return false;
        };
        Limiter::retune(self, log, now);
        true
    }

    fn copy(&self) -> Option<Self> {
        None
    }
}

/// An owner's state beside its log.
#[derive(Clone, Debug)]
pub struct Owned<S: OwnedStrategy> {
    pub log: S,
    pub state: S::State,
    pub make: fn(Quota) -> Option<S>,
}

impl<S: OwnedStrategy> Owned<S> {
    pub fn new(quota: Quota, make: fn(Quota) -> Option<S>) -> Option<Self> {
        let log = make(quota)?;
        let state = log.fresh();
        Some(Self { log, state, make })
    }
}

impl<S: OwnedStrategy<State: Clone> + Clone> Form for Owned<S> {
    fn check(&mut self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.log.check_n(&mut self.state, now, cost)
    }

    fn peek(&self, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self.log.peek_n(&self.state, now, cost)
    }

    fn refund(&mut self, taken_at: Timestamp, cost: u64) -> bool {
        self.log.refund(&mut self.state, taken_at, cost)
    }

    fn reset(&mut self) {
        self.state = self.log.fresh();
    }

    fn sweep(&mut self, now: Timestamp) -> bool {
        let is_idle = self.log.is_idle(&self.state, now);
        if is_idle {
            self.reset();
        }
        is_idle
    }

    fn idle_after(&self, now: Timestamp) -> Option<Duration> {
        Some(self.log.idle_after(&self.state, now))
    }

    fn retune(&mut self, quota: Quota, now: Timestamp) -> bool {
        let Some(log) = (self.make)(quota) else {
            return false;
        };
        log.adopt(&self.log, &mut self.state, now);
        self.log = log;
        true
    }

    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// What is documented of a log, in its own numbers.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub limit: u64,
    pub period_ns: u64,
    pub unit: u64,
    pub late_ns: u64,
    /// How many bits count the units.
    pub bits: u32,
    /// Whether time never goes back by a refund of the newest.
    pub keeps_newest: bool,
}

impl Numbers {
    pub fn of<const N: usize, W: Width>(log: &SlidingLog<N, W>) -> Self {
        let limit = log.quota().limit();
        Self {
            limit,
            period_ns: log.quota().period().as_nanos() as u64,
            unit: log.resolution().as_nanos() as u64,
            late_ns: log.horizon().as_nanos() as u64,
            bits: W::TIME_BITS - (usize::BITS - N.leading_zeros()),
            keeps_newest: false,
        }
    }

    fn period(&self) -> i128 {
        i128::from(self.period_ns.div_ceil(self.unit))
    }

    fn floor(&self, t: u64) -> i128 {
        i128::from(t / self.unit)
    }

    fn ceil(&self, t: u64) -> i128 {
        i128::from(t.div_ceil(self.unit))
    }
}

/// When a permit was taken: in units, rounded up, and in nanoseconds. Of a late one, the time it was dated to.
#[derive(Clone, Copy, Debug)]
struct Taken {
    place: i128,
    nanos: u64,
}

/// Admissions from the oldest, and no more than the limit.
#[derive(Clone, Debug)]
pub struct LogModel {
    pub numbers: Numbers,
    times: Vec<Taken>,
    newest: Option<Taken>,
}

impl LogModel {
    pub fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            times: Vec::new(),
            newest: None,
        }
    }

    fn is_leftover(&self, now: u64) -> bool {
        let Numbers { unit, late_ns, .. } = self.numbers;
        self.newest
            .is_some_and(|it| it.place * i128::from(unit) - i128::from(now) > i128::from(late_ns))
    }

    /// Times that still count.
    fn used(&self, now: u64) -> Vec<Taken> {
        let Some(newest) = self.newest else {
            return Vec::new();
        };
        if self.is_leftover(now) {
            return Vec::new();
        }
        // A coarse time may be later than it was by up to a unit.
        let surely = newest.place - i128::from(self.numbers.unit > 1);
        let then = self.numbers.floor(now).max(surely);
        let counts = |it: &Taken| then - it.place < self.numbers.period();
        self.times.iter().copied().filter(counts).collect()
    }

    fn wait(&self, taken: Taken, now: u64) -> u128 {
        let Numbers { unit, .. } = self.numbers;
        let until = (taken.place + self.numbers.period()) * i128::from(unit) - i128::from(now);
        u128::try_from(until).unwrap_or(0).min(u64::MAX.into())
    }

    pub fn ask(&self, now: u64, cost: u64) -> Answer {
        let limit = self.numbers.limit;
        let mut used = self.used(now);
        let free = limit - used.len() as u64;
        let refused = if cost > limit {
            Some(Reason::TooCostly)
        } else if cost > free {
            Some(Reason::Limited)
        } else {
            None
        };
        let retry_ns = (refused == Some(Reason::Limited))
            .then(|| self.wait(used[(cost - free - 1) as usize], now));
        let mut remaining = free;
        if refused.is_none() && cost > 0 {
            remaining -= cost;
            used.push(self.dated(now));
        }
        let reset_ns = used.last().map_or(0, |&last| self.wait(last, now));
        Answer {
            refused,
            limit,
            remaining,
            retry_ns,
            reset_ns,
        }
    }

    fn dated(&self, now: u64) -> Taken {
        let taken = Taken {
            place: self.numbers.ceil(now),
            nanos: now,
        };
        match self.newest {
            Some(newest) if !self.is_leftover(now) => Taken {
                place: taken.place.max(newest.place),
                nanos: taken.nanos.max(newest.nanos),
            },
            _ => taken,
        }
    }

    pub fn check(&mut self, now: u64, cost: u64) -> Answer {
        let answer = self.ask(now, cost);
        if answer.refused.is_none() && cost > 0 {
            let time = self.dated(now);
            if self.is_leftover(now) {
                self.times.clear();
            }
            self.times.extend((0..cost).map(|_| time));
            let most = usize::try_from(self.numbers.limit).unwrap_or(usize::MAX);
            self.times.drain(..self.times.len().saturating_sub(most));
            self.newest = Some(time);
        }
        answer
    }

    pub fn refund(&mut self, taken_at: u64, cost: u64) -> u64 {
        let taken = self.numbers.ceil(taken_at);
        let mut given = 0;
        for _ in 0..cost {
            let newest = self.newest.filter(|newest| newest.place >= taken);
            let Some(index) = newest
                .filter(|newest| newest.place - taken < self.numbers.period())
                .and_then(|_| self.times.iter().position(|it| it.place >= taken))
            else {
                break;
            };
            self.times.remove(index);
            given += 1;
            if !self.numbers.keeps_newest {
                self.newest = self.times.last().copied();
            }
        }
        given
    }

    pub fn reset(&mut self) {
        self.times.clear();
        self.newest = None;
    }

    /// Nothing is in use, and no admission would be dated later than it is.
    pub fn is_idle(&self, now: u64) -> bool {
        let is_ahead = self
            .newest
            .is_some_and(|it| it.place > self.numbers.floor(now));
        self.used(now).is_empty() && (self.is_leftover(now) || !is_ahead)
    }

    pub fn retune(&mut self, numbers: Numbers, now: u64) {
        let mut used = self.used(now);
        let most = usize::try_from(numbers.limit).unwrap_or(usize::MAX);
        used.drain(..used.len().saturating_sub(most));
        let unit = i128::from(numbers.unit);
        let translated = |it: Taken| {
            let nanos = it.place * i128::from(self.numbers.unit);
            let place = nanos.div_euclid(unit) + i128::from(nanos % unit > 0);
            Taken { place, ..it }
        };
        let times: Vec<_> = used.into_iter().map(translated).collect();
        let newest = if numbers.keeps_newest && !times.is_empty() {
            self.newest
        } else {
            times.last().copied()
        };
        *self = Self {
            numbers,
            times,
            newest,
        };
    }

    /// Whether a word could mistake the age of a time, because it has wrapped since or before.
    pub fn may_alias(&self, t: u64) -> bool {
        let half = 1_i128 << (self.numbers.bits - 1);
        let margin =
            self.numbers.period() + i128::from(self.numbers.late_ns / self.numbers.unit) + 2;
        let place = self.numbers.floor(t);
        self.times
            .iter()
            .chain(&self.newest)
            .any(|it| (place - it.place).abs() >= half - margin)
    }
}

/// Raw material of a call.
#[derive(Clone, Copy, Debug)]
pub struct LogCall {
    pub when: (u8, u64),
    pub cost: (u8, u64),
    pub what: u8,
}

const SECOND: u64 = 1_000_000_000;

/// A period; any bytes make one.
pub fn period((class, seed): (u8, u64)) -> Duration {
    Duration::from_nanos(match class % 10 {
        0 => SECOND,
        1 | 2 => 60 * SECOND,
        3 => 3_600 * SECOND,
        4 => 86_400 * SECOND,
        5 => seed % 1_000 + 1,
        6 => (seed % 1_000 + 1) * 1_000_000,
        7 => seed % (100 * SECOND) + 1,
        8 => SECOND + seed % SECOND,
        _ => (seed >> (class / 10 % 16 * 4)).max(1),
    })
}

/// A first timestamp.
pub fn start((class, seed): (u8, u64)) -> u64 {
    match class % 6 {
        0 => 0,
        1 => seed % 1_000,
        2 => 1_700_000_000 * SECOND + seed % (1 << 58),
        3 => u64::MAX - seed % (1 << 40),
        4 => (1 << 63) - (1 << 20) + seed % (1 << 21),
        _ => seed,
    }
}

/// What was admitted: with which timestamp, and the time it was dated to.
struct Admitted {
    at: u64,
    dated: u64,
    cost: u64,
}

/// One form beside the model.
pub struct Player<F> {
    form: F,
    model: LogModel,
    numbers: fn(&F) -> Numbers,
    now: u64,
    last_wait: u64,
    taken: Vec<Admitted>,
    refunded: u64,
}

impl<const N: usize, W: Width> Player<Limiter<SlidingLog<N, W>>> {
    /// The form that threads share; `None` if the word cannot hold the quota.
    pub fn shared(quota: Quota, start: u64) -> Option<Self> {
        let form = Limiter::new(W::log::<N>(quota)?);
        Some(Self::new(form, |form| Numbers::of(form.algorithm()), start))
    }
}

impl<const N: usize, W: Width> Player<Owned<SlidingLog<N, W>>> {
    /// The form for a single owner.
    pub fn owned(quota: Quota, start: u64) -> Option<Self> {
        let form = Owned::new(quota, W::log::<N>)?;
        Some(Self::new(form, |form| Numbers::of(&form.log), start))
    }
}

impl<F: Form> Player<F> {
    pub fn new(form: F, numbers: fn(&F) -> Numbers, start: u64) -> Self {
        Self {
            model: LogModel::new(numbers(&form)),
            form,
            numbers,
            now: start,
            last_wait: 0,
            taken: Vec::new(),
            refunded: 0,
        }
    }

    /// Plays one call; panics where the model or a law is broken.
    pub fn call(&mut self, call: LogCall) {
        self.now = self.when(call.when);
        let cost = self.cost(call.cost);
        if self.model.may_alias(self.now) {
            // The docs tell to sweep before.
            self.forget();
        }
        match call.what % 16 {
            0 | 1 => self.refund(call.cost.1),
            2 => self.peek(cost),
            3 if call.what < 64 => self.forget(),
            4 => self.sweep(),
            5 if call.what < 128 => self.retune(call.cost),
            _ => self.check(cost),
        }
        assert_eq!(self.ask(self.now, 0), self.model.ask(self.now, 0));
    }

    fn when(&self, (class, seed): (u8, u64)) -> u64 {
        let Numbers {
            period_ns, unit, ..
        } = self.model.numbers;
        let later = |by: u64| self.now.saturating_add(by);
        match class % 16 {
            0..=3 => self.now,
            4 => later(1),
            5 => later(unit),
            6 => later(seed % (2 * unit)),
            7 => later(period_ns / self.model.numbers.limit),
            8 | 9 => later(seed % period_ns.saturating_add(2)),
            10 => later(period_ns - seed % 2),
            11 => later(self.last_wait.saturating_sub(seed % 2)),
            12 => self.now.saturating_sub(seed % period_ns),
            13 => self.now.saturating_sub(seed % (120 * 60 * SECOND)),
            14 => later(seed >> (class / 16 * 4)),
            _ => seed,
        }
    }

    fn cost(&self, (class, seed): (u8, u64)) -> u64 {
        let limit = self.model.numbers.limit;
        match class % 12 {
            0 => 0,
            1 => limit,
            2 => limit + 1,
            3 => seed,
            4 | 5 => seed % limit + 1,
            6 => 2,
            _ => 1,
        }
    }

    fn ask(&self, now: u64, cost: u64) -> Answer {
        answer(self.form.peek(Timestamp::from_nanos(now), cost))
    }

    fn check(&mut self, cost: u64) {
        let stamp = Timestamp::from_nanos(self.now);
        if self.model.is_leftover(self.now) {
            // A fresh start.
            self.taken.clear();
            self.refunded = 0;
        }
        let foreseen = self.ask(self.now, cost);
        let before = self.form.copy();
        let decision = self.form.check(stamp, cost);
        let next = match decision {
            Ok(allowed) => allowed.next_after(),
            Err(denied) => denied.next_after(),
        };
        let got = answer(decision);
        assert_eq!(got, foreseen, "peek tells what check answers");
        assert_eq!(got, self.model.check(self.now, cost), "the exact model");
        assert_eq!(got.refused == Some(Reason::TooCostly), cost > got.limit);
        if got.refused.is_none() && cost > 0 {
            self.taken.push(Admitted {
                at: self.now,
                dated: self.model.newest.expect("just admitted").nanos,
                cost,
            });
            self.never_over();
        }
        if let (Some(wait), Some(before)) = (got.retry_ns, before) {
            self.retry_is_exact(&before, wait, cost);
        }
        self.last_wait = got.retry_ns.map_or(0, |wait| wait as u64);
        self.remaining_is_exact(got.remaining);
        self.next_is_exact(got.remaining, next);
        self.idle_is_fresh();
    }

    fn peek(&mut self, cost: u64) {
        assert_eq!(self.ask(self.now, cost), self.model.ask(self.now, cost));
    }

    /// Law 1. What was given back may have been taken again.
    fn never_over(&self) {
        let period = self.model.numbers.period_ns;
        for last in &self.taken {
            let within: u64 = self
                .taken
                .iter()
                .filter(|it| (it.dated..it.dated.saturating_add(period)).contains(&last.dated))
                .map(|it| it.cost)
                .sum();
            assert!(
                within <= self.model.numbers.limit + self.refunded,
                "{within} admitted within a period"
            );
        }
    }

    /// Law 3.
    fn retry_is_exact(&self, before: &F, wait: u128, cost: u64) {
        assert!(wait > 0, "a wait of nothing");
        let Some(then) = u64::try_from(wait)
            .ok()
            .filter(|&wait| wait < u64::MAX)
            .and_then(|wait| self.now.checked_add(wait))
        else {
            return;
        };
        let passes = |at| before.peek(Timestamp::from_nanos(at), cost).is_ok();
        assert!(passes(then), "denied after the wait it was told, {wait} ns");
        assert!(!passes(then - 1), "admitted 1 ns before {wait} ns");
    }

    /// One more than remains passes after that, and not 1 ns earlier.
    fn next_is_exact(&self, remaining: u64, next: Option<Duration>) {
        assert_eq!(next.is_none(), remaining == self.model.numbers.limit);
        let Some(then) = next
            .and_then(|next| u64::try_from(next.as_nanos()).ok())
            .filter(|&next| next < u64::MAX)
            .and_then(|next| self.now.checked_add(next))
        else {
            return;
        };
        let passes = |at| {
            let stamp = Timestamp::from_nanos(at);
            self.form.peek(stamp, remaining + 1).is_ok()
        };
        assert!(passes(then) && !passes(then - 1), "at {then}");
    }

    /// Law 4.
    fn remaining_is_exact(&self, remaining: u64) {
        let stamp = Timestamp::from_nanos(self.now);
        assert!(self.form.peek(stamp, remaining).is_ok());
        assert!(self.form.peek(stamp, remaining + 1).is_err());
        let Some(mut form) = self.form.copy() else {
            return;
        };
        for left in (0..remaining.min(20)).rev() {
            let allowed = form.check(stamp, 1).expect("as many as remained");
            if remaining <= 20 {
                assert_eq!(allowed.remaining(), left);
            }
        }
        assert!(remaining > 20 || form.check(stamp, 1).is_err());
    }

    /// Law 5, and that it is told when.
    fn idle_is_fresh(&self) {
        let stamp = Timestamp::from_nanos(self.now);
        let Some(after) = self.form.idle_after(stamp) else {
            return;
        };
        assert_eq!(after.is_zero(), self.model.is_idle(self.now));
        let (Some(copy), Ok(after)) = (self.form.copy(), u64::try_from(after.as_nanos())) else {
            return;
        };
        let Some(at) = self.now.checked_add(after).filter(|_| after < u64::MAX) else {
            return;
        };
        // A leftover counts as idle until the clock comes near it again.
        if self.model.is_leftover(self.now) {
            return;
        }
        assert_eq!(
            copy.idle_after(Timestamp::from_nanos(at)),
            Some(Duration::ZERO)
        );
        if after > 0 {
            let before = Timestamp::from_nanos(at - 1);
            assert_ne!(copy.idle_after(before), Some(Duration::ZERO));
        }
        let mut fresh = self.form.copy().expect("copied before");
        fresh.reset();
        for then in [at, at.saturating_add(1), at.saturating_add(after)] {
            for cost in [0, 1, self.model.numbers.limit] {
                let then = Timestamp::from_nanos(then);
                let (one, other) = (copy.peek(then, cost), fresh.peek(then, cost));
                assert_eq!(one, other, "idle is fresh");
            }
        }
    }

    /// Law 10.
    fn refund(&mut self, seed: u64) {
        let Some(index) = (seed as usize).checked_rem(self.taken.len()) else {
            return;
        };
        let Admitted { at, cost, .. } = self.taken[index];
        if self.model.may_alias(at) {
            return;
        }
        let cost = if seed & 0x100 == 0 {
            cost
        } else {
            cost.div_ceil(2)
        };
        let before = self.ask(self.now, 0).remaining;
        let has_changed = self.form.refund(Timestamp::from_nanos(at), cost);
        let given = self.model.refund(at, cost);
        assert_eq!(has_changed, given > 0);
        let after = self.ask(self.now, 0).remaining;
        assert!(
            self.model.is_leftover(self.now) || after.saturating_sub(before) <= cost,
            "at most what was taken"
        );
        self.taken[index].cost -= cost;
        self.refunded += cost;
    }

    fn forget(&mut self) {
        self.form.reset();
        self.model.reset();
        self.taken.clear();
        self.refunded = 0;
    }

    fn sweep(&mut self) {
        let is_idle = self.model.is_idle(self.now);
        assert_eq!(self.form.sweep(Timestamp::from_nanos(self.now)), is_idle);
        if is_idle {
            self.model.reset();
            self.taken.clear();
            self.refunded = 0;
        }
    }

    fn retune(&mut self, raw: (u8, u64)) {
        let period = match raw.0 % 4 {
            0 => period((raw.0 / 4, raw.1)),
            _ => Duration::from_nanos(self.model.numbers.period_ns),
        };
        let quota = Quota::new(raw.1 % 9 + 1, period).expect("neither is zero");
        if self.form.retune(quota, Timestamp::from_nanos(self.now)) {
            self.model.retune((self.numbers)(&self.form), self.now);
            self.taken.clear();
            self.refunded = 0;
            if self.model.may_alias(self.now) {
                self.forget();
            }
        }
    }
}

pub fn answer(decision: Result<Allowed, Denied>) -> Answer {
    match decision {
        Ok(allowed) => Answer {
            refused: None,
            limit: allowed.limit(),
            remaining: allowed.remaining(),
            retry_ns: None,
            reset_ns: allowed.reset_after().as_nanos(),
        },
        Err(denied) => Answer {
            refused: Some(denied.reason()),
            limit: denied.limit(),
            remaining: denied.remaining(),
            retry_ns: denied.retry_after().map(|wait| wait.as_nanos()),
            reset_ns: denied.reset_after().as_nanos(),
        },
    }
}
