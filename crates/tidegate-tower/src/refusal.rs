//! Responses to requests that do not pass.

use core::fmt::Write as _;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use tidegate::Denied;
use tidegate::http::{Problem, Standing};

use crate::grpc;
use crate::key::NoKey;

/// Why a request does not pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal<'a> {
    /// A policy refuses it, or has no room to count it: where it stands with every policy that tells it.
    Denied(&'a [Standing<'a>]),
    /// The store of a policy has failed.
    Unavailable,
    /// A policy finds no key.
    NoKey {
        /// The policy.
        policy: &'a str,
        /// What is missing.
        error: &'a NoKey,
    },
}

impl Refusal<'_> {
    /// The status that the response should have.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Denied(standings) => match Problem::new(standings) {
                Some(problem) if problem.status() == 503 => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::TOO_MANY_REQUESTS,
            },
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoKey { error, .. } if error.is_by_client() => StatusCode::BAD_REQUEST,
            Self::NoKey { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// How many seconds to wait before the same request passes, if that is known, and waiting helps.
    pub fn retry_after(&self) -> Option<u64> {
        let Self::Denied(standings) = self else {
            return None;
        };
        // One that waiting does not cure makes the wait of the others worthless.
        let waits = standings
            .iter()
            .filter_map(|standing| standing.decision().as_ref().err())
            .map(Denied::retry_after);
        let longest = waits.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some((longest.as_nanos().div_ceil(1_000_000_000) as u64).max(1))
    }

    /// The names of the policies that refuse.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        let (standings, other) = match self {
            Self::Denied(standings) => (*standings, None),
            Self::Unavailable => (&[][..], None),
            Self::NoKey { policy, .. } => (&[][..], Some(*policy)),
        };
        let refusing = standings
            .iter()
            .filter(|standing| standing.decision().is_err());
        refusing
            .map(|standing| standing.policy().name())
            .chain(other)
    }

    /// For people: one line.
    pub fn message(&self) -> String {
        match self {
            Self::Denied(_) if self.status() == StatusCode::SERVICE_UNAVAILABLE => {
                "The server has no room to count another client. Try again later.".to_owned()
            }
            Self::Denied(_) => match self.retry_after() {
                Some(1) => "Too many requests. Try again in 1 second.".to_owned(),
                Some(seconds) => format!("Too many requests. Try again in {seconds} seconds."),
                None => "This request costs more than the limit allows at all.".to_owned(),
            },
            Self::Unavailable => {
                "The rate limit cannot be checked at present. Try again later.".to_owned()
            }
            Self::NoKey { error, .. } if error.is_by_client() => {
                format!("The request cannot be counted: {error}.")
            }
            // What the server lacks is nobody else's business.
            Self::NoKey { .. } => "The server cannot tell whose request this is.".to_owned(),
        }
    }

    /// The response, without the header fields of the policies: in what the client accepts, or for gRPC.
    pub(crate) fn response(&self, request: &Parts) -> Response<Bytes> {
        if grpc::is_grpc(&request.headers) {
            return grpc::response(self);
        }
        let form = Form::accepted(&request.headers);
        let body = match form {
            Form::Plain => self.message() + "\n",
            Form::Json => self.json(),
            Form::Problem => self.problem(),
        };
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status();
        let content_type = HeaderValue::from_static(form.content_type());
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    fn json(&self) -> String {
        let mut json = String::from("{\"error\":");
        push_json(&mut json, self.slug());
        json += ",\"message\":";
        push_json(&mut json, &self.message());
        json += ",\"policies\":[";
        for (index, policy) in self.policies().enumerate() {
            if index > 0 {
                json.push(',');
            }
            push_json(&mut json, policy);
        }
        json.push(']');
        if let Some(seconds) = self.retry_after() {
            // Writing to a string does not fail.
            let _ = write!(json, ",\"retry_after\":{seconds}");
        }
        json.push('}');
        json
    }

    fn problem(&self) -> String {
        if let Self::Denied(standings) = self
            && let Some(problem) = Problem::new(standings)
        {
            return problem.to_string();
        }
        let mut json = String::from("{\"type\":\"about:blank\",\"title\":");
        push_json(
            &mut json,
            self.status().canonical_reason().unwrap_or_default(),
        );
        let _ = write!(json, ",\"status\":{},\"detail\":", self.status().as_u16());
        push_json(&mut json, &self.message());
        json.push('}');
        json
    }

    fn slug(&self) -> &'static str {
        match self.status() {
            StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
            StatusCode::SERVICE_UNAVAILABLE => "unavailable",
            StatusCode::BAD_REQUEST => "no_key",
            _ => "internal",
        }
    }
}

