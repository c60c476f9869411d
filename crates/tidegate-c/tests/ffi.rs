//! The functions that C calls, called as C calls them. What C sees of them, `ci/c.sh` shows.

use core::ffi::CStr;
use core::ptr::{null, null_mut};

use tidegate_c::tidegate_algorithm::*;
use tidegate_c::tidegate_status::*;
use tidegate_c::*;

const NOW: u64 = 100 * TIDEGATE_SECOND;

/// Memory that the functions are given, which Rust must not think unchanging.
struct Memory<T>(core::cell::UnsafeCell<T>);

// SAFETY: it is only used through the functions, which threads may share once it is initialised.
unsafe impl<T> Sync for Memory<T> {}

impl<T> Memory<T> {
    const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }
}

fn config(algorithm: tidegate_algorithm, limit: u64, period_ns: u64) -> tidegate_config {
    tidegate_config {
        algorithm: algorithm as i32,
        limit,
        period_ns,
        burst: 0,
    }
}

fn no_decision() -> tidegate_decision {
    tidegate_decision {
        limit: 1,
        remaining: 1,
        retry_after_ns: 1,
        reset_after_ns: 1,
    }
}

macro_rules! widths {
    (
        $name:ident, $limiter:ident, $init:ident, $check_n:ident, $peek_n:ident, $refund:ident, $reset:ident, $sweep:ident,
        $table:ident, $table_init:ident, $table_check_n:ident, $table_check_n_bytes:ident, $table_peek_n_bytes:ident,
        $live:ident
    ) => {
        mod $name {
            use super::*;

            #[test]
            fn one_limiter() {
                for algorithm in [
                    TIDEGATE_TOKEN_BUCKET,
                    TIDEGATE_FIXED_WINDOW,
                    TIDEGATE_ANCHORED_WINDOW,
                    TIDEGATE_SLIDING_WINDOW,
                ] {
                    let config = config(algorithm, 5, 60 * TIDEGATE_SECOND);
                    let mut limiter = $limiter::zeroed();
                    let at = &raw mut limiter;
                    let mut decision = no_decision();
                    // SAFETY: initialised first; everything is alive and aligned.
                    unsafe {
                        assert_eq!($init(at, size_of::<$limiter>(), &config), TIDEGATE_OK);
                        assert_eq!($check_n(at, NOW, 3, &mut decision), TIDEGATE_OK);
                        assert_eq!((decision.limit, decision.remaining), (5, 2));
                        assert_eq!(decision.retry_after_ns, 0);
                        assert!(decision.reset_after_ns > 0);
                        assert_eq!($peek_n(at, NOW, 2, null_mut()), TIDEGATE_OK);
                        assert_eq!($check_n(at, NOW, 3, &mut decision), TIDEGATE_LIMITED);
                        assert_eq!(decision.remaining, 2);
                        let later = NOW + decision.retry_after_ns;
                        assert_eq!($peek_n(at, later - 1, 3, null_mut()), TIDEGATE_LIMITED);
                        assert_eq!($peek_n(at, later, 3, null_mut()), TIDEGATE_OK);
                        assert_eq!($check_n(at, NOW, 6, &mut decision), TIDEGATE_TOO_COSTLY);
                        assert_eq!(decision.retry_after_ns, TIDEGATE_NEVER);
                        assert_eq!($refund(at, NOW, 1), TIDEGATE_OK);
                        assert_eq!($check_n(at, NOW, 3, &mut decision), TIDEGATE_OK);
                        assert_eq!($sweep(at, NOW), TIDEGATE_UNCHANGED);
                        assert_eq!($reset(at), TIDEGATE_OK);
                        assert_eq!($refund(at, NOW, 1), TIDEGATE_UNCHANGED);
                        assert_eq!($sweep(at, NOW), TIDEGATE_OK);
                        assert_eq!($check_n(at, NOW, 5, &mut decision), TIDEGATE_OK);
                    }
                }
            }

            #[test]
            fn mistakes_of_a_limiter() {
                let good = config(TIDEGATE_TOKEN_BUCKET, 5, TIDEGATE_SECOND);
                let mut limiter = [$limiter::zeroed(), $limiter::zeroed()];
                let at = &raw mut limiter[0];
                let odd = at.cast::<u8>().wrapping_add(4).cast::<$limiter>();
                let size = size_of::<$limiter>();
                let mut decision = no_decision();
                // SAFETY: what is not alive and aligned is null, or misaligned.
                unsafe {
                    assert_eq!($check_n(at, NOW, 1, &mut decision), TIDEGATE_ERROR_UNINITIALISED);
                    assert_eq!(decision.remaining, 0);
                    assert_eq!(decision.retry_after_ns, TIDEGATE_NEVER);
                    assert_eq!($init(null_mut(), size, &good), TIDEGATE_ERROR_NULL);
                    assert_eq!($init(odd, size, &good), TIDEGATE_ERROR_MISALIGNED);
                    assert_eq!($init(at, size, null()), TIDEGATE_ERROR_NULL);
                    assert_eq!($init(at, size + 8, &good), TIDEGATE_ERROR_SIZE);
                    assert_eq!($check_n(null_mut(), NOW, 1, &mut decision), TIDEGATE_ERROR_NULL);
                    let odd_decision = (&raw mut decision).cast::<u8>().wrapping_add(1).cast();
                    assert_eq!($init(at, size, &good), TIDEGATE_OK);
                    assert_eq!($check_n(at, NOW, 1, odd_decision), TIDEGATE_ERROR_MISALIGNED);
                    // That has not counted anything.
                    assert_eq!($check_n(at, NOW, 5, null_mut()), TIDEGATE_OK);
                }
            }

            /// Every refusal of limits that the word can have comes through, and has a text.
            #[test]
            fn refused_limits() {
                let mut limiter = $limiter::zeroed();
                let at = &raw mut limiter;
                let windows = [TIDEGATE_FIXED_WINDOW, TIDEGATE_ANCHORED_WINDOW, TIDEGATE_SLIDING_WINDOW];
                let mut refused = vec![
                    (config(TIDEGATE_TOKEN_BUCKET, 0, 1), TIDEGATE_ERROR_ZERO_LIMIT),
                    (config(TIDEGATE_TOKEN_BUCKET, 1, 0), TIDEGATE_ERROR_ZERO_PERIOD),
                    (tidegate_config { algorithm: -1, ..config(TIDEGATE_TOKEN_BUCKET, 1, 1) }, TIDEGATE_ERROR_ALGORITHM),
                ];
                for window in windows {
                    refused.extend([
                        (config(window, 0, 1), TIDEGATE_ERROR_ZERO_LIMIT),
                        (config(window, u64::MAX, TIDEGATE_SECOND), TIDEGATE_ERROR_LIMIT_TOO_LARGE),
                        (config(window, 1, u64::MAX), TIDEGATE_ERROR_PERIOD_TOO_LONG),
                        (tidegate_config { burst: 1, ..config(window, 1, TIDEGATE_SECOND) }, TIDEGATE_ERROR_BURST_OF_WINDOW),
                    ]);
                }
                if stringify!($name) == "narrow" {
                    refused.push((
                        config(TIDEGATE_TOKEN_BUCKET, 70_000, TIDEGATE_SECOND),
                        TIDEGATE_ERROR_NARROW_TOO_FAST,
                    ));
                } else {
                    refused.extend([
                        (
                            config(TIDEGATE_TOKEN_BUCKET, 1_000_003, 100_003),
                            TIDEGATE_ERROR_RATE_TOO_FINE,
                        ),
                        (
                            config(TIDEGATE_TOKEN_BUCKET, 2, u64::MAX),
                            TIDEGATE_ERROR_BURST_TOO_LONG,
                        ),
                    ]);
                }
                for (config, status) in refused {
                    // SAFETY: all is alive and aligned.
                    let answer = unsafe { $init(at, size_of::<$limiter>(), &config) };
                    assert_eq!(answer, status, "{config:?}");
                }
            }

            #[test]
            fn a_table() {
                let config = config(TIDEGATE_FIXED_WINDOW, 2, 60 * TIDEGATE_SECOND);
                let mut table = $table::zeroed();
                let mut lines = [const { tidegate_line::zeroed() }; 4];
                let (at, lines_at) = (&raw mut table, (&raw mut lines).cast());
                let mut decision = no_decision();
                // SAFETY: initialised first; everything is alive and aligned.
                unsafe {
                    let init = |size, lines_size| $table_init(at, size, lines_at, lines_size, 0, &config);
                    assert_eq!($table_check_n(at, 1, NOW, 1, null_mut()), TIDEGATE_ERROR_UNINITIALISED);
                    assert_eq!(init(size_of::<$table>(), 0), TIDEGATE_ERROR_SIZE);
                    assert_eq!(init(size_of::<$table>(), 100), TIDEGATE_ERROR_SIZE);
                    assert_eq!(init(8, size_of_val(&lines)), TIDEGATE_ERROR_SIZE);
                    assert_eq!(init(size_of::<$table>(), size_of_val(&lines)), TIDEGATE_OK);
                    assert_eq!($table_check_n(at, 1, NOW, 2, null_mut()), TIDEGATE_OK);
                    assert_eq!($table_check_n(at, 1, NOW, 1, &mut decision), TIDEGATE_LIMITED);
                    for key in [&b""[..], b"a", &[0], &[0; 8], &[1, 0, 0, 0, 0, 0, 0, 0]] {
                        let (bytes, size) = (key.as_ptr(), key.len());
                        assert_eq!($table_check_n_bytes(at, bytes, size, NOW, 2, &mut decision), TIDEGATE_OK);
                        assert_eq!(decision.remaining, 0);
                        assert_eq!($table_peek_n_bytes(at, bytes, size, NOW, 1, null_mut()), TIDEGATE_LIMITED);
                    }
                    assert_eq!($table_check_n_bytes(at, null(), 1, NOW, 1, null_mut()), TIDEGATE_ERROR_NULL);
                    assert_eq!(
                        $table_check_n_bytes(at, b"".as_ptr(), usize::MAX, NOW, 1, null_mut()),
                        TIDEGATE_ERROR_SIZE
                    );
                    assert_eq!($live(at, NOW), 6);
                }
            }

            #[test]
            fn threads_share_permits() {
                static LIMITER: Memory<$limiter> = Memory::new($limiter::zeroed());
                let config = config(TIDEGATE_TOKEN_BUCKET, 701, 60 * TIDEGATE_SECOND);
                // SAFETY: nobody else uses it yet.
                let made = unsafe { $init(LIMITER.0.get(), size_of::<$limiter>(), &config) };
                assert_eq!(made, TIDEGATE_OK);
                let admitted: usize = std::thread::scope(|scope| {
                    let ask = || {
                        // SAFETY: initialised before the threads were.
                        let one = |_: &u32| unsafe { $check_n(LIMITER.0.get(), NOW, 1, null_mut()) } == TIDEGATE_OK;
                        (0..1_000).filter(one).count()
                    };
                    let threads = [scope.spawn(ask), scope.spawn(ask)];
                    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
                });
                assert_eq!(admitted, 701);
            }
        }
    };
}

