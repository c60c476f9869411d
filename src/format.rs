//! `defmt::Format` for limiters and tables: what their `Debug` shows.

use defmt::{Format, Formatter, write};

use crate::algorithm::Algorithm;
use crate::limiter::Limiter;
#[cfg(feature = "heapless")]
use crate::owned::OwnedTable;
use crate::strategy::{Cell, Strategy};
use crate::sync::AtomicWord;
use crate::table::{KeyedTable, Storage};

impl<W: AtomicWord + Format> Format for Cell<W> {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "Cell({})", self.state());
    }
}

impl<A: Strategy<Cell: Format> + Format> Format for Limiter<A> {
    fn format(&self, f: Formatter<'_>) {
        let (algorithm, cell) = (self.algorithm(), self.cell());
        write!(f, "Limiter {{ algorithm: {}, cell: {} }}", algorithm, cell);
    }
}

impl<A: Algorithm<Word: AtomicWord> + Format, L: Storage<A::Word>, S> Format
    for KeyedTable<A, L, S>
{
    fn format(&self, f: Formatter<'_>) {
        write!(
            f,
            "KeyedTable {{ algorithm: {}, full_counts: {}, capacity: {} }}",
            self.algorithm(),
            self.full_counts(),
            self.capacity()
        );
    }
}

#[cfg(feature = "heapless")]
impl<K, A: Algorithm + Format, const N: usize> Format for OwnedTable<K, A, N> {
    fn format(&self, f: Formatter<'_>) {
        write!(
            f,
            "OwnedTable {{ algorithm: {}, full_counts: {}, len: {}, capacity: {} }}",
            self.algorithm(),
            self.full_counts(),
            self.len(),
            self.capacity()
        );
    }
}

/// Everything that firmware may want to log; checked by compiling it.
const _: fn() = || {
    use crate::*;

    fn is_format<T: Format>() {}

    is_format::<(Timestamp, TickRate)>();
    is_format::<Ticks<1_000>>();
    is_format::<(Allowed, Denied, Reason)>();
    is_format::<(Quota, QuotaError, ParseQuotaError, ParseQuotaErrorKind)>();
    is_format::<(ConfigError, OnFull, FullCounts)>();
    is_format::<(TokenBucket<u32>, FixedWindow<u32>, SlidingWindow<u32>)>();
    is_format::<Tier<TokenBucket<u32>>>();
    is_format::<Limiter<TokenBucket<u32>>>();
    #[cfg(feature = "foldhash")]
    is_format::<Table<TokenBucket<u32>, 1>>();
    #[cfg(feature = "heapless")]
    is_format::<OwnedTable<u32, TokenBucket<u32>, 1>>();
};
