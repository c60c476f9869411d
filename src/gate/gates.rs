//! What several gates are kept in.

use core::time::Duration;

use crate::decision::{Allowed, Denied};
use crate::gate::Gate;
use crate::time::Timestamp;

/// What a gate that is not there says.
const NOTHING: Allowed = Allowed::new(u64::MAX, u64::MAX, Duration::ZERO);

/// What [`All`](crate::All) may be made of: a tuple of up to eight gates, an array or a slice of gates, or a reference to one.
///
/// Sealed.
pub trait Gates: sealed::Gates {}

impl<T: sealed::Gates + ?Sized> Gates for T {}

mod sealed {
    use crate::decision::{Allowed, Denied};
    use crate::time::Timestamp;

    /// Gates by number. A number that is out of range is never asked for.
    pub trait Gates {
        fn count(&self) -> usize;
        fn check_at(&self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;
        fn peek_at(&self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;
        fn refund_at(&self, index: usize, taken_at: Timestamp, cost: u64) -> bool;
        fn enforces_at(&self, index: usize) -> bool;
    }
}

macro_rules! tuple {
    ($($gate:ident $index:tt),*) => {
        impl<$($gate: Gate),*> sealed::Gates for ($($gate,)*) {
            #[inline]
            fn count(&self) -> usize {
                [$($index as usize),*].len()
            }

            #[inline(always)]
            fn check_at(&self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
                match index {
                    $($index => self.$index.check_n(now, cost),)*
                    _ => Ok(NOTHING),
                }
            }

            #[inline(always)]
            fn peek_at(&self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
                match index {
                    $($index => self.$index.peek_n(now, cost),)*
                    _ => Ok(NOTHING),
                }
            }

            #[inline]
            fn refund_at(&self, index: usize, taken_at: Timestamp, cost: u64) -> bool {
                match index {
                    $($index => self.$index.refund(taken_at, cost),)*
                    _ => false,
                }
            }

            #[inline(always)]
            fn enforces_at(&self, index: usize) -> bool {
                match index {
                    $($index => self.$index.enforces(),)*
                    _ => false,
                }
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

impl<G: Gate> sealed::Gates for [G] {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn check_at(&self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self[index].check_n(now, cost)
    }

    #[inline]
    fn peek_at(&self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
        self[index].peek_n(now, cost)
    }

    #[inline]
    fn refund_at(&self, index: usize, taken_at: Timestamp, cost: u64) -> bool {
        self[index].refund(taken_at, cost)
    }

    #[inline]
    fn enforces_at(&self, index: usize) -> bool {
        self[index].enforces()
    }
}

/// Those that stand for other gates.
macro_rules! forward {
    ([$($generics:tt)*] $type:ty, $self:ident => $inner:expr) => {
        impl<$($generics)*> sealed::Gates for $type {
            #[inline]
            fn count(&$self) -> usize {
                sealed::Gates::count($inner)
            }

            #[inline(always)]
            fn check_at(&$self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
                sealed::Gates::check_at($inner, index, now, cost)
            }

            #[inline(always)]
            fn peek_at(&$self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied> {
                sealed::Gates::peek_at($inner, index, now, cost)
            }

            #[inline]
            fn refund_at(&$self, index: usize, taken_at: Timestamp, cost: u64) -> bool {
                sealed::Gates::refund_at($inner, index, taken_at, cost)
            }

            #[inline(always)]
            fn enforces_at(&$self, index: usize) -> bool {
                sealed::Gates::enforces_at($inner, index)
            }
        }
    };
}

forward!([G: Gate, const N: usize] [G; N], self => self.as_slice());
forward!([T: sealed::Gates + ?Sized] &T, self => *self);
#[cfg(feature = "alloc")]
forward!([G: Gate] alloc::vec::Vec<G>, self => self.as_slice());
#[cfg(feature = "alloc")]
forward!([T: sealed::Gates + ?Sized] alloc::boxed::Box<T>, self => &**self);
