//! tidegate for C: token bucket, fixed and sliding window, alone and keyed, in memory of the caller's.
//!
//! `include/tidegate.h` is generated from this crate and is its documentation; the README says how to build and link.
//! Nothing here allocates, reads a clock or takes a lock.
//!
//! Every function checks what it can of what it is given, and answers a mistake by a status: null and misaligned
//! pointers, sizes, and objects that were never initialised. What it cannot check is in its *Safety* section.

#![no_std]
#![allow(unsafe_code, reason = "the callers are C")]
#![allow(non_camel_case_types, reason = "C's names")]

#[cfg(feature = "std")]
extern crate std;

mod chosen;
mod config;
mod decision;
mod limiter;
mod object;
mod status;
mod table;

pub use config::{TIDEGATE_SECOND, tidegate_algorithm, tidegate_config, tidegate_on_full};
pub use decision::{TIDEGATE_NEVER, tidegate_decision};
pub use limiter::*;
pub use status::{tidegate_status, tidegate_status_text};
pub use table::*;

#[cfg(all(feature = "panic-handler", not(feature = "std"), not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
