//! Lengths of time in words.

const UNITS: [(u64, u64, &str); 7] = [
    // A unit's length, from how many of it on it is used, and its name. People say 60 s and 24 h.
    (86_400_000_000_000, 2, "days"),
    (3_600_000_000_000, 2, "h"),
    (60_000_000_000, 2, "min"),
    (1_000_000_000, 1, "s"),
    (1_000_000, 1, "ms"),
    (1_000, 1, "us"),
    (1, 0, "ns"),
];

/// A length in the largest unit that is not larger than it, to a thousandth.
pub(crate) fn span_text(nanos: u64) -> String {
    let unit = UNITS
        .into_iter()
        .find(|(unit, from, _)| nanos / unit >= *from);
    let (unit, _, name) = unit.unwrap_or((1, 0, "ns"));
    let mut number = (nanos / unit).to_string();
    let thousandths = u128::from(nanos % unit) * 1_000 / u128::from(unit);
    if thousandths > 0 {
        number += format!(".{thousandths:03}").trim_end_matches('0');
    }
    format!("{number} {name}")
}

#[cfg(test)]
mod tests {
    use super::span_text;

    #[test]
    fn in_words() {
        const S: u64 = 1_000_000_000;
        for (nanos, text) in [
            (0, "0 ns"),
            (1, "1 ns"),
            (83_333_333, "83.333 ms"),
            (1_500, "1.5 us"),
            (S, "1 s"),
            (60 * S, "60 s"),
            (90 * S, "90 s"),
            (150 * S, "2.5 min"),
            (3_600 * S, "60 min"),
            (86_400 * S, "24 h"),
            (7 * 86_400 * S, "7 days"),
            (u64::MAX, "213503.982 days"),
        ] {
            assert_eq!(span_text(nanos), text);
        }
    }
}
