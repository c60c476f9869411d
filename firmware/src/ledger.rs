//! What each of the two contexts has been admitted. Each writes its own ledger alone, so loads and stores are enough,
//! which every core has.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::limits::{KEYS, PEERS};

/// The main loop's.
pub static MAIN: Ledger = Ledger::new();

/// The interrupt's.
pub static INTERRUPT: Ledger = Ledger::new();

pub struct Ledger {
    pub decisions: AtomicU32,
    pub bucket: AtomicU32,
    pub watched: AtomicU32,
    pub log: AtomicU32,
    /// Decisions of the watched limiter, and how often its step was taken in them.
    pub watched_decisions: AtomicU32,
    pub watched_steps: AtomicU32,
    pub keys: [AtomicU32; KEYS as usize],
    pub newcomers: AtomicU32,
    pub peers: [AtomicU32; PEERS as usize],
    random: AtomicU32,
}

impl Ledger {
    const fn new() -> Self {
        Self {
            decisions: AtomicU32::new(0),
            bucket: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            log: AtomicU32::new(0),
            watched_decisions: AtomicU32::new(0),
            watched_steps: AtomicU32::new(0),
            keys: [const { AtomicU32::new(0) }; KEYS as usize],
            newcomers: AtomicU32::new(0),
            peers: [const { AtomicU32::new(0) }; PEERS as usize],
            random: AtomicU32::new(1),
        }
    }
}

/// Numbers without a pattern.
pub trait Random {
    fn random(&self) -> u32;
}

impl Random for Ledger {
    /// Marsaglia's xorshift.
    fn random(&self) -> u32 {
        let mut number = self.random.load(Ordering::Relaxed);
        number ^= number << 13;
        number ^= number >> 17;
        number ^= number << 5;
        self.random.store(number, Ordering::Relaxed);
        number
    }
}

/// One more. Only the ledger's owner may.
pub fn bump(count: &AtomicU32) {
    let one_more = count.load(Ordering::Relaxed).wrapping_add(1);
    count.store(one_more, Ordering::Relaxed);
}

/// What both have.
pub fn both(count: impl Fn(&Ledger) -> &AtomicU32) -> u32 {
    [&MAIN, &INTERRUPT]
        .map(|ledger| count(ledger).load(Ordering::Relaxed))
        .iter()
        .sum()
}
