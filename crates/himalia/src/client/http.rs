//! As much of an HTTP client as the commands need: one request per connection, JSON both ways, bounded.

use std::time::Duration;

use anyhow::{Context as _, bail};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::http::request;
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::file_body::FileBody;
use super::stream::Lines;
use super::target::Target;

/// Longest wait for a whole exchange: sixteen branches take their time.
const DEADLINE: Duration = Duration::from_mins(5);
/// Longest wait for the connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Largest reply.
const REPLY_BYTES: usize = 64 << 20;

/// The gateway does not listen.
#[derive(Debug, thiserror::Error)]
#[error("the gateway does not listen")]
pub(super) struct NoConnection;

/// One gateway.
#[derive(Debug)]
pub(super) struct Client {
    /// `host:port`.
    authority: String,
    /// Without a slash at its end.
    base: String,
    authorization: HeaderValue,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    body: Bytes,
}

impl Client {
    pub(super) fn new(target: &Target) -> anyhow::Result<Self> {
        let url: Uri = target
            .url
            .parse()
            .with_context(|| format!("url: {:?} is no address", target.url))?;
        let Some(host) = url.host().filter(|_| url.scheme_str() == Some("http")) else {
            bail!(
                "url: {:?} does not begin with http://; for TLS, go through a tunnel (ssh -L)",
                target.url
            );
        };
        let mut authorization = HeaderValue::from_str(&format!("token {}", target.token.0))
            .context("the token cannot stand in a header")?;
        authorization.set_sensitive(true);
        Ok(Self {
            authority: format!("{host}:{}", url.port_u16().unwrap_or(80)),
            base: url.path().trim_end_matches('/').to_owned(),
            authorization,
        })
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, path, None).await
    }

    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::DELETE, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// PUT of a file, which is read while it is sent.
    pub(super) async fn put_file(&self, path: &str, file: std::fs::File) -> anyhow::Result<Reply> {
        let request = self.request(Method::PUT, path, "application/json");
        let exchange = self.finish(request.body(FileBody::new(file))?);
        match tokio::time::timeout(DEADLINE, Box::pin(exchange)).await {
            Ok(reply) => reply,
            Err(_) => bail!("{} gave no answer in {} s", self.authority, DEADLINE.as_secs()),
        }
    }

    async fn finish(&self, request: Request<FileBody>) -> anyhow::Result<Reply> {
        let (response, connection) = self.send_request(request).await?;
        let status = response.status().as_u16();
        let reply = read(status, response.into_body()).await;
        connection.abort();
        reply
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Reply> {
        let exchange = self.exchange(method, path, body);
        match tokio::time::timeout(DEADLINE, Box::pin(exchange)).await {
            Ok(reply) => reply,
            Err(_) => bail!("{} gave no answer in {} s", self.authority, DEADLINE.as_secs()),
        }
    }

    /// A POST whose reply comes line by line. An error reply is an error.
    pub(super) async fn post_lines(&self, path: &str, body: &Value) -> anyhow::Result<Lines> {
        self.lines(Method::POST, path, Some(body)).await
    }

    /// A GET whose reply comes line by line.
    pub(super) async fn get_lines(&self, path: &str) -> anyhow::Result<Lines> {
        self.lines(Method::GET, path, None).await
    }

    async fn lines(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Lines> {
        let opening = self.open(method, path, body, "application/x-ndjson");
        let opened = tokio::time::timeout(DEADLINE, Box::pin(opening)).await;
        let Ok(opened) = opened else {
            bail!("{} gave no answer in {} s", self.authority, DEADLINE.as_secs());
        };
        let (response, connection) = opened?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(Lines::new(response.into_body(), connection));
        }
        let reply = read(status, response.into_body()).await;
        connection.abort();
        bail!("{}", reply?.problem())
    }

    /// A message to the MCP endpoint; the reply is JSON or server-sent events.
    pub(super) async fn post_message(
        &self,
        message: Vec<u8>,
        headers: &HeaderMap,
    ) -> anyhow::Result<(Response<Incoming>, JoinHandle<Result<(), hyper::Error>>)> {
        let mut request = self
            .request(Method::POST, "/mcp", "application/json, text/event-stream")
            .body(Full::new(Bytes::from(message)))?;
        request.headers_mut().extend(headers.clone());
        self.send_request(request).await
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Reply> {
        let (response, connection) = self.open(method, path, body, "application/json").await?;
        let status = response.status().as_u16();
        let reply = read(status, response.into_body()).await;
        connection.abort();
        reply
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        accept: &'static str,
    ) -> anyhow::Result<(Response<Incoming>, JoinHandle<Result<(), hyper::Error>>)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = self.request(method, path, accept);
        self.send_request(request.body(Full::new(Bytes::from(body)))?)
            .await
    }

    fn request(&self, method: Method, path: &str, accept: &'static str) -> request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(HOST, &self.authority)
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, self.authorization.clone())
    }

    /// Sends a request on a connection of its own; gives the head of the reply and what keeps the connection. An error that
    /// is [`NoConnection`] means that nothing was sent.
    async fn send_request<B>(
        &self,
        request: Request<B>,
    ) -> anyhow::Result<(Response<Incoming>, JoinHandle<Result<(), hyper::Error>>)>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let connecting = tokio::time::timeout(CONNECT, TcpStream::connect(&self.authority));
        let stream = connecting
            .await
            .map_err(|_| anyhow::anyhow!("no answer in {} s", CONNECT.as_secs()))
            .and_then(|stream| Ok(stream?))
            .context(NoConnection)
            .with_context(|| format!("cannot connect to {}", self.authority))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // Its errors are those of the request below.
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await;
        let response = response.with_context(|| format!("{} did not answer", self.authority))?;
        Ok((response, connection))
    }
}

