//! Where a table's lines are: in it, elsewhere, or on the heap; and how each kind is made.

use super::{Counters, KeyedTable, Line, OnFull, Seeded};
use crate::algorithm::Algorithm;
use crate::sync::AtomicWord;
use crate::sync::private::Cells;
#[cfg(feature = "alloc")]
use crate::time::Timestamp;

/// A keyed table whose lines are part of it: for a `static`, or wherever it is put.
///
/// `LINES` lines of 64 bytes, each four slots of `u64` words or eight of `u32`. Size it for twice the keys that are
/// live at once, half as many again with narrow words: 32 bytes a key, or 12.
///
/// A `static` of this type that is not all zero, and its limits are not, is stored in the image with all its
/// lines. Where flash is scarce, keep the lines in a `static` of their own, which needs none, and
/// use a [`SliceTable`].
pub type Table<A, const LINES: usize, S = Seeded> =
    KeyedTable<A, [Line<<A as Algorithm>::Word>; LINES], S>;

/// A keyed table whose lines are a `static` of their own, in zero-initialised memory.
///
/// ```
/// # #[cfg(any(feature = "ahash", feature = "foldhash"))] {
/// use tidegate::{Line, Quota, SliceTable, Timestamp, TokenBucket};
///
/// static LINES: [Line<u32>; 32] = [const { Line::new() }; 32];
/// static PEERS: SliceTable<TokenBucket<u32>> =
///     SliceTable::over(TokenBucket::narrow(Quota::per_second(10)), &LINES);
///
/// assert!(PEERS.check(&[192, 0, 2, 1], Timestamp::from_secs(1)).is_ok());
/// # }
/// ```
pub type SliceTable<A, S = Seeded> = KeyedTable<A, &'static [Line<<A as Algorithm>::Word>], S>;

/// A keyed table on the heap, sized at run time.
///
/// ```
/// # #[cfg(any(feature = "ahash", feature = "foldhash"))] {
/// use tidegate::{BoxTable, Quota, Timestamp, TokenBucket};
///
/// let clients = BoxTable::with_capacity(TokenBucket::new(Quota::per_second(100)), 10_000);
/// assert!(clients.check("alice", Timestamp::from_secs(1)).is_ok());
/// # }
/// ```
#[cfg(feature = "alloc")]
pub type BoxTable<A, S = Seeded> =
    KeyedTable<A, alloc::boxed::Box<[Line<<A as Algorithm>::Word>]>, S>;

/// Memory for a table's lines.
pub trait Storage<W: Cells>: private::Sealed {
    /// The lines.
    #[doc(hidden)]
    fn lines(&self) -> &[Line<W>];
}

mod private {
    pub trait Sealed {}
}

impl<W: Cells, const LINES: usize> private::Sealed for [Line<W>; LINES] {}

impl<W: Cells, const LINES: usize> Storage<W> for [Line<W>; LINES] {
    #[inline]
    fn lines(&self) -> &[Line<W>] {
        self
    }
}

impl<W: Cells> private::Sealed for &[Line<W>] {}

impl<W: Cells> Storage<W> for &[Line<W>] {
    #[inline]
    fn lines(&self) -> &[Line<W>] {
        self
    }
}

#[cfg(feature = "alloc")]
impl<W: Cells> private::Sealed for alloc::boxed::Box<[Line<W>]> {}

#[cfg(feature = "alloc")]
impl<W: Cells> Storage<W> for alloc::boxed::Box<[Line<W>]> {
    #[inline]
    fn lines(&self) -> &[Line<W>] {
        self
    }
}

#[cfg(not(tidegate_loom))]
impl<A: Algorithm<Word: AtomicWord>, S, const LINES: usize>
    KeyedTable<A, [Line<A::Word>; LINES], S>
{
    /// An empty table with a hasher of your own.
    ///
    /// Without a line it does not compile.
    pub const fn with_hasher(algorithm: A, hasher: S) -> Self {
        const { assert!(LINES > 0, "a table needs a line") };
        Self {
            algorithm,
            hasher,
            on_full: OnFull::Deny,
            full: Counters::ZERO,
            lines: [const { Line::ZERO }; LINES],
        }
    }
}

#[cfg(all(not(tidegate_loom), any(feature = "ahash", feature = "foldhash")))]
impl<A: Algorithm<Word: AtomicWord>, const LINES: usize> Table<A, LINES> {
    /// An empty table with the default hasher, which begins with seeds that everybody knows:
    /// [reseed](Seeded::reseed) it when the program starts, with a number that others cannot guess.
    ///
    /// Without a line it does not compile.
    pub const fn new(algorithm: A) -> Self {
        Self::with_hasher(algorithm, Seeded::new([0; 2]))
    }
}

