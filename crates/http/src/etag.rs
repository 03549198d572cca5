//! JSON replies that can be revalidated: an `ETag` over the body, 304 for `If-None-Match`.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::ApiError;

/// 200 with the value, or 304 without a body if the caller has it already.
pub(crate) fn json(request: &HeaderMap, value: &impl Serialize) -> Result<Response, ApiError> {
    let body = body(value)?;
    let tag = tag(&body);
    let mut response = if matches(request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(body));
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    };
    set(response.headers_mut(), &tag);
    Ok(response)
}

/// A value as JSON.
pub(crate) fn body(value: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "a reply cannot be written as JSON");
        ApiError::internal("writing the reply")
    })
}

/// The entity tag of some bytes, with its quotes.
pub(crate) fn tag(body: &[u8]) -> String {
    format!("\"{}\"", digest(body))
}

/// The digest of some bytes, for an entity tag.
pub(crate) fn digest(body: &[u8]) -> String {
    hex::encode(&Sha256::digest(body)[..16])
}

/// Checks whether `If-None-Match` has the tag (weak comparison, RFC 9110 §13.1.2).
pub(crate) fn matches(request: &HeaderMap, tag: &str) -> bool {
    request
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|list| {
            list.split(',')
                .map(str::trim)
                .any(|given| given == "*" || given.trim_start_matches("W/") == tag)
        })
}

pub(crate) fn set(headers: &mut HeaderMap, tag: &str) {
    if let Ok(value) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revalidation() {
        let first = json(&HeaderMap::new(), &[1, 2]).unwrap();
        let tag = first.headers()[header::ETAG].clone();
        let mut request = HeaderMap::new();
        request.insert(header::IF_NONE_MATCH, tag.clone());
        let second = json(&request, &[1, 2]).unwrap();
        assert_eq!(second.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(second.headers()[header::ETAG], tag);
        assert_eq!(json(&request, &[1, 3]).unwrap().status(), StatusCode::OK);
        let weak = format!("\"x\", W/{}", tag.to_str().unwrap());
        request.insert(header::IF_NONE_MATCH, weak.parse().unwrap());
        assert_eq!(
            json(&request, &[1, 2]).unwrap().status(),
            StatusCode::NOT_MODIFIED
        );
    }
}
