//! Files of a container: those in its work directory and below it, which clients know as `/mnt/data`.

use axum::Json;
use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use himalia_engine::{
    DATA_DIR, Engine, EngineError, FileError, FileKind, KernelId, ListedFile, MAX_LISTED, Principal,
};
use himalia_facade::{BodyError, Caller, attachment, in_time, in_work_dir, write_part};
use serde_json::{Value, json};

use crate::containers::found;
use crate::facade::Facade;
use crate::failure::{self, Failure};
use crate::ids;
use crate::limits::DEPTH;
use crate::page::{ListQuery, page};

/// `GET …/files`.
pub(crate) async fn list(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path(container): Path<String>,
    Query(asked): Query<ListQuery>,
) -> Result<Json<Value>, Failure> {
    let (session, _) = found(&facade.engine, &principal, &container)?;
    let listed = facade
        .engine
        .list_files(&principal, session, "", DEPTH, MAX_LISTED, None)
        .await?;
    if listed.truncated {
        let reason = format!("there are more than {MAX_LISTED} files");
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many", reason));
    }
    // What the kernel keeps for itself is hidden.
    let is_shown = |file: &&ListedFile| file.kind == FileKind::File && !file.path.starts_with('.');
    let mut files: Vec<&ListedFile> = listed.entries.iter().filter(is_shown).collect();
    files.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
    let files = files.into_iter().map(|file| shown(&container, file)).collect();
    Ok(Json(page(files, &asked)?))
}

/// `POST …/files`: one file, as a form.
pub(crate) async fn create(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path(container): Path<String>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (session, _) = found(&facade.engine, &principal, &container)?;
    let kind = request.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/form-data")) {
        return Err(Failure::field(
            "file",
            "this gateway takes files as forms only, and has no file_id",
        ));
    }
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| Failure::field("body", error.body_text()))?;
    while let Some(field) = in_time(form.next_field()).await?.map_err(BodyError::from)? {
        if field.name() == Some("file") {
            let path = write(&facade.engine, &principal, session, field).await?;
            let file = facade.engine.stat_file(&principal, session, &path).await?;
            return Ok(Json(shown(&container, &file)));
        }
    }
    Err(Failure::field("file", "the form has no file"))
}

async fn write(
    engine: &Engine,
    principal: &Principal,
    session: KernelId,
    part: Field<'_>,
) -> Result<String, Failure> {
    let path = in_work_dir(part.file_name().unwrap_or_default(), DATA_DIR);
    let path = path
        .ok_or_else(|| Failure::field("file", "has no name"))?
        .to_owned();
    write_part::<Failure>(engine, principal, session, &path, part).await?;
    Ok(path)
}

/// `GET …/files/{id}`.
pub(crate) async fn show(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path((container, file)): Path<(String, String)>,
) -> Result<Json<Value>, Failure> {
    let (session, path) = of(&facade.engine, &principal, &container, &file)?;
    let found = facade.engine.stat_file(&principal, session, &path).await;
    Ok(Json(shown(
        &container,
        &found.map_err(|error| absent(error, &file))?,
    )))
}

/// `DELETE …/files/{id}`.
pub(crate) async fn remove(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path((container, file)): Path<(String, String)>,
) -> Result<Json<Value>, Failure> {
    let (session, path) = of(&facade.engine, &principal, &container, &file)?;
    let removed = facade.engine.delete_file(&principal, session, &path, false).await;
    removed.map_err(|error| absent(error, &file))?;
    Ok(Json(
        json!({ "id": file, "object": "container.file.deleted", "deleted": true }),
    ))
}

/// `GET …/files/{id}/content`.
pub(crate) async fn content(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Path((container, file)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let (session, path) = of(&facade.engine, &principal, &container, &file)?;
    let found = facade.engine.read_file(&principal, session, &path, None).await;
    Ok(attachment(found.map_err(|error| absent(error, &file))?))
}

/// The session and the path of a file.
fn of(
    engine: &Engine,
    principal: &Principal,
    container: &str,
    file: &str,
) -> Result<(KernelId, String), Failure> {
    let (session, _) = found(engine, principal, container)?;
    let path = ids::path(file).ok_or_else(|| failure::absent("file", file))?;
    Ok((session, path))
}

/// A file that is not there is named by its id.
fn absent(error: EngineError, file: &str) -> Failure {
    match error {
        EngineError::Files {
            code: FileError::NotFound,
            ..
        } => failure::absent("file", file),
        other => other.into(),
    }
}

fn shown(container: &str, file: &ListedFile) -> Value {
    json!({
        "id": ids::file(&file.path),
        "object": "container.file",
        "bytes": file.bytes,
        "container_id": container,
        "created_at": file.modified.unix_timestamp(),
        "path": format!("{DATA_DIR}/{}", file.path),
        "source": "user",
    })
}
