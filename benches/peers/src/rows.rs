//! Who takes part, and in what.

use std::net::IpAddr;

use crate::crates::{Governor, Pingora, TokioRateLimit, Trypema};
use crate::floors::{Array, Hashed};
use crate::hand::{Dash, Locked};
#[cfg(feature = "table")]
use crate::ours::{Exact, Narrow, Wide};
use crate::subject::{Keyed, Load};

/// The floor to which every ratio is taken.
pub const FLOOR: &str = "floor: hash + probe + CAS";
/// Our two tables.
pub const WIDE: &str = "tidegate (u64)";
pub const NARROW: &str = "tidegate (u32)";
/// Our map.
#[cfg(feature = "table")]
pub const EXACT: &str = "tidegate Map (exact keys)";
/// The one to beat.
pub const GOVERNOR: &str = "governor + ahash (frozen clock)";

/// Others that the chart shows.
pub const SHIPPED: &str = "governor as shipped (own clock)";
pub const DASH: &str = "DashMap + ahash by hand";
pub const LOCKED: &str = "Mutex of HashMap by hand";
pub const TOKIO: &str = "tokio-rate-limit (own clock)";

/// One limiter, and how to take it.
pub struct Row<K> {
    pub name: &'static str,
    /// Makes it for so many keys; most grow and ignore the number.
    pub build: fn(Load, usize) -> Box<dyn Keyed<K>>,
    /// Takes indices for keys.
    pub plain: bool,
    /// Counts keys together, so what it answers is not looked at.
    pub approximate: bool,
    /// Does not come where there are more keys than this.
    pub most_keys: u64,
    /// Takes part in what is measured about memory, growth and pauses.
    pub grows: bool,
}

fn row<K>(name: &'static str, build: fn(Load, usize) -> Box<dyn Keyed<K>>) -> Row<K> {
    Row {
        name,
        build,
        plain: false,
        approximate: false,
        most_keys: u64::MAX,
        grows: false,
    }
}

impl<K> Row<K> {
    fn plain(self) -> Self {
        Self {
            plain: true,
            ..self
        }
    }

    fn approximate(self) -> Self {
        Self {
            approximate: true,
            ..self
        }
    }

    fn slow(self) -> Self {
        Self {
            most_keys: 1_000_000,
            ..self
        }
    }

    fn grows(self) -> Self {
        Self {
            grows: true,
            ..self
        }
    }

    pub fn is_floor(&self) -> bool {
        self.name.starts_with("floor")
    }

    /// Whether it has a fixed size.
    pub fn is_table(&self) -> bool {
        [WIDE, NARROW].contains(&self.name)
    }
}

/// Rows for any type of key.
macro_rules! common {
    ($key:ty) => {
        vec![
            row::<$key>(FLOOR, |load, n| Box::new(Hashed::<false>::new(load, n))),
            row("floor: the same with collisions", |load, n| {
                Box::new(Hashed::<true>::new(load, n))
            }),
            #[cfg(feature = "table")]
            row(WIDE, |load, n| Box::new(Wide::new(load, n))).grows(),
            #[cfg(feature = "table")]
            row(NARROW, |load, n| Box::new(Narrow::new(load, n))).grows(),
            #[cfg(feature = "table")]
            row(EXACT, |load, _| Box::new(Exact::new(load))).grows(),
            row(GOVERNOR, |load, _| Box::new(Governor::frozen_ahash(load))).grows(),
            row("governor + SipHash (frozen clock)", |load, _| {
                Box::new(Governor::frozen(load))
            }),
            row(SHIPPED, |load, _| Box::new(Governor::shipped(load))).grows(),
            row(DASH, |load, _| Box::new(Dash::new(load))).grows(),
            row(LOCKED, |load, _| Box::new(Locked::new(load))).grows(),
            row("pingora-limits (approximate)", |load, _| {
                Box::new(Pingora::new(load))
            })
            .approximate(),
        ]
    };
}

/// Every row for keys of 64 bits.
pub fn numbers() -> Vec<Row<u64>> {
    let mut rows = common!(u64);
    rows.insert(
        0,
        row("floor: array + CAS", |load, n| {
            Box::new(Array::new(load, n))
        })
        .plain(),
    );
    rows.push(row(TOKIO, |load, _| Box::new(TokioRateLimit::new(load))).slow());
    rows.push(
        row("trypema (own clock)", |load, _| {
            Box::new(Trypema::new(load))
        })
        .slow(),
    );
    rows
}

/// Every row for addresses.
pub fn addresses() -> Vec<Row<IpAddr>> {
    common!(IpAddr)
}
