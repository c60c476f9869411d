//! Small pieces of text: quoted strings, byte sequences, seconds, and a buffer to write them to.

use core::fmt::{self, Write};
use core::time::Duration;

/// The largest integer of a structured field (RFC 9651, section 3.3.1): 15 digits.
pub(super) const MAX_INTEGER: u64 = 999_999_999_999_999;

/// What a structured field can carry of an integer.
pub(super) const fn clamp(integer: u64) -> u64 {
    if integer > MAX_INTEGER {
        MAX_INTEGER
    } else {
        integer
    }
}

/// Whole seconds, rounded up: never too early.
pub(super) const fn seconds_up(wait: Duration) -> u64 {
    let part = (wait.subsec_nanos() > 0) as u64;
    clamp(wait.as_secs().saturating_add(part))
}

/// Whole milliseconds, rounded up.
pub(super) const fn millis_up(wait: Duration) -> u64 {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    if millis > MAX_INTEGER as u128 {
        MAX_INTEGER
    } else {
        millis as u64
    }
}

/// Whether this is text that a String of RFC 9651 can hold, and so a header, whatever else is in it.
pub(super) const fn is_printable_ascii(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Without a way out, compilers look at many bytes at once.
    let (mut is_printable, mut index) = (true, 0);
    while index < bytes.len() {
        is_printable &= matches!(bytes[index], b' '..=b'~');
        index += 1;
    }
    is_printable
}

/// An integer of a structured field, without what formatting options would do to it.
pub(super) struct Integer(pub(super) u64);

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; MAX_INTEGER.ilog10() as usize + 1];
        let (mut rest, mut begin) = (clamp(self.0), digits.len());
        while begin > 0 && (rest > 0 || begin == digits.len()) {
            begin -= 1;
            digits[begin] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        f.write_str(core::str::from_utf8(&digits[begin..]).unwrap_or_default())
    }
}

/// Printable ASCII as a String of RFC 9651, section 4.1.6. JSON writes the same characters in the same way (RFC 8259,
/// section 7: of these, only the quotation mark and the backslash must be escaped).
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        if !self.0.bytes().any(|byte| matches!(byte, b'"' | b'\\')) {
            f.write_str(self.0)?;
            return f.write_char('"');
        }
        for part in self.0.split_inclusive(['"', '\\']) {
            match part.as_bytes().last() {
                Some(&last @ (b'"' | b'\\')) => {
                    // The part ends with a character of one byte.
                    f.write_str(&part[..part.len() - 1])?;
                    f.write_char('\\')?;
                    f.write_char(char::from(last))?;
                }
                _ => f.write_str(part)?,
            }
        }
        f.write_char('"')
    }
}

/// A Byte Sequence of RFC 9651, section 4.1.8: base64 with padding, between colons.
pub(super) struct ByteSequence<'a>(pub(super) &'a [u8]);

impl fmt::Display for ByteSequence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        f.write_char(':')?;
        for group in self.0.chunks(3) {
            let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for digit in 0..4 {
                // A group of n bytes has n + 1 digits.
                f.write_char(if digit <= group.len() {
                    char::from(ALPHABET[(bits >> (18 - 6 * digit) & 63) as usize])
                } else {
                    '='
                })?;
            }
        }
        f.write_char(':')
    }
}

/// Room for one header value on the stack: `N` bytes that text is written to.
///
/// A value with one policy takes at most 100 bytes, and beside them its policy's name and quota unit, twice as many
/// bytes if all of them must be escaped, and four bytes for every three of the partition key.
///
/// ```
/// use tidegate::http::Buffer;
///
/// let mut buffer = Buffer::<16>::new();
/// assert_eq!(buffer.render(3 + 4), Ok("7"));
/// assert_eq!(buffer.render("limit=3"), Ok("limit=3"));
/// assert!(buffer.render("more than sixteen bytes").is_err());
/// ```
#[derive(Clone)]
pub struct Buffer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Buffer<N> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    /// Replaces what is in it by the text of `value`, and returns that.
    ///
    /// # Errors
    ///
    /// If the text is longer than `N` bytes; then what fitted is in the buffer.
    pub fn render(&mut self, value: impl fmt::Display) -> Result<&str, fmt::Error> {
        self.clear();
        write!(self, "{value}")?;
        Ok(self.as_str())
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        // Only whole strings were written.
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Default for Buffer<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Write for Buffer<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len.saturating_add(text.len());
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl<const N: usize> fmt::Debug for Buffer<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffer").field(&self.as_str()).finish()
    }
}
