//! Responses in which secrets are overwritten.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use himalia_credentials::{LiveMask, Mask, MaskStream, is_part};
use http::header::{CONTENT_ENCODING, HeaderMap};
use http::{HeaderName, HeaderValue, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::denial::Denial;

/// A body in which secrets are overwritten, byte by byte: its length is as it was.
#[derive(Debug)]
pub(super) struct MaskedBody {
    inner: Incoming,
    mask: LiveMask,
    stream: MaskStream,
    /// Follows what was held back.
    last: Option<Frame<Bytes>>,
    ended: bool,
}

impl MaskedBody {
    pub(super) fn new(inner: Incoming, mask: LiveMask) -> Self {
        Self {
            inner,
            mask,
            stream: MaskStream::default(),
            last: None,
            ended: false,
        }
    }
}

impl Body for MaskedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        loop {
            if this.ended {
                return Poll::Ready(this.last.take().map(Ok));
            }
            let frame = match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => Some(frame),
                // What was held back is not passed on: the body is not whole.
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => None,
            };
            match frame.map(Frame::into_data) {
                Some(Ok(part)) => {
                    let passed = this.stream.next(this.mask.current(), part);
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(passed))));
                    }
                }
                end => {
                    this.ended = true;
                    if let Some(Err(frame)) = end
                        && let Ok(mut trailers) = frame.into_trailers()
                    {
                        mask_headers(&mut trailers, this.mask.current());
                        this.last = Some(Frame::trailers(trailers));
                    }
                    let rest = this.stream.finish();
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        (self.ended && self.last.is_none()) || (self.inner.is_end_stream() && self.stream.held() == 0)
    }

    fn size_hint(&self) -> SizeHint {
        let held = u64::try_from(self.stream.held()).unwrap_or(0);
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint.set_lower(inner.lower().saturating_add(held));
        hint
    }
}

/// Overwrites secrets in the values of headers. A header whose name has one is left out.
pub(super) fn mask_headers(headers: &mut HeaderMap, mask: &Mask) {
    let named: Vec<HeaderName> = headers
        .keys()
        .filter(|name| mask.is_in_any_case(name.as_str()))
        .cloned()
        .collect();
    for name in named {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        if let Some(masked) = mask.text(value.as_bytes()) {
            *value = HeaderValue::from_bytes(&masked).unwrap_or(HeaderValue::from_static("***"));
        }
    }
}

/// Refuses a body that cannot be searched.
pub(super) fn check_encoding(response: &Response<Incoming>, name: &str) -> Result<(), Denial> {
    let mut encodings = response.headers().get_all(CONTENT_ENCODING).iter();
    let other = encodings.find(|value| {
        let text = value.as_bytes();
        !text.is_empty() && !text.eq_ignore_ascii_case(b"identity")
    });
    match other {
        Some(encoding) if !response.body().is_end_stream() => Err(Denial::credential(format_args!(
            "a response with the credential {name} is encoded ({:.32}), so it cannot be searched for the secret",
            String::from_utf8_lossy(encoding.as_bytes())
        ))),
        _ => Ok(()),
    }
}

/// Refuses a response of which the secret could be in several parts.
pub(super) fn check_whole(response: &Response<Incoming>, name: &str) -> Result<(), Denial> {
    if !is_part(response.status(), response.headers()) {
        return Ok(());
    }
    Err(Denial::credential(format_args!(
        "a response with the credential {name} is a part (206, or multipart/byteranges), so it cannot be searched for the secret"
    )))
}