/// Appends a JSON string (RFC 8259, section 7).
fn push_json(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                json.push('\\');
                json.push(character);
            }
            '\0'..=' ' if character != ' ' => {
                let _ = write!(json, "\\u{:04x}", character as u32);
            }
            _ => json.push(character),
        }
    }
    json.push('"');
}

/// In what form a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Json,
    Problem,
}

impl Form {
    /// In the order of our preference.
    const ALL: [Self; 3] = [Self::Plain, Self::Problem, Self::Json];

    /// More of an `Accept` than this is not looked at.
    const MOST_RANGES: usize = 64;

    fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; charset=utf-8",
            Self::Json => "application/json",
            Self::Problem => Problem::CONTENT_TYPE,
        }
    }

    fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain => ("text", "plain"),
            Self::Json => ("application", "json"),
            Self::Problem => ("application", "problem+json"),
        }
    }

    /// What the client likes best, of equals ours; plain text if it likes none, since an answer that is not liked is
    /// better than none (RFC 9110, section 12.5.1).
    fn accepted(headers: &HeaderMap) -> Self {
        let mut weights = [(0_u8, 0_u16); 3];
        let values = headers.get_all(ACCEPT).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let ranges = texts
            .flat_map(|text| text.split(','))
            .take(Self::MOST_RANGES);
        for range in ranges {
            let mut parts = range.split(';').map(str::trim);
            let Some((kind, subtype)) = parts.next().and_then(|range| range.split_once('/')) else {
                continue;
            };
            let weight = parts
                .find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")))
                .map_or(Some(1_000), thousandths)
                .unwrap_or(0);
            for (form, best) in Self::ALL.into_iter().zip(&mut weights) {
                let (own_kind, own_subtype) = form.media_type();
                let precision = if kind.eq_ignore_ascii_case(own_kind)
                    && subtype.eq_ignore_ascii_case(own_subtype)
                {
                    3
                } else if kind.eq_ignore_ascii_case(own_kind) && subtype == "*" {
                    2
                } else if (kind, subtype) == ("*", "*") {
                    1
                } else {
                    continue;
                };
                // The most precise range counts.
                if precision > best.0 {
                    *best = (precision, weight);
                }
            }
        }
        let liked = Self::ALL.into_iter().zip(weights).rev();
        let (form, (_, weight)) = liked
            .max_by_key(|(_, (_, weight))| *weight)
            .unwrap_or((Self::Plain, (0, 0)));
        if weight == 0 { Self::Plain } else { form }
    }
}

/// A weight of RFC 9110, section 12.4.2, in thousandths.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = format!("{part:0<3}").parse::<u16>().ok()?;
    match whole {
        "0" => Some(part),
        "1" if part == 0 => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &[&[u8]]) -> Form {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_bytes(value).unwrap());
        }
        Form::accepted(&headers)
    }

    #[test]
    fn the_form_that_is_liked_best() {
        assert_eq!(form(&[]), Form::Plain);
        assert_eq!(form(&[b"*/*"]), Form::Plain);
        assert_eq!(form(&[b"application/json"]), Form::Json);
        assert_eq!(form(&[b"application/problem+json"]), Form::Problem);
        assert_eq!(form(&[b"application/*"]), Form::Problem);
        assert_eq!(
            form(&[b"text/html, application/json;q=0.9, */*;q=0.1"]),
            Form::Json
        );
        assert_eq!(
            form(&[b"text/plain;q=0.5", b"application/json;q=0.6"]),
            Form::Json
        );
        assert_eq!(form(&[b"*/*, text/plain;q=0"]), Form::Problem);
        assert_eq!(form(&[b"image/png"]), Form::Plain);
        assert_eq!(
            form(&[b"text/plain;q=7, application/json;q=0.001"]),
            Form::Json
        );
        assert_eq!(
            form(&[b"\xff/\xfe", b"", b",,;q=", b"application/JSON"]),
            Form::Json
        );
    }

    #[test]
    fn text_becomes_json() {
        let mut json = String::new();
        push_json(&mut json, "a \"b\" \\ \n \u{e9}");
        assert_eq!(json, "\"a \\\"b\\\" \\\\ \\u000a \u{e9}\"");
    }
}
