//! `/v1/sessions/{id}/files`, `upload` and `archive`: the files of a session, as they are, and never as a part of the
//! gateway's own pages.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use himalia_engine::{ByteRange, FileKind, FileListing, MAX_LISTED};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{EitherResponse, Empty, FileContent, JsonWithStatus, NoStoreJson, Tar};
use super::file_bodies::{self, receive};
use super::input::{Archive, Cursor, File, NoParameters, Parameters, Whole};
use super::sessions::{first_kernel, of_session};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The cursors of a listing.
const LIST: char = 'f';
/// Entries in a listing by default.
const LISTED: u32 = 1000;

/// A listing of a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FilePage {
    path: String,
    entries: Vec<FileEntry>,
    total: FileTotal,
    /// There are more entries than shown or examined.
    truncated: bool,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// A file.
#[derive(Debug, Serialize, JsonSchema)]
struct FileEntry {
    path: String,
    kind: Kind,
    bytes: u64,
    #[schemars(extend("format" = "date-time"))]
    modified: String,
}

/// The number of entries and bytes that were examined.
#[derive(Debug, Serialize, JsonSchema)]
struct FileTotal {
    entries: u64,
    bytes: u64,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "FileKind")]
enum Kind {
    File,
    Directory,
    Symlink,
    /// A pipe, a socket, a device.
    Other,
}

impl From<FileKind> for Kind {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::File => Self::File,
            FileKind::Directory => Self::Directory,
            FileKind::Symlink => Self::Symlink,
            FileKind::Other => Self::Other,
        }
    }
}

/// A query for files.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFilesQuery {
    /// A directory; default: the work directory.
    #[serde(default)]
    path: String,
    /// Depth of directories; default 1.
    depth: Option<Whole<1, 100>>,
    /// The `next` of the page before, of the same directory.
    cursor: Option<Cursor<LIST>>,
    /// Entries of a page; default 1,000.
    limit: Option<Whole<0, { MAX_LISTED as u64 }>>,
}

/// A directory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Directory {
    /// Default: the work directory.
    #[serde(default)]
    path: String,
}

/// The options of a removal.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Removal {
    /// Remove a directory with its content.
    #[serde(default)]
    recursive: bool,
}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WrittenFile {
    path: String,
    bytes: u64,
}

/// An archive that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WrittenArchive {
    path: String,
    entries: u64,
    bytes: u64,
}

/// `GET /v1/sessions/{id}/files?path=&depth=&limit=`: `{path, entries: [{path, kind, bytes, modified}], total:
/// {entries, bytes}, truncated}`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(wanted): Parameters<ListFilesQuery>,
) -> Result<NoStoreJson<FilePage>, ApiError> {
    let ListFilesQuery {
        path,
        depth,
        cursor,
        limit,
    } = wanted;
    let after = cursor.map(|Cursor(after)| after);
    let dir = path.trim_end_matches('/');
    let is_below = |after: &String| {
        after
            .strip_prefix(dir)
            .is_some_and(|rest| dir.is_empty() || rest.starts_with('/'))
    };
    if after.as_ref().is_some_and(|after| !is_below(after)) {
        return Err(ApiError::bad_field("cursor", "is of another directory"));
    }
    let depth = depth
        .and_then(|Whole(depth)| u32::try_from(depth).ok())
        .unwrap_or(1);
    let limit = limit
        .and_then(|Whole(limit)| u32::try_from(limit).ok())
        .unwrap_or(LISTED);
    let kernel = first_kernel(&app, &principal, &id)?;
    let found = app
        .engine()
        .list_files(&principal, kernel, &path, depth, limit, after.as_deref())
        .await;
    let found = found.map_err(|error| of_session(error, &id))?;
    Ok(NoStoreJson(listing(path, found)))
}

fn listing(path: String, found: FileListing) -> FilePage {
    let entries = found.entries.into_iter().map(|entry| FileEntry {
        path: entry.path,
        kind: entry.kind.into(),
        bytes: entry.bytes,
        modified: timestamp(entry.modified),
    });
    FilePage {
        path,
        entries: entries.collect(),
        total: FileTotal {
            entries: found.total_entries,
            bytes: found.total_bytes,
        },
        truncated: found.truncated,
        next: found.next.map(|last| Cursor::<LIST>::write(&last)),
    }
}

/// `GET /v1/sessions/{id}/files/{path}`: the file, or with `Range` a part of it.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, path)): Path<(String, String)>,
    Parameters(NoParameters {}): Parameters<NoParameters>,
    headers: HeaderMap,
) -> Result<FileContent, ApiError> {
    let range: Option<ByteRange> = file_bodies::range(&headers);
    let kernel = first_kernel(&app, &principal, &id)?;
    let file = app.engine().read_file(&principal, kernel, &path, range).await;
    let file = file.map_err(|error| of_session(error, &id))?;
    Ok(FileContent(file_bodies::file(
        &path,
        file,
        range.is_some(),
        &headers,
    )))
}

/// `PUT /v1/sessions/{id}/files/{path}`: 201 for a new file, 200 for one that was replaced.
pub(crate) async fn put(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, path)): Path<(String, String)>,
    Parameters(NoParameters {}): Parameters<NoParameters>,
    File(body): File,
) -> Result<EitherResponse<JsonWithStatus<201, WrittenFile>, Json<WrittenFile>>, ApiError> {
    let kernel = first_kernel(&app, &principal, &id)?;
    let upload = app
        .engine()
        .write_file(&principal, kernel, &path, BTreeMap::new())
        .await;
    let upload = upload.map_err(|error| of_session(error, &id))?;
    let written = receive(&app, body, upload).await?;
    let bytes = written.bytes;
    Ok(if written.created {
        EitherResponse::One(JsonWithStatus(WrittenFile { path, bytes }))
    } else {
        EitherResponse::Other(Json(WrittenFile { path, bytes }))
    })
}

/// `DELETE /v1/sessions/{id}/files/{path}?recursive=`: 204 when it is gone.
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, path)): Path<(String, String)>,
    Parameters(Removal { recursive }): Parameters<Removal>,
) -> Result<Empty<204>, ApiError> {
    let kernel = first_kernel(&app, &principal, &id)?;
    let deleted = app
        .engine()
        .delete_file(&principal, kernel, &path, recursive)
        .await;
    deleted.map_err(|error| of_session(error, &id))?;
    Ok(Empty)
}

/// `POST /v1/sessions/{id}/upload?path=`: a tar archive into a directory.
pub(crate) async fn upload(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(Directory { path }): Parameters<Directory>,
    Archive(body): Archive,
) -> Result<Json<WrittenArchive>, ApiError> {
    let kernel = first_kernel(&app, &principal, &id)?;
    let upload = app.engine().write_archive(&principal, kernel, &path).await;
    let upload = upload.map_err(|error| of_session(error, &id))?;
    let written = receive(&app, body, upload).await?;
    Ok(Json(WrittenArchive {
        path,
        entries: written.entries,
        bytes: written.bytes,
    }))
}

/// `GET /v1/sessions/{id}/archive?path=`: a directory as a tar archive.
pub(crate) async fn archive(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(Directory { path }): Parameters<Directory>,
) -> Result<Tar, ApiError> {
    let kernel = first_kernel(&app, &principal, &id)?;
    let archive = app.engine().read_archive(&principal, kernel, &path).await;
    let archive = archive.map_err(|error| of_session(error, &id))?;
    Ok(Tar(file_bodies::archive(archive)))
}
