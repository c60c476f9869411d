//! When permits that were taken and not spent are worth nothing any more.

/// How long permits that have just been taken may be kept unspent, so that spending them never puts more through
/// than the gate promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lapse {
    /// One permit lapses in each of these, in 2^-[`FRACTION`](Self::FRACTION) ns; 0 if none does.
    pub(crate) price: u64,
    /// The last nanosecond after which there are any.
    pub(crate) until: u64,
}

impl Lapse {
    pub(crate) const FRACTION: u32 = 16;
    /// No age of more nanoseconds is told apart: 39 hours.
    pub(crate) const OLDEST: u64 = (1 << (63 - Self::FRACTION)) - 1;

    /// Nothing ever lapses.
    pub(crate) const NEVER: Self = Self {
        price: 0,
        until: Self::OLDEST,
    };

    /// All permits lapse before `end` nanoseconds have passed.
    pub(crate) fn at_once(end: u64) -> Self {
        Self {
            price: 0,
            until: end.saturating_sub(1).min(Self::OLDEST),
        }
    }

    /// Permits lapse one by one, `used` of them in `nanos`.
    pub(crate) fn evenly(nanos: u64, used: u64) -> Self {
        let price = (nanos.min(Self::OLDEST) << Self::FRACTION) / used.max(1);
        if price == 0 {
            // Faster than can be told: all of them in the next instant.
            return Self::at_once(1);
        }
        Self {
            price,
            until: Self::OLDEST,
        }
    }

    /// What lapses under either of two gates.
    pub(crate) fn or(self, other: Self) -> Self {
        let price = match (self.price, other.price) {
            (0, price) | (price, 0) => price,
            (one, another) => one.min(another),
        };
        Self {
            price,
            until: self.until.min(other.until),
        }
    }
}
