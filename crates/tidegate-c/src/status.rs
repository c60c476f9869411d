//! What the functions answer.

use core::ffi::{CStr, c_char};

use tidegate::{ConfigError, Reason};

use tidegate_status::*;

/// What a function answers: 0 is a yes, a number above 0 a no, one below 0 a mistake in the call.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "C has no namespaces")]
pub enum tidegate_status {
    /// Admitted, or done.
    TIDEGATE_OK = 0,
    /// Refused for now: it passes after the decision's retry_after_ns.
    TIDEGATE_LIMITED = 1,
    /// Refused for ever: the cost is above the limit, or above the burst.
    TIDEGATE_TOO_COSTLY = 2,
    /// Refused: the table has no room for another live key.
    TIDEGATE_TABLE_FULL = 3,
    /// There was nothing to give back.
    TIDEGATE_UNCHANGED = 4,
    /// A pointer is null that must not be.
    TIDEGATE_ERROR_NULL = -1,
    /// A pointer is not aligned for what it points to.
    TIDEGATE_ERROR_MISALIGNED = -2,
    /// The size is not that of the object, or that of the lines is 0, not a multiple of one line's, or too large; or
    /// a key is longer than memory is.
    TIDEGATE_ERROR_SIZE = -3,
    /// The object was never initialised, or is of another type.
    TIDEGATE_ERROR_UNINITIALISED = -4,
    /// There is no such tidegate_algorithm.
    TIDEGATE_ERROR_ALGORITHM = -5,
    /// There is no such tidegate_on_full.
    TIDEGATE_ERROR_ON_FULL = -6,
    /// The limit is 0: nothing would ever pass.
    TIDEGATE_ERROR_ZERO_LIMIT = -16,
    /// The period is 0: the rate would be infinite.
    TIDEGATE_ERROR_ZERO_PERIOD = -17,
    /// A window has no burst: leave it 0.
    TIDEGATE_ERROR_BURST_OF_WINDOW = -18,
    /// Filling the burst takes longer than the word can measure: 2.2 years for 64 bits.
    TIDEGATE_ERROR_BURST_TOO_LONG = -19,
    /// No fraction that the word can hold is within a millionth below the rate, which is above four permits a
    /// microsecond.
    TIDEGATE_ERROR_RATE_TOO_FINE = -20,
    /// Burst and permits a minute together exceed 65536, the most that a 32-bit token bucket can tell apart.
    TIDEGATE_ERROR_NARROW_TOO_FAST = -21,
    /// Counting to this limit leaves fewer than 16 bits of the word for time.
    TIDEGATE_ERROR_LIMIT_TOO_LARGE = -22,
    /// The period is too short for this word to tell late timestamps from old states.
    TIDEGATE_ERROR_PERIOD_TOO_SHORT = -23,
    /// The period is longer than 146 years.
    TIDEGATE_ERROR_PERIOD_TOO_LONG = -24,
    /// The limits cannot be represented, for another reason.
    TIDEGATE_ERROR_LIMITS = -25,
}

const ALL: [(tidegate_status, &CStr); 21] = [
    (TIDEGATE_OK, c"ok"),
    (TIDEGATE_LIMITED, c"refused for now: rate limited"),
    (
        TIDEGATE_TOO_COSTLY,
        c"refused for ever: the cost is above the limit",
    ),
    (
        TIDEGATE_TABLE_FULL,
        c"refused: the table has no room for another live key",
    ),
    (TIDEGATE_UNCHANGED, c"there was nothing to give back"),
    (TIDEGATE_ERROR_NULL, c"a pointer is null"),
    (TIDEGATE_ERROR_MISALIGNED, c"a pointer is not aligned"),
    (
        TIDEGATE_ERROR_SIZE,
        c"not the size of the object, or of a whole number of lines, at least one",
    ),
    (
        TIDEGATE_ERROR_UNINITIALISED,
        c"the object was never initialised, or is of another type",
    ),
    (TIDEGATE_ERROR_ALGORITHM, c"there is no such algorithm"),
    (
        TIDEGATE_ERROR_ON_FULL,
        c"there is no such answer to a full table",
    ),
    (
        TIDEGATE_ERROR_ZERO_LIMIT,
        c"the limit is 0: nothing would ever pass; the least is 1",
    ),
    (
        TIDEGATE_ERROR_ZERO_PERIOD,
        c"the period is 0: the rate would be infinite; the least is 1 ns",
    ),
    (
        TIDEGATE_ERROR_BURST_OF_WINDOW,
        c"a window has no burst; leave it 0",
    ),
    (
        TIDEGATE_ERROR_BURST_TOO_LONG,
        c"filling the burst takes longer than the word can measure; lower it, or use 64 bits (2.2 years)",
    ),
    (
        TIDEGATE_ERROR_RATE_TOO_FINE,
        c"no fraction that the word can hold is within a millionth below this rate; choose a rounder one",
    ),
    (
        TIDEGATE_ERROR_NARROW_TOO_FAST,
        c"burst and permits a minute exceed 65536, the most that 32 bits can tell apart; use 64 bits",
    ),
    (
        TIDEGATE_ERROR_LIMIT_TOO_LARGE,
        c"counting to this limit leaves too few bits for time; lower it, or use 64 bits",
    ),
    (
        TIDEGATE_ERROR_PERIOD_TOO_SHORT,
        c"the period is too short for this word; lengthen it, lower the limit, or use 64 bits",
    ),
    (
        TIDEGATE_ERROR_PERIOD_TOO_LONG,
        c"the period is longer than 146 years (2^62 ns)",
    ),
    (TIDEGATE_ERROR_LIMITS, c"the limits cannot be represented"),
];

impl tidegate_status {
    pub(crate) fn changed(changed: bool) -> Self {
        if changed {
            TIDEGATE_OK
        } else {
            TIDEGATE_UNCHANGED
        }
    }
}

impl From<ConfigError> for tidegate_status {
    fn from(error: ConfigError) -> Self {
        match error {
            // A burst of 0 stands for the limit, so it is the limit that is 0.
            ConfigError::ZeroBurst => TIDEGATE_ERROR_ZERO_LIMIT,
            ConfigError::BurstTooLong => TIDEGATE_ERROR_BURST_TOO_LONG,
            ConfigError::RateTooFine => TIDEGATE_ERROR_RATE_TOO_FINE,
            ConfigError::NarrowTooFast => TIDEGATE_ERROR_NARROW_TOO_FAST,
            ConfigError::LimitTooLarge => TIDEGATE_ERROR_LIMIT_TOO_LARGE,
            ConfigError::PeriodTooShort => TIDEGATE_ERROR_PERIOD_TOO_SHORT,
            ConfigError::PeriodTooLong => TIDEGATE_ERROR_PERIOD_TOO_LONG,
            _ => TIDEGATE_ERROR_LIMITS,
        }
    }
}

impl From<Reason> for tidegate_status {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::TooCostly => TIDEGATE_TOO_COSTLY,
            Reason::TableFull => TIDEGATE_TABLE_FULL,
            // What is refused for a reason of the future is refused for now.
            _ => TIDEGATE_LIMITED,
        }
    }
}

/// What a status means, in English, for a log. Any number has a text; it is never null, and need not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_status_text(status: i32) -> *const c_char {
    let known = ALL.iter().find(|(known, _)| *known as i32 == status);
    known.map_or(c"no such status", |(_, text)| *text).as_ptr()
}
