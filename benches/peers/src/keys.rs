//! Keys, and the order in which they come.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::subject::CHUNK;

/// A key type; distinct indices give distinct keys.
pub trait Key: Copy + Send + Sync + 'static {
    /// The key with this index.
    fn of(index: u64) -> Self;

    /// The index itself as a key, for the array that needs no hash.
    fn plain(index: u64) -> Option<Self>;
}

impl Key for u64 {
    #[inline(always)]
    fn of(index: u64) -> Self {
        scramble(index)
    }

    fn plain(index: u64) -> Option<Self> {
        Some(index)
    }
}

/// Half of them IPv4, half IPv6, in no order that a branch predictor could learn.
impl Key for IpAddr {
    #[inline(always)]
    fn of(index: u64) -> Self {
        if index & 1 == 0 {
            // A bijection on 32 bits, then the bytes reversed.
            Ipv4Addr::from((index as u32).wrapping_mul(2_654_435_769).swap_bytes()).into()
        } else {
            let documentation = 0x2001_0db8_u128 << 96;
            Ipv6Addr::from(documentation | u128::from(scramble(index))).into()
        }
    }

    fn plain(_: u64) -> Option<Self> {
        None
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection.
#[inline(always)]
fn scramble(index: u64) -> u64 {
    let mut z = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// SplitMix64: the finaliser on a counter.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        scramble(self.0)
    }

    /// Below `n`, by the high half of a product.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// From 0 up to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Keys in the order in which they are checked, drawn beforehand.
pub struct Sequence<K> {
    keys: Vec<K>,
    plain: Option<Vec<K>>,
    /// The share of the most popular key.
    pub top: f64,
}

impl<K: Key> Sequence<K> {
    /// Each of `n` keys as likely as any other.
    pub fn uniform(n: u64) -> Self {
        let mut random = Random(7);
        Self::draw(n, 1.0 / n as f64, || random.below(n))
    }

    /// The i-th of `n` keys with a weight of 1/i^`exponent`.
    pub fn zipf(n: u64, exponent: f64) -> Self {
        let mut total = 0.0;
        let cumulative: Vec<f64> = (1..=n)
            .map(|rank| {
                total += (rank as f64).powf(-exponent);
                total
            })
            .collect();
        // Popular keys must not be neighbours in the plain array: multiply by a prime that does not divide n.
        const APART: u64 = 15_485_863;
        assert!(!n.is_multiple_of(APART));
        let mut random = Random(11);
        Self::draw(n, 1.0 / total, || {
            let point = random.unit() * total;
            let rank = cumulative.partition_point(|&sum| sum <= point) as u64;
            rank.min(n - 1) * APART % n
        })
    }

    /// As many draws as make the caches forget: four million where there are many keys.
    fn draw(n: u64, top: f64, mut index: impl FnMut() -> u64) -> Self {
        let length = (16 * n).next_power_of_two().clamp(1 << 16, 1 << 22) as usize;
        let indices: Vec<u64> = (0..length).map(|_| index()).collect();
        Self {
            keys: indices.iter().map(|&index| K::of(index)).collect(),
            plain: indices.iter().map(|&index| K::plain(index)).collect(),
            top,
        }
    }

    /// The keys, or the indices where the row wants those.
    pub fn get(&self, plain: bool) -> &[K] {
        match &self.plain {
            Some(indices) if plain => indices,
            _ => &self.keys,
        }
    }
}

/// Every key from index `from` to `to` once, in pieces.
pub fn in_turn<K: Key>(from: u64, to: u64, plain: bool, mut piece: impl FnMut(&[K])) {
    let mut keys = Vec::with_capacity(CHUNK);
    let mut next = from;
    while next < to {
        let end = to.min(next + CHUNK as u64);
        keys.clear();
        keys.extend((next..end).map(|index| match K::plain(index) {
            Some(key) if plain => key,
            _ => K::of(index),
        }));
        piece(&keys);
        next = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct() {
        let addresses: HashSet<IpAddr> = (0..100_000).map(IpAddr::of).collect();
        assert_eq!(addresses.len(), 100_000);
        let numbers: HashSet<u64> = (0..100_000).map(u64::of).collect();
        assert_eq!(numbers.len(), 100_000);
    }

    #[test]
    fn zipf_prefers_the_first() {
        let sequence = Sequence::<u64>::zipf(1_000, 0.99);
        let drawn = sequence.get(true);
        let share = drawn.iter().filter(|&&index| index == 0).count() as f64 / drawn.len() as f64;
        // 1 / (the sum of i^-0.99 over 1..=1000) = 1 / 7.73.
        assert!((share - 0.1294).abs() < 0.01, "{share}");
        assert!((share - sequence.top).abs() < 0.01, "{share}");
    }

    #[test]
    fn in_turn_gives_each_once() {
        let mut seen = Vec::new();
        in_turn::<u64>(5, 5_000, true, |keys| seen.extend_from_slice(keys));
        assert_eq!(seen, (5..5_000).collect::<Vec<_>>());
    }
}
