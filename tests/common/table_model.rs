//! The keyed table beside an exact map: the same calls on both, every answer compared.
//!
//! The map keeps a word for each key and steps it with the algorithm itself, so what is compared is the table
//! alone: whose state is stepped, and who is told that there is no room. The table may forget a key that is
//! idle whenever it takes a slot for another. That shows only to timestamps that are late or so far off that
//! the word's time has wrapped; from there on the map holds both possible words of the key until an answer tells.

use core::hash::{BuildHasher, Hasher};

use tidegate::{
    Algorithm, Allowed, AtomicWord, Denied, FullCounts, KeyedTable, OnFull, Reason, Storage,
    Timestamp, Word,
};

/// Keys are their own hashes, so that a test decides who shares a line and that no two share a fingerprint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

#[derive(Debug, Default)]
pub struct RawHasher(u64);

impl BuildHasher for Raw {
    type Hasher = RawHasher;

    fn build_hasher(&self) -> RawHasher {
        RawHasher::default()
    }
}

impl Hasher for RawHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

/// The key of this number, below 2^16: random, but for the number itself in 16 bits that are part of every
/// fingerprint.
pub fn key(number: usize) -> u64 {
    let random = SplitMix(number as u64).draw();
    random & !(0xffff << 6) | (number as u64) << 6
}

/// Slots in a line of these words.
pub fn slots<W: Word>() -> usize {
    32 / size_of::<W>()
}

/// Limits that a table can have, and those of a tier on their scale.
#[derive(Clone, Copy, Debug)]
pub struct Limits<A> {
    pub table: A,
    pub tier: A,
}

/// One call. Every value is one, so fuzzers can make them up.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub what: u8,
    pub key: u16,
    pub cost: u8,
    pub when: u8,
}

impl Call {
    pub fn random(random: &mut SplitMix) -> Self {
        let bits = random.draw();
        Self {
            what: bits as u8,
            key: (bits >> 8) as u16,
            cost: (bits >> 24) as u8,
            when: (bits >> 32) as u8,
        }
    }
}

/// What a script came across, so that a test can make sure that it was about something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub admitted: u64,
    pub limited: u64,
    /// Admissions of keys that may have had no slot.
    pub newcomers: u64,
    pub full: u64,
    /// Answers that two possible words of a key had to be told apart by.
    pub ambiguous: u64,
}

struct Key<W> {
    hash: u64,
    /// The words it may have in the table; one, but for what the module's head says.
    words: Vec<W>,
    taken_at: Timestamp,
}

/// The exact map.
struct Map<A: Algorithm> {
    lines: usize,
    capacity: usize,
    on_full: OnFull,
    limits: Limits<A>,
    keys: Vec<Key<A::Word>>,
    counts: FullCounts,
    seen: Seen,
}

/// A table and the map beside it.
pub struct Beside<A: Algorithm<Word: AtomicWord>, L> {
    table: KeyedTable<A, L, Raw>,
    map: Map<A>,
    /// What the table is retuned to next.
    spare: Limits<A>,
    period_ns: u64,
    newest: u64,
}

