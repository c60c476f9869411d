//! The service: one request after the other.

use core::fmt::{self, Write as _};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use http::header::Entry;
use http::header::InvalidHeaderValue;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tidegate::http::{Buffer, Draft, Field, FieldName, Headers, Standing};
use tower_service::Service;

use crate::body::ResponseBody;
use crate::case::{Case, Verdict};
use crate::plan::Plan;
use crate::policy::Ending;
use crate::refusal::Refusal;

/// A service behind a rate limit; made by [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Nothing on the way of a request takes a lock, but a store with exact keys, which locks one of its shards.
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    plan: Arc<ArcSwap<Plan>>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, plan: Arc<ArcSwap<Plan>>) -> Self {
        Self { inner, plan }
    }

    /// The service behind.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        let plan = self.plan.load();
        let (request, body) = request.into_parts();
        if plan.skips(&request) {
            let future = self.inner.call(Request::from_parts(request, body));
            return ResponseFuture::running(future, None);
        }
        let mut case = Case::new(Guard::into_inner(plan));
        match case.open(&request) {
            Ok(true) => {}
            Ok(false) => {
                let future = self.inner.call(Request::from_parts(request, body));
                return ResponseFuture::running(future, None);
            }
            Err((policy, error)) => {
                let plan = case.plan();
                let refusal = Refusal::NoKey {
                    policy: &plan.policies[policy].name,
                    error: &error,
                };
                return ResponseFuture::refused(respond(plan, &refusal, &request));
            }
        }
        if !case.advance() {
            // The clone takes the readiness with it that the caller has waited for.
            let next = self.inner.clone();
            let service = core::mem::replace(&mut self.inner, next);
            return ResponseFuture {
                state: State::Deciding {
                    deciding: Some(Box::new((
                        case,
                        service,
                        Request::from_parts(request, body),
                    ))),
                },
            };
        }
        match case.verdict() {
            Verdict::Admitted => {
                let future = self.inner.call(Request::from_parts(request, body));
                ResponseFuture::running(future, Some(case))
            }
            Verdict::Refused | Verdict::Failed => ResponseFuture::refused(refuse(case, &request)),
        }
    }
}

pin_project_lite::pin_project! {
    /// The response to a request that was held against its policies.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    enum State<S, B, F> {
        // A store elsewhere is asked. Boxed, since it is large, and asking costs more.
        Deciding { deciding: Option<Box<(Box<Case>, S, Request<B>)>> },
        Running { #[pin] future: F, case: Option<Box<Case>> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn running(future: S::Future, case: Option<Box<Case>>) -> Self {
        Self {
            state: State::Running { future, case },
        }
    }

    fn refused(response: Response<Bytes>) -> Self {
        Self {
            state: State::Refused {
                response: Some(response),
            },
        }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Deciding { deciding } => {
                    if let Some(deciding) = deciding {
                        ready!(deciding.0.poll(context));
                    }
                    let Some(deciding) = deciding.take() else {
                        panic!("polled after it was ready");
                    };
                    let (case, mut service, request) = *deciding;
                    match case.verdict() {
                        Verdict::Admitted => State::Running {
                            future: service.call(request),
                            case: Some(case),
                        },
                        Verdict::Refused | Verdict::Failed => State::Refused {
                            response: Some(refuse(case, &request.into_parts().0)),
                        },
                    }
                }
                StateProjection::Running { future, case } => {
                    let result = ready!(future.poll(context));
                    let case = case.take();
                    return Poll::Ready(match result {
                        Ok(response) => Ok(finished(response, case)),
                        Err(error) => {
                            if let Some(mut case) = case {
                                case.end(&Ending::Failed);
                            }
                            Err(error)
                        }
                    });
                }
                StateProjection::Refused { response } => {
                    let Some(response) = response.take() else {
                        panic!("polled after it was ready");
                    };
                    return Poll::Ready(Ok(response.map(ResponseBody::refusal)));
                }
            };
            state.set(next);
        }
    }
}

/// Ends the case, and tells the client where it stands.
fn finished<R>(response: Response<R>, case: Option<Box<Case>>) -> Response<ResponseBody<R>> {
    let (mut parts, body) = response.into_parts();
    if let Some(mut case) = case {
        case.end(&Ending::Response(&parts));
        // Without any there is at most `Retry-After`, on a refusal.
        if case.plan().headers != Headers::new() {
            add_fields(&mut parts.headers, &case.standings(), &case);
        }
    }
    Response::from_parts(parts, ResponseBody::service(body))
}

