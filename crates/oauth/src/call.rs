//! Requests to an authorization server.

use std::pin::Pin;

use bytes::Bytes;
use himalia_model::HttpUrl;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::OAuthError;

/// Revision and method of the request that an MCP server is asked for its challenge with.
const MCP_VERSION: &str = "2026-07-28";
const MCP_METHOD: &str = "tools/list";
/// Most bytes of a response.
pub const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// A response that is waited for.
pub type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, String>> + Send + 'a>>;

/// Sends requests to authorization servers.
pub trait Transport: Send + Sync {
    /// Sends a request with a whole URL, once, and reads the response, which has at most [`MAX_RESPONSE_BYTES`]. Follows no redirect.
    /// The error is the reason, without a secret.
    fn send(&self, request: Request<Bytes>) -> ResponseFuture<'_>;
}

/// The response to a GET.
pub(crate) async fn get(
    transport: &dyn Transport,
    what: &'static str,
    url: &HttpUrl,
    accept: &'static str,
) -> Result<Response<Bytes>, OAuthError> {
    let request = Request::get(url.as_str())
        .header(ACCEPT, accept)
        .body(Bytes::new());
    send(transport, what, request).await
}

/// The response to a POST.
pub(crate) async fn post(
    transport: &dyn Transport,
    what: &'static str,
    url: &HttpUrl,
    (media_type, body): (&'static str, Bytes),
    authorization: Option<HeaderValue>,
) -> Result<Response<Bytes>, OAuthError> {
    let mut request = Request::post(url.as_str())
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, media_type);
    if let Some(mut value) = authorization {
        value.set_sensitive(true);
        request = request.header(http::header::AUTHORIZATION, value);
    }
    send(transport, what, request.body(body)).await
}

/// The response of an MCP server to a request without a token that changes nothing.
pub(crate) async fn post_to_mcp(
    transport: &dyn Transport,
    what: &'static str,
    url: &HttpUrl,
) -> Result<Response<Bytes>, OAuthError> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": MCP_METHOD, "params": {"_meta": meta}});
    let request = Request::post(url.as_str())
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .header("mcp-protocol-version", MCP_VERSION)
        .header("mcp-method", MCP_METHOD)
        .body(Bytes::from(body.to_string()));
    send(transport, what, request).await
}

async fn send(
    transport: &dyn Transport,
    what: &'static str,
    request: Result<Request<Bytes>, http::Error>,
) -> Result<Response<Bytes>, OAuthError> {
    let request = request.map_err(|error| OAuthError::answer(what, error.to_string()))?;
    let response = transport.send(request).await;
    let response = response.map_err(|reason| OAuthError::unreachable(what, reason))?;
    let status = response.status();
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(OAuthError::unreachable(
            what,
            format!("status {}", status.as_u16()),
        ));
    }
    Ok(response)
}

/// The value in a response. The text of an error does not quote it: it may have a token.
pub(crate) fn json<T: DeserializeOwned>(
    what: &'static str,
    response: &Response<Bytes>,
) -> Result<T, OAuthError> {
    serde_json::from_slice(response.body()).map_err(|error| {
        OAuthError::answer(
            what,
            format!(
                "status {}, and the body is not the JSON that was expected (line {}, column {})",
                response.status().as_u16(),
                error.line(),
                error.column()
            ),
        )
    })
}