impl<A, L> Beside<A, L>
where
    A: Algorithm<Word: AtomicWord> + Copy,
    L: Storage<A::Word>,
{
    /// `table` is empty, and has the first of `limits`.
    pub fn new(
        table: KeyedTable<A, L, Raw>,
        on_full: OnFull,
        limits: [Limits<A>; 2],
        period_ns: u64,
        keys: usize,
    ) -> Self {
        let keys = (0..keys).map(|number| Key {
            hash: key(number),
            words: vec![A::Word::ZERO],
            taken_at: Timestamp::ZERO,
        });
        Self {
            map: Map {
                lines: table.capacity() / slots::<A::Word>(),
                capacity: table.capacity(),
                on_full,
                limits: limits[0],
                keys: keys.collect(),
                counts: FullCounts::default(),
                seen: Seen::default(),
            },
            table: table.on_full(on_full),
            spare: limits[1],
            period_ns,
            newest: 1_000_000_000_000_000,
        }
    }

    pub fn capacity(&self) -> usize {
        self.map.capacity
    }

    pub fn seen(&self) -> Seen {
        self.map.seen
    }

    /// Plays one call on both.
    pub fn play(&mut self, call: Call) {
        let now = self.time(call.when);
        let Self { table, map, .. } = self;
        let key = usize::from(call.key) % map.keys.len();
        let hash = map.keys[key].hash;
        let limits = map.limits;
        let limit = limits.table.limit();
        let cost = match call.cost {
            0..=159 => 1,
            160..=191 => u64::from(call.cost) % (limit + 1),
            192..=207 => 0,
            208..=231 => limit,
            232..=239 => limit + 1,
            240..=254 => 2,
            255 => u64::MAX,
        };
        match call.what {
            0..=159 => {
                let answer = table.check_n(&hash, now, cost);
                map.checked(table, key, limits.table, now, cost, answer);
            }
            160..=175 => {
                let answer = table.at(&hash).check(now);
                map.checked(table, key, limits.table, now, 1, answer);
            }
            176..=183 => {
                // Up to two and a half groups, and every third key comes twice.
                let numbers: Vec<_> = (0..usize::from(call.cost) % 40)
                    .map(|index| (key + index - usize::from(index % 3 == 1)) % map.keys.len())
                    .collect();
                let hashes: Vec<_> = numbers.iter().map(|&key| map.keys[key].hash).collect();
                let mut expected = 0..numbers.len();
                table.check_many(&hashes, now, |index, answer| {
                    assert_eq!(Some(index), expected.next(), "in order");
                    map.checked(table, numbers[index], limits.table, now, 1, answer);
                });
                assert_eq!(expected.next(), None, "every key is answered");
            }
            184..=199 => {
                let tier = table.tier(limits.tier).expect("on the table's scale");
                let answer = table.check_with(&tier, &hash, now, cost);
                map.checked(table, key, limits.tier, now, cost, answer);
            }
            200..=209 => map.peeked(key, now, 1, table.peek(&hash, now)),
            210..=217 => map.peeked(key, now, cost, table.at(&hash).peek_n(now, cost)),
            218..=233 => {
                let taken_at = map.keys[key].taken_at;
                let changed = table.refund(&hash, taken_at, cost);
                map.refunded(key, taken_at, cost, changed);
            }
            234..=241 => {
                table.reset(&hash);
                map.change(key, |_| A::Word::ZERO);
            }
            242..=249 => map.counted(now, table.len_live(now)),
            250..=252 => {
                table.sweep(now);
                let idle = |word| limits.table.is_idle(word, now);
                map.change_all(|word| if idle(word) { A::Word::ZERO } else { word });
            }
            253 | 254 if call.cost < 32 => {
                table.clear();
                map.change_all(|_| A::Word::ZERO);
                assert_eq!(table.len_live(now), 0);
            }
            255 if call.cost < 128 => {
                table.retune(self.spare.table, now);
                map.change_all(|word| self.spare.table.adopt(&limits.table, word, now));
                map.limits = core::mem::replace(&mut self.spare, limits);
            }
            253..=255 => self.audit(now),
        }
    }

    /// Asks for every key; changes nothing.
    pub fn audit(&mut self, now: Timestamp) {
        for key in 0..self.map.keys.len() {
            let hash = self.map.keys[key].hash;
            let answer = self.table.check_n(&hash, now, 0);
            self.map.peeked(key, now, 0, answer);
        }
        self.map.counted(now, self.table.len_live(now));
        assert_eq!(self.table.full_counts(), self.map.counts);
    }

    fn time(&mut self, when: u8) -> Timestamp {
        let pick = u64::from(when & 15);
        let forward = match when {
            0..=143 => 0,
            144..=159 => pick,
            160..=191 => pick * self.period_ns / 64,
            192..=207 => pick * self.period_ns / 8,
            208..=219 => (1 + pick) * self.period_ns,
            // Out of sight, and for narrow words round the corner.
            220..=221 => (1 + u64::from(when & 1)) * 86_400_000_000_000,
            // Late, by less than a minute.
            222..=254 => {
                let late = 1 + pick * 3_900_000_000;
                return Timestamp::from_nanos(self.newest - late);
            }
            // A clock that has jumped back, and forth again.
            255 => {
                let back = 100 * self.period_ns + 7_200_000_000_000;
                return Timestamp::from_nanos(self.newest - back);
            }
        };
        self.newest += forward;
        Timestamp::from_nanos(self.newest)
    }
}

