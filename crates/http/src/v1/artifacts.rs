//! `GET /v1/artifacts/{sha256}`: what kernels made, as it is, and never as a part of the gateway's own pages.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::etag;
use crate::v1::answers::Content;
use crate::v1::input::{Parameters, Whole};
use crate::v1::thumbnail;

/// Types that a browser shows without running anything of theirs. All others are downloads.
const SHOWN: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"];

/// How an artifact is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// A PNG or JPEG image scaled down to so many pixels at its longest edge; as it is if it is no larger.
    thumbnail: Option<Whole<16, 1024>>,
}

/// The content never changes. A script in it gets an origin of its own and no network, should a browser run it at all.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(sha256): Path<String>,
    Parameters(Wanted { thumbnail }): Parameters<Wanted>,
    request: HeaderMap,
) -> Result<Content, ApiError> {
    let sha256 = sha256.strip_prefix("sha256:").unwrap_or(&sha256);
    let edge = thumbnail.map(|Whole(edge)| u32::try_from(edge).unwrap_or(u32::MAX));
    // Who waits for a turn has read no image yet.
    let turn = match edge {
        Some(_) => Some(app.thumbnails().next().await?),
        None => None,
    };
    let found = app.engine().artifact(&principal, sha256).await?;
    let media_type = found.media_type.clone();
    let tag = match edge {
        Some(edge) => format!("\"{sha256}-{edge}\""),
        None => format!("\"{sha256}\""),
    };
    let mut response = if etag::matches(&request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content = match edge.zip(turn) {
            Some((edge, turn)) => thumbnail::of(found, edge, turn).await?,
            None => found.content,
        };
        Response::new(Body::from(content))
    };
    let headers = response.headers_mut();
    etag::set(headers, &tag);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, max-age=31536000, immutable"),
    );
    set_type(headers, &media_type);
    Ok(Content(response))
}

/// The headers of whatever a kernel made: should a browser show it as a page, then without scripts, without an origin and
/// without a network.
pub(super) fn set_kernel_made(headers: &mut HeaderMap) {
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
}

/// The headers of something of this type that a kernel made.
pub(super) fn set_type(headers: &mut HeaderMap, media_type: &str) {
    set_kernel_made(headers);
    if !SHOWN.contains(&media_type) {
        headers.insert(
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        );
    }
    if let Ok(kind) = HeaderValue::from_str(media_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
}
