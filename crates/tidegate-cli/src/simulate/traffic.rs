//! Made-up traffic.
//!
//! Whole numbers only, so that the same options give the same requests on every machine.

use core::time::Duration;

use anyhow::{Context, Result, ensure};
use oorandom::Rand64;
use tidegate::{Quota, Timestamp};

use super::options::{SimulateArgs, Traffic};
use super::span::span_text;
use crate::report::thousands;

/// Most requests in a simulation: all are kept in memory.
pub(crate) const REQUESTS_MAX: u64 = 10_000_000;

/// Requests, and how they came about.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// When, in nanoseconds, in order. There is at least one.
    pub(crate) times: Vec<u64>,
    /// The stretch of time to show: from the first of these to just before the second.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// In words.
    pub(crate) about: String,
    /// What else there is to know about an input, each a sentence.
    pub(crate) notes: Vec<String>,
}

/// Makes up what the options ask for.
///
/// # Errors
///
/// If that is nothing, or too much.
pub(crate) fn make_up(args: &SimulateArgs) -> Result<Arrivals> {
    let quota = args.limit;
    let period = period_of(quota);
    let until = match args.duration {
        Some(duration) => duration,
        None => period
            .checked_mul(3)
            .context("three periods of this limit are more than 584 years: give a --duration")?,
    };
    let (times, about) = match args.traffic {
        Traffic::Boundary => boundary(quota, args.requests, until)?,
        Traffic::Burst => burst(quota, args.rate, args.requests, until)?,
        Traffic::Poisson => {
            let rate = args.rate.map_or_else(|| share(quota, 3), Ok)?;
            let seed = args.seed.unwrap_or(1);
            let about = format!("requests at random, {rate} on average, seed {seed}");
            (poisson(rate, seed, args.requests, until)?, about)
        }
        // A file is read elsewhere.
        Traffic::Steady | Traffic::File(_) => {
            let rate = args.rate.map_or_else(|| share(quota, 3), Ok)?;
            let about = format!("requests at a steady {rate}");
            (steady(rate, args.requests, until)?, about)
        }
    };
    Ok(Arrivals {
        times,
        from: 0,
        until,
        about,
        notes: Vec::new(),
    })
}

/// A quota's period in nanoseconds.
pub(crate) fn period_of(quota: Quota) -> u64 {
    Timestamp::from_duration(quota.period()).as_nanos()
}

/// So many halves of a quota.
fn share(quota: Quota, halves: u64) -> Result<Quota> {
    let rate = || -> Option<Quota> {
        let permits = quota.limit().checked_mul(halves)?;
        let (permits, periods) = match permits.is_multiple_of(2) {
            true => (permits / 2, 1),
            false => (permits, 2),
        };
        let period = period_of(quota).checked_mul(periods)?;
        Quota::new(permits, Duration::from_nanos(period)).ok()
    };
    rate().context("no rate follows from this limit: give a --rate")
}

fn ensure_not_too_many(requests: u128) -> Result<()> {
    ensure!(
        requests <= u128::from(REQUESTS_MAX),
        "that would be {} requests, and at most {} are simulated: \
         try a shorter --duration, a lower --rate or fewer --requests",
        thousands(u64::try_from(requests).unwrap_or(u64::MAX)),
        thousands(REQUESTS_MAX)
    );
    Ok(())
}

/// `count` times at equal distances, the first at `from`, all before `from + length`.
fn even(from: u64, length: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| {
        let part = u128::from(length) * u128::from(at) / u128::from(count);
        from.saturating_add(part as u64)
    })
}

fn boundary(quota: Quota, requests: Option<u64>, until: u64) -> Result<(Vec<u64>, String)> {
    let period = period_of(quota);
    let each = requests.unwrap_or(quota.limit());
    ensure!(
        until > period,
        "boundary traffic needs a --duration longer than the limit's period, {}",
        span_text(period)
    );
    let ends = (until - 1) / period;
    ensure_not_too_many(u128::from(ends) * u128::from(each) * 2)?;
    let moment = (period / 12).max(1);
    let times = (1..=ends)
        .flat_map(|number| {
            let end = number * period;
            even(end - moment, moment, each).chain(even(end, moment, each))
        })
        .take_while(|time| *time < until)
        .collect();
    let (each, moment) = (thousands(each), span_text(moment));
    let about = format!(
        "{each} requests in the {moment} before each window's end, and {each} in the {moment} after it"
    );
    Ok((times, about))
}