impl<A: Algorithm<Word: AtomicWord> + Copy> Map<A> {
    /// An answer of `algorithm` to a request that counts.
    fn checked<L: Storage<A::Word>>(
        &mut self,
        table: &KeyedTable<A, L, Raw>,
        key: usize,
        algorithm: A,
        now: Timestamp,
        cost: u64,
        answer: Result<Allowed, Denied>,
    ) {
        let before = core::mem::replace(&mut self.counts, table.full_counts());
        let told_full = answer.is_err_and(|denied| denied.reason() == Reason::TableFull);
        if told_full || self.counts != before {
            let mut expected = before;
            match self.on_full {
                OnFull::Deny => expected.denied += 1,
                OnFull::Allow => expected.allowed += 1,
                OnFull::Evict => expected.evicted += 1,
            }
            assert_eq!(self.counts, expected, "counted once, as what it was");
            assert_eq!(told_full, self.on_full == OnFull::Deny);
            let is_counted = answer.is_ok_and(|allowed| allowed.is_counted());
            assert_eq!(is_counted, self.on_full == OnFull::Evict);
            self.was_full(table, key, algorithm, now, cost, answer);
            return;
        }

        let words = &self.keys[key].words;
        let newcomer = words.contains(&A::Word::ZERO);
        self.narrow(key, |word| {
            match (algorithm.step(word, now, cost), answer) {
                (Ok((next, expected)), Ok(allowed)) if expected == allowed => {
                    Some(if cost > 0 { next } else { word })
                }
                (Err(expected), Err(denied)) if expected == denied => Some(word),
                _ => None,
            }
        });
        match answer {
            Ok(_) if cost > 0 => {
                self.seen.admitted += 1;
                self.keys[key].taken_at = now;
                if newcomer {
                    self.seen.newcomers += 1;
                    self.forget_idle(key, now);
                    let (live, _) = self.live(now, None);
                    assert!(live <= self.capacity, "{live} keys are live");
                }
            }
            Ok(_) => {}
            Err(_) => self.seen.limited += 1,
        }
    }

    /// A newcomer found every slot that it may have live.
    fn was_full<L: Storage<A::Word>>(
        &mut self,
        table: &KeyedTable<A, L, Raw>,
        key: usize,
        algorithm: A,
        now: Timestamp,
        cost: u64,
        answer: Result<Allowed, Denied>,
    ) {
        self.seen.full += 1;
        let (next, allowed) = algorithm
            .step(A::Word::ZERO, now, cost)
            .expect("what even a fresh state refuses needs no slot");
        assert!(cost > 0, "what changes nothing needs no slot");
        assert!(
            self.keys[key].words.contains(&A::Word::ZERO),
            "a key that has a slot needs none"
        );
        let candidates = slots::<A::Word>() * self.lines.min(2);
        let (_, live) = self.live(now, Some(key));
        assert!(live >= candidates, "not full: {live} other keys are live");
        if answer.is_ok() {
            assert_eq!(answer, Ok(allowed));
        }
        if self.on_full == OnFull::Evict {
            self.find_evicted(table, key, now, candidates);
            self.change(key, |_| next);
            self.keys[key].taken_at = now;
            self.seen.admitted += 1;
        } else {
            self.change(key, |_| A::Word::ZERO);
        }
    }

