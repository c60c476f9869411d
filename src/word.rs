//! The machine word that holds a limiter's whole state.
//!
//! ```text
//!  63 (31)                                4 3          0
//! +----------------------------------------+------------+
//! |                payload                 | generation |
//! +----------------------------------------+------------+
//! ```
//!
//! The payload belongs to the algorithm. The generation belongs to the keyed table, which bumps it when a
//! slot changes hands; an algorithm sees it as zero and returns it as zero. The payload sits in the high
//! bits so that an algorithm which counts time in it may add and subtract whole words: the carry out of the
//! top bit is then the wrap of the payload, at no cost.
//!
//! Four bits, for `u64` too: eight would make a token bucket's time wrap sixteen times sooner, and every
//! wrap is a chance to misread an idle state as a used one.

/// How many low bits of a word are the generation.
pub const GENERATION_BITS: u32 = 4;

/// A state word: `u64`, the default, or `u32`, the narrow one.
///
/// Sealed. The zero word is a fresh state, by decree.
pub trait Word:
    sealed::Arithmetic
    + Copy
    + Eq
    + Ord
    + Default
    + core::fmt::Debug
    + core::hash::Hash
    + Send
    + Sync
    + 'static
{
    /// Width of the whole word.
    const BITS: u32;

    /// Width of the algorithm's part.
    const PAYLOAD_BITS: u32 = Self::BITS - GENERATION_BITS;

    /// The fresh state.
    const ZERO: Self;

    /// A word with this payload and generation zero. Bits that do not fit are lost.
    fn from_payload(payload: u64) -> Self;

    /// The payload, shifted down to bit 0.
    fn payload(self) -> u64;
}

pub(crate) mod sealed {
    /// How much of a phase lies below what the word can hold.
    #[derive(Clone, Copy, Debug)]
    pub enum Hidden {
        Nothing,
        LowHalf,
    }

    use core::ops::{BitAnd, BitOr, BitXor, Not};

    /// What the algorithms and the table need of a word, kept out of the public trait.
    pub trait Arithmetic:
        Sized
        + BitAnd<Output = Self>
        + BitOr<Output = Self>
        + BitXor<Output = Self>
        + Not<Output = Self>
    {
        /// The smallest step of the payload.
        const UNIT: Self;

        /// How much of a phase the word cannot hold.
        const HIDDEN: Hidden;

        /// Keeps the low bits.
        fn truncate(value: u64) -> Self;
        fn widen(self) -> u64;
        fn wrapping_add(self, other: Self) -> Self;
        fn wrapping_sub(self, other: Self) -> Self;
        fn wrapping_mul(self, other: Self) -> Self;
        fn saturating_sub(self, other: Self) -> Self;

        /// Ticks of `2^shift` nanoseconds since the epoch. The wide word counts single nanoseconds.
        fn ticks(nanos: u64, shift: u32) -> u64;

        /// The part of a 64-bit phase that a word can hold: its highest payload bits.
        fn from_phase(phase: u64) -> Self;
    }
}

macro_rules! word {
    ($word:ident, $hidden:expr) => {
        impl Word for $word {
            const BITS: u32 = $word::BITS;
            const ZERO: Self = 0;

            #[inline]
            fn from_payload(payload: u64) -> Self {
                (payload as $word) << GENERATION_BITS
            }

            #[inline]
            fn payload(self) -> u64 {
                u64::from(self >> GENERATION_BITS)
            }
        }

        impl sealed::Arithmetic for $word {
            const UNIT: Self = 1 << GENERATION_BITS;
            const HIDDEN: sealed::Hidden = $hidden;

            #[inline]
            fn truncate(value: u64) -> Self {
                value as $word
            }

            #[inline]
            fn widen(self) -> u64 {
                u64::from(self)
            }

            #[inline]
            fn wrapping_add(self, other: Self) -> Self {
                $word::wrapping_add(self, other)
            }

            #[inline]
            fn wrapping_sub(self, other: Self) -> Self {
                $word::wrapping_sub(self, other)
            }

            #[inline]
            fn wrapping_mul(self, other: Self) -> Self {
                $word::wrapping_mul(self, other)
            }

            #[inline]
            fn saturating_sub(self, other: Self) -> Self {
                $word::saturating_sub(self, other)
            }

            #[inline]
            fn ticks(nanos: u64, shift: u32) -> u64 {
                if $word::BITS == 64 {
                    nanos
                } else {
                    nanos >> shift
                }
            }

            #[inline]
            fn from_phase(phase: u64) -> Self {
                // The wide word's phase advances in whole units anyway.
                let word = (phase >> (64 - $word::BITS)) as $word;
                if $word::BITS == 64 {
                    word
                } else {
                    word & !(Self::UNIT - 1)
                }
            }
        }
    };
}

word!(u32, sealed::Hidden::LowHalf);
word!(u64, sealed::Hidden::Nothing);