async fn read(status: u16, body: Incoming) -> anyhow::Result<Reply> {
    let body = Limited::new(body, REPLY_BYTES).collect().await;
    let body = body
        .map_err(|error| anyhow::anyhow!("reading the reply: {error}"))?
        .to_bytes();
    Ok(Reply { status, body })
}

impl Reply {
    /// The body as it is.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).context("the reply is no JSON: is this a Himalia gateway?")
    }

    /// What a refusal says, in one line, with what in a session refuses a fork.
    pub(super) fn problem(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let detail = body["detail"].as_str().or(body["message"].as_str());
        let mut text = match (detail, body["code"].as_str()) {
            (Some(detail), Some(code)) => format!("{detail} ({code})"),
            (Some(detail), None) => detail.to_owned(),
            _ => format!("status {}", self.status),
        };
        for hazard in body["hazards"].as_array().into_iter().flatten() {
            for part in ["\n  ", "kind", " ", "name", ": ", "detail"] {
                text.push_str(hazard[part].as_str().unwrap_or(match part {
                    "kind" | "name" | "detail" => "",
                    separator => separator,
                }));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Secret;

    fn client(url: &str) -> anyhow::Result<Client> {
        Client::new(&Target {
            url: url.into(),
            token: Secret("t".into()),
        })
    }

    #[test]
    fn addresses_are_taken_apart() {
        let one = client("http://127.0.0.1:8888/lab/").unwrap();
        assert_eq!(
            (one.authority.as_str(), one.base.as_str()),
            ("127.0.0.1:8888", "/lab")
        );
        let one = client("http://[::1]").unwrap();
        assert_eq!((one.authority.as_str(), one.base.as_str()), ("[::1]:80", ""));
        for bad in ["https://h/", "h:1", "", "ftp://h/"] {
            assert!(client(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_its_code() {
        let reply = |body: &'static str| Reply {
            status: 409,
            body: Bytes::from_static(body.as_bytes()),
        };
        let text = reply(
            r#"{"detail": "no", "code": "hazard", "hazards": [{"kind": "native-thread", "name": "polars", "detail": "2 threads"}]}"#,
        )
        .problem();
        assert_eq!(text, "no (hazard)\n  native-thread polars: 2 threads");
        assert_eq!(reply("<html>").problem(), "status 409");
    }
}
