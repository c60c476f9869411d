//! One limiter for every key, over lines that C has set aside.

use core::hash::Hash;

use tidegate::{Line, SliceTable, Timestamp};

use crate::chosen::{Chosen, Width};
use crate::config::{on_full, tidegate_config};
use crate::decision::{Out, tidegate_decision};
use crate::object::{Held, get, held, plausible, put, room};
use crate::status::tidegate_status::{self, *};

/// Size of a tidegate_table32 and of a tidegate_table64, in bytes.
pub const TIDEGATE_TABLE_SIZE: usize = 256;

/// Size and alignment of a tidegate_line, in bytes.
pub const TIDEGATE_LINE_SIZE: usize = 64;

/// Room for eight keys of a tidegate_table32, or four of a tidegate_table64. Set aside lines for twice the keys that
/// are live at once in a tidegate_table64, for half as many again in a tidegate_table32.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct tidegate_line {
    opaque: [u64; 8],
}

impl tidegate_line {
    /// Memory that is not initialised yet.
    pub const fn zeroed() -> Self {
        Self { opaque: [0; 8] }
    }
}

const _: () = {
    assert!(size_of::<tidegate_line>() == TIDEGATE_LINE_SIZE);
    assert!(align_of::<tidegate_line>() == TIDEGATE_LINE_SIZE);
    assert!(size_of::<Line<u32>>() == TIDEGATE_LINE_SIZE);
    assert!(align_of::<Line<u32>>() == TIDEGATE_LINE_SIZE);
    #[cfg(feature = "wide")]
    assert!(size_of::<Line<u64>>() == TIDEGATE_LINE_SIZE);
    #[cfg(feature = "wide")]
    assert!(align_of::<Line<u64>>() == TIDEGATE_LINE_SIZE);
};

type Keyed<W> = SliceTable<Chosen<W>>;

/// How many lines are in `size` bytes. A table numbers them in 32 bits.
fn count(lines: *const tidegate_line, size: usize) -> Result<usize, tidegate_status> {
    plausible(lines)?;
    let count = size / TIDEGATE_LINE_SIZE;
    // `isize::MAX` bytes are the most that any object may have.
    let fits = isize::try_from(size).is_ok() && u32::try_from(count).is_ok();
    if count > 0 && size.is_multiple_of(TIDEGATE_LINE_SIZE) && fits {
        Ok(count)
    } else {
        Err(TIDEGATE_ERROR_SIZE)
    }
}

/// Vacates the lines that [`count`] found nothing wrong with.
///
/// # Safety
///
/// They are writable, and are the table's alone as long as it is used.
unsafe fn vacant<W: Width>(lines: *mut tidegate_line, count: usize) -> &'static [Line<W>] {
    let lines = lines.cast::<Line<W>>();
    for index in 0..count {
        // SAFETY: within the lines, which are aligned and writable; a `Line` has the size of a `tidegate_line`.
        unsafe { lines.add(index).write(Line::new()) }
    }
    // SAFETY: all of them have just been written, and nobody writes them but through their atomics as long as the
    // table is used. The table is the only one that has this reference, so it is not used any longer than that.
    unsafe { core::slice::from_raw_parts(lines, count) }
}

/// # Safety
///
/// `table` and `lines` are writable and unshared, `config` is readable.
unsafe fn init<W: Width>(
    table: *mut <Keyed<W> as Held>::Opaque,
    size: usize,
    lines: *mut tidegate_line,
    lines_size: usize,
    full: i32,
    config: *const tidegate_config,
) -> Result<(), tidegate_status>
where
    Keyed<W>: Held,
{
    room::<Keyed<W>>(table, size)?;
    let count = count(lines, lines_size)?;
    plausible(config)?;
    // SAFETY: neither null nor misaligned, and readable.
    let algorithm = unsafe { config.read() }.algorithm::<W>()?;
    let full = on_full(full)?;
    // SAFETY: neither null nor misaligned, of this many; writable and unshared.
    let lines = unsafe { vacant::<W>(lines, count) };
    // SAFETY: `room` found it aligned; writable and unshared.
    unsafe { put(table, Keyed::over(algorithm, lines).on_full(full)) };
    Ok(())
}

