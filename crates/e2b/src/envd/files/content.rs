//! `GET` and `POST /files`: the content of files, in pieces.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::write::GzDecoder;
use futures_util::{StreamExt as _, stream};
use himalia_engine::{EngineError, FileUpload, Principal};
use himalia_facade::{BodyError, attachment, in_time};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{Files, name};
use crate::caller::{Caller, SandboxName};
use crate::envd::user;
use crate::facade::Facade;
use crate::failure::{ControlFailure, Failure};
use crate::limits::{
    FILES_PER_REQUEST, METADATA_BYTES, METADATA_NAME_BYTES, REST_BYTES, REST_TIME, UNPACKED_BYTES,
};

/// Beginning of the names of headers that are metadata of files.
const METADATA: &str = "x-metadata-";

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
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
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
    let (parts, body) = request.into_parts();
    let (body, rest) = shared(body);
    let request = Request::from_parts(parts, body);
    let written = async {
        let files = files(&facade, &principal, &named, &requested)?;
        let metadata = metadata(request.headers())?;
        let kind = request.headers().get(header::CONTENT_TYPE);
        let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/form-data"));
        if is_form {
            files.form((&requested.path, &metadata), request).await
        } else {
            let written = files.whole((&requested.path, &metadata), request).await?;
            Ok(vec![written])
        }
    };
    match written.await {
        Ok(written) => Ok(Json(written)),
        Err(failure) => {
            rest.read().await;
            Err(ControlFailure(failure))
        }
    }
}

/// The metadata of a file: headers `X-Metadata-<name>`, whose names are in lower case here.
fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, Failure> {
    let mut metadata = BTreeMap::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(METADATA) else {
            continue;
        };
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        let value =
            value.ok_or_else(|| Failure::field(name.as_str(), "expected printable ASCII characters"))?;
        if key.is_empty() || key.len() > METADATA_NAME_BYTES {
            let reason = format!("the name of metadata has 1 to {METADATA_NAME_BYTES} bytes");
            return Err(Failure::field(name.as_str(), reason));
        }
        metadata.insert(key.to_owned(), value.to_owned());
    }
    let bytes = metadata
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum::<usize>();
    if bytes > METADATA_BYTES {
        let reason = format!("the metadata of a file has at most {METADATA_BYTES} bytes");
        return Err(Failure::field("X-Metadata", reason));
    }
    Ok(metadata)
}

/// A body, and the part of it that is still unread.
fn shared(body: Body) -> (Body, BodyRest) {
    let rest = BodyRest(Arc::new(Mutex::new(body.into_data_stream())));
    let reader = rest.clone();
    (
        Body::from_stream(stream::poll_fn(move |cx| reader.0.lock().poll_next_unpin(cx))),
        rest,
    )
}

/// The rest of a body. Clients that are still sending when they are refused see a broken connection in place of the answer.
#[derive(Clone)]
struct BodyRest(Arc<Mutex<BodyDataStream>>);

impl BodyRest {
    /// Reads the rest, as far as it comes soon and is not too long.
    async fn read(&self) {
        let mut bytes = 0;
        let read = timeout(REST_TIME, async {
            while let Some(Ok(part)) = poll_fn(|cx| self.0.lock().poll_next_unpin(cx)).await {
                bytes += part.len();
                if bytes > REST_BYTES {
                    break;
                }
            }
        });
        // The client is answered in any case.
        let _ = read.await;
    }
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

/// Path and metadata of a file that is to be written.
type NewFile<'a> = (&'a str, &'a BTreeMap<String, String>);

impl Files<'_> {
    async fn form(
        &self,
        (path, metadata): NewFile<'_>,
        request: Request,
    ) -> Result<Vec<WrittenFile>, Failure> {
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
            written.push(self.field((&path, metadata), field).await?);
        }
        if written.is_empty() {
            return Err(Failure::field("file", "the form has no file"));
        }
        Ok(written)
    }

    async fn field(&self, file: NewFile<'_>, mut field: Field<'_>) -> Result<WrittenFile, Failure> {
        let mut upload = self.begin(file).await?;
        while let Some(bytes) = in_time(field.chunk()).await?.map_err(BodyError::from)? {
            upload.send(bytes).await.map_err(of_files)?;
        }
        self.end(file, upload).await
    }

    async fn whole(&self, file: NewFile<'_>, request: Request) -> Result<WrittenFile, Failure> {
        let is_packed = is_packed(request.headers())?;
        let mut upload = self.begin(file).await?;
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
        self.end(file, upload).await
    }

    async fn begin(&self, (path, metadata): NewFile<'_>) -> Result<FileUpload, Failure> {
        let named = self.dir.client_path(path);
        if named.is_root() {
            return Err(Failure::field("path", "names no file"));
        }
        let upload = self
            .engine
            .write_file(self.principal, self.kernel, named.path(), metadata.clone());
        upload.await.map_err(of_files)
    }

    async fn end(&self, (path, metadata): NewFile<'_>, upload: FileUpload) -> Result<WrittenFile, Failure> {
        upload.finish().await.map_err(of_files)?;
        let path = self.dir.client_path(path).shown();
        Ok(WrittenFile {
            name: name(&path),
            r#type: "file",
            path,
            metadata: metadata.clone(),
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
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn metadata_is_in_headers() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                (HeaderName::from_static(name), value)
            });
            pairs.collect::<HeaderMap>()
        };
        let read =
            |pairs: &[(&'static str, &str)]| metadata(&headers(pairs)).map_err(|failure| failure.message);
        let expected = [("a", "1"), ("b-c", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = read(&[("x-metadata-a", "1"), ("x-other", "2"), ("x-metadata-b-c", "")]);
        assert_eq!(found, Ok(BTreeMap::from(expected)));
        for (name, value) in [
            ("x-metadata-a", "\u{e4}"),
            ("x-metadata-", "1"),
            ("x-metadata-a", &*"1".repeat(METADATA_BYTES)),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn the_rest_of_a_body_is_read_as_far_as_is_fair() {
        let part = || Bytes::from(vec![0; REST_BYTES / 4]);
        for (parts, left) in [(3, 0), (9, 3)] {
            let sent = stream::iter((0..parts).map(move |_| std::io::Result::Ok(part())));
            let (body, rest) = shared(Body::from_stream(sent));
            assert!(body.into_data_stream().next().await.is_some());
            rest.read().await;
            let mut unread = 0;
            while poll_fn(|cx| rest.0.lock().poll_next_unpin(cx)).await.is_some() {
                unread += 1;
            }
            assert_eq!(unread, left, "{parts}");
        }
    }

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
