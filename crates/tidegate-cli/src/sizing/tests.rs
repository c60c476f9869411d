//! Against brute force: the limit refuses no more than it says, and one less refuses more.

use oorandom::Rand64;

use super::*;
use crate::key::KeyKind;
use crate::log::Record;
use crate::policy::Policy;
use crate::replay::Replay;

const SECOND: u64 = 1_000_000_000;

/// Requests as (key, time).
type Log = Vec<(u64, u64)>;

fn replay(log: &Log, policy: Policy, burst: Option<u64>) -> Replay {
    let period = policy.quota.period().as_nanos() as u64;
    let sizing = Sizing::new(period, burst);
    let mut replay = Replay::new(KeyKind::Ip, &[policy], sizing, false).unwrap();
    for (key, time) in log {
        replay.request(&Record {
            time: *time,
            client: format!("key{key}").as_bytes(),
            path: b"",
        });
    }
    replay
}

fn policy(kind: Kind, limit: u64, period: u64, burst: Option<u64>) -> Policy {
    let quota = tidegate::Quota::new(limit, core::time::Duration::from_nanos(period)).unwrap();
    Policy { kind, quota, burst }
}

/// A log of a few keys, each with quiet stretches, steady ones and bursts.
fn random_log(random: &mut Rand64, unit: u64, period_units: u64, keys: u64) -> Log {
    let mut time = 1_445_742_685 * SECOND + random.rand_range(0..period_units) * unit;
    let mut log = Log::new();
    for _ in 0..random.rand_range(1..150) {
        time += unit
            * match random.rand_range(0..8) {
                0..4 => 0,
                4..6 => random.rand_range(0..3),
                6 => random.rand_range(0..period_units),
                _ => random.rand_range(0..3 * period_units),
            };
        log.push((random.rand_range(0..keys), time));
    }
    log
}

fn check(log: &Log, steady: &Log, period: u64, burst: Option<u64>) {
    let sized = replay(log, policy(Kind::SlidingLog, 1, period, None), burst);
    let rows = sized.sizing.rows();
    assert_eq!(rows.len(), Kind::ALL.len() + usize::from(burst.is_some()));
    for row in rows {
        for target in row.limits {
            let refused = |limit: u64| {
                let policy = policy(row.kind, limit, period, row.burst);
                replay(steady, policy, None).candidates[0].keys_refused()
            };
            let Some(limit) = target.limit else {
                assert!(row.burst.is_some());
                assert!(row.hopeless > target.keys);
                assert!(refused(1_000_000) > target.keys, "{row:?}");
                continue;
            };
            assert_eq!(refused(limit), target.refused, "{row:?} {log:?}");
            assert!(target.refused <= target.keys);
            if limit > 1 {
                assert!(refused(limit - 1) > target.keys, "{row:?} {log:?}");
            }
        }
    }
}

#[test]
fn limits_are_the_smallest() {
    let mut random = Rand64::new(11);
    for round in 0..400 {
        // Short periods so that requests come exactly one period apart, long ones so that they do not.
        let periods = [(SECOND, 60), (SECOND, 2), (SECOND / 1_000, 10_000)];
        let (unit, units) = periods[round % periods.len()];
        let keys = random.rand_range(1..5);
        let log = random_log(&mut random, unit, units, keys);
        let burst = (round % 2 == 0).then(|| random.rand_range(1..9));
        check(&log, &log, unit * units, burst);
    }
}

/// With enough keys for a tenth of a percent and a percent of them to be some.
#[test]
fn shares_of_many_keys() {
    let mut random = Rand64::new(12);
    let mut log = Log::new();
    for key in 0..2_345 {
        let mut one = random_log(&mut random, SECOND, 60, 1);
        one.truncate(30);
        log.extend(one.into_iter().map(|(_, time)| (key, time)));
    }
    log.sort_by_key(|&(_, time)| time);
    let sized = replay(&log, policy(Kind::SlidingLog, 1, 60 * SECOND, None), None);
    for row in sized.sizing.rows() {
        assert_eq!(row.limits.map(|target| target.keys), [0, 2, 23]);
    }
    check(&log, &log, 60 * SECOND, Some(4));
}

/// Late requests count as of the key's newest instant.
#[test]
fn time_that_runs_backwards() {
    let mut random = Rand64::new(13);
    for _ in 0..100 {
        let mut log = random_log(&mut random, SECOND, 10, 3);
        for (_, time) in &mut log {
            *time -= SECOND * [0, 0, 0, 1, 25][random.rand_range(0..5) as usize];
        }
        let mut newest = [0; 3];
        let steady = log
            .iter()
            .map(|&(key, time)| {
                let newest = &mut newest[key as usize];
                *newest = time.max(*newest);
                (key, *newest)
            })
            .collect();
        check(&log, &steady, 10 * SECOND, Some(2));
    }
}

/// Steady traffic is what the pruning of the hull is for.
#[test]
fn a_steady_key_takes_no_memory() {
    let mut points = Points::new(0);
    let mut need = 1;
    let period = 60 * SECOND;
    for index in 0..100_000 {
        let time = index * 7 * SECOND;
        points.add(time, index, need, period);
        let (x, y) = (i128::from(time + period), i128::from(index + 1));
        need = points.steepest(x, y, need, period);
        assert!(points.len() <= 2);
    }
    // 60/7 a minute in the long run, and never more at once.
    assert_eq!(need, 9);
}

#[test]
fn nothing_seen_needs_the_least() {
    for row in Sizing::new(SECOND, Some(3)).rows() {
        assert_eq!(row.limits.map(|target| target.limit), [Some(1); 3]);
        assert_eq!(row.hopeless, 0);
    }
}
