//! `POST /v1/sessions/{id}/fork`: branches of a live session.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use himalia_engine::{ForkFiles, ForkKernel, ForkPolicy, MAX_BRANCHES};
use serde_json::{Value, json};

use super::models;
use super::sessions::{of_session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, Fields};
use crate::error::ApiError;
use crate::render;
use crate::variables;

/// Members, all optional: `count` (1), `policy` (`strict` or `report`), `files` (`copy` or `share`), `max_copy_bytes`
/// (256 MiB), `atomic` (false), `env`, `labels` (the parent's).
///
/// 201 `{"branches": […]}` with `count` branches. When one fails the rest is not tried: with `atomic`, or when it was the
/// first, the reply is its error; otherwise it is 207 with the branches that there are and the problem as `error`.
pub(crate) async fn fork(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let wish = read(body::fields(&app, &headers, body).await?.unwrap_or_default())?;
    let made = app.engine().fork_kernel(&principal, kernel, wish).await;
    let (mut branches, mut failure) = (Vec::new(), None);
    for outcome in made.map_err(|error| of_session(error, &id))? {
        match outcome {
            Ok(branch) => branches.push(models::branch(branch)),
            Err(error) => failure = failure.or(Some(ApiError::from(error))),
        }
    }
    match failure {
        None => Ok((StatusCode::CREATED, Json(json!({ "branches": branches }))).into_response()),
        Some(error) if branches.is_empty() => Err(error),
        Some(error) => Ok(partly(&branches, &error)),
    }
}

fn partly(branches: &[Value], error: &ApiError) -> Response {
    let body = json!({ "branches": branches, "error": render::problem(error) });
    (StatusCode::MULTI_STATUS, Json(body)).into_response()
}

fn read(mut fields: Fields) -> Result<ForkKernel, ApiError> {
    let count = fields.number("count")?.unwrap_or(1);
    let count = u32::try_from(count)
        .ok()
        .filter(|count| (1..=MAX_BRANCHES).contains(count))
        .ok_or_else(|| ApiError::bad_field("count", format!("expected 1 to {MAX_BRANCHES}")))?;
    let policies = [("strict", ForkPolicy::Strict), ("report", ForkPolicy::Report)];
    let plain = ForkKernel::default();
    let files = fields.word("files", &[("copy", false), ("share", true)])?;
    let max_bytes = fields.number("max_copy_bytes")?;
    let wish = ForkKernel {
        count,
        policy: fields.word("policy", &policies)?.unwrap_or_default(),
        files: match (files, max_bytes) {
            (Some(true), None) => ForkFiles::Share,
            (Some(true), Some(_)) => {
                return Err(ApiError::bad_field("max_copy_bytes", "is for files = copy"));
            }
            (_, Some(max_bytes)) => ForkFiles::Copy { max_bytes },
            (_, None) => plain.files,
        },
        atomic: fields.boolean("atomic")?.unwrap_or(plain.atomic),
        env: variables::read(&mut fields, "env")?,
        labels: fields.object("labels")?.map(Fields::into_strings).transpose()?,
    };
    fields.finish()?;
    Ok(wish)
}
