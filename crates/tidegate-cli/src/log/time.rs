//! The times that logs write, as nanoseconds since 1970.

const SECOND: u64 = 1_000_000_000;
const DAY_SECS: i64 = 86_400;

/// Length of `25/Oct/2015:04:11:25 +0100`.
pub(crate) const CLF_LEN: usize = 26;

/// Reads the times of Common Log Format. Neighbouring lines mostly carry the same text, so the last one is
/// kept.
#[derive(Debug, Default)]
pub(crate) struct ClfTimes {
    text: [u8; CLF_LEN],
    time: Option<u64>,
}

impl ClfTimes {
    /// Nanoseconds since 1970; `None` if the text is no time, or one outside 1970 to 2554.
    #[inline]
    pub(crate) fn parse(&mut self, text: &[u8; CLF_LEN]) -> Option<u64> {
        // A text that was never seen is all zeros, and no time.
        if *text != self.text {
            self.text = *text;
            self.time = parse_clf(text);
        }
        self.time
    }
}

/// Reads `25/Oct/2015:04:11:25 +0100`.
pub(crate) fn parse_clf(text: &[u8; CLF_LEN]) -> Option<u64> {
    let separators = [
        (2, b'/'),
        (6, b'/'),
        (11, b':'),
        (14, b':'),
        (17, b':'),
        (20, b' '),
    ];
    if separators.iter().any(|&(at, byte)| text[at] != byte) {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0_i64, |value, byte| {
            byte.is_ascii_digit()
                .then(|| value * 10 + i64::from(byte - b'0'))
        })
    };
    const MONTHS: [&[u8; 3]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let month = MONTHS
        .iter()
        .position(|name| text[3..6].eq_ignore_ascii_case(*name))?;
    let (day, year) = (number(0, 2)?, number(7, 11)?);
    if day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let (hour, minute, second) = (number(12, 14)?, number(15, 17)?, number(18, 20)?);
    // 60 is a leap second. It becomes the first second of the next minute, as in Unix time.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (east_hours, east_minutes) = (number(22, 24)?, number(24, 26)?);
    if east_hours > 23 || east_minutes > 59 {
        return None;
    }
    let east = (east_hours * 60 + east_minutes) * 60;
    let east = match text[21] {
        b'+' => east,
        b'-' => -east,
        _ => return None,
    };
    let local = days_since_1970(year, month, day) * DAY_SECS + (hour * 60 + minute) * 60 + second;
    u64::try_from(local - east).ok()?.checked_mul(SECOND)
}

/// Whether a year of the Gregorian calendar has a 29th of February.
const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days in a month, which counts from 0.
const fn days_in_month(year: i64, month: usize) -> i64 {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    DAYS[month] + (month == 1 && is_leap(year)) as i64
}

/// Days from 1970-01-01 to a date; the year from 0 on, the month from 0, the day from 1.
const fn days_since_1970(year: i64, month: usize, day: i64) -> i64 {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    /// Days from the first of January of year 1 to that of 1970.
    const EPOCH: i64 = 719_162;
    // Whole years since year 1. Year 0 counts as one before, and is a leap year.
    let years = year - 1;
    let leaps = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let leap_day = (month > 1 && is_leap(year)) as i64;
    years * 365 + leaps - EPOCH + BEFORE[month] + leap_day + day - 1
}

/// Reads the times that JSON logs carry as text: RFC 3339 (without an offset, UTC), Common Log Format, or
/// a number in quotes.
pub(crate) fn parse_text(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return u64::try_from(instant.as_nanosecond()).ok();
    }
    if let Ok(clf) = <&[u8; CLF_LEN]>::try_from(text.as_bytes())
        && let Some(time) = parse_clf(clf)
    {
        return Some(time);
    }
    if let Some(time) = parse_number(text) {
        return Some(time);
    }
    let utc = text.parse::<jiff::civil::DateTime>().ok()?;
    let instant = jiff::tz::TimeZone::UTC.to_timestamp(utc).ok()?;
    u64::try_from(instant.as_nanosecond()).ok()
}

/// Reads a number since 1970. Its size tells the unit: below 10^11 seconds, below 10^14 milliseconds, below
/// 10^17 microseconds, else nanoseconds. Those are unambiguous from 1973 to 5138.
///
/// Digits are read exactly; a double would be off by a hundred nanoseconds.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return from_double(text);
    }
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return from_double(text);
    }
    let whole: u64 = whole.parse().ok()?;
    let (unit, digits) = match whole {
        0..100_000_000_000 => (SECOND, 9),
        100_000_000_000..100_000_000_000_000 => (1_000_000, 6),
        100_000_000_000_000..100_000_000_000_000_000 => (1_000, 3),
        _ => (1, 0),
    };
    let mut part = 0;
    for at in 0..digits {
        let digit = fraction.as_bytes().get(at).map_or(0, |byte| byte - b'0');
        part = part * 10 + u64::from(digit);
    }
    whole.checked_mul(unit)?.checked_add(part)
}

/// Numbers with an exponent.
fn from_double(text: &str) -> Option<u64> {
    if !text.contains(['e', 'E']) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    if !(0.0..1.8e19).contains(&value) {
        return None;
    }
    parse_number(&format!("{value:.9}"))
}

/// A time for people: UTC, to the second.
pub(crate) fn human(nanos: u64) -> String {
    match jiff::Timestamp::from_second((nanos / SECOND) as i64) {
        Ok(instant) => instant.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("{} s after 1970", nanos / SECOND),
    }
}

