//! `/v1/sessions/{id}/files`, `upload` and `archive`: the files of a session, as they are, and never as a part of the
//! gateway's own pages.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use himalia_engine::{ByteRange, FileKind, FileListing, MAX_LISTED};
use himalia_wire::build::timestamp;
use serde::Serialize;
use serde_json::json;

use super::file_bodies::{self, receive};
use super::sessions::{of_session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query;

/// Entries that a listing shows when nobody says.
const LISTED: u64 = 1000;

#[derive(Debug, Serialize)]
struct Listing {
    path: String,
    entries: Vec<Entry>,
    total: Total,
    truncated: bool,
}

#[derive(Debug, Serialize)]
struct Entry {
    path: String,
    kind: FileKind,
    bytes: u64,
    modified: String,
}

#[derive(Debug, Serialize)]
struct Total {
    entries: u64,
    bytes: u64,
}

/// `GET /v1/sessions/{id}/files?path=&depth=&limit=`: `{path, entries: [{path, kind, bytes, modified}], total: {entries, bytes},
/// truncated}`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    query::only(&uri, &["path", "depth", "limit"])?;
    let path = query::last(&uri, "path").unwrap_or_default();
    let depth = query::number(&uri, "depth")?.unwrap_or(1);
    let limit = query::number(&uri, "limit")?.unwrap_or(LISTED);
    let depth = u32::try_from(depth)
        .ok()
        .filter(|depth| (1..=100).contains(depth));
    let depth = depth.ok_or_else(|| ApiError::bad_field("depth", "must be 1 to 100"))?;
    let limit = u32::try_from(limit).ok().filter(|limit| *limit <= MAX_LISTED);
    let limit = limit.ok_or_else(|| ApiError::bad_field("limit", format!("must be 0 to {MAX_LISTED}")))?;
    let kernel = session_id(&app, &principal, &id)?;
    let found = app
        .engine()
        .list_files(&principal, kernel, &path, depth, limit)
        .await;
    let found = found.map_err(|error| of_session(error, &id))?;
    let mut response = Json(listing(path, found)).into_response();
    file_bodies::no_store(response.headers_mut());
    Ok(response)
}

fn listing(path: String, found: FileListing) -> Listing {
    let entries = found.entries.into_iter().map(|entry| Entry {
        path: entry.path,
        kind: entry.kind,
        bytes: entry.bytes,
        modified: timestamp(entry.modified),
    });
    Listing {
        path,
        entries: entries.collect(),
        total: Total {
            entries: found.total_entries,
            bytes: found.total_bytes,
        },
        truncated: found.truncated,
    }
}

/// `GET /v1/sessions/{id}/files/{path}`: the file, or with `Range` a part of it.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, path)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    query::only(&uri, &[])?;
    let range: Option<ByteRange> = file_bodies::range(&headers);
    let kernel = session_id(&app, &principal, &id)?;
    let file = app.engine().read_file(&principal, kernel, &path, range).await;
    let file = file.map_err(|error| of_session(error, &id))?;
    Ok(file_bodies::file(&path, file, range.is_some(), &headers))
}

/// `PUT /v1/sessions/{id}/files/{path}`: 201 with `{path, bytes}` for a new file, 200 for one that was replaced.
pub(crate) async fn put(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, path)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    query::only(&uri, &[])?;
    file_bodies::check(&headers)?;
    let kernel = session_id(&app, &principal, &id)?;
    let upload = app.engine().write_file(&principal, kernel, &path).await;
    let upload = upload.map_err(|error| of_session(error, &id))?;
    let written = receive(&app, body, upload).await?;
    let status = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let reply = json!({ "path": path, "bytes": written.bytes });
    Ok((status, Json(reply)).into_response())
}

/// `DELETE /v1/sessions/{id}/files/{path}?recursive=`: 204 when it is gone.
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, path)): Path<(String, String)>,
    uri: Uri,
) -> Result<StatusCode, ApiError> {
    query::only(&uri, &["recursive"])?;
    let recursive = match query::last(&uri, "recursive").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::bad_field("recursive", "expected true or false")),
    };
    let kernel = session_id(&app, &principal, &id)?;
    let deleted = app
        .engine()
        .delete_file(&principal, kernel, &path, recursive)
        .await;
    deleted.map_err(|error| of_session(error, &id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/sessions/{id}/upload?path=`: a tar archive into a directory. 200 with `{path, entries, bytes}`.
pub(crate) async fn upload(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    query::only(&uri, &["path"])?;
    file_bodies::check(&headers)?;
    let path = query::last(&uri, "path").unwrap_or_default();
    let kernel = session_id(&app, &principal, &id)?;
    let upload = app.engine().write_archive(&principal, kernel, &path).await;
    let upload = upload.map_err(|error| of_session(error, &id))?;
    let written = receive(&app, body, upload).await?;
    let reply = json!({ "path": path, "entries": written.entries, "bytes": written.bytes });
    Ok(Json(reply).into_response())
}

/// `GET /v1/sessions/{id}/archive?path=`: a directory as a tar archive.
pub(crate) async fn archive(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    query::only(&uri, &["path"])?;
    let path = query::last(&uri, "path").unwrap_or_default();
    let kernel = session_id(&app, &principal, &id)?;
    let archive = app.engine().read_archive(&principal, kernel, &path).await;
    Ok(file_bodies::archive(
        archive.map_err(|error| of_session(error, &id))?,
    ))
}
