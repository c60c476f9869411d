//! Lock-free rate limiting in one machine word: `no_std`, no allocation, no clock, exact.
//!
//! A limiter answers *may this pass now?*. Ask it in an interrupt handler, in a packet loop or in a server:
//! a decision is one load and one compare-exchange on a word, a refusal is one load.
//!
//! ```
//! use tidegate::{Limiter, Quota, Timestamp, TokenBucket};
//!
//! static LOGIN: Limiter<TokenBucket> =
//!     Limiter::new(TokenBucket::new(Quota::per_minute(5)).with_burst(2));
//!
//! fn login(uptime_ms: u64) -> Result<(), tidegate::Denied> {
//!     let now = Timestamp::from_millis(uptime_ms); // your monotonic clock
//!     let allowed = LOGIN.check(now)?;
//!     println!("{} more at once", allowed.remaining());
//!     Ok(())
//! }
//!
//! assert!(login(10).is_ok());
//! assert!(login(20).is_ok());
//! let denied = login(30).unwrap_err();
//! assert_eq!(denied.retry_after().unwrap().as_millis(), 11_980);
//! ```
//!
//! # Which algorithm
//!
//! Swapping the algorithm is swapping a type name.
//!
//! | type | admits | state |
//! |---|---|---|
//! | [`TokenBucket`] | a steady rate, and bursts up to a size of your choice | one virtual time |
//! | [`FixedWindow`] | `limit` in each window; up to twice that around a boundary | count, window |
//! | [`SlidingWindow`] | about `limit` in any period; evens out the boundary | two counts, window |
//! | [`SlidingLog`] | exactly `limit` in any period | a word for each permit |
//!
//! Each comes for `u64` words (the default) and `u32` words (`TokenBucket::narrow` and so on), for cores whose
//! widest atomic has 32 bits. An algorithm of your own needs only to implement [`Algorithm`].
//!
//! # One for all, or one for each
//!
//! [`Limiter`] is one limiter that everybody shares. [`Table`] is one for every key, in fixed memory: a `static`, over
//! lines elsewhere ([`SliceTable`]) or on the heap (`BoxTable`). All are lock-free, in interrupt handlers too.
//! `OwnedTable` keeps exact keys for a single owner; `Map` keeps them for servers, behind locks, and grows with the
//! keys that are live. [`owner`] says which of several processes decides for a key.
//!
//! [`http`] writes what was decided into header fields and problem documents.
//!
//! # Several limits, and limits on trial
//!
//! What admits and takes back is a [`Gate`]. [`All`] asks several, all or nothing; [`Shadow`] counts what a limit would
//! refuse, and [`Beside`] runs it beside the one that is enforced; [`Lease`] takes permits in batches, for threads
//! that would fight over one limiter.
//!
//! # Time
//!
//! The caller supplies every timestamp, and the limiters are total: no timestamp, however late or wrong, makes
//! them panic, overflow or admit more. A clock that jumps back a little is a late timestamp, one that jumps
//! far is a fresh start; each algorithm's docs say where the line is. [`Ticks`] makes timestamps of a hardware
//! counter that wraps.
//!
//! # Features
//!
//! Only `foldhash` is on by default, and the default is `no_std` without `alloc`.
//!
//! | feature | gives |
//! |---|---|
//! | `foldhash` | a default hasher for the tables, [`Seeded`], that links without an allocator |
//! | `ahash` | a stronger one, for programs that have an allocator |
//! | `std` | `Map`, exact keys that grow; `Clock`, a monotonic source of timestamps; random seeds; `alloc` and `ahash` |
//! | `alloc` | `BoxTable`, which allocates once, when it is made; `VecLog`, an exact log of any size for one owner; `http::PolicyBuf` |
//! | `heapless` | `OwnedTable`, a keyed table with exact keys for a single owner |
//! | `serde` | [`Quota`] as its text form, [`Timestamp`] as nanoseconds, [`Reason`] |
//! | `defmt` | `defmt::Format` |
//! | `fugit`, `embassy-time` | [`Timestamp`] from and to their instants and durations |
//! | `portable-atomic` | atomics from portable-atomic instead of `core` |
//! | `portable-atomic-critical-section` | the same on a `critical-section` implementation of the application's |
//! | `portable-atomic-unsafe-assume-single-core` | the same by disabling interrupts; unsound on multi-core chips |
//! | `portable-atomic-fallback` | 64-bit words by a spin lock where there are no 64-bit atomics; see [`AtomicWord`] |

#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(
    not(any(target_has_atomic = "32", feature = "portable-atomic")),
    allow(
        dead_code,
        reason = "without compare-exchange there is no limiter to share"
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod algorithm;
mod decision;
mod error;
#[cfg(feature = "defmt")]
mod format;
mod gate;
pub mod http;
mod limiter;
mod log;
#[cfg(feature = "std")]
mod map;
#[cfg(feature = "heapless")]
mod owned;
mod owner;
mod quota;
mod scale;
mod strategy;
mod sync;
mod table;
mod time;
mod word;

pub use algorithm::{Algorithm, FixedWindow, SlidingWindow, TokenBucket};
pub use decision::{Allowed, Denied, Reason};
pub use error::ConfigError;
pub use gate::{All, AllDenied, Gate, Gates, Lease, LeaseState};
#[cfg(any(tidegate_loom, feature = "portable-atomic", target_has_atomic = "32"))]
pub use gate::{Beside, BesideCounts, Shadow, ShadowCounts};
pub use limiter::Limiter;
pub use log::{LogCell, LogState, SlidingLog};
#[cfg(feature = "alloc")]
pub use log::{VecLog, VecLogState};
#[cfg(feature = "std")]
pub use map::{Map, MapEntry, MapIter};
#[cfg(feature = "heapless")]
pub use owned::OwnedTable;
pub use owner::{owner, owner_weighted};
pub use quota::{ParseQuotaError, ParseQuotaErrorKind, Quota, QuotaError};
pub use strategy::{Cell, OwnedStrategy, Strategy};
pub use sync::AtomicWord;
#[cfg(feature = "alloc")]
pub use table::BoxTable;
pub use table::{
    Entry, FullCounts, KeyedTable, Line, OnFull, Seeded, SliceTable, Storage, Table, Tier,
};
#[cfg(feature = "std")]
pub use time::Clock;
pub use time::{TickRate, Ticks, Timestamp};
pub use word::{GENERATION_BITS, Word};

/// The examples of the README and of this page are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/firmware.md")]
struct Pages;