/// A time for programs: RFC 3339 in UTC.
pub(crate) fn rfc3339(nanos: u64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(nanos)) {
        Ok(instant) => instant.to_string(),
        Err(_) => nanos.to_string(),
    }
}

/// A length of time for people, in its two largest units.
pub(crate) fn human_span(nanos: u64) -> String {
    let seconds = nanos / SECOND;
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if rest < 10 && !nanos.is_multiple_of(SECOND) => {
            format!("{:.3} s", nanos as f64 / SECOND as f64)
        }
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clf(text: &str) -> Option<u64> {
        parse_clf(text.as_bytes().try_into().expect("26 bytes"))
    }

    #[test]
    fn clf_times() {
        for (text, seconds) in [
            ("01/Jan/1970:00:00:00 +0000", Some(0)),
            ("01/Jan/1970:01:00:00 +0100", Some(0)),
            ("31/Dec/1969:19:00:00 -0500", Some(0)),
            ("31/Dec/1969:23:59:59 +0000", None),
            ("25/Oct/2015:04:11:25 +0100", Some(1_445_742_685)),
            ("25/oct/2015:08:41:25 +0530", Some(1_445_742_685)),
            ("29/Feb/2000:12:00:00 +0000", Some(951_825_600)),
            ("29/Feb/2100:12:00:00 +0000", None),
            ("29/Feb/2015:12:00:00 +0000", None),
            ("31/Apr/2015:12:00:00 +0000", None),
            ("00/Apr/2015:12:00:00 +0000", None),
            ("31/Dec/2016:23:59:60 +0000", Some(1_483_228_800)),
            ("31/Dec/2016:24:00:00 +0000", None),
            ("31/Dec/2016:23:60:00 +0000", None),
            ("31/Dec/2016:23:59:61 +0000", None),
            ("31/Dec/2016:23:59:00 +2400", None),
            ("31/Dec/2016:23:59:00 +0060", None),
            ("31/Dec/2016:23:59:00 z0000", None),
            ("31/Dez/2016:23:59:00 +0000", None),
            ("3a/Dec/2016:23:59:00 +0000", None),
            ("31-Dec/2016:23:59:00 +0000", None),
            ("01/Jan/9999:00:00:00 +0000", None),
            ("01/Jan/0000:00:00:00 +0000", None),
        ] {
            assert_eq!(clf(text), seconds.map(|s: u64| s * SECOND), "{text}");
        }
    }

    proptest! {
        /// Against a calendar that somebody else wrote.
        #[test]
        fn clf_times_agree_with_jiff(seconds in 0_i64..18_000_000_000, east in -1439_i32..=1439) {
            let zone = jiff::tz::TimeZone::fixed(jiff::tz::Offset::from_seconds(east * 60).unwrap());
            let instant = jiff::Timestamp::from_second(seconds).unwrap();
            let text = instant.to_zoned_datetime(zone).strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
            prop_assert_eq!(clf(&text), Some(seconds as u64 * SECOND), "{}", text);
        }

        #[test]
        fn any_bytes_get_an_answer(text: [u8; CLF_LEN]) {
            let _ = ClfTimes::default().parse(&text);
        }
    }

    #[test]
    fn the_cache_follows_the_text() {
        let mut times = ClfTimes::default();
        let mut parse = |text: &str| times.parse(text.as_bytes().try_into().expect("26 bytes"));
        assert_eq!(parse("01/Jan/1970:00:00:07 +0000"), Some(7 * SECOND));
        assert_eq!(parse("01/Jan/1970:00:00:07 +0000"), Some(7 * SECOND));
        assert_eq!(parse("01/Jan/1970:00:00:0x +0000"), None);
        assert_eq!(parse("01/Jan/1970:00:00:0x +0000"), None);
        assert_eq!(parse("01/Jan/1970:00:00:08 +0000"), Some(8 * SECOND));
        assert_eq!(ClfTimes::default().parse(&[0; CLF_LEN]), None);
    }

    #[test]
    fn json_times() {
        let base = 1_445_742_685 * SECOND;
        for (text, time) in [
            ("2015-10-25T04:11:25+01:00", Some(base)),
            ("2015-10-25T03:11:25.5Z", Some(base + SECOND / 2)),
            ("2015-10-25 03:11:25", Some(base)),
            ("2015-10-25T03:11:25.000000001", Some(base + 1)),
            ("25/Oct/2015:04:11:25 +0100", Some(base)),
            ("1445742685", Some(base)),
            (" 1445742685.25 ", Some(base + SECOND / 4)),
            ("1445742685.123456789", Some(base + 123_456_789)),
            ("1445742685123", Some(base + 123_000_000)),
            ("1445742685123.5", Some(base + 123_500_000)),
            ("1445742685123456", Some(base + 123_456_000)),
            ("1445742685123456789", Some(base + 123_456_789)),
            ("1.445742685e9", Some(base)),
            ("1e400", None),
            ("-5", None),
            ("99999999999999999999999", None),
            ("1969-12-31T23:59:59Z", None),
            ("yesterday", None),
            ("", None),
            ("inf", None),
        ] {
            assert_eq!(parse_text(text), time, "{text}");
        }
    }

    #[test]
    fn for_people() {
        assert_eq!(human(1_445_742_685 * SECOND), "2015-10-25 03:11:25");
        assert_eq!(human_span(0), "0 s");
        assert_eq!(human_span(1_500_000_000), "1.500 s");
        assert_eq!(human_span(61 * SECOND), "1 min 1 s");
        assert_eq!(human_span(7_260 * SECOND), "2 h 1 min");
        assert_eq!(human_span(90_000 * SECOND), "1 d 1 h");
    }
}
