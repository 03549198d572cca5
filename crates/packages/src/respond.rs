//! Requests of sessions.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use himalia_egress::{Body, BodyError, Denial, InternalService, NetworkAccess};
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

use crate::index::NoPage;
use crate::page::{File, Form, NO_DIGEST, digest, normalized};
use crate::{NAME, Packages, download};

/// Says whether a file was in the cache.
const CACHE: HeaderName = HeaderName::from_static("x-himalia-cache");
const METADATA: &str = ".metadata";

/// Meanings of a request's path.
#[derive(Debug, PartialEq, Eq)]
enum Path<'a> {
    Project(String),
    File {
        project: String,
        digest: &'a str,
        name: &'a str,
        metadata: bool,
    },
}

impl InternalService for Packages {
    fn is_at(&self, name: &str) -> bool {
        name == NAME
    }

    fn respond(
        self: Arc<Self>,
        request: Request<Body>,
        session: Arc<NetworkAccess>,
    ) -> BoxFuture<'static, Result<Response<Body>, Denial>> {
        Box::pin(async move {
            session.permits(&self.target(), self.settings.access())?;
            let reads = matches!(*request.method(), Method::GET | Method::HEAD);
            let Some(path) = path(request.uri().path()) else {
                return Ok(text(
                    StatusCode::NOT_FOUND,
                    "there are /simple/PROJECT/ and the files that it names\n",
                ));
            };
            if !reads {
                let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "a session only reads\n");
                response
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                return Ok(response);
            }
            let mut response = match path {
                Path::Project(project) => self.project(&project, form(request.headers())).await,
                Path::File {
                    project,
                    digest,
                    name,
                    metadata,
                } => {
                    let owner = session.owner();
                    self.file(&owner, &project, (digest, name), metadata).await
                }
            }?;
            // It is in this cache, and a copy would fill the disk of the session.
            response
                .headers_mut()
                .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            if request.method() == Method::HEAD {
                *response.body_mut() = full(Bytes::new());
            }
            Ok(response)
        })
    }
}

impl Packages {
    async fn project(&self, project: &str, form: Form) -> Result<Response<Body>, Denial> {
        let page = match self.index.page(project).await {
            Ok(page) => page,
            Err(no) => return without_page(no, project),
        };
        let body = page.write(form);
        let mut response = Response::new(full(body));
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
        Ok(response)
    }

    async fn file(
        &self,
        owner: &str,
        project: &str,
        (of, name): (&str, &str),
        metadata: bool,
    ) -> Result<Response<Body>, Denial> {
        let page = match self.index.page(project).await {
            Ok(page) => page,
            Err(no) => return without_page(no, project),
        };
        let found = page.file(name, of).and_then(|file| wanted(file, metadata));
        let Some((url, digest)) = found else {
            return Ok(text(StatusCode::NOT_FOUND, "the index has no such file\n"));
        };
        let fetch = self.index.fetch();
        let (total, body, cached) = if let Some(digest) = digest {
            let reading = self.downloads.get(owner, &digest, &url, fetch).await?;
            let (total, cached) = (reading.total, if reading.cached { "hit" } else { "miss" });
            let frames = reading.into_stream().map_ok(Frame::data);
            (total, BodyExt::boxed(StreamBody::new(frames)), cached)
        } else {
            // Nothing says what it should be.
            let (total, body) = download::open(&url, fetch).await?;
            (total, body.map_err(BodyError::from).boxed(), "none")
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(CACHE, HeaderValue::from_static(cached));
        if let Some(total) = total {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(total));
        }
        Ok(response)
    }
}

/// URL and digest of a file, or of its metadata.
fn wanted(file: &File, metadata: bool) -> Option<(url::Url, Option<String>)> {
    let mut url = file.url.clone();
    if !metadata {
        return Some((url, file.sha256().map(str::to_owned)));
    }
    let digest = file.metadata.clone()?;
    url.set_path(&format!("{}{METADATA}", url.path()));
    Some((url, Some(digest)))
}

fn path(path: &str) -> Option<Path<'_>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    match parts[..] {
        ["simple", project] | ["simple", project, ""] => normalized(project).map(Path::Project),
        ["files", project, of, name] => {
            let (name, metadata) = match name.strip_suffix(METADATA) {
                Some(name) => (name, true),
                None => (name, false),
            };
            // As the page has it, so that a name has one spelling.
            let sound = of == NO_DIGEST || digest(of).is_some_and(|digest| digest == of);
            let project = normalized(project).filter(|_| sound)?;
            Some(Path::File {
                project,
                digest: of,
                name,
                metadata,
            })
        }
        _ => None,
    }
}

fn form(headers: &HeaderMap) -> Form {
    let accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let json = accepted
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().starts_with(Form::Json.content_type()));
    if json { Form::Json } else { Form::Html }
}

fn without_page(no: NoPage, project: &str) -> Result<Response<Body>, Denial> {
    match no {
        NoPage::Unknown => Ok(text(
            StatusCode::NOT_FOUND,
            &format!("the index has no project {project}\n"),
        )),
        NoPage::Failed(denial) => Err(denial),
    }
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(full(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never: Infallible| match never {})
        .boxed()
}
