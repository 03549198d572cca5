//! Files of a session: those directly in its work directory and below it.

use axum::Json;
use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use himalia_engine::{DATA_DIR, FileKind, KernelId, ListedFile, MAX_LISTED};
use himalia_facade::{BodyError, attachment, in_time, in_work_dir, write_part};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use crate::caller::SessionCaller;
use crate::facade::Facade;
use crate::failure::Failure;

/// The version of the API whose files have their attributes in `properties`.
const FIRST_VERSION: &str = "2024-02-02-preview";

/// `GET files`: what is in the work directory.
pub(crate) async fn list(State(facade): State<Facade>, named: SessionCaller) -> Result<Json<Value>, Failure> {
    let session = named.session(&facade).await?;
    let engine = &facade.engine;
    let listed = engine
        .list_files(&named.principal, session, "", 1, MAX_LISTED, None)
        .await?;
    if listed.truncated {
        let reason = format!("there are more than {MAX_LISTED} files");
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many", reason));
    }
    // What the kernel keeps for itself is hidden.
    let shown = listed.entries.iter().filter(|file| !file.path.starts_with('.'));
    let shown: Vec<Value> = shown.map(|file| named.shown(file)).collect();
    Ok(Json(json!({ "value": shown })))
}

/// `POST files/upload`, `POST files?path=`: each file of a form, under its own name.
pub(crate) async fn upload(
    State(facade): State<Facade>,
    named: SessionCaller,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let session = named.session(&facade).await?;
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| Failure::field("body", error.body_text()))?;
    let mut written = Vec::new();
    while let Some(field) = in_time(form.next_field()).await?.map_err(BodyError::from)? {
        if field.name() == Some("file") {
            let path = write(&facade, &named, session, field).await?;
            let file = facade.engine.stat_file(&named.principal, session, &path).await?;
            written.push(named.shown(&file));
        }
    }
    if written.is_empty() {
        return Err(Failure::field("file", "the form has no file"));
    }
    Ok(Json(if named.is_first_version() {
        json!({ "value": written })
    } else {
        written.swap_remove(0)
    }))
}

async fn write(
    facade: &Facade,
    named: &SessionCaller,
    session: KernelId,
    part: Field<'_>,
) -> Result<String, Failure> {
    let path = relative(part.file_name().unwrap_or_default())?.to_owned();
    write_part::<Failure>(&facade.engine, &named.principal, session, &path, part).await?;
    Ok(path)
}

/// `GET files/content/{path}`: the content.
pub(crate) async fn content(
    State(facade): State<Facade>,
    named: SessionCaller,
    Path((_, path)): Path<(String, String)>,
) -> Result<Response, Failure> {
    sent(&facade, &named, &path).await
}

/// `GET files/{path}/content`: the content in the later form. `GET files/{path}`: what it is.
pub(crate) async fn of_path(
    State(facade): State<Facade>,
    named: SessionCaller,
    Path((_, path)): Path<(String, String)>,
) -> Result<Response, Failure> {
    if let Some(path) = path.strip_suffix("/content") {
        return sent(&facade, &named, path).await;
    }
    let session = named.session(&facade).await?;
    let path = relative(&path)?;
    let file = facade.engine.stat_file(&named.principal, session, path).await?;
    Ok(axum::response::IntoResponse::into_response(Json(
        named.shown(&file),
    )))
}

/// `DELETE files/{path}`.
pub(crate) async fn remove(
    State(facade): State<Facade>,
    named: SessionCaller,
    Path((_, path)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    let session = named.session(&facade).await?;
    let path = relative(&path)?;
    facade
        .engine
        .delete_file(&named.principal, session, path, false)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn sent(facade: &Facade, named: &SessionCaller, path: &str) -> Result<Response, Failure> {
    let session = named.session(facade).await?;
    let path = relative(path)?;
    let file = facade
        .engine
        .read_file(&named.principal, session, path, None)
        .await?;
    Ok(attachment(file))
}

impl SessionCaller {
    fn is_first_version(&self) -> bool {
        self.version == FIRST_VERSION
    }

    fn shown(&self, file: &ListedFile) -> Value {
        let modified = file.modified.format(&Rfc3339).unwrap_or_default();
        if self.is_first_version() {
            return json!({ "properties": {
                "filename": file.path, "size": file.bytes, "lastModifiedTime": modified
            }});
        }
        let kind = if file.kind == FileKind::Directory {
            "directory"
        } else {
            "file"
        };
        json!({
            "name": file.path, "type": kind, "sizeInBytes": file.bytes, "lastModifiedAt": modified,
            "contentType": "application/octet-stream"
        })
    }
}

/// A path below the work directory, which clients know as `/mnt/data`.
fn relative(path: &str) -> Result<&str, Failure> {
    in_work_dir(path, DATA_DIR).ok_or_else(|| Failure::field("file", "has no name"))
}