/// Asks a key of a table, and answers in `decision` too.
///
/// # Safety
///
/// `table` is initialised or all zero, `decision` is null or writable.
unsafe fn decide<W: Width, K: Hash>(
    table: *const <Keyed<W> as Held>::Opaque,
    key: Result<&K, &tidegate_status>,
    decision: *mut tidegate_decision,
    ask: impl FnOnce(&Keyed<W>, &K) -> Result<tidegate::Allowed, tidegate::Denied>,
) -> tidegate_status
where
    Keyed<W>: Held,
{
    // SAFETY: null or writable.
    let out = match unsafe { Out::at(decision) } {
        Ok(out) => out,
        Err(mistake) => return mistake,
    };
    // SAFETY: initialised or all zero.
    match (unsafe { get::<Keyed<W>>(table) }, key) {
        (Ok(table), Ok(key)) => out.answer(ask(table, key)),
        (Err(mistake), _) | (_, Err(&mistake)) => out.mistake(mistake),
    }
}

/// Has something done to a table.
///
/// # Safety
///
/// `table` is initialised or all zero.
unsafe fn act<W: Width, K>(
    table: *const <Keyed<W> as Held>::Opaque,
    key: Result<&K, &tidegate_status>,
    act: impl FnOnce(&Keyed<W>, &K) -> tidegate_status,
) -> tidegate_status
where
    Keyed<W>: Held,
{
    // SAFETY: initialised or all zero.
    match (unsafe { get::<Keyed<W>>(table) }, key) {
        (Ok(table), Ok(key)) => act(table, key),
        (Err(mistake), _) | (_, Err(&mistake)) => mistake,
    }
}

/// A key of so many bytes. The one byte more keeps the empty key apart from numbers.
type Bytes<'a> = (&'a [u8], u8);

/// # Safety
///
/// If `key` is not null, `size` bytes of it are readable, and do not change, as long as `'a` lasts.
unsafe fn bytes<'a>(key: *const u8, size: usize) -> Result<Bytes<'a>, tidegate_status> {
    let bytes = if size == 0 {
        &[]
    } else if key.is_null() {
        return Err(TIDEGATE_ERROR_NULL);
    } else if isize::try_from(size).is_err() {
        return Err(TIDEGATE_ERROR_SIZE);
    } else {
        // SAFETY: not null, of a size that an object may have, and readable, as the caller promises.
        unsafe { core::slice::from_raw_parts(key, size) }
    };
    Ok((bytes, 0xff))
}

