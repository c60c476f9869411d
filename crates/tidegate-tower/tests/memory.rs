//! A flood of keys that never come twice: memory stays what it is, and so does the budget of who was there before.
#![cfg(target_os = "linux")]

mod common;

use common::{Hand, builder, from, peer, status};
use core::net::Ipv6Addr;
use core::time::Duration;
use tidegate::Quota;
use tidegate_tower::{Limit, PeerAddress, Policy};

/// Keys in the flood. Unoptimized code takes ten times as long for each.
const KEYS: u32 = if cfg!(debug_assertions) {
    200_000
} else {
    1_000_000
};

/// The kilobytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Bijective, and looks random (the finalizer of MurmurHash3).
fn scattered(number: u32) -> u32 {
    let mut bits = number;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits ^ (bits >> 16)
}

#[tokio::test]
async fn a_flood_of_keys() {
    let quota = Quota::per_hour(5);
    let hand = Hand::new();
    let limits = [
        ("bucket", Limit::token_bucket(quota)),
        ("window", Limit::sliding_window(quota)),
        ("log", Limit::sliding_log(quota)),
    ];
    for (name, limit) in limits {
        let layer = builder(&hand)
            .policy(Policy::new("flood", PeerAddress::new()).limit(limit))
            .build()
            .unwrap();
        for _ in 0..3 {
            assert_eq!(status(&layer, from("192.0.2.1")).await, 200);
        }
        let mut admitted = 0;
        let mut full = None;
        for number in 0..KEYS {
            let network = u128::from(scattered(number)) << 72 | 0x2001 << 112;
            let mut request = from("192.0.2.1");
            let address = Ipv6Addr::from_bits(network).to_string();
            request.extensions_mut().insert(peer(&address));
            match status(&layer, request).await {
                200 => admitted += 1,
                503 => {}
                other => panic!("{other}"),
            }
            // From here on nothing can grow any more: more keys were sent than any store has room for.
            if number == KEYS * 3 / 4 {
                full = Some(resident());
            }
            hand.advance(Duration::from_micros(100));
        }
        let grown = resident().saturating_sub(full.unwrap());
        assert!(grown < 512, "{name}: {grown} KiB more");
        let stats = *layer.stats().policy("flood").unwrap();
        assert!(stats.full > u64::from(KEYS) / 3, "{name}: {stats:?}");
        assert!((65_535..=150_000).contains(&admitted), "{name}: {admitted}");
        // Whoever was there has what was left.
        for expected in [200, 200, 429] {
            assert_eq!(status(&layer, from("192.0.2.1")).await, expected, "{name}");
        }
    }
}
