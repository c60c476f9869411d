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
        /// Takes from all gates, and shows what each answers; or from none, and says which refused.
        fn take(
            &self,
            now: Timestamp,
            cost: u64,
            each: impl FnMut(&Allowed),
        ) -> Result<(), (usize, Denied)>;
        fn peek_at(&self, index: usize, now: Timestamp, cost: u64) -> Result<Allowed, Denied>;
        fn refund_at(&self, index: usize, taken_at: Timestamp, cost: u64) -> bool;
        fn enforces_at(&self, index: usize) -> bool;
    }
}

/// Undoes what the gates before `end` have counted.
#[cold]
#[inline(never)]
fn give_back(gates: &(impl sealed::Gates + ?Sized), end: usize, now: Timestamp, cost: u64) {
    for index in (0..end).rev() {
        if gates.enforces_at(index) {
            gates.refund_at(index, now, cost);
        }
    }
}

macro_rules! tuple {
    ($($gate:ident $index:tt),*) => {
        impl<$($gate: Gate),*> sealed::Gates for ($($gate,)*) {
            #[inline]
            fn count(&self) -> usize {
                [$($index as usize),*].len()
            }

            // Line by line, and not in a loop: so the compiler sees what of a decision nobody asks for.
            #[inline(always)]
            fn take(
                &self,
                now: Timestamp,
                cost: u64,
                mut each: impl FnMut(&Allowed),
            ) -> Result<(), (usize, Denied)> {
                let mut is_first = true;
                $(if self.$index.enforces() {
                    // The first one's check is as good as a peek: before it nothing has been taken.
                    if is_first {
                        is_first = false;
                    } else if let Err(denied) = self.$index.peek_n(now, cost) {
                        return Err(($index, denied));
                    }
                })*
                let _ = is_first;
                $(if self.$index.enforces() {
                    match self.$index.check_n(now, cost) {
                        Ok(allowed) => each(&allowed),
                        Err(denied) => {
                            give_back(self, $index, now, cost);
                            return Err(($index, denied));
                        }
                    }
                })*
                // What refuses nothing has nothing to be given back either.
                $(if !self.$index.enforces() {
                    let _ = self.$index.check_n(now, cost);
                })*
                Ok(())
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

    fn take(
        &self,
        now: Timestamp,
        cost: u64,
        mut each: impl FnMut(&Allowed),
    ) -> Result<(), (usize, Denied)> {
        let enforced = || self.iter().enumerate().filter(|(_, gate)| gate.enforces());
        for (index, gate) in enforced().skip(1) {
            gate.peek_n(now, cost).map_err(|denied| (index, denied))?;
        }
        for (index, gate) in enforced() {
            match gate.check_n(now, cost) {
                Ok(allowed) => each(&allowed),
                Err(denied) => {
                    give_back(self, index, now, cost);
                    return Err((index, denied));
                }
            }
        }
        for gate in self.iter().filter(|gate| !gate.enforces()) {
            let _ = gate.check_n(now, cost);
        }
        Ok(())
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
            fn take(
                &$self,
                now: Timestamp,
                cost: u64,
                each: impl FnMut(&Allowed),
            ) -> Result<(), (usize, Denied)> {
                sealed::Gates::take($inner, now, cost, each)
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
