//! Rendezvous hashing: what it gives, that it is fair, and that nothing moves that need not.

use tidegate::{owner, owner_weighted};

const KEYS: u32 = if cfg!(debug_assertions) {
    20_000
} else {
    100_000
};

fn members(count: usize) -> Vec<String> {
    (1..=count)
        .map(|number| format!("10.0.0.{number}:7000"))
        .collect()
}

/// As another program, in another language, has computed it from the documentation.
#[test]
fn fixed_for_ever() {
    let members = members(5);
    let weighted: Vec<_> = members.iter().zip(1..).collect();
    let expected: [(&[u8], usize, usize); 8] = [
        (b"", 5, 5),
        (b"alice", 2, 5),
        (b"bob", 1, 1),
        (b"192.0.2.1", 2, 2),
        (&[0, 1, 2], 3, 3),
        ("schlüssel".as_bytes(), 3, 5),
        (&[b'a'; 100], 2, 2),
        (&[192, 0, 2, 1], 1, 1),
    ];
    for (key, plain, heavy) in expected {
        assert_eq!(owner(key, &members), Some(&members[plain - 1]), "{key:?}");
        let (name, weight) = owner_weighted(key, &weighted).unwrap();
        assert_eq!(
            (*name, *weight as usize),
            (&members[heavy - 1], heavy),
            "{key:?}"
        );
    }
}

#[test]
fn few_members() {
    assert_eq!(owner::<str, &str>("alice", &[]), None);
    assert_eq!(owner("alice", &["a"]), Some(&"a"));
    assert_eq!(owner_weighted::<str, &str>("alice", &[]), None);
    assert_eq!(owner_weighted("alice", &[("a", 0), ("b", 0)]), None);
    assert_eq!(
        owner_weighted("alice", &[("a", 0), ("b", 1)]),
        Some(&("b", 1))
    );
    assert_eq!(
        owner_weighted("alice", &[("a", u32::MAX)]),
        Some(&("a", u32::MAX))
    );
}

#[test]
fn the_order_of_members_does_not_matter() {
    let mut members = members(20);
    let keys: Vec<_> = (0..2_000_u32).map(u32::to_le_bytes).collect();
    let owners: Vec<_> = keys
        .iter()
        .map(|key| owner(key, &members).cloned())
        .collect();
    for turn in 0..20 {
        members.rotate_left(1);
        members.swap(turn % 19, 19);
        let weighted: Vec<_> = members.iter().map(|member| (member, 7)).collect();
        for (key, expected) in keys.iter().zip(&owners) {
            assert_eq!(owner(key, &members), expected.as_ref());
            // Equal weights are no weights.
            let heavy = owner_weighted(key, &weighted).map(|(member, _)| *member);
            assert_eq!(heavy, expected.as_ref());
        }
    }
}

/// How far the counts are from what they should be, in standard deviations of the chi-square distribution.
fn unfairness(counts: &[u64], shares: &[f64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let freedom = (counts.len() - 1) as f64;
    let chi_square: f64 = counts
        .iter()
        .zip(shares)
        .map(|(&count, share)| (count as f64 - total * share).powi(2) / (total * share))
        .sum();
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

type Key = fn(u32) -> Vec<u8>;

/// Keys as programs have them, all of one kind: numbers, addresses, names that differ in the last letters.
fn kinds() -> [(&'static str, Key); 4] {
    [
        ("little-endian numbers", |n| n.to_le_bytes().to_vec()),
        ("addresses", |n| (0x0a00_0000 + n).to_be_bytes().to_vec()),
        ("names", |n| format!("user-{n}").into_bytes()),
        ("paths", |n| {
            format!("/v1/accounts/{n:08}/orders").into_bytes()
        }),
    ]
}

#[test]
fn everybody_owns_an_equal_share() {
    for count in [2, 3, 10, 30, 100] {
        let members = members(count);
        for (kind, key) in kinds() {
            let mut counts = vec![0; count];
            for number in 0..KEYS {
                let owner = owner(&key(number), &members).unwrap();
                counts[members.iter().position(|member| member == owner).unwrap()] += 1;
            }
            let off = unfairness(&counts, &vec![1.0 / count as f64; count]);
            assert!(off.abs() < 4.0, "{kind} over {count}: {off}");
            let mean = f64::from(KEYS) / count as f64;
            let most = *counts.iter().max().unwrap() as f64;
            assert!(
                most < mean + 4.5 * mean.sqrt(),
                "{kind} over {count}: {most} for {mean}"
            );
        }
    }
}

#[test]
fn shares_are_as_the_weights() {
    let members: Vec<_> = members(12)
        .into_iter()
        .zip([1, 1, 2, 3, 5, 8, 13, 1, 1, 40, 20, 5])
        .collect();
    for (kind, key) in kinds() {
        let mut counts = vec![0; members.len()];
        for number in 0..KEYS {
            let owner = owner_weighted(&key(number), &members).unwrap();
            counts[members.iter().position(|member| member == owner).unwrap()] += 1;
        }
        let shares: Vec<_> = members
            .iter()
            .map(|(_, weight)| f64::from(*weight) / 100.0)
            .collect();
        let off = unfairness(&counts, &shares);
        assert!(off.abs() < 4.0, "{kind}: {off}");
    }
}

/// When a member leaves, exactly its keys move, and to the others in equal shares; when it comes back, they return.
#[test]
fn only_the_leavers_keys_move() {
    for count in [2, 10, 50] {
        let all = members(count);
        for leaver in [0, count / 2, count - 1] {
            let mut others = all.clone();
            let gone = others.remove(leaver);
            let mut heirs = vec![0; others.len()];
            for number in 0..KEYS {
                let key = number.to_le_bytes();
                let before = owner(&key, &all).unwrap();
                let after = owner(&key, &others).unwrap();
                if *before == gone {
                    heirs[others.iter().position(|member| member == after).unwrap()] += 1;
                } else {
                    assert_eq!(before, after);
                }
            }
            let moved: u64 = heirs.iter().sum();
            let fair = f64::from(KEYS) / count as f64;
            assert!(
                (moved as f64 - fair).abs() < 5.0 * fair.sqrt(),
                "{moved} of {fair}"
            );
            if others.len() > 1 {
                let off = unfairness(&heirs, &vec![1.0 / heirs.len() as f64; heirs.len()]);
                assert!(off.abs() < 4.5, "{off}");
            }
        }
    }
}

/// When a weight grows, keys move to that member only; when it shrinks, from it only.
#[test]
fn only_keys_of_the_changed_weight_move() {
    let before: Vec<_> = members(10).into_iter().zip([3; 10]).collect();
    for (changed, weight) in [(0, 4), (4, 2), (9, 0), (5, 300)] {
        let mut after = before.clone();
        after[changed].1 = weight;
        let mut moved = 0;
        for number in 0..20_000_u32 {
            let key = number.to_le_bytes();
            let (was, _) = owner_weighted(&key, &before).unwrap();
            let (is, _) = owner_weighted(&key, &after).unwrap();
            if was != is {
                let (from, to) = if weight > 3 { (is, was) } else { (was, is) };
                assert_eq!(*from, before[changed].0);
                assert_ne!(*to, before[changed].0);
                moved += 1;
            }
        }
        // Of a share of a tenth: to 4/31, 2/29, nothing, 300/327.
        let share = f64::from(weight) / f64::from(27 + weight);
        let expected = 20_000.0 * (share - 0.1_f64).abs();
        assert!(
            (f64::from(moved) - expected).abs() < 6.0 * expected.sqrt(),
            "{moved}, {expected}"
        );
    }
}
