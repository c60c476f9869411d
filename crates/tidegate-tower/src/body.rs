//! The body of a response: the service's own, or that of a refusal.

use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

pin_project_lite::pin_project! {
    /// The body of a response of [`RateLimit`](crate::RateLimit).
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project_lite::pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Service { #[pin] body: B },
        Refusal { bytes: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn service(body: B) -> Self {
        Self {
            kind: Kind::Service { body },
        }
    }

    pub(crate) fn refusal(bytes: Bytes) -> Self {
        Self {
            kind: Kind::Refusal {
                bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            },
        }
    }
}

/// An empty one.
impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::refusal(Bytes::new())
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Service { body } => body.poll_frame(context),
            KindProjection::Refusal { bytes } => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Service { body } => body.is_end_stream(),
            Kind::Refusal { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Service { body } => body.size_hint(),
            Kind::Refusal { bytes } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}
