//! Bodies that are files: received and sent in pieces, never held in memory as a whole.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use himalia_engine::{ByteRange, FileDownload, FileUpload, MAX_TRANSFER_BYTES, WrittenFiles};
use tokio::time::{Instant, timeout, timeout_at};

use super::content_headers::{no_store, set_type};
use crate::app::App;
use crate::body::refuse_encoding;
use crate::error::ApiError;
use crate::etag;

/// Time, and bytes, that are still read of a refused body, so that its sender sees the response.
const REFUSED_TIME: Duration = Duration::from_secs(5);
const REFUSED_BYTES: usize = 64 << 20;

/// Refuses what is known to be too much before any of it is read.
pub(super) fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    refuse_encoding(headers)?;
    let length = headers.get(header::CONTENT_LENGTH);
    let length: Option<u64> = length.and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length| length > MAX_TRANSFER_BYTES + MAX_TRANSFER_BYTES / 8) {
        let message = format!("the request body is larger than {MAX_TRANSFER_BYTES} bytes");
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "file_too_large",
            message,
        ));
    }
    Ok(())
}

/// Takes a body in.
pub(super) async fn receive(app: &App, body: Body, upload: FileUpload) -> Result<WrittenFiles, ApiError> {
    let mut body = body.into_data_stream();
    let result = pass(app, &mut body, upload).await;
    if result.is_err() {
        let until = Instant::now() + REFUSED_TIME;
        let mut read = 0;
        while let Ok(Some(Ok(bytes))) = timeout_at(until, body.next()).await {
            read += bytes.len();
            if read > REFUSED_BYTES {
                break;
            }
        }
    }
    result
}

async fn pass(
    app: &App,
    body: &mut axum::body::BodyDataStream,
    mut upload: FileUpload,
) -> Result<WrittenFiles, ApiError> {
    loop {
        match timeout(app.config().stall_timeout, body.next()).await {
            Ok(None) => return Ok(upload.finish().await?),
            Ok(Some(Ok(bytes))) => upload.send(bytes).await?,
            Ok(Some(Err(_))) => return Err(ApiError::bad_request("the request body could not be read")),
            Err(_) => {
                let message = "the request body stopped arriving";
                return Err(ApiError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "body_timeout",
                    message,
                ));
            }
        }
    }
}

/// The part of a file that a request asks for, if it asks for one. Several parts, and what is no range, are the whole file
/// (RFC 9110 §14.2); so is a part of what the file was before.
pub(super) fn range(headers: &HeaderMap) -> Option<ByteRange> {
    if headers.contains_key(header::IF_RANGE) {
        return None;
    }
    let text = headers.get(header::RANGE)?.to_str().ok()?;
    let (first, last) = text.strip_prefix("bytes=")?.trim().split_once('-')?;
    match (first, last) {
        ("", last) => Some(ByteRange::Last {
            bytes: last.parse().ok()?,
        }),
        (first, "") => Some(ByteRange::From {
            first: first.parse().ok()?,
            last: None,
        }),
        (first, last) => {
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some(ByteRange::From {
                first,
                last: Some(last),
            })
        }
    }
}

/// A file, or a part of it.
pub(super) fn file(path: &str, file: FileDownload, is_part: bool, request: &HeaderMap) -> Response {
    let info = file.info.clone();
    let tag = info
        .as_ref()
        .map(|info| format!("\"{}\"", info.tag))
        .unwrap_or_default();
    let is_known = etag::matches(request, &tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from_stream(file.into_stream()))
    };
    if let Some(info) = info.filter(|_| !is_known) {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(info.bytes));
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if is_part {
            let last = info.first.saturating_add(info.bytes).saturating_sub(1);
            let part = format!("bytes {}-{last}/{}", info.first, info.size);
            if let Ok(part) = HeaderValue::from_str(&part) {
                headers.insert(header::CONTENT_RANGE, part);
            }
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
    }
    let headers = response.headers_mut();
    etag::set(headers, &tag);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    let kind = mime_guess::from_path(path).first_or_octet_stream();
    set_type(headers, kind.essence_str());
    response
}

/// A tar archive. It has no length: one that breaks off ends without its last chunk.
pub(super) fn archive(archive: FileDownload) -> Response {
    let mut response = Response::new(Body::from_stream(archive.into_stream()));
    let headers = response.headers_mut();
    no_store(headers);
    set_type(headers, "application/x-tar");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_one_part_or_none() {
        let range_of = |text: &'static str| {
            let headers = [(header::RANGE, HeaderValue::from_static(text))];
            range(&headers.into_iter().collect())
        };
        let from = |first, last| Some(ByteRange::From { first, last });
        assert_eq!(range_of("bytes=0-4"), from(0, Some(4)));
        assert_eq!(range_of("bytes=7-"), from(7, None));
        assert_eq!(range_of("bytes=-3"), Some(ByteRange::Last { bytes: 3 }));
        for whole in [
            "bytes=4-0",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
        ] {
            assert_eq!(range_of(whole), None, "{whole}");
        }
    }
}
