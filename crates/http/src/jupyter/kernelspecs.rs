//! `/api/kernelspecs` and `/kernelspecs/{name}/{file}`.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::models::{Kernelspec, Kernelspecs};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::etag;

/// `GET /api/kernelspecs`: all, broken ones with their problem.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.engine().kernelspecs(&principal).await?;
    let kernelspecs = found
        .specs
        .into_iter()
        .map(|(name, spec)| (name, Kernelspec::new(&app, spec)))
        .collect();
    etag::json(
        &headers,
        &Kernelspecs {
            default: found.default,
            kernelspecs,
        },
    )
}

/// `GET /api/kernelspecs/{name}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let spec = app.engine().kernelspec(&principal, &name).await;
    let spec = spec.map_err(|error| ApiError::from(error).for_kernelspec())?;
    etag::json(&headers, &Kernelspec::new(&app, spec))
}

/// `GET /kernelspecs/{name}/{file}`: logos, `kernel.js`. Kernelspecs may come from anybody's package, so what a browser opens
/// directly is sandboxed.
pub(crate) async fn file(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((name, file)): Path<(String, String)>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.engine().kernelspec_file(&principal, &name, &file).await;
    let found = found.map_err(|error| ApiError::from(error).for_kernelspec())?;
    let kind = mime_guess::from_path(&found.name).first_or_octet_stream();
    let tag = etag::tag(&found.bytes);
    let mut response = if etag::matches(&request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from(found.bytes))
    };
    let headers = response.headers_mut();
    etag::set(headers, &tag);
    // As jupyter_server: pictures for 30 days, everything else is asked for again.
    let cache = if kind.subtype() == mime_guess::mime::PNG {
        "max-age=2592000"
    } else {
        "no-cache"
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    if let Ok(kind) = HeaderValue::from_str(kind.as_ref()) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    Ok(response)
}
