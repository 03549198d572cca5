//! Files on their way from and to sandboxes.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::multipart::Field;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use himalia_engine::{Engine, EngineError, FileDownload, KernelId, Principal};

use crate::{BodyError, in_time};

/// The content of a file, which no browser shows.
pub fn attachment(file: FileDownload) -> Response {
    let size = file.info.as_ref().map(|info| info.bytes);
    let mut response = Response::new(Body::from_stream(file.into_stream()));
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(size) = size {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
    response
}

/// Writes a part of a form to a file.
///
/// # Errors
/// The file cannot be written, or the part does not arrive.
pub async fn write_part<E: From<EngineError> + From<BodyError>>(
    engine: &Engine,
    principal: &Principal,
    session: KernelId,
    path: &str,
    mut part: Field<'_>,
) -> Result<(), E> {
    let mut upload = engine
        .write_file(principal, session, path, BTreeMap::new())
        .await?;
    while let Some(bytes) = in_time(part.chunk()).await?.map_err(BodyError::from)? {
        upload.send(bytes).await?;
    }
    upload.finish().await?;
    Ok(())
}

/// The path below the work directory of what clients name below another directory; `None` for that directory itself.
pub fn in_work_dir<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let path = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    Some(path).filter(|path| !path.is_empty())
}
