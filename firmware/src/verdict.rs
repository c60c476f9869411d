//! What must hold at the end of a run.

use core::sync::atomic::Ordering;

use semihosting::{eprintln, println};
use tidegate::{Quota, Timestamp, TokenBucket};
use tidegate_firmware::{board, cases};

use crate::alone::Alone;
use crate::ledger::{self, INTERRUPT, Ledger, MAIN};
use crate::limits::{self, BUCKET, DEEP, KEYED, KEYS, LOG, LOG_APART_MS, PEERS};
use crate::{COUNTER, COUNTER_START, Deciding, landed};

struct Verdict {
    right: bool,
}

impl Verdict {
    /// Says what is wrong, if it is.
    fn demand(&mut self, holds: bool, what: &str, found: u32, wanted: u32) {
        if !holds {
            eprintln!("WRONG: {what}: {found}, and not {wanted}");
            self.right = false;
        }
    }

    fn equal(&mut self, what: &str, found: u32, wanted: u32) {
        self.demand(found == wanted, what, found, wanted);
    }

    fn at_least(&mut self, what: &str, found: u32, wanted: u32) {
        self.demand(found >= wanted, what, found, wanted);
    }
}

/// The most that a quota allows in so many milliseconds, in exact arithmetic: burst + limit * time / period.
fn allowance(quota: Quota, burst: u64, ms: u64) -> u32 {
    let refill = u128::from(quota.limit()) * u128::from(ms) * 1_000_000 / quota.period().as_nanos();
    burst as u32 + refill as u32
}

/// Checks everything, prints a summary, and returns whether all of it is right.
pub fn pronounce([begin, start, end]: [Timestamp; 3]) -> bool {
    let mut verdict = Verdict { right: true };
    let ms = |at: Timestamp| at.as_nanos() / 1_000_000;
    let elapsed = ms(end) - ms(start);

    // Time: every interrupt counted, over the wrap of the counter.
    let interrupts = COUNTER
        .load(Ordering::Relaxed)
        .wrapping_sub(COUNTER_START + 8 * LOG_APART_MS);
    verdict.equal(
        "milliseconds of the extended counter",
        elapsed as u32,
        interrupts,
    );
    verdict.demand(
        ms(begin) == u64::from(COUNTER_START) && ms(end) > u64::from(u32::MAX),
        "milliseconds at the end, beyond the wrap of 32 bits",
        ms(end) as u32,
        COUNTER.load(Ordering::Relaxed),
    );

    // Conservation: together they were admitted what one caller alone would have been, and no more than the quota.
    let (from, to) = (ms(start), ms(end));
    let bucket = Alone::new(&BUCKET).ask_for_everything(from, to);
    let deep = Alone::new(&DEEP).ask_for_everything(from, to);
    let keyed = Alone::new(&KEYED).ask_for_everything(from, to).admitted;
    let mut logged = Alone::new(&LOG);
    for number in 0..8 {
        logged.ask(ms(begin) + number * u64::from(LOG_APART_MS));
    }
    let logged = logged.ask_for_everything(from, to);
    for (found, wanted) in limits::states().into_iter().zip([bucket.state, deep.state]) {
        verdict.equal("state of a limiter", found, wanted);
    }
    verdict.equal(
        "milliseconds until the log is empty",
        limits::log_is_back_in(end),
        logged.is_back_in(to),
    );
    let (bucket, deep, logged) = (bucket.admitted, deep.admitted, logged.admitted);

    let found = ledger::both(|it| &it.log);
    verdict.equal("admitted by the log", found, logged);
    let most = allowance(LOG.quota(), 8, to - ms(begin));
    verdict.demand(
        found <= most,
        "admitted by the log, above its quota",
        found,
        most,
    );
    let mut conserved = |what: &str, limits: &TokenBucket<u32>, admitted: u32, alone: u32| {
        verdict.equal(what, admitted, alone);
        let most = allowance(limits.quota(), limits.burst(), elapsed);
        verdict.demand(admitted <= most, what, admitted, most);
        let kept = u64::from(1_000_000 - limits.shortfall_ppm());
        // Time that has passed but does not make up a whole permit.
        verdict.at_least(
            what,
            admitted + 1,
            (u64::from(most) * kept / 1_000_000) as u32,
        );
    };
    conserved(
        "admitted by the bucket",
        &BUCKET,
        ledger::both(|it| &it.bucket),
        bucket,
    );
    conserved(
        "admitted by the deep bucket",
        &DEEP,
        ledger::both(|it| &it.watched),
        deep,
    );
    for key in 0..KEYS as usize {
        let admitted = ledger::both(move |it: &Ledger| &it.keys[key]);
        conserved("admitted to a key of the table", &KEYED, admitted, keyed);
    }
    for peer in 0..PEERS as usize {
        let admitted = ledger::both(move |it: &Ledger| &it.peers[peer]);
        conserved(
            "admitted to a key of the owned table",
            &KEYED,
            admitted,
            keyed,
        );
    }
    verdict.demand(limits::is_exhausted(end), "permits left at the end", 1, 0);

    // Each newcomer was asked for by both contexts, and the last by the main loop alone; one of them got it.
    let newcomers = ledger::both(|it| &it.newcomers);
    verdict.equal("newcomers admitted", newcomers, interrupts + 1);
    for full in limits::full_counts() {
        let times = full.denied + full.allowed + full.evicted;
        verdict.equal("times that a table was full", times as u32, 0);
    }

    // It was a test: interrupts came inside decisions of each kind, and between load and exchange.
    let inside = [
        ("bucket", Deciding::Bucket),
        ("deep bucket", Deciding::Watched),
        ("log", Deciding::Log),
        ("table, known key", Deciding::Key),
        ("table, new key", Deciding::Newcomer),
        ("owned table", Deciding::Peer),
    ];
    for (what, place) in inside {
        verdict.at_least(what, landed(place), 300);
    }
    let retries = limits::retries();
    verdict.at_least("decisions taken up again", retries, 50);

    let played = cases::play_all(|name, mistake| eprintln!("WRONG: case {name}: {mistake:?}"));
    verdict.equal("cases failed", played.failed, 0);
    verdict.at_least("cases", played.cases, 32);

    println!("{}", board::NAME);
    let [main, interrupt] = [&MAIN, &INTERRUPT].map(|it| it.decisions.load(Ordering::Relaxed));
    println!("  decisions: {main} of the main loop, {interrupt} of {interrupts} interrupts");
    let total: u32 = inside.iter().map(|&(_, place)| landed(place)).sum();
    println!("  interrupts inside a decision: {total}");
    for (what, place) in inside {
        println!("    {what}: {}", landed(place));
    }
    println!("  between load and exchange, so that the decision was taken up again: {retries}");
    println!(
        "  milliseconds: {elapsed}, from {} over 2^32 to {}",
        ms(start),
        ms(end)
    );
    println!(
        "  admitted: {bucket} by the bucket, {deep} by the deep one, {logged} by the log, {keyed} to each key, {newcomers} newcomers"
    );
    println!("  cases: {} in {} runs", played.cases, played.played);
    println!(
        "  {}",
        if verdict.right {
            "everything held"
        } else {
            "NOT everything held"
        }
    );
    verdict.right
}
