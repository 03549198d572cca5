//! `GET /v1/artifacts/{sha256}`: content of kernels, unchanged, and never as a part of the gateway's own pages.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use himalia_engine::{ArtifactInfo, ByteRange, EngineError, StoredArtifact};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::etag;
use crate::v1::answers::{Content, NoStoreJson};
use crate::v1::content_headers::set_type;
use crate::v1::file_bodies;
use crate::v1::input::{Cursor, Limit, PAGE_MOST, Parameters, limit, page};
use crate::v1::kernels::kernel_id;
use crate::v1::sessions::of_session;

/// Bytes that are read of an artifact at a time, and held for a client that takes it slowly.
const PIECE_BYTES: usize = 64 << 10;

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArtifactPage {
    artifacts: Vec<ListedArtifact>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// An artifact in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedArtifact {
    /// `sha256:` and 64 hexadecimal digits.
    artifact: String,
    media_type: String,
    bytes: u64,
    /// When it was stored.
    #[schemars(extend("format" = "date-time"))]
    modified: String,
}

/// A query for artifacts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArtifactsQuery {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Only artifacts of this media type.
    media_type: Option<String>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Artifacts of a page; default 1,000.
    limit: Option<Limit>,
}

/// The cursors of the list.
const LIST: char = 'a';

/// `GET /v1/sessions/{id}/artifacts`: those that are stored now.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(wanted): Parameters<ListArtifactsQuery>,
) -> Result<NoStoreJson<ArtifactPage>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, wanted.kernel.as_deref())?;
    let all = app.engine().artifacts(&principal, kernel).await;
    let all = all.map_err(|error| of_session(error, &id))?.into_iter();
    let is_wanted = |one: &ArtifactInfo| {
        let media_type = wanted.media_type.as_ref();
        media_type.is_none_or(|wanted| one.media_type == *wanted)
    };
    // One content may be stored with several types.
    let key = |one: &ArtifactInfo| format!("{} {}", one.sha256, one.media_type);
    let mut all: Vec<_> = all.filter(is_wanted).collect();
    all.sort_by_cached_key(key);
    let (shown, next) = page(all, wanted.cursor.as_ref(), limit(wanted.limit, PAGE_MOST), key);
    let artifacts = shown.into_iter().map(|one| ListedArtifact {
        artifact: format!("sha256:{}", one.sha256),
        media_type: one.media_type,
        bytes: one.size,
        modified: timestamp(one.modified.into()),
    });
    Ok(NoStoreJson(ArtifactPage {
        artifacts: artifacts.collect(),
        next,
    }))
}

/// The content never changes. A script in it gets an origin of its own and no network, should a browser run it at all.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(sha256): Path<String>,
    request: HeaderMap,
) -> Result<Content, ApiError> {
    let sha256 = sha256.strip_prefix("sha256:").unwrap_or(&sha256);
    let found = app.engine().artifact(&principal, sha256).await?;
    let media_type = found.media_type().to_owned();
    let tag = format!("\"{sha256}\"");
    let mut response = if etag::matches(&request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        stream(found, file_bodies::range(&request))?
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

/// The artifact, or a part of it, read as the client takes it.
fn stream(artifact: StoredArtifact, range: Option<ByteRange>) -> Result<Response, ApiError> {
    let size = artifact.size();
    let (first, end) = match range {
        None => (0, size),
        Some(range) => part(range, size)?,
    };
    let body = stream::try_unfold((artifact, first), move |(artifact, at)| async move {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(None);
        }
        let bytes = artifact.read(at, left.min(PIECE_BYTES)).await?;
        let next = at + bytes.len() as u64;
        Ok::<_, EngineError>(Some((bytes, (artifact, next))))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(end - first));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if range.is_some() {
        let part = format!("bytes {first}-{}/{size}", end.saturating_sub(1));
        if let Ok(part) = HeaderValue::from_str(&part) {
            headers.insert(header::CONTENT_RANGE, part);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// The begin and the end of a part. 416 if it has no byte.
fn part(range: ByteRange, size: u64) -> Result<(u64, u64), ApiError> {
    let (first, end) = match range {
        ByteRange::From { first, last } => {
            (first, last.map_or(size, |last| last.saturating_add(1).min(size)))
        }
        ByteRange::Last { bytes } => (size.saturating_sub(bytes), size),
    };
    if first >= end {
        let message = format!("the artifact has {size} bytes");
        return Err(ApiError::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "range_not_satisfiable",
            message,
        ));
    }
    Ok((first, end))
}
