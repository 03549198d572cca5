//! HTTP requests of a client in a sandbox: they are read within bounds, and a refusal is their answer.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use himalia_model::panic_text;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::denial::{Denial, DenialKind};
use crate::internal::Body;

/// Time for the head of a request, also after the request before it.
const HEAD_TIME: Duration = Duration::from_mins(1);
/// Most bytes of the head of a request, and of what is read ahead of a body.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;

/// Serves the requests of a client. A refusal is its answer.
pub(crate) async fn serve_requests<S, F>(stream: S, respond: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Result<Response<Body>, Denial>>,
{
    let service = service_fn(|request| {
        let response = AssertUnwindSafe(respond(request)).catch_unwind();
        async move {
            let response = match response.await {
                Ok(response) => response.unwrap_or_else(|denial| refused(&denial)),
                Err(panic) => {
                    let panic = panic_text(&*panic);
                    tracing::error!(panic, "a request handler of a sandbox's proxy panicked");
                    internal_error()
                }
            };
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a client of the proxy");
    }
}

fn status(denial: &Denial) -> StatusCode {
    match denial.kind {
        DenialKind::Policy | DenialKind::Credential => StatusCode::FORBIDDEN,
        DenialKind::Request => StatusCode::BAD_REQUEST,
        DenialKind::Limit | DenialKind::CredentialUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        DenialKind::Unreachable => StatusCode::BAD_GATEWAY,
    }
}

/// 500: the log has the reason.
fn internal_error() -> Response<Body> {
    let text = "the gateway failed while it handled the request; its log has the reason\n";
    let body = Full::from(text).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A refusal. Its reason is the text too, which is all that many clients show of the response to a CONNECT.
fn refused(denial: &Denial) -> Response<Body> {
    let text = denial.to_string();
    let reason = ReasonPhrase::try_from(text.clone().into_bytes()).ok();
    let body = Full::from(format!("{text}\n")).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status(denial);
    // What else the client has sent may belong to what was refused.
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response
}

/// The same for a request that was not read.
pub(crate) fn refusal(denial: &Denial) -> Vec<u8> {
    let (status, body) = (status(denial).as_u16(), format!("{denial}\n"));
    let length = body.len();
    format!("HTTP/1.1 {status} {denial}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").into_bytes()
}