widths!(
    narrow,
    tidegate_limiter32,
    tidegate_limiter32_init,
    tidegate_limiter32_check_n,
    tidegate_limiter32_peek_n,
    tidegate_limiter32_refund,
    tidegate_limiter32_reset,
    tidegate_limiter32_sweep,
    tidegate_table32,
    tidegate_table32_init,
    tidegate_table32_check_n,
    tidegate_table32_check_n_bytes,
    tidegate_table32_peek_n_bytes,
    tidegate_table32_live
);

#[cfg(feature = "wide")]
widths!(
    wide,
    tidegate_limiter64,
    tidegate_limiter64_init,
    tidegate_limiter64_check_n,
    tidegate_limiter64_peek_n,
    tidegate_limiter64_refund,
    tidegate_limiter64_reset,
    tidegate_limiter64_sweep,
    tidegate_table64,
    tidegate_table64_init,
    tidegate_table64_check_n,
    tidegate_table64_check_n_bytes,
    tidegate_table64_peek_n_bytes,
    tidegate_table64_live
);

#[test]
fn texts() {
    let text = |status| {
        // SAFETY: it is never null, and static.
        unsafe { CStr::from_ptr(tidegate_status_text(status)) }
            .to_str()
            .unwrap()
    };
    assert_eq!(text(TIDEGATE_OK as i32), "ok");
    assert!(text(TIDEGATE_ERROR_NARROW_TOO_FAST as i32).contains("65536"));
    assert_eq!(text(i32::MIN), "no such status");
}