    /// One other key was lost, and as many as the newcomer could choose from are no nearer to idle.
    fn find_evicted<L: Storage<A::Word>>(
        &mut self,
        table: &KeyedTable<A, L, Raw>,
        newcomer: usize,
        now: Timestamp,
        candidates: usize,
    ) {
        let algorithm = self.limits.table;
        let asked = |word| {
            let answer = algorithm.step(word, now, 0);
            answer.expect("cost 0 always passes").1
        };
        let mut lost = None;
        let mut may_be_lost = false;
        let mut waits = Vec::new();
        for (number, key) in self.keys.iter_mut().enumerate() {
            if number == newcomer || key.words == [A::Word::ZERO] {
                continue;
            }
            let waits_of_key = key
                .words
                .iter()
                .map(|&word| algorithm.idle_after(word, now));
            let (soonest, latest) = (waits_of_key.clone().min(), waits_of_key.max());
            let answer = table.at(&key.hash).peek_n(now, 0);
            let answer = answer.expect("cost 0 always passes");
            key.words.retain(|&word| asked(word) == answer);
            if key.words.is_empty() {
                assert_eq!(answer, asked(A::Word::ZERO), "evicted or untouched");
                assert_eq!(lost, None, "two keys evicted for one");
                lost = soonest;
                key.words.push(A::Word::ZERO);
                continue;
            }
            waits.extend(latest);
            // Whether this one is lost, was lost before, or has nothing used as a late timestamp sees it, shows later.
            if answer == asked(A::Word::ZERO) {
                may_be_lost = true;
                if !key.words.contains(&A::Word::ZERO) {
                    key.words.push(A::Word::ZERO);
                }
            }
        }
        assert!(lost.is_some() || may_be_lost, "evicted nobody");
        if let Some(lost) = lost {
            let later = waits.iter().filter(|&&wait| wait >= lost).count();
            assert!(
                later + 1 >= candidates,
                "evicted what is idle after {lost:?}, beside {waits:?}"
            );
        }
    }

    fn peeked(&mut self, key: usize, now: Timestamp, cost: u64, answer: Result<Allowed, Denied>) {
        let algorithm = self.limits.table;
        self.narrow(key, |word| {
            let expected = algorithm.step(word, now, cost);
            (expected.map(|(_, allowed)| allowed) == answer).then_some(word)
        });
    }

    fn refunded(&mut self, key: usize, taken_at: Timestamp, cost: u64, changed: bool) {
        let algorithm = self.limits.table;
        self.narrow(key, |word| {
            let next = algorithm.refund(word, taken_at, cost);
            ((next != word) == changed).then_some(next)
        });
    }

    fn counted(&self, now: Timestamp, live: usize) {
        let (least, most) = self.live(now, None);
        assert!(
            (least..=most.min(self.capacity)).contains(&live),
            "{live} live, but at least {least} and at most {most}"
        );
    }

    /// An answer tells which words the key can have had, and what they are now.
    fn narrow(&mut self, key: usize, next: impl Fn(A::Word) -> Option<A::Word>) {
        let words = &mut self.keys[key].words;
        self.seen.ambiguous += u64::from(words.len() > 1);
        words.retain_mut(|word| match next(*word) {
            Some(next) => {
                *word = next;
                true
            }
            None => false,
        });
        assert!(
            !words.is_empty(),
            "no state that key {key} can have answers so"
        );
        words.dedup();
    }

    fn change(&mut self, key: usize, next: impl Fn(A::Word) -> A::Word) {
        self.narrow(key, |word| Some(next(word)));
    }

    fn change_all(&mut self, next: impl Fn(A::Word) -> A::Word) {
        for key in 0..self.keys.len() {
            self.change(key, &next);
        }
    }

    /// A slot was taken: any key but `taker` that is idle at `now` may have had it.
    fn forget_idle(&mut self, taker: usize, now: Timestamp) {
        let algorithm = self.limits.table;
        for (number, key) in self.keys.iter_mut().enumerate() {
            if number != taker
                && !key.words.contains(&A::Word::ZERO)
                && key.words.iter().any(|&word| algorithm.is_idle(word, now))
            {
                key.words.push(A::Word::ZERO);
            }
        }
    }

    /// How many keys are live for sure, and how many may be.
    fn live(&self, now: Timestamp, except: Option<usize>) -> (usize, usize) {
        let algorithm = self.limits.table;
        let mut live = (0, 0);
        for (number, key) in self.keys.iter().enumerate() {
            if Some(number) != except {
                let is_live = |&word: &A::Word| !algorithm.is_idle(word, now);
                live.0 += usize::from(key.words.iter().all(is_live));
                live.1 += usize::from(key.words.iter().any(is_live));
            }
        }
        live
    }
}
