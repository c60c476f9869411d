//! Any text: an answer without a panic, errors that point into it, and quotas that read back as they are
//! written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::Quota;

fuzz_target!(|text: &str| {
    match text.parse::<Quota>() {
        Ok(quota) => {
            assert!(quota.limit() > 0 && !quota.period().is_zero());
            assert_eq!(quota.to_string().parse(), Ok(quota));
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.position()), "{error}");
            assert!(error.to_string().starts_with("at byte "));
        }
    }
});
