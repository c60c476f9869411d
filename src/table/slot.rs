//! The bit fields of a slot: a tag, and a state with a generation.
//!
//! ```text
//!  63 (31)                        6 5      4 3          0
//! +--------------------------------+--------+------------+
//! |          fingerprint           | status | generation |  tag
//! +--------------------------------+--------+------------+
//!
//!  63 (31)                             4 3          0
//! +-------------------------------------+------------+
//! |               payload               | generation |     state
//! +-------------------------------------+------------+
//! ```
//!
//! A state belongs to the tag beside it only if their generations agree. The all-zero slot is vacant.

use crate::word::{GENERATION_BITS, Word};

const STATUS_MASK: u64 = 3 << GENERATION_BITS;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// What a slot's tag says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Nobody's; also what the fourth bit pattern, which is never written, would be read as.
    Vacant,
    /// Its key's inserter has not made sure yet that the key has no other slot.
    Tentative,
    /// Its key's only slot.
    Committed,
}

impl Status {
    const fn bits(self) -> u64 {
        match self {
            Self::Vacant => 0,
            Self::Tentative => 1 << GENERATION_BITS,
            Self::Committed => 2 << GENERATION_BITS,
        }
    }
}

/// A tag word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag<W>(pub(super) W);

impl<W: Word> Tag<W> {
    /// A hash as the committed tag of generation 0 of the key that hashed so.
    ///
    /// The fingerprint is as many of the highest bits of the hash as there is room for: 58 of them, or 26.
    #[inline]
    pub(super) fn of(hash: u64) -> Self {
        let high = hash >> (64 - W::BITS);
        let fingerprint = high & !(STATUS_MASK | GENERATION_MASK);
        Self(W::truncate(fingerprint | Status::Committed.bits()))
    }

    /// All but the generation.
    pub(super) const IDENTITY: u64 = !GENERATION_MASK;

    /// Whether this is a committed tag, of any generation, of the key whose [`Tag::of`] is `key`.
    #[inline]
    pub(super) fn is(self, key: Self) -> bool {
        (self.0 ^ key.0) & W::truncate(Self::IDENTITY) == W::ZERO
    }

    /// Whether this has the fingerprint of the key whose [`Tag::of`] is `key`, whatever its status.
    #[inline]
    pub(super) fn has_fingerprint(self, key: Self) -> bool {
        (self.0 ^ key.0) & !W::truncate(STATUS_MASK | GENERATION_MASK) == W::ZERO
    }

    #[inline]
    pub(super) fn status(self) -> Status {
        match (self.0.widen() & STATUS_MASK) >> GENERATION_BITS {
            1 => Status::Tentative,
            2 => Status::Committed,
            _ => Status::Vacant,
        }
    }

    #[inline]
    pub(super) fn generation(self) -> u64 {
        self.0.widen() & GENERATION_MASK
    }

    /// The same fingerprint with another generation and status.
    #[inline]
    pub(super) fn with(self, generation: u64, status: Status) -> Self {
        let fingerprint = self.0 & !W::truncate(STATUS_MASK | GENERATION_MASK);
        let low = generation & GENERATION_MASK | status.bits();
        Self(fingerprint | W::truncate(low))
    }

    /// The same generation, and nobody's.
    #[inline]
    pub(super) fn vacated(self) -> Self {
        Self(W::ZERO).with(self.generation(), Status::Vacant)
    }
}

/// A state word with its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State<W>(pub(super) W);

impl<W: Word> State<W> {
    #[inline]
    pub(super) fn new(payload: W, generation: u64) -> Self {
        Self(payload | W::truncate(generation & GENERATION_MASK))
    }

    #[inline]
    pub(super) fn generation(self) -> u64 {
        self.0.widen() & GENERATION_MASK
    }

    /// The algorithm's part, in place.
    #[inline]
    pub(super) fn payload(self) -> W {
        self.0 & !W::truncate(GENERATION_MASK)
    }
}

/// The generation after this one.
#[inline]
pub(super) fn next(generation: u64) -> u64 {
    (generation + 1) & GENERATION_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_wrap() {
        assert_eq!(next(0), 1);
        assert_eq!(next(15), 0);
        let tag = Tag::<u32>::of(u64::MAX).with(next(15), Status::Tentative);
        assert_eq!((tag.generation(), tag.status()), (0, Status::Tentative));
        assert_eq!(State::new(0x50_u32, next(15)), State(0x50));
    }

    /// Each field is where the others are not, in both widths.
    #[test]
    fn fields_do_not_overlap() {
        fn check<W: Word>() {
            let key = Tag::<W>::of(0);
            for generation in 0..16 {
                for status in [Status::Vacant, Status::Tentative, Status::Committed] {
                    let tag = key.with(generation, status);
                    assert_eq!((tag.generation(), tag.status()), (generation, status));
                    assert_eq!(tag.is(key), status == Status::Committed);
                    assert!(tag.has_fingerprint(key));
                    assert!(!tag.has_fingerprint(Tag::of(1 << 63)));
                    assert_eq!(tag.vacated(), key.with(generation, Status::Vacant));
                }
            }
        }
        check::<u64>();
        check::<u32>();
    }
}
