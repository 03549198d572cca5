//! `GET` and `POST /files`: the content of files, in pieces.

use std::io::Write as _;

use axum::Json;
use axum::body::Bytes;
use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::write::GzDecoder;
use futures_util::StreamExt as _;
use himalia_engine::{EngineError, FileUpload, Principal};
use himalia_facade::{BodyError, attachment, in_time};
use serde::{Deserialize, Serialize};

use super::{Files, name};
use crate::caller::{Caller, SandboxName};
use crate::envd::user;
use crate::facade::Facade;
use crate::failure::{ControlFailure, Failure};
use crate::limits::{FILES_PER_REQUEST, UNPACKED_BYTES};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::envd) struct FileQuery {
    path: String,
    username: String,
}

/// A file that was written.
#[derive(Debug, Serialize)]
pub(in crate::envd) struct WrittenFile {
    name: String,
    r#type: &'static str,
    path: String,
}

pub(in crate::envd) async fn read(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    Query(requested): Query<FileQuery>,
) -> Result<Response, ControlFailure> {
    let files = files(&facade, &principal, &named, &requested)?;
    let named = files.dir.client_path(&requested.path);
    let file = files
        .engine
        .read_file(files.principal, files.kernel, named.path(), None)
        .await;
    let file = file.map_err(of_files)?;
    Ok(attachment(file))
}

/// The body is one file, or a form with files. In a form each has its path as its name, unless the request names the path of the one.
pub(in crate::envd) async fn write(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    Query(requested): Query<FileQuery>,
    request: Request,
) -> Result<Json<Vec<WrittenFile>>, ControlFailure> {
    let files = files(&facade, &principal, &named, &requested)?;
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/form-data"));
    let written = if is_form {
        files.form(&requested.path, request).await?
    } else {
        vec![files.whole(&requested.path, request).await?]
    };
    Ok(Json(written))
}

/// The files that a request is about.
fn files<'a>(
    facade: &'a Facade,
    principal: &'a Principal,
    named: &SandboxName,
    requested: &FileQuery,
) -> Result<Files<'a>, Failure> {
    user::check(&requested.username)?;
    let session = named.running(&facade.engine, principal)?;
    Ok(Files::of(&facade.engine, principal, session)?)
}

impl Files<'_> {
    async fn form(&self, path: &str, request: Request) -> Result<Vec<WrittenFile>, Failure> {
        if is_packed(request.headers())? {
            return Err(Failure::field("Content-Encoding", "a form cannot be compressed"));
        }
        let form = Multipart::from_request(request, &()).await;
        let mut form = form.map_err(|error| Failure::new(error.status(), error.body_text()))?;
        let mut written = Vec::new();
        while let Some(field) = in_time(form.next_field()).await?.map_err(BodyError::from)? {
            if field.name() != Some("file") {
                continue;
            }
            if written.len() >= FILES_PER_REQUEST {
                return Err(Failure::field(
                    "file",
                    format!("more than {FILES_PER_REQUEST} files"),
                ));
            }
            let path = if path.is_empty() {
                field.file_name().unwrap_or_default()
            } else {
                path
            }
            .to_owned();
            written.push(self.field(&path, field).await?);
        }
        if written.is_empty() {
            return Err(Failure::field("file", "the form has no file"));
        }
        Ok(written)
    }

    async fn field(&self, path: &str, mut field: Field<'_>) -> Result<WrittenFile, Failure> {
        let mut upload = self.begin(path).await?;
        while let Some(bytes) = in_time(field.chunk()).await?.map_err(BodyError::from)? {
            upload.send(bytes).await.map_err(of_files)?;
        }
        self.end(path, upload).await
    }

    async fn whole(&self, path: &str, request: Request) -> Result<WrittenFile, Failure> {
        let is_packed = is_packed(request.headers())?;
        let mut upload = self.begin(path).await?;
        let mut body = request.into_body().into_data_stream();
        let mut unpacking = is_packed.then(|| GzDecoder::new(UnpackedBytes::default()));
        while let Some(bytes) = in_time(body.next()).await? {
            let broken = |_| Failure::new(StatusCode::BAD_REQUEST, "the body broke off");
            let bytes = bytes.map_err(broken)?;
            let Some(decoder) = &mut unpacking else {
                upload.send(bytes).await.map_err(of_files)?;
                continue;
            };
            // A small part at a time, since it may become a thousand times as much.
            for part in bytes.chunks(PART) {
                decoder.write_all(part).map_err(|error| of_packed(&error))?;
                upload.send(decoder.get_mut().take()).await.map_err(of_files)?;
            }
        }
        if let Some(decoder) = unpacking {
            let mut rest = decoder.finish().map_err(|error| of_packed(&error))?;
            upload.send(rest.take()).await.map_err(of_files)?;
        }
        self.end(path, upload).await
    }

    async fn begin(&self, path: &str) -> Result<FileUpload, Failure> {
        let named = self.dir.client_path(path);
        if named.is_root() {
            return Err(Failure::field("path", "names no file"));
        }
        let upload = self.engine.write_file(self.principal, self.kernel, named.path());
        upload.await.map_err(of_files)
    }

    async fn end(&self, path: &str, upload: FileUpload) -> Result<WrittenFile, Failure> {
        upload.finish().await.map_err(of_files)?;
        let path = self.dir.client_path(path).shown();
        Ok(WrittenFile {
            name: name(&path),
            r#type: "file",
            path,
        })
    }
}

/// Bytes of a compressed body that are unpacked at once.
const PART: usize = 1 << 10;

/// Unpacked bytes that are not sent yet.
#[derive(Default)]
struct UnpackedBytes(Vec<u8>);

impl UnpackedBytes {
    fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.0).into()
    }
}

impl std::io::Write for UnpackedBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > UNPACKED_BYTES {
            return Err(std::io::Error::other("it unpacks to far more than it is"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// True if a body is compressed with gzip. Refuses other forms.
fn is_packed(headers: &HeaderMap) -> Result<bool, Failure> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => Err(Failure::field("Content-Encoding", "expected gzip or nothing")),
    }
}

fn of_packed(error: &std::io::Error) -> Failure {
    Failure::field("body", format!("is not valid gzip: {error}"))
}

/// Failures of files say their reason alone.
fn of_files(error: EngineError) -> Failure {
    let reason = match &error {
        EngineError::Files { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let failure = Failure::from(error);
    Failure {
        message: reason.unwrap_or(failure.message),
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unpacks_to_far_more_is_refused() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let zeros = vec![0; 2 * UNPACKED_BYTES];
        packed.write_all(&zeros).unwrap();
        let packed = packed.finish().unwrap();
        let mut decoder = GzDecoder::new(UnpackedBytes::default());
        assert!(
            decoder.write_all(&packed).is_err(),
            "without taking what was unpacked"
        );
        let mut decoder = GzDecoder::new(UnpackedBytes::default());
        let mut total = 0;
        for part in packed.chunks(1) {
            decoder.write_all(part).unwrap();
            total += decoder.get_mut().take().len();
        }
        assert_eq!(total + decoder.finish().unwrap().0.len(), zeros.len());
    }
}
