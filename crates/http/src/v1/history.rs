//! What was run in a session: a list, a notebook, a script.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, Uri, header};
use axum::response::Response;
use himalia_engine::History;

use super::artifacts::set_kernel_made;
use super::sessions::{of_session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query;

/// Entries of a page when the caller does not say.
const PAGE: u64 = 100;

/// `GET /v1/sessions/{id}/history?offset=&limit=`: the newest last; without `offset` the latest ones.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<History>, ApiError> {
    query::only(&uri, &["offset", "limit"])?;
    let kernel = session_id(&app, &principal, &id)?;
    let (offset, limit) = (query::number(&uri, "offset")?, query::number(&uri, "limit")?);
    let found = app
        .engine()
        .history(&principal, kernel, offset, limit.unwrap_or(PAGE))
        .await;
    Ok(Json(found.map_err(|error| of_session(error, &id))?))
}

/// `GET /v1/sessions/{id}/notebook.ipynb`: all cells with their outputs, nbformat 4.5.
pub(crate) async fn notebook(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let found = app.engine().notebook(&principal, kernel).await;
    let found = found.map_err(|error| of_session(error, &id))?;
    Ok(download(
        found.to_string(),
        "application/x-ipynb+json",
        "attachment; filename=\"notebook.ipynb\"",
    ))
}

/// `GET /v1/sessions/{id}/script.py`: all code; what did not run to its end is there as comments.
pub(crate) async fn script(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let found = app.engine().script(&principal, kernel).await;
    let found = found.map_err(|error| of_session(error, &id))?;
    Ok(download(
        found,
        "text/x-python; charset=utf-8",
        "attachment; filename=\"script.py\"",
    ))
}

/// A file: what kernels made must not run as a part of the gateway's own pages.
fn download(text: String, kind: &'static str, disposition: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_kernel_made(headers);
    response
}
