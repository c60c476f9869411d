//! Refusals as gRPC tells them: in header fields of a response that has status 200.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::refusal::Refusal;

/// Whether the request is one of gRPC, not of gRPC-Web, whose trailers are in the body.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = value.and_then(|value| value.strip_prefix(b"application/grpc"));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// The codes of gRPC, as far as they are sent here.
fn code(refusal: &Refusal<'_>) -> u8 {
    match refusal.status() {
        StatusCode::TOO_MANY_REQUESTS => 8,    // RESOURCE_EXHAUSTED
        StatusCode::SERVICE_UNAVAILABLE => 14, // UNAVAILABLE
        StatusCode::BAD_REQUEST => 3,          // INVALID_ARGUMENT
        _ => 13,                               // INTERNAL
    }
}

/// A response of trailers only: `grpc-status`, `grpc-message`, and when to try again, both as a
/// `google.rpc.RetryInfo` in `grpc-status-details-bin` and in `grpc-retry-pushback-ms` (gRFC A6).
pub(crate) fn response(refusal: &Refusal<'_>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let (code, message) = (code(refusal), refusal.message());
    headers.insert(
        HeaderName::from_static("grpc-status"),
        u16::from(code).into(),
    );
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(&message)) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    let Some(seconds) = refusal.retry_after() else {
        return response;
    };
    let details = STANDARD_NO_PAD.encode(status(code, &message, seconds));
    if let Ok(details) = HeaderValue::from_maybe_shared(Bytes::from(details)) {
        headers.insert(HeaderName::from_static("grpc-status-details-bin"), details);
    }
    headers.insert(
        HeaderName::from_static("grpc-retry-pushback-ms"),
        seconds.saturating_mul(1_000).into(),
    );
    response
}

/// As the gRPC protocol over HTTP/2 encodes `Status-Message`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' => encoded += "%25",
            b' '..=b'~' => encoded.push(char::from(byte)),
            _ => {
                encoded.push('%');
                for digit in [byte >> 4, byte & 15] {
                    encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
                }
            }
        }
    }
    encoded
}

/// A `google.rpc.Status` with a `google.rpc.RetryInfo`, as protocol buffers: code (1), message (2), details (3) of an
/// `Any`: type_url (1), value (2): a RetryInfo: retry_delay (1): a Duration: seconds (1).
fn status(code: u8, message: &str, seconds: u64) -> Vec<u8> {
    // A Duration has at most 10,000 years.
    let seconds = seconds.min(315_576_000_000);
    let mut duration = vec![1 << 3];
    push_varint(&mut duration, seconds);
    let mut retry_info = Vec::new();
    push_bytes(&mut retry_info, 1, &duration);
    let mut any = Vec::new();
    push_bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    push_bytes(&mut any, 2, &retry_info);
    let mut status = vec![1 << 3, code];
    push_bytes(&mut status, 2, message.as_bytes());
    push_bytes(&mut status, 3, &any);
    status
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn push_bytes(bytes: &mut Vec<u8>, field: u8, content: &[u8]) {
    bytes.push(field << 3 | 2);
    push_varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_as_protobuf_writes_it() {
        let mut expected = b"\x08\x08\x12\x02no\x1a\x30\x0a\x28".to_vec();
        expected.extend_from_slice(b"type.googleapis.com/google.rpc.RetryInfo");
        expected.extend_from_slice(b"\x12\x05\x0a\x03\x08\xac\x02");
        // The details are 2 + 40 + 2 + 5 bytes.
        expected[7] = 49;
        assert_eq!(status(8, "no", 300), expected);
    }

    #[test]
    fn messages_are_encoded() {
        assert_eq!(percent_encoded("100 % \u{e9}\n"), "100 %25 %C3%A9%0A");
    }

    #[test]
    fn which_requests_are_grpc() {
        let is = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(value).unwrap());
            is_grpc(&headers)
        };
        assert!(
            is("application/grpc") && is("application/grpc+proto") && is("application/grpc;a=b")
        );
        assert!(!is("application/grpc-web") && !is("application/json"));
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
