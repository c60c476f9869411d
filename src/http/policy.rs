//! A quota with the name that clients are told.

#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::fmt;

use super::text::is_printable_ascii;
use crate::error::or_panic;
use crate::quota::Quota;

/// A quota, and what clients are told about it: its name, and optionally its unit, its strategy and whose budget it is.
///
/// Every text in it is printable ASCII, checked when it is made. So nothing that a header or a JSON string may not hold
/// ever gets into one, line breaks least of all.
///
/// ```
/// use tidegate::Quota;
/// use tidegate::http::{Policy, PolicyError};
///
/// const DAILY: Policy<'static> = Policy::new("daily", Quota::per_day(1_000));
/// assert_eq!(DAILY.name(), "daily");
///
/// let forged = Policy::try_new("a\r\nSet-Cookie: b", Quota::per_day(1));
/// assert_eq!(forged, Err(PolicyError::NotPrintable));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy<'a> {
    name: &'a str,
    quota: Quota,
    unit: Option<&'a str>,
    strategy: Option<&'a str>,
    partition_key: Option<&'a [u8]>,
}

impl<'a> Policy<'a> {
    /// A policy of this name, counted in requests.
    ///
    /// # Panics
    ///
    /// As [`try_new`](Self::try_new) refuses; in a `const` or `static` that is a compile error.
    pub const fn new(name: &'a str, quota: Quota) -> Self {
        or_panic!(Self::try_new(name, quota))
    }

    /// A policy of this name, counted in requests.
    ///
    /// # Errors
    ///
    /// If the name is empty, or has a character that is not printable ASCII (0x20 to 0x7e): RFC 9651 has no way to send
    /// it.
    pub const fn try_new(name: &'a str, quota: Quota) -> Result<Self, PolicyError> {
        if let Err(error) = check(name) {
            return Err(error);
        }
        Ok(Self {
            name,
            quota,
            unit: None,
            strategy: None,
            partition_key: None,
        })
    }

    /// Says what is counted, where it is not requests: `content-bytes`, or what else the registry of quota units has
    /// (parameter `qu` of revision 8 and later).
    ///
    /// # Panics
    ///
    /// As [`try_with_unit`](Self::try_with_unit) refuses; in a `const` or `static` that is a compile error.
    pub const fn with_unit(self, unit: &'a str) -> Self {
        or_panic!(self.try_with_unit(unit))
    }

    /// As [`with_unit`](Self::with_unit), for text from elsewhere.
    ///
    /// # Errors
    ///
    /// If the unit is empty or not printable ASCII.
    pub const fn try_with_unit(mut self, unit: &'a str) -> Result<Self, PolicyError> {
        if let Err(error) = check(unit) {
            return Err(error);
        }
        self.unit = Some(unit);
        Ok(self)
    }

    /// Says how it is counted, such as `token-bucket` (header `X-RateLimit-Strategy`).
    ///
    /// # Panics
    ///
    /// As [`try_with_strategy`](Self::try_with_strategy) refuses; in a `const` or `static` that is a compile error.
    pub const fn with_strategy(self, strategy: &'a str) -> Self {
        or_panic!(self.try_with_strategy(strategy))
    }

    /// As [`with_strategy`](Self::with_strategy), for text from elsewhere.
    ///
    /// # Errors
    ///
    /// If the strategy is empty or not printable ASCII.
    pub const fn try_with_strategy(mut self, strategy: &'a str) -> Result<Self, PolicyError> {
        if let Err(error) = check(strategy) {
            return Err(error);
        }
        self.strategy = Some(strategy);
        Ok(self)
    }

    /// Says whose budget it is, by any bytes that tell one client's from another's (parameter `pk` of revision 8 and
    /// later).
    ///
    /// They are sent as they are, in base64, which hides nothing: give a hash of what nobody should see.
    pub const fn with_partition_key(mut self, key: &'a [u8]) -> Self {
        self.partition_key = Some(key);
        self
    }

    /// The name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// The quota.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// What is counted, if not requests.
    pub const fn unit(&self) -> Option<&'a str> {
        self.unit
    }

    /// How it is counted.
    pub const fn strategy(&self) -> Option<&'a str> {
        self.strategy
    }

    /// Whose budget it is.
    pub const fn partition_key(&self) -> Option<&'a [u8]> {
        self.partition_key
    }
}

/// A [`Policy`] that owns its texts: checked once, for servers that read their policies at run time.
///
/// ```
/// use tidegate::Quota;
/// use tidegate::http::{Policy, PolicyBuf};
///
/// let read = String::from("per-user");
/// let kept = PolicyBuf::from(Policy::try_new(&read, Quota::per_second(5))?);
/// drop(read);
/// assert_eq!(kept.as_policy().name(), "per-user");
/// # Ok::<(), tidegate::http::PolicyError>(())
/// ```
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyBuf {
    name: Box<str>,
    quota: Quota,
    unit: Option<Box<str>>,
    strategy: Option<Box<str>>,
    partition_key: Option<Box<[u8]>>,
}

#[cfg(feature = "alloc")]
impl PolicyBuf {
    /// The policy, without checking or allocating anything.
    pub fn as_policy(&self) -> Policy<'_> {
        Policy {
            name: &self.name,
            quota: self.quota,
            unit: self.unit.as_deref(),
            strategy: self.strategy.as_deref(),
            partition_key: self.partition_key.as_deref(),
        }
    }
}

#[cfg(feature = "alloc")]
impl From<Policy<'_>> for PolicyBuf {
    fn from(policy: Policy<'_>) -> Self {
        Self {
            name: policy.name.into(),
            quota: policy.quota,
            unit: policy.unit.map(Into::into),
            strategy: policy.strategy.map(Into::into),
            partition_key: policy.partition_key.map(Into::into),
        }
    }
}

const fn check(text: &str) -> Result<(), PolicyError> {
    if text.is_empty() {
        Err(PolicyError::Empty)
    } else if !is_printable_ascii(text) {
        Err(PolicyError::NotPrintable)
    } else {
        Ok(())
    }
}

/// Why a text for a [`Policy`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PolicyError {
    /// It is empty.
    Empty,
    /// It has a character outside of printable ASCII, 0x20 to 0x7e.
    NotPrintable,
}

impl PolicyError {
    const fn text(self) -> &'static str {
        match self {
            Self::Empty => "a policy's name, unit or strategy must not be empty",
            Self::NotPrintable => {
                "a policy's name, unit or strategy must be printable ASCII (0x20 to 0x7e): headers carry nothing else"
            }
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for PolicyError {}