fn refuse(case: Box<Case>, request: &Parts) -> Response<Bytes> {
    let standings = case.standings();
    let refusal = match case.verdict() {
        Verdict::Failed if standings.iter().all(|standing| standing.decision().is_ok()) => {
            Refusal::Unavailable
        }
        _ => Refusal::Denied(&standings),
    };
    let plan = case.plan();
    let mut response = respond(plan, &refusal, request);
    add_fields(response.headers_mut(), &standings, &case);
    response
}

fn respond(plan: &Plan, refusal: &Refusal<'_>, request: &Parts) -> Response<Bytes> {
    match &plan.on_refusal {
        Some(on_refusal) => on_refusal(refusal, request),
        None => refusal.response(request),
    }
}

/// Adds the header fields that say where the request stands.
///
/// What the service behind has set by itself stays: it may be a limit further in. Revision 10's fields are lists, to
/// which ours are added.
fn add_fields(headers: &mut HeaderMap, standings: &[Standing<'_>], case: &Case) {
    let fields = case.plan().headers;
    let unix_now = Some(case.now().since_epoch());
    let is_list = fields.draft() == Some(Draft::V10);
    for field in fields.fields(standings, unix_now) {
        let name = header_name(field.name());
        let kept = match field.name() {
            FieldName::RateLimitPolicy => case.policy_field(),
            _ => None,
        };
        let value = match kept.and_then(OnceLock::get) {
            Some(value) => value.clone(),
            None => match header_value(&field) {
                Ok(value) => {
                    if let Some(kept) = kept {
                        // Whoever was first wrote the same.
                        let _ = kept.set(value.clone());
                    }
                    value
                }
                // It is printable ASCII.
                Err(_) => continue,
            },
        };
        match headers.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(value);
            }
            Entry::Occupied(mut entry) if is_list && is_v10(field.name()) => entry.append(value),
            Entry::Occupied(_) => {}
        }
    }
}

fn header_value(field: &Field<'_>) -> Result<HeaderValue, InvalidHeaderValue> {
    if let Some(integer) = field.value().as_integer() {
        return number(integer);
    }
    // Many policies, or long names, are not worth more room on the stack.
    let mut buffer = Buffer::<256>::new();
    match write!(buffer, "{}", field.value()) {
        Ok(()) => HeaderValue::from_bytes(buffer.as_bytes()),
        Err(_) => HeaderValue::try_from(field.value().to_string()),
    }
}

/// Small numbers are part of the program; others are allocated once, and not twice as by `HeaderValue::from`.
fn number(number: u64) -> Result<HeaderValue, InvalidHeaderValue> {
    /// 000 to 999, one after the other.
    const DIGITS: [u8; 3_000] = {
        let mut digits = [0; 3_000];
        let mut at = 0;
        while at < digits.len() {
            let place = [100, 10, 1][at % 3];
            digits[at] = b'0' + (at / 3 / place % 10) as u8;
            at += 1;
        }
        digits
    };
    static SMALL: &str = match core::str::from_utf8(&DIGITS) {
        Ok(digits) => digits,
        Err(_) => panic!("digits are ASCII"),
    };
    let end = 3 * number.min(1_000) as usize + 3;
    let zeros = usize::from(number < 10) + usize::from(number < 100);
    match SMALL.get(end - 3 + zeros..end) {
        Some(digits) => Ok(HeaderValue::from_static(digits)),
        None => HeaderValue::from_str(itoa::Buffer::new().format(number)),
    }
}

fn is_v10(name: FieldName) -> bool {
    matches!(name, FieldName::RateLimit | FieldName::RateLimitPolicy)
}

/// The name in the type of this crate's headers, made by the compiler.
fn header_name(name: FieldName) -> HeaderName {
    macro_rules! names {
        ($($variant:ident $name:literal,)*) => {
            match name {
                $(FieldName::$variant => {
                    const NAME: HeaderName = HeaderName::from_static($name);
                    NAME
                })*
                _ => HeaderName::from_static(name.as_lower_str()),
            }
        };
    }
    names! {
        XRateLimitLimit "x-ratelimit-limit",
        XRateLimitRemaining "x-ratelimit-remaining",
        XRateLimitReset "x-ratelimit-reset",
        XRateLimitWindowMs "x-ratelimit-window-ms",
        XRateLimitStrategy "x-ratelimit-strategy",
        RateLimitPolicy "ratelimit-policy",
        RateLimit "ratelimit",
        RateLimitLimit "ratelimit-limit",
        RateLimitRemaining "ratelimit-remaining",
        RateLimitReset "ratelimit-reset",
        RetryAfter "retry-after",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for integer in (0..2_000).chain([u64::MAX]) {
            assert_eq!(number(integer).unwrap(), integer.to_string());
        }
    }

    #[test]
    fn names() {
        for name in FieldName::ALL {
            assert_eq!(header_name(*name), name.as_lower_str());
        }
    }
}
