//! Which of several processes a key belongs to, without anybody to ask.

/// The member of a group that owns a key: the same on every machine, and in every version of this crate.
///
/// So several processes can share limits without a store between them: each request is decided by its key's owner,
/// which has the only state of that key. Rendezvous hashing, also called highest random weight (Thaler and
/// Ravishankar, "Using name-based mappings to increase hit rates", 1998): every member gets a score for the
/// key, and the highest owns it. When a member leaves, its keys go to the others in equal shares, and no other
/// key moves; when one joins, it takes an equal share from each. Where a request cannot reach the owner, the next in
/// line is the owner among the others.
///
/// The order of the members does not matter. `None` if there are none.
///
/// # The score
///
/// Fixed, so that programs in other languages can compute it. With `fnv` the 64-bit FNV-1a hash of bytes, and `mix` the
/// finaliser of SplitMix64 (`z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27; z *= 0x94d049bb133111eb; z ^= z >> 31`),
/// it is `mix(fnv(key) ^ mix(fnv(member)))`. Of equal scores the greater name wins.
///
/// There is no seed in it. Who chooses keys freely can choose them to have one owner, and load that one; not to get
/// around its limit.
///
/// # Cost
///
/// Hashes the key once, and every member's name: some tens of nanoseconds a member. [`owner_weighted`] is for members of
/// different strength.
///
/// ```
/// use tidegate::owner;
///
/// let members = ["10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"];
/// let first = owner("alice", &members).unwrap();
///
/// // The owner is down: everybody turns to the same other one.
/// let others: Vec<_> = members.into_iter().filter(|member| member != first).collect();
/// let second = owner("alice", &others).unwrap();
/// assert_ne!(first, second);
///
/// // A key need not be text.
/// let peer = std::net::Ipv4Addr::new(192, 0, 2, 1);
/// assert_eq!(owner(&peer.octets(), &members), Some(&"10.0.0.1:7000"));
/// ```
pub fn owner<'a, K, M>(key: &K, members: &'a [M]) -> Option<&'a M>
where
    K: AsRef<[u8]> + ?Sized,
    M: AsRef<[u8]>,
{
    let key = fnv(key.as_ref());
    members.iter().max_by_key(|member| {
        let name: &'a [u8] = (*member).as_ref();
        (score(key, name), name)
    })
}

/// As [`owner`], for members with weights: each owns a share of the keys in proportion to its weight.
///
/// When one weight grows, keys move to that member only, and when it shrinks, from it only. A member of weight 0 owns
/// nothing; `None` if all are. With equal weights the owner is that of [`owner`].
///
/// The owner has the highest `weight / -log2((score + 1) / 2^64)` (Schindelhauer and Schomaker, "Weighted distributed
/// hash tables", 2005), with 48 binary digits of the logarithm behind the point, rounded down; of equal values the
/// higher score, and then the greater name. All in integers, so that no two machines differ. Some 100 ns a member.
///
/// ```
/// use tidegate::owner_weighted;
///
/// let members = [("small", 1), ("large", 3)];
/// let large = (0..1_000_u32)
///     .filter(|key| owner_weighted(&key.to_le_bytes(), &members).unwrap().0 == "large")
///     .count();
/// assert!((700..800).contains(&large));
/// ```
pub fn owner_weighted<'a, K, M>(key: &K, members: &'a [(M, u32)]) -> Option<&'a (M, u32)>
where
    K: AsRef<[u8]> + ?Sized,
    M: AsRef<[u8]>,
{
    let key = fnv(key.as_ref());
    let mut best: Option<(&'a (M, u32), u64, u64)> = None;
    for member in members.iter().filter(|(_, weight)| *weight > 0) {
        let score = score(key, member.0.as_ref());
        let depth = depth(score);
        let wins = best.is_none_or(|(other, other_score, other_depth)| {
            // Cross-multiplied: the smaller `depth / weight` wins. 55 and 32 bits.
            let mine = u128::from(depth) * u128::from(other.1);
            let theirs = u128::from(other_depth) * u128::from(member.1);
            theirs
                .cmp(&mine)
                .then(score.cmp(&other_score))
                .then_with(|| member.0.as_ref().cmp(other.0.as_ref()))
                .is_ge()
        });
        if wins {
            best = Some((member, score, depth));
        }
    }
    best.map(|(member, ..)| member)
}

fn score(key: u64, member: &[u8]) -> u64 {
    mix(key ^ mix(fnv(member)))
}

/// FNV-1a in 64 bits (Fowler, Noll and Vo; RFC 9923).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014, in
/// Stafford's variant 13).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Binary digits of a logarithm behind the point.
const DIGITS: u32 = 48;

/// `-log2((score + 1) / 2^64)`, from 0 to 64, in units of 2^-48.
///
/// Digit by digit: squaring a number from 1 to 2 doubles its logarithm, whose whole part is the next digit. Each
/// step rounds down, so a larger score never gets a larger depth.
fn depth(score: u64) -> u64 {
    const WHOLE: u64 = 64 << DIGITS;
    let Some(above) = score.checked_add(1) else {
        return 0;
    };
    let zeros = above.leading_zeros();
    let mut log = u64::from(63 - zeros);
    // From 1 to 2, in units of 2^-63.
    let mut rest = above << zeros;
    for _ in 0..DIGITS {
        let square = (u128::from(rest) * u128::from(rest)) >> 63;
        let digit = square >> 64;
        rest = (square >> digit) as u64;
        log = log << 1 | digit as u64;
    }
    WHOLE - log
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the authors' reference code, and the first numbers of SplitMix64 from the seed 0.
    #[test]
    fn published_values() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x3c6e_f372_fe94_f82a), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn depths() {
        assert_eq!(depth(u64::MAX), 0);
        assert_eq!(depth(0), 64 << DIGITS);
        for bits in 0..64 {
            // A power of two has a whole logarithm.
            let depth = depth((1 << bits) - 1);
            assert_eq!(depth, (64 - bits) << DIGITS);
        }
        // 1.5 is not one: 2^-64 * 3 * 2^62.
        let expected = 64.0 - (3.0 * 2_f64.powi(62)).log2();
        let depth = depth((3 << 62) - 1) as f64 / (1_u64 << DIGITS) as f64;
        assert!((depth - expected).abs() < 1e-12, "{depth}, {expected}");
    }

    #[test]
    fn a_larger_score_is_never_deeper() {
        let mut score = 1_u64;
        for _ in 0..100_000 {
            score = mix(score.wrapping_add(0x9e37_79b9_7f4a_7c15));
            for step in [1, 2, 3, 1 << 15, 1 << 16, 1 << 40] {
                assert!(depth(score) >= depth(score.saturating_add(step)));
            }
        }
    }
}
