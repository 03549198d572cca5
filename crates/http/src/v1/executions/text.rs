//! The text of an execution as one streamed plain text.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use himalia_engine::{ExecutionText, FeedClosed};

use super::request::first_known;
use crate::v1::answers::PlainText;
use crate::v1::artifacts::set_kernel_made;

/// Whether `Accept` names plain text before JSON.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let wanted = first_known(headers, |kind| match kind {
        "text/plain" => Some(true),
        "application/json" => Some(false),
        _ => None,
    });
    wanted.unwrap_or(false)
}

/// The text as a body that is read as the client takes it. It breaks off if the log cannot be read.
pub(super) fn of(text: ExecutionText) -> PlainText {
    let pieces = stream::unfold(Some(text), |text| async move {
        let mut text = text?;
        match text.next().await {
            Ok(piece) => piece.map(|piece| (Ok(Bytes::from(piece)), Some(text))),
            Err(closed) => Some((Err(broken(&closed)), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_kernel_made(headers);
    PlainText(response)
}

fn broken(closed: &FeedClosed) -> std::io::Error {
    std::io::Error::other(format!("{closed:?}"))
}
