//! The history of a session: as a list, a notebook, a script.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use himalia_engine::{History, MAX_HISTORY_PAGE};
use schemars::JsonSchema;
use serde::Deserialize;

use super::answers::{Made, Notebook, Script};
use super::artifacts::set_kernel_made;
use super::input::{Parameters, Whole};
use super::kernels::{OfKernel, kernel_id};
use super::sessions::of_session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Entries of a page when the caller does not say.
const PAGE: u64 = 100;

/// A part of the history.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// First entry; default: the latest entries.
    offset: Option<u64>,
    /// Number of entries; default 100.
    limit: Option<Whole<1, { MAX_HISTORY_PAGE as u64 }>>,
}

/// `GET /v1/sessions/{id}/history?offset=&limit=`: the newest last; without `offset` the latest ones.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(Page {
        kernel,
        offset,
        limit,
    }): Parameters<Page>,
) -> Result<Made<History>, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let found = app
        .engine()
        .history(
            &principal,
            kernel,
            offset,
            limit.map_or(PAGE, |Whole(limit)| limit),
        )
        .await;
    let found = found.map_err(|error| of_session(error, &id))?;
    let bytes = found.about_bytes();
    let held = app.engine().hold_memory(&principal, bytes as u64)?;
    let made = || Made::held(&found, held);
    app.engine().answer_in_turn(&principal, bytes, made).await?
}

/// `GET /v1/sessions/{id}/notebook.ipynb`: all cells with their outputs, nbformat 4.5.
pub(crate) async fn notebook(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(OfKernel { kernel }): Parameters<OfKernel>,
) -> Result<Notebook, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let found = app.engine().notebook(&principal, kernel).await;
    let found = found.map_err(|error| of_session(error, &id))?;
    Ok(Notebook(download(
        found,
        "application/x-ipynb+json",
        "attachment; filename=\"notebook.ipynb\"",
    )))
}

/// `GET /v1/sessions/{id}/script.py`: all code; what did not run to its end is there as comments.
pub(crate) async fn script(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(OfKernel { kernel }): Parameters<OfKernel>,
) -> Result<Script, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let found = app.engine().script(&principal, kernel).await;
    let found = found.map_err(|error| of_session(error, &id))?;
    Ok(Script(download(
        found,
        "text/x-python; charset=utf-8",
        "attachment; filename=\"script.py\"",
    )))
}

/// A file: what kernels made must not run as a part of the gateway's own pages.
fn download(text: Bytes, kind: &'static str, disposition: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_kernel_made(headers);
    response
}