fn steady(rate: Quota, requests: Option<u64>, until: u64) -> Result<Vec<u64>> {
    let (permits, period) = (u128::from(rate.limit()), u128::from(period_of(rate)));
    // The number of n with n * period / permits < until, rounded down.
    let fit = (u128::from(until) * permits).div_ceil(period);
    let count = fit.min(requests.unwrap_or(u64::MAX).into());
    ensure_not_too_many(count)?;
    Ok((0..count)
        .map(|at| (at * period / permits) as u64)
        .take_while(|time| *time < until)
        .collect())
}

fn burst(
    quota: Quota,
    rate: Option<Quota>,
    requests: Option<u64>,
    until: u64,
) -> Result<(Vec<u64>, String)> {
    let rate = rate.map_or_else(|| share(quota, 1), Ok)?;
    let each = requests.unwrap_or(quota.limit().saturating_mul(2));
    let period = period_of(quota);
    // In the second window, the fourth, and so on, a quarter from the beginning.
    let first = period.saturating_add(period / 4);
    let bursts = match until.checked_sub(first) {
        Some(rest @ 1..) => (rest - 1) / period.saturating_mul(2) + 1,
        _ => 0,
    };
    ensure!(
        bursts > 0,
        "the first burst comes after {}: a --duration must be longer",
        span_text(first)
    );
    let moment = (period / 12).max(1);
    let mut times = steady(rate, None, until)?;
    ensure_not_too_many(u128::from(bursts) * u128::from(each) + times.len() as u128)?;
    for number in 0..bursts {
        let begin = first.saturating_add(number.saturating_mul(period).saturating_mul(2));
        times.extend(even(begin, moment, each).take_while(|time| *time < until));
    }
    times.sort_unstable();
    let about = format!(
        "requests at a steady {rate}, and {} more within {} in every second window",
        thousands(each),
        span_text(moment)
    );
    Ok((times, about))
}

/// Bits after the point of a random time, whose unit is the mean distance of two requests.
const FRACTION: u32 = 32;

fn poisson(rate: Quota, seed: u64, requests: Option<u64>, until: u64) -> Result<Vec<u64>> {
    let (permits, period) = (u128::from(rate.limit()), u128::from(period_of(rate)));
    let expected = u128::from(until) * permits / period;
    ensure_not_too_many(expected.min(requests.unwrap_or(u64::MAX).into()))?;
    let mut random = Rand64::new(seed.into());
    let mut times = Vec::new();
    let mut now = 0_u128;
    while requests.is_none_or(|most| (times.len() as u64) < most) {
        now += u128::from(exponential(&mut random));
        // Whole distances apart from fractions, whose product with a period would not fit.
        let (whole, part) = (now >> FRACTION, now & ((1 << FRACTION) - 1));
        let time = whole * period / permits + ((part * period / permits) >> FRACTION);
        match u64::try_from(time) {
            Ok(time) if time < until => times.push(time),
            _ => break,
        }
    }
    ensure!(
        !times.is_empty(),
        "at {rate}, no request came in {}: try a longer --duration, a higher --rate or another --seed",
        span_text(until)
    );
    Ok(times)
}