macro_rules! table {
    (
        $(#[doc = $doc:expr])*
        $table:ident: $word:ty, $mark:expr, $init:ident, $reseed:ident,
        $check_n:ident, $peek_n:ident, $refund:ident, $reset:ident,
        $check_n_bytes:ident, $peek_n_bytes:ident, $refund_bytes:ident, $reset_bytes:ident,
        $sweep:ident, $clear:ident, $live:ident
    ) => {
        $(#[doc = $doc])*
        #[repr(C, align(64))]
        #[derive(Debug)]
        pub struct $table {
            opaque: [u64; 32],
        }

        const _: () = assert!(size_of::<$table>() == TIDEGATE_TABLE_SIZE);

        held!(Keyed<$word>, $table, $mark);

        impl $table {
            /// Memory that is not initialised yet.
            pub const fn zeroed() -> Self {
                Self { opaque: [0; 32] }
            }
        }

        /// Makes an empty table over lines. `size` is `sizeof *table`, `lines_size` that of all lines in bytes;
        /// `on_full` is a tidegate_on_full. Unless it answers TIDEGATE_OK, the memory is as it was.
        ///
        /// It begins with seeds that everybody knows: see reseed.
        ///
        /// # Safety
        ///
        /// `table` and `lines` are valid for writing, `config` for reading, and nobody else uses them meanwhile.
        /// `lines` are the table's alone as long as it is used.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(
            table: *mut $table,
            size: usize,
            lines: *mut tidegate_line,
            lines_size: usize,
            on_full: i32,
            config: *const tidegate_config,
        ) -> tidegate_status {
            // SAFETY: the caller promises it.
            match unsafe { init::<$word>(table, size, lines, lines_size, on_full, config) } {
                Ok(()) => TIDEGATE_OK,
                Err(mistake) => mistake,
            }
        }

        /// Changes the seeds of the hash. Whoever knows them can make up keys that share a budget or crowd the same
        /// lines, so do it before the first decision, with numbers that others cannot guess. What was counted before
        /// is lost to its keys.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reseed(
            table: *mut $table,
            seed0: u64,
            seed1: u64,
        ) -> tidegate_status {
            // SAFETY: the caller promises it.
            unsafe {
                act::<$word, _>(table, Ok(&()), |table, ()| {
                    table.hasher().reseed([seed0, seed1]);
                    TIDEGATE_OK
                })
            }
        }

        /// May a request of this key and cost pass now? If so, it is counted; all or nothing. Cost 0 always passes, and
        /// changes nothing. `decision` may be null, which saves its divisions.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero. `decision` is null, or valid for writing.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $check_n(
            table: *mut $table,
            key: u64,
            now_ns: u64,
            cost: u64,
            decision: *mut tidegate_decision,
        ) -> tidegate_status {
            let now = Timestamp::from_nanos(now_ns);
            // SAFETY: the caller promises it.
            unsafe {
                decide::<$word, _>(table, Ok(&key), decision, |table, key| {
                    table.check_n(key, now, cost)
                })
            }
        }

        /// What check_n would answer now; changes nothing. A full table is not foreseen.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero. `decision` is null, or valid for writing.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $peek_n(
            table: *const $table,
            key: u64,
            now_ns: u64,
            cost: u64,
            decision: *mut tidegate_decision,
        ) -> tidegate_status {
            let now = Timestamp::from_nanos(now_ns);
            // SAFETY: the caller promises it.
            unsafe {
                decide::<$word, _>(table, Ok(&key), decision, |table, key| {
                    table.at(key).peek_n(now, cost)
                })
            }
        }

        /// Gives back permits that a key took with the timestamp `taken_at_ns` and did not use: never more than was
        /// taken, nor above full. TIDEGATE_UNCHANGED if there was nothing to give back.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $refund(
            table: *mut $table,
            key: u64,
            taken_at_ns: u64,
            cost: u64,
        ) -> tidegate_status {
            let taken_at = Timestamp::from_nanos(taken_at_ns);
            // SAFETY: the caller promises it.
            unsafe {
                act::<$word, _>(table, Ok(&key), |table, key| {
                    tidegate_status::changed(table.refund(key, taken_at, cost))
                })
            }
        }

        /// Forgets what a key has used.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reset(table: *mut $table, key: u64) -> tidegate_status {
            // SAFETY: the caller promises it.
            unsafe {
                act::<$word, _>(table, Ok(&key), |table, key| {
                    table.reset(key);
                    TIDEGATE_OK
                })
            }
        }

        /// As check_n, of a key of so many bytes; it may be empty, and then null. Bytes are never the same key as a
        /// number.
        ///
        /// # Safety
        ///
        /// As check_n; and `key_size` bytes of `key` are valid for reading.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $check_n_bytes(
            table: *mut $table,
            key: *const u8,
            key_size: usize,
            now_ns: u64,
            cost: u64,
            decision: *mut tidegate_decision,
        ) -> tidegate_status {
            let now = Timestamp::from_nanos(now_ns);
            // SAFETY: the caller promises it.
            unsafe {
                decide::<$word, _>(table, bytes(key, key_size).as_ref(), decision, |table, key| {
                    table.check_n(key, now, cost)
                })
            }
        }

        /// As peek_n, of a key of so many bytes.
        ///
        /// # Safety
        ///
        /// As peek_n; and `key_size` bytes of `key` are valid for reading.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $peek_n_bytes(
            table: *const $table,
            key: *const u8,
            key_size: usize,
            now_ns: u64,
            cost: u64,
            decision: *mut tidegate_decision,
        ) -> tidegate_status {
            let now = Timestamp::from_nanos(now_ns);
            // SAFETY: the caller promises it.
            unsafe {
                decide::<$word, _>(table, bytes(key, key_size).as_ref(), decision, |table, key| {
                    table.at(key).peek_n(now, cost)
                })
            }
        }

        /// As refund, of a key of so many bytes.
        ///
        /// # Safety
        ///
        /// As refund; and `key_size` bytes of `key` are valid for reading.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $refund_bytes(
            table: *mut $table,
            key: *const u8,
            key_size: usize,
            taken_at_ns: u64,
            cost: u64,
        ) -> tidegate_status {
            let taken_at = Timestamp::from_nanos(taken_at_ns);
            // SAFETY: the caller promises it.
            unsafe {
                act::<$word, _>(table, bytes(key, key_size).as_ref(), |table, key| {
                    tidegate_status::changed(table.refund(key, taken_at, cost))
                })
            }
        }

        /// As reset, of a key of so many bytes.
        ///
        /// # Safety
        ///
        /// As reset; and `key_size` bytes of `key` are valid for reading.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reset_bytes(
            table: *mut $table,
            key: *const u8,
            key_size: usize,
        ) -> tidegate_status {
            // SAFETY: the caller promises it.
            unsafe {
                act::<$word, _>(table, bytes(key, key_size).as_ref(), |table, key| {
                    table.reset(key);
                    TIDEGATE_OK
                })
            }
        }

        /// Vacates the slots of idle keys, which changes no answer. The table never needs it to make room: it is for
        /// keys that are left alone so long that the time in their words wraps. Visits every line.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $sweep(table: *mut $table, now_ns: u64) -> tidegate_status {
            // SAFETY: the caller promises it.
            unsafe {
                act::<$word, _>(table, Ok(&()), |table, ()| {
                    table.sweep(Timestamp::from_nanos(now_ns));
                    TIDEGATE_OK
                })
            }
        }

        /// Forgets every key. Visits every line.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $clear(table: *mut $table) -> tidegate_status {
            // SAFETY: the caller promises it.
            unsafe {
                act::<$word, _>(table, Ok(&()), |table, ()| {
                    table.clear();
                    TIDEGATE_OK
                })
            }
        }

        /// How many keys have used something that has not come back yet; 0 if there is no table there. Visits every
        /// line.
        ///
        /// # Safety
        ///
        /// `table` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $live(table: *const $table, now_ns: u64) -> usize {
            // SAFETY: the caller promises it.
            match unsafe { get::<Keyed<$word>>(table) } {
                Ok(table) => table.len_live(Timestamp::from_nanos(now_ns)),
                Err(_) => 0,
            }
        }
    };
}

table! {
    /// One limiter for every key, in 32-bit words: twice the keys in the same memory, told apart by 26 bits of a hash.
    tidegate_table32: u32, 0x7469_7432, tidegate_table32_init, tidegate_table32_reseed,
    tidegate_table32_check_n, tidegate_table32_peek_n, tidegate_table32_refund, tidegate_table32_reset,
    tidegate_table32_check_n_bytes, tidegate_table32_peek_n_bytes, tidegate_table32_refund_bytes,
    tidegate_table32_reset_bytes, tidegate_table32_sweep, tidegate_table32_clear, tidegate_table32_live
}

#[cfg(feature = "wide")]
table! {
    /// One limiter for every key, in 64-bit words: keys are told apart by 58 bits of a hash.
    tidegate_table64: u64, 0x7469_7464, tidegate_table64_init, tidegate_table64_reseed,
    tidegate_table64_check_n, tidegate_table64_peek_n, tidegate_table64_refund, tidegate_table64_reset,
    tidegate_table64_check_n_bytes, tidegate_table64_peek_n_bytes, tidegate_table64_refund_bytes,
    tidegate_table64_reset_bytes, tidegate_table64_sweep, tidegate_table64_clear, tidegate_table64_live
}
