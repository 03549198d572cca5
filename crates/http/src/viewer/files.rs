//! The routes of the viewer's files.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::encoding::Encoding;
use super::{base, policy};
use crate::app::App;
use crate::error::ApiError;
use crate::etag;

/// The page at `/` without a viewer.
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Himalia</title>\
<h1>Himalia</h1><p>This gateway was built without its viewer. <code>make web</code> builds the viewer, \
and <code>cargo build</code> then takes it in; <code>make build</code> does both.</p>\n";

/// `GET /`: the page. Everybody may have it; what it shows it asks for by itself.
pub(crate) async fn page(State(app): State<App>, request: HeaderMap) -> Result<Response, ApiError> {
    if app.config().viewer.is_empty() {
        let mut response = NOT_BUILT.into_response();
        let headers = response.headers_mut();
        policy::set(headers, &request, &base::of(&request, &app.url("")), false);
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        return Ok(response);
    }
    serve(&app, &request, "index.html")
}

/// `GET /frame.html`: where output runs.
pub(crate) async fn frame_page(State(app): State<App>, request: HeaderMap) -> Result<Response, ApiError> {
    serve(&app, &request, "frame.html")
}

/// `GET /icon.svg`.
pub(crate) async fn icon(State(app): State<App>, request: HeaderMap) -> Result<Response, ApiError> {
    serve(&app, &request, "icon.svg")
}

/// `GET /assets/{file}`: its name has a hash of its content.
pub(crate) async fn asset(
    State(app): State<App>,
    Path(file): Path<String>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    serve(&app, &request, &format!("assets/{file}"))
}

/// `GET /frame/{file}`: scripts of the frame, and what they load.
pub(crate) async fn frame_file(
    State(app): State<App>,
    Path(file): Path<String>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    serve(&app, &request, &format!("frame/{file}"))
}

fn serve(app: &App, request: &HeaderMap, path: &str) -> Result<Response, ApiError> {
    let Some(file) = app.config().viewer.0.get(path) else {
        return Err(ApiError::not_found("Not Found"));
    };
    let encoding = Encoding::best(request);
    // Each form is a representation of its own.
    let tag = format!("\"{}-{}\"", file.hash, encoding.word().unwrap_or("plain"));
    let mut response = if etag::matches(request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let body = file.content(encoding).map_err(|error| {
            tracing::error!(%error, path, "a file of the viewer cannot be unpacked");
            ApiError::internal("unpacking the viewer")
        })?;
        let mut response = Response::new(Body::from(body));
        if let Some(word) = encoding.word() {
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(word));
        }
        response
    };
    let headers = response.headers_mut();
    etag::set(headers, &tag);
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let lasting = if path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(lasting));
    if let Ok(kind) = HeaderValue::from_str(&file.kind) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    policy::set(
        headers,
        request,
        &base::of(request, &app.url("")),
        path == "frame.html",
    );
    Ok(response)
}