/// An exponentially distributed number of mean 1, in units of `2^-FRACTION`.
///
/// By comparisons alone, after von Neumann, "Various techniques used in connection with random digits" (1951):
/// a run of falling numbers that is of odd length gives its first number as the fraction; each run of even
/// length adds one to the whole.
fn exponential(random: &mut Rand64) -> u64 {
    let mut whole = 0;
    loop {
        let first = random.rand_u64();
        let mut last = first;
        let mut is_odd = true;
        loop {
            let next = random.rand_u64();
            if next >= last {
                break;
            }
            last = next;
            is_odd = !is_odd;
        }
        if is_odd {
            return (whole << FRACTION) + (first >> (u64::BITS - FRACTION));
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn quota(text: &str) -> Quota {
        text.parse().unwrap()
    }

    #[test]
    fn around_each_end() {
        let (times, about) = boundary(quota("2/min"), None, 180 * S).unwrap();
        let halves: Vec<u64> = times.iter().map(|time| time * 2 / S).collect();
        // In half seconds: 55, 57.5, 60 and 62.5 s, and again.
        assert_eq!(halves, [110, 115, 120, 125, 230, 235, 240, 245]);
        assert_eq!(
            about,
            "2 requests in the 5 s before each window's end, and 2 in the 5 s after it"
        );
        // What follows the end does not last longer than the traffic.
        let (times, _) = boundary(quota("2/min"), Some(1), 60 * S + 1).unwrap();
        assert_eq!(times, [55 * S, 60 * S]);
        assert!(boundary(quota("2/min"), None, 60 * S).is_err());
        // A period of one nanosecond has one instant only.
        let (times, _) = boundary(quota("2/ns"), None, 3).unwrap();
        assert_eq!(times, [0, 0, 1, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn steady_is_even() {
        let times = steady(quota("15/min"), None, 180 * S).unwrap();
        assert_eq!(times.len(), 45);
        assert!(times.iter().zip(0..).all(|(&time, at)| time == at * 4 * S));
        assert_eq!(steady(quota("3/10ns"), None, 10).unwrap(), [0, 3, 6]);
        assert_eq!(steady(quota("3/10ns"), None, 11).unwrap(), [0, 3, 6, 10]);
        assert_eq!(steady(quota("3/10ns"), Some(2), 11).unwrap(), [0, 3]);
        assert!(steady(quota("1000/s"), None, 10_001 * S).is_err());
        assert_eq!(
            steady(quota("1000/s"), Some(7), 10_001 * S).unwrap().len(),
            7
        );
    }

    #[test]
    fn bursts_come_in_every_second_window() {
        let (times, about) = burst(quota("10/min"), None, None, 300 * S).unwrap();
        // 5/min for five minutes, and two bursts of 20.
        assert_eq!(times.len(), 25 + 40);
        let within = |from: u64, to: u64| {
            let is_within = |time: &&u64| (from * S..to * S).contains(*time);
            times.iter().filter(is_within).count()
        };
        assert_eq!((within(75, 80), within(195, 200)), (20, 20));
        assert_eq!(
            about,
            "requests at a steady 5/min, and 20 more within 5 s in every second window"
        );
        assert!(burst(quota("10/min"), None, None, 75 * S).is_err());
    }

    #[test]
    fn halves() {
        let text = |limit, halves| share(quota(limit), halves).unwrap().to_string();
        assert_eq!(text("10/min", 3), "15/min");
        assert_eq!(text("5/min", 3), "15/2min");
        assert_eq!(text("1/s", 1), "1/2s");
        assert!(share(Quota::per_second(u64::MAX), 3).is_err());
    }

    /// The mean of so many exponential numbers has a standard deviation of a hundredth of a third; so has, about,
    /// their variance one of a hundredth.
    #[test]
    fn random_distances_are_exponential() {
        let mut random = Rand64::new(5);
        let count = 90_000;
        let numbers: Vec<f64> = (0..count)
            .map(|_| exponential(&mut random) as f64 / (1_u64 << FRACTION) as f64)
            .collect();
        let mean = numbers.iter().sum::<f64>() / f64::from(count);
        assert!((mean - 1.0).abs() < 0.015, "{mean}");
        let square = |number: &f64| (number - mean).powi(2);
        let variance = numbers.iter().map(square).sum::<f64>() / f64::from(count);
        assert!((variance - 1.0).abs() < 0.04, "{variance}");
        // The share beyond two means is e^-2.
        let far = numbers.iter().filter(|number| **number > 2.0).count() as f64;
        assert!((far / f64::from(count) - 0.1353).abs() < 0.005, "{far}");
    }

    #[test]
    fn random_traffic_keeps_its_rate_and_its_end() {
        let times = poisson(quota("100/s"), 1, None, 100 * S).unwrap();
        assert!((9_600..10_400).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted() && times.iter().all(|time| *time < 100 * S));
        assert_eq!(times, poisson(quota("100/s"), 1, None, 100 * S).unwrap());
        assert_ne!(times, poisson(quota("100/s"), 2, None, 100 * S).unwrap());
        let few = poisson(quota("100/s"), 1, Some(50), 100 * S).unwrap();
        assert_eq!(few, times[..50]);
        assert!(poisson(quota("1/day"), 1, None, 1).is_err());
        // The longest period there is.
        let rare = Quota::new(3, Duration::from_nanos(u64::MAX)).unwrap();
        assert!(poisson(rare, 1, None, u64::MAX).is_ok());
    }
}
