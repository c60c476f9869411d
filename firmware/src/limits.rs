//! The limiters under test, and what the two contexts ask of them.

use core::cell::RefCell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use critical_section::Mutex;
use tidegate::{
    Algorithm, Allowed, Denied, FullCounts, Limiter, OwnedTable, Quota, SlidingLog, Table, Ticks,
    Timestamp, TokenBucket,
};

use crate::ledger::{self, INTERRUPT, Ledger, MAIN, bump};

/// The millisecond counter, extended.
pub static UPTIME: Ticks<1_000> = Ticks::new();

/// Keys of the table that are asked for all the time.
pub const KEYS: u32 = 24;

/// Keys of the owned table.
pub const PEERS: u32 = 8;

/// One in 4 ms.
pub const BUCKET: TokenBucket<u32> = TokenBucket::narrow_with_burst(Quota::per_second(250), 8);

/// So deep that it lasts for most of the run: nearly every decision exchanges the word, and so may fail to.
pub const DEEP: TokenBucket<u32> = TokenBucket::narrow_with_burst(Quota::per_second(8), 65_000);

/// One in 20 ms for each key. A newcomer that takes all 4 is idle after 80 ms, and 80 of them live at a time.
pub const KEYED: TokenBucket<u32> = TokenBucket::narrow_with_burst(Quota::per_second(50), 4);

/// Eight in any 100 ms.
pub const LOG: SlidingLog<8, u32> = match Quota::new(8, Duration::from_millis(100)) {
    Ok(quota) => SlidingLog::narrow(quota),
    Err(_) => panic!("a quota of 8 in 100 ms"),
};

/// The log's first permits are taken one by one, so far apart, so that they come back one by one.
pub const LOG_APART_MS: u32 = 12;

static LOGGED: Limiter<SlidingLog<8, u32>> = Limiter::new(LOG);
static SHARED: Limiter<TokenBucket<u32>> = Limiter::new(BUCKET);
static WATCHED: Limiter<Watched> = Limiter::new(Watched(DEEP));
static TABLE: Table<TokenBucket<u32>, 32> = Table::new(KEYED);

/// For a single owner at a time, who is whoever is in the critical section.
static OWNED: Mutex<RefCell<OwnedTable<[u8; 6], TokenBucket<u32>, 16>>> =
    Mutex::new(RefCell::new(OwnedTable::new(KEYED)));

/// Counts how often a decision steps. More than once is: somebody came between its load and its exchange.
pub struct Watched(TokenBucket<u32>);

impl Algorithm for Watched {
    type Word = u32;

    fn limit(&self) -> u64 {
        self.0.limit()
    }

    #[inline(always)]
    fn step(&self, state: u32, now: Timestamp, cost: u64) -> Result<(u32, Allowed), Denied> {
        let ledger = if IN_INTERRUPT.load(Ordering::Relaxed) {
            &INTERRUPT
        } else {
            &MAIN
        };
        bump(&ledger.watched_steps);
        self.0.step(state, now, cost)
    }

    fn refund(&self, state: u32, taken_at: Timestamp, cost: u64) -> u32 {
        self.0.refund(state, taken_at, cost)
    }

    fn idle_after(&self, state: u32, now: Timestamp) -> Duration {
        self.0.idle_after(state, now)
    }

    fn adopt(&self, old: &Self, state: u32, now: Timestamp) -> u32 {
        self.0.adopt(&old.0, state, now)
    }
}

/// Whether it is the interrupt that asks the watched limiter.
static IN_INTERRUPT: AtomicBool = AtomicBool::new(false);

/// Asks, and enters what was admitted.
fn ask(ledger: &Ledger, count: &AtomicU32, answer: Result<Allowed, Denied>) -> bool {
    bump(&ledger.decisions);
    let is_admitted = answer.is_ok();
    if is_admitted {
        bump(count);
    }
    is_admitted
}

pub fn bucket(ledger: &Ledger, now: Timestamp) -> bool {
    ask(ledger, &ledger.bucket, SHARED.check(now))
}

pub fn watched(ledger: &Ledger, now: Timestamp) -> bool {
    bump(&ledger.watched_decisions);
    IN_INTERRUPT.store(ptr::eq(ledger, &INTERRUPT), Ordering::Relaxed);
    let is_admitted = ask(ledger, &ledger.watched, WATCHED.check(now));
    IN_INTERRUPT.store(false, Ordering::Relaxed);
    is_admitted
}

pub fn log(ledger: &Ledger, now: Timestamp) -> bool {
    ask(ledger, &ledger.log, LOGGED.check(now))
}

pub fn key(ledger: &Ledger, now: Timestamp, key: u32) -> bool {
    ask(ledger, &ledger.keys[key as usize], TABLE.check(&key, now))
}

/// Asks for all that a key has: of those who ask for the same key, one gets it.
pub fn newcomer(ledger: &Ledger, now: Timestamp, number: u32) -> bool {
    let name = ("newcomer", number);
    ask(
        ledger,
        &ledger.newcomers,
        TABLE.check_n(&name, now, KEYED.burst()),
    )
}

pub fn peer(ledger: &Ledger, now: Timestamp, peer: u8) -> bool {
    let address = [0x02, 0, 0, 0, 0, peer];
    let answer = critical_section::with(|token| OWNED.borrow_ref_mut(token).check(&address, now));
    ask(ledger, &ledger.peers[usize::from(peer)], answer)
}

/// Asks every limiter for all that it has.
pub fn ask_everything(ledger: &Ledger, now: Timestamp) {
    while bucket(ledger, now) {}
    for number in 0..KEYS {
        while key(ledger, now, number) {}
    }
    for number in 0..PEERS {
        while peer(ledger, now, number as u8) {}
    }
}

/// Asks the deep bucket and the log for all that they have.
pub fn ask_for_the_rest(ledger: &Ledger, now: Timestamp) {
    while watched(ledger, now) {}
    while log(ledger, now) {}
}

/// Hands back budgets early.
pub fn forget() {
    SHARED.reset();
    TABLE.reset(&0_u32);
}

/// The states of the two single limiters.
pub fn states() -> [u32; 2] {
    [SHARED.state(), WATCHED.state()]
}

/// Whether nothing at all is left, at this instant.
pub fn is_exhausted(now: Timestamp) -> bool {
    let keys = (0..KEYS).all(|key| TABLE.peek(&key, now).is_err());
    let single = [SHARED.peek(now), WATCHED.peek(now), LOGGED.peek(now)];
    single.iter().all(Result::is_err) && keys
}

/// How often either table was full.
pub fn full_counts() -> [FullCounts; 2] {
    let owned = critical_section::with(|token| OWNED.borrow_ref(token).full_counts());
    [TABLE.full_counts(), owned]
}

/// In how many milliseconds all of the log is back.
pub fn log_is_back_in(now: Timestamp) -> u32 {
    let all = LOGGED.check_n(now, 0);
    all.map_or(0, |allowed| allowed.reset_after().as_millis() as u32)
}

/// Decisions that were taken up again because somebody came between.
pub fn retries() -> u32 {
    let steps = ledger::both(|it| &it.watched_steps);
    steps - ledger::both(|it| &it.watched_decisions)
}