#[cfg(not(tidegate_loom))]
impl<A: Algorithm<Word: AtomicWord>, S> SliceTable<A, S> {
    /// A table over lines elsewhere, with a hasher of your own.
    ///
    /// # Panics
    ///
    /// If there is no line; in a `const` or `static` that is a compile error.
    pub const fn over_with_hasher(
        algorithm: A,
        lines: &'static [Line<A::Word>],
        hasher: S,
    ) -> Self {
        assert!(!lines.is_empty(), "a table needs a line");
        Self {
            algorithm,
            hasher,
            on_full: OnFull::Deny,
            full: Counters::ZERO,
            lines,
        }
    }
}

#[cfg(all(not(tidegate_loom), any(feature = "ahash", feature = "foldhash")))]
impl<A: Algorithm<Word: AtomicWord>> SliceTable<A> {
    /// A table over lines elsewhere, with the default hasher, which begins with seeds that everybody knows:
    /// [reseed](Seeded::reseed) it when the program starts, with a number that others cannot guess.
    ///
    /// # Panics
    ///
    /// If there is no line; in a `const` or `static` that is a compile error.
    pub const fn over(algorithm: A, lines: &'static [Line<A::Word>]) -> Self {
        Self::over_with_hasher(algorithm, lines, Seeded::new([0; 2]))
    }
}

#[cfg(feature = "alloc")]
impl<A: Algorithm<Word: AtomicWord>, S> BoxTable<A, S> {
    /// An empty table for about `live_keys` keys live at once, with a hasher of your own.
    ///
    /// Allocates twice that many slots, half as many again with `u32` words, here and never again: 32 bytes a live
    /// key, or 12.
    pub fn with_capacity_and_hasher(algorithm: A, live_keys: usize, hasher: S) -> Self {
        // Eight slots a line are as good at two thirds full as four are at half.
        let slots = if A::Word::SLOTS >= 8 {
            live_keys.saturating_add(live_keys / 2)
        } else {
            live_keys.saturating_mul(2)
        };
        Self::with_lines(algorithm, slots.div_ceil(A::Word::SLOTS), hasher)
    }

    /// An empty table of exactly so many lines, at least one.
    pub fn with_lines(algorithm: A, lines: usize, hasher: S) -> Self {
        let mut memory = alloc::vec::Vec::new();
        memory.resize_with(lines.max(1), Line::default);
        Self {
            algorithm,
            hasher,
            on_full: OnFull::Deny,
            #[cfg(not(tidegate_loom))]
            full: Counters::ZERO,
            #[cfg(tidegate_loom)]
            full: Counters::zero(),
            lines: memory.into_boxed_slice(),
        }
    }
}

#[cfg(feature = "alloc")]
impl<A: Algorithm<Word: AtomicWord>, S: Clone> BoxTable<A, S> {
    /// A table of the same size under other limits in which what was used stays used, in permits, as in
    /// [`Limiter::retuned`](crate::Limiter::retuned). Visits every line.
    ///
    /// For an owner that swaps tables, behind a pointer of its own, while others use this one. Permits that they take
    /// during the call may be counted in the new table or not; those that they take after it are not. A key whose slot
    /// is changing hands may be fresh in the new table. Counts of how often the table was full begin anew.
    ///
    /// ```
    /// # #[cfg(any(feature = "ahash", feature = "foldhash"))] {
    /// use tidegate::{BoxTable, FixedWindow, Quota, Timestamp};
    ///
    /// let now = Timestamp::from_secs(1);
    /// let strict = BoxTable::with_capacity(FixedWindow::new(Quota::per_minute(5)), 100);
    /// strict.check_n("alice", now, 5).unwrap();
    /// let lenient = strict.retuned(FixedWindow::new(Quota::per_minute(8)), now);
    /// assert_eq!(lenient.check("alice", now).unwrap().remaining(), 2);
    /// # }
    /// ```
    #[must_use]
    pub fn retuned(&self, algorithm: A, now: Timestamp) -> Self {
        let new = Self::with_lines(algorithm, self.lines.len(), self.hasher.clone())
            .on_full(self.on_full);
        self.slots().adopt_into(&new.lines, &new.algorithm, now);
        new
    }
}

#[cfg(all(feature = "alloc", any(feature = "ahash", feature = "foldhash")))]
impl<A: Algorithm<Word: AtomicWord>> BoxTable<A> {
    /// An empty table for about `live_keys` keys live at once.
    ///
    /// Allocates twice that many slots, half as many again with `u32` words, here and never again: 32 bytes a live
    /// key, or 12. Under `std` the hasher is
    /// seeded at random; without, [reseed](Seeded::reseed) it.
    pub fn with_capacity(algorithm: A, live_keys: usize) -> Self {
        Self::with_capacity_and_hasher(algorithm, live_keys, Seeded::default())
    }
}
