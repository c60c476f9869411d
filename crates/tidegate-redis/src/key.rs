//! What keys are called on the server.
//!
//! `PREFIX:NAME:KIND:{KEY}`, or with a tag `PREFIX:NAME:KIND:t{TAG}:KEY`: a cluster looks at what is between the first
//! braces, and at that alone. Prefix, name and tag have no braces and no colons, so no two keys are called the same.

use sha2::{Digest, Sha256};

/// Longer keys are kept as their SHA-256, so that nobody fills the server with them.
const LONGEST: usize = 64;

pub(crate) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'.'))
}

/// `PREFIX:NAME:KIND:`
pub(crate) fn start(prefix: &str, name: &str, kind: char) -> String {
    format!("{prefix}:{name}:{kind}:")
}

pub(crate) fn full(start: &str, tag: Option<&str>, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(start.len() + LONGEST + 4);
    full.extend_from_slice(start.as_bytes());
    match tag {
        None => full.push(b'{'),
        Some(tag) => {
            full.extend_from_slice(b"t{");
            full.extend_from_slice(tag.as_bytes());
            full.extend_from_slice(b"}:");
        }
    }
    if key.len() > LONGEST {
        // One byte longer than any key that is kept as it is.
        full.push(b'#');
        for byte in Sha256::digest(key) {
            for digit in [byte >> 4, byte & 15] {
                full.push(b"0123456789abcdef"[usize::from(digit)]);
            }
        }
    } else {
        // A cluster takes empty braces for none.
        if tag.is_none() && matches!(key.first(), None | Some(b'}' | b'\0')) {
            full.push(b'\0');
        }
        full.extend_from_slice(key);
    }
    if tag.is_none() {
        full.push(b'}');
    }
    full
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn no_two_keys_are_called_the_same() {
        let long = [b'x'; 65];
        let hash = full("", Some("t"), &long).split_off(5);
        assert_eq!(hash.len(), 65);
        let keys: Vec<&[u8]> = vec![
            b"",
            b"\0",
            b"\0\0",
            b"}",
            b"\0}",
            b"a",
            b"a}",
            b"{a}",
            b":a",
            b"}:a",
            b"t}:a",
            &long,
            &long[..64],
            &hash,
            b"\xff\xfe",
        ];
        let mut seen = HashMap::new();
        for tag in [None, Some("t"), Some("a")] {
            for name in ["n", "m"] {
                for key in &keys {
                    let called = full(&start("p", name, 'b'), tag, key);
                    let before = seen.insert(called, (tag, name, *key));
                    // The text of a hash is a key of its own, and longer than what is kept.
                    assert_eq!(before, None, "{:?}", (tag, name, key));
                }
            }
        }
    }

    /// What a cluster hashes.
    fn tag_of(key: &[u8]) -> &[u8] {
        let Some(open) = key.iter().position(|it| *it == b'{') else {
            return key;
        };
        let rest = &key[open + 1..];
        match rest.iter().position(|it| *it == b'}') {
            None | Some(0) => key,
            Some(close) => &rest[..close],
        }
    }

    #[test]
    fn one_key_of_several_limiters_lies_on_one_server() {
        for key in [
            &b""[..],
            b"}",
            b"\0",
            b"a",
            b"a}b",
            b"{a}",
            b"}{",
            &[b'x'; 100],
        ] {
            let one = full(&start("p", "n", 'b'), None, key);
            let other = full(&start("p", "m", 's'), None, key);
            assert_ne!(one, other);
            assert_eq!(tag_of(&one), tag_of(&other), "{key:?}");
        }
    }
}
