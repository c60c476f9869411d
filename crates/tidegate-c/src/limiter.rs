//! One limiter, shared by everyone who has its address.

use tidegate::{Limiter, Timestamp};

use crate::chosen::Chosen;
use crate::config::tidegate_config;
use crate::decision::{Out, tidegate_decision};
use crate::object::{get, held, plausible, put, room};
use crate::status::tidegate_status::{self, *};

/// Size of a tidegate_limiter32 and of a tidegate_limiter64, in bytes.
pub const TIDEGATE_LIMITER_SIZE: usize = 128;

macro_rules! limiter {
    (
        $(#[doc = $doc:expr])*
        $limiter:ident: $word:ty, $mark:expr,
        $init:ident, $check_n:ident, $peek_n:ident, $refund:ident, $reset:ident, $sweep:ident
    ) => {
        $(#[doc = $doc])*
        #[repr(C, align(8))]
        #[derive(Debug)]
        pub struct $limiter {
            opaque: [u64; 16],
        }

        const _: () = assert!(size_of::<$limiter>() == TIDEGATE_LIMITER_SIZE);

        held!(Limiter<Chosen<$word>>, $limiter, $mark);

        impl $limiter {
            /// Memory that is not initialised yet.
            pub const fn zeroed() -> Self {
                Self { opaque: [0; 16] }
            }
        }

        /// Makes a fresh limiter. `size` is `sizeof *limiter`. Unless it answers TIDEGATE_OK, the memory is as it was.
        ///
        /// # Safety
        ///
        /// `limiter` is valid for writing, `config` for reading, and nobody else uses either meanwhile.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $init(
            limiter: *mut $limiter,
            size: usize,
            config: *const tidegate_config,
        ) -> tidegate_status {
            let made = room::<Limiter<Chosen<$word>>>(limiter, size)
                .and_then(|()| plausible(config))
                // SAFETY: neither null nor misaligned, and readable, as the caller promises.
                .and_then(|()| unsafe { config.read() }.algorithm::<$word>());
            match made {
                Ok(algorithm) => {
                    // SAFETY: `room` found it aligned; writable and unshared, as the caller promises.
                    unsafe { put(limiter, Limiter::new(algorithm)) }
                    TIDEGATE_OK
                }
                Err(mistake) => mistake,
            }
        }

        /// May a request of this cost pass now? If so, it is counted; all or nothing. Cost 0 always passes, and changes
        /// nothing. `decision` may be null, which saves its divisions.
        ///
        /// # Safety
        ///
        /// `limiter` is initialised, or all zero. `decision` is null, or valid for writing.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $check_n(
            limiter: *mut $limiter,
            now_ns: u64,
            cost: u64,
            decision: *mut tidegate_decision,
        ) -> tidegate_status {
            // SAFETY: null or writable, as the caller promises.
            let out = match unsafe { Out::at(decision) } {
                Ok(out) => out,
                Err(mistake) => return mistake,
            };
            // SAFETY: initialised or all zero, as the caller promises.
            match unsafe { get::<Limiter<Chosen<$word>>>(limiter) } {
                Ok(limiter) => out.answer(limiter.check_n(Timestamp::from_nanos(now_ns), cost)),
                Err(mistake) => out.mistake(mistake),
            }
        }

        /// What check_n would answer now; changes nothing.
        ///
        /// # Safety
        ///
        /// `limiter` is initialised, or all zero. `decision` is null, or valid for writing.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $peek_n(
            limiter: *const $limiter,
            now_ns: u64,
            cost: u64,
            decision: *mut tidegate_decision,
        ) -> tidegate_status {
            // SAFETY: null or writable, as the caller promises.
            let out = match unsafe { Out::at(decision) } {
                Ok(out) => out,
                Err(mistake) => return mistake,
            };
            // SAFETY: initialised or all zero, as the caller promises.
            match unsafe { get::<Limiter<Chosen<$word>>>(limiter) } {
                Ok(limiter) => out.answer(limiter.peek_n(Timestamp::from_nanos(now_ns), cost)),
                Err(mistake) => out.mistake(mistake),
            }
        }

        /// Gives back permits that were taken with the timestamp `taken_at_ns` and not used: never more than was
        /// taken, nor above full. TIDEGATE_UNCHANGED if there was nothing to give back.
        ///
        /// # Safety
        ///
        /// `limiter` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $refund(
            limiter: *mut $limiter,
            taken_at_ns: u64,
            cost: u64,
        ) -> tidegate_status {
            // SAFETY: initialised or all zero, as the caller promises.
            match unsafe { get::<Limiter<Chosen<$word>>>(limiter) } {
                Ok(limiter) => {
                    tidegate_status::changed(limiter.refund(Timestamp::from_nanos(taken_at_ns), cost))
                }
                Err(mistake) => mistake,
            }
        }

        /// Forgets everything: full again.
        ///
        /// # Safety
        ///
        /// `limiter` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $reset(limiter: *mut $limiter) -> tidegate_status {
            // SAFETY: initialised or all zero, as the caller promises.
            match unsafe { get::<Limiter<Chosen<$word>>>(limiter) } {
                Ok(limiter) => {
                    limiter.reset();
                    TIDEGATE_OK
                }
                Err(mistake) => mistake,
            }
        }

        /// Makes an idle state fresh, which changes no answer: TIDEGATE_OK if it was idle, else TIDEGATE_UNCHANGED.
        /// For limiters that are left alone so long that the time in their word wraps: in 32 bits
        /// after at least 256 times as long as it takes to recover, in 64 after at least 16 times as long.
        ///
        /// # Safety
        ///
        /// `limiter` is initialised, or all zero.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $sweep(limiter: *mut $limiter, now_ns: u64) -> tidegate_status {
            // SAFETY: initialised or all zero, as the caller promises.
            match unsafe { get::<Limiter<Chosen<$word>>>(limiter) } {
                Ok(limiter) => tidegate_status::changed(limiter.sweep(Timestamp::from_nanos(now_ns))),
                Err(mistake) => mistake,
            }
        }
    };
}

limiter! {
    /// One limiter in a 32-bit word, shared by everyone who has its address.
    tidegate_limiter32: u32, 0x7469_6c32,
    tidegate_limiter32_init, tidegate_limiter32_check_n, tidegate_limiter32_peek_n, tidegate_limiter32_refund,
    tidegate_limiter32_reset, tidegate_limiter32_sweep
}

#[cfg(feature = "wide")]
limiter! {
    /// One limiter in a 64-bit word, shared by everyone who has its address.
    tidegate_limiter64: u64, 0x7469_6c64,
    tidegate_limiter64_init, tidegate_limiter64_check_n, tidegate_limiter64_peek_n, tidegate_limiter64_refund,
    tidegate_limiter64_reset, tidegate_limiter64_sweep
}
