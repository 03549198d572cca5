//! The gateway's HTTP API, for the commands: JSON both ways, bounded.
//!
//! `https` URLs are checked against the CAs that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), or
//! against those of `--ca` alone. Plain `http` goes to the gateway itself and never through a proxy, which could read
//! the token; `https` goes through the proxy that `HTTPS_PROXY` names. No redirect is followed: the token is for one
//! address.

#[cfg(feature = "connect")]
mod upgrade;

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Body, Certificate, Method, RequestBuilder, Response, Url, redirect};
use serde_json::Value;
use tokio_util::io::ReaderStream;

use super::show;
use super::stream::Lines;
use super::target::Target;
use crate::support::{encoded, expect};

/// Longest wait for a whole exchange: sixteen branches take their time.
const DEADLINE: Duration = Duration::from_mins(5);
/// Longest wait for the connection, its TLS handshake included.
const CONNECT: Duration = Duration::from_secs(10);
/// Largest reply.
const REPLY_BYTES: usize = 64 << 20;
/// Read at once of a file that is sent.
const CHUNK_BYTES: usize = 256 << 10;

/// The gateway does not listen.
#[derive(Debug, thiserror::Error)]
#[error("the gateway does not listen")]
pub(super) struct NoConnection;

/// A request, or a part of it, was sent, and no answer came.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoResponse(String);

/// One gateway. Clones share its connections.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    /// `host:port`.
    authority: String,
    /// Scheme, authority and path, without a slash at its end.
    base: String,
    authorization: HeaderValue,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    body: Vec<u8>,
}

impl Client {
    pub(super) fn new(target: &Target) -> anyhow::Result<Self> {
        let url = Url::parse(&target.url).with_context(|| {
            format!(
                "url: {:?} must be a URL such as http://127.0.0.1:8888",
                target.url
            )
        })?;
        let (scheme, host) = (url.scheme(), url.host_str().unwrap_or_default());
        let Some(port) = url
            .port_or_known_default()
            .filter(|_| ["http", "https"].contains(&scheme))
        else {
            bail!("url: {:?} does not begin with http:// or https://", target.url);
        };
        let mut authorization = HeaderValue::from_str(&format!("token {}", target.token.0))
            .context("the token cannot stand in a header")?;
        authorization.set_sensitive(true);
        let authority = format!("{host}:{port}");
        Ok(Self {
            http: connector(scheme == "https", target.ca.as_deref())?,
            base: format!("{scheme}://{authority}{}", url.path().trim_end_matches('/')),
            authority,
            authorization,
        })
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, path, None).await
    }

    /// All things of a list, read page by page: the first page with the things of all pages as `member`.
    pub(super) async fn list(&self, path: &str, member: &str) -> anyhow::Result<Value> {
        let (mut whole, mut things) = (Value::Null, Vec::new());
        let mut page = path.to_owned();
        loop {
            let reply = self.get(&page).await?;
            let mut body = expect(&reply, 200)?;
            let Value::Array(more) = body[member].take() else {
                bail!("the gateway has no list of {member}");
            };
            things.extend(more);
            let next = body["next"].as_str().map(encoded);
            if whole.is_null() {
                whole = body;
            }
            let Some(cursor) = next else {
                whole[member] = things.into();
                whole["next"] = Value::Null;
                return Ok(whole);
            };
            let and = if path.contains('?') { '&' } else { '?' };
            page = format!("{path}{and}cursor={cursor}");
        }
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

    pub(super) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// PUT of a file, which is read while it is sent.
    pub(super) async fn put_file(&self, path: &str, file: std::fs::File) -> anyhow::Result<Reply> {
        let chunks = ReaderStream::with_capacity(tokio::fs::File::from_std(file), CHUNK_BYTES);
        let request = self.request(Method::PUT, path, "application/json");
        self.exchange(request.body(Body::wrap_stream(chunks))).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Reply> {
        let request = self.request(method, path, "application/json");
        self.exchange(request.body(text(body))).await
    }

    async fn exchange(&self, request: RequestBuilder) -> anyhow::Result<Reply> {
        let exchange = async { read(self.response(request).await?).await };
        match tokio::time::timeout(DEADLINE, exchange).await {
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
        let request = self
            .request(method, path, "application/x-ndjson")
            .body(text(body));
        let Ok(response) = tokio::time::timeout(DEADLINE, self.response(request)).await else {
            bail!("{} gave no answer in {} s", self.authority, DEADLINE.as_secs());
        };
        let response = response?;
        if response.status() == 200 {
            return Ok(Lines::new(response));
        }
        bail!("{}", read(response).await?.problem())
    }

    /// A message to the MCP endpoint; the reply is JSON or server-sent events.
    pub(super) async fn post_message(
        &self,
        message: Vec<u8>,
        headers: HeaderMap,
    ) -> anyhow::Result<Response> {
        let request = self.request(Method::POST, "/mcp", "application/json, text/event-stream");
        self.response(request.headers(headers).body(message)).await
    }

    fn request(&self, method: Method, path: &str, accept: &'static str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.base))
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, self.authorization.clone())
    }

    /// Sends a request; gives the head of the reply. An error that is [`NoConnection`] means that nothing was sent.
    async fn response(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let sent = Box::pin(request.send()).await;
        sent.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &reqwest::Error) -> anyhow::Error {
        if let Some(refusal) = tls_refusal(error) {
            return anyhow::anyhow!("{}: {refusal}", self.authority);
        }
        if !error.is_connect() {
            return NoResponse(format!("{} did not answer: {}", self.authority, reason(error))).into();
        }
        let reason = if error.is_timeout() {
            format!("no answer in {} s", CONNECT.as_secs())
        } else {
            reason(error)
        };
        anyhow::anyhow!(reason)
            .context(NoConnection)
            .context(format!("cannot connect to {}", self.authority))
    }
}

/// Client for connections. CA certificates are read for `https` only, so that other commands do not wait for them.
fn connector(secure: bool, ca: Option<&Path>) -> anyhow::Result<reqwest::Client> {
    himalia_tls::install_provider();
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none());
    let builder = match ca {
        _ if !secure => builder.no_proxy().tls_certs_only([]),
        None => builder,
        Some(file) => builder.tls_certs_only(certificates(file)?),
    };
    builder
        .build()
        .map_err(|error| anyhow::anyhow!("TLS: {}; --ca FILE names the CA of the gateway", reason(&error)))
}

/// The certificates in a PEM file.
fn certificates(file: &Path) -> anyhow::Result<Vec<Certificate>> {
    let what = || format!("--ca {}", file.display());
    let pem = std::fs::read(file).with_context(what)?;
    let found = Certificate::from_pem_bundle(&pem).with_context(what)?;
    ensure!(
        !found.is_empty(),
        "{}: there is no certificate in it (PEM)",
        what()
    );
    Ok(found)
}

/// Problem of the gateway's certificate or TLS, if that was the cause.
fn tls_refusal(error: &reqwest::Error) -> Option<String> {
    use rustls::CertificateError as Bad;
    let mut source = error.source();
    let tls = loop {
        let cause = innermost(source?);
        match cause.downcast_ref::<rustls::Error>() {
            Some(error) => break error,
            None => source = cause.source(),
        }
    };
    Some(match tls {
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "its certificate is not from a CA that is trusted here; --ca FILE or HIMALIA_CA names the certificate of another one".to_owned()
        }
        rustls::Error::InvalidCertificate(bad) => format!("its certificate is not valid: {bad}"),
        rustls::Error::InvalidMessage(_) => "it does not speak TLS; is its address http://?".to_owned(),
        other => format!("TLS: {other}"),
    })
}

/// Innermost cause; an `io::Error` does not report its inner error as a source.
fn innermost<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    while let Some(inner) = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref)
    {
        error = inner;
    }
    error
}

/// The cause at the bottom, without the layers of the client above it.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn text(body: Option<&Value>) -> String {
    body.map(Value::to_string).unwrap_or_default()
}

/// Reads an answer to its end.
pub(super) async fn read(mut response: Response) -> anyhow::Result<Reply> {
    let (status, mut body) = (response.status().as_u16(), Vec::new());
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| anyhow::anyhow!("reading the reply: {}", reason(&error)))?;
        let Some(chunk) = chunk else { break };
        ensure!(
            body.len() + chunk.len() <= REPLY_BYTES,
            "reading the reply: it is longer than {REPLY_BYTES} bytes"
        );
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { status, body })
}

impl Reply {
    /// The body as it is.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).context("the reply is not JSON: is this a Himalia gateway?")
    }

    /// A body that is not JSON, if the status is 200.
    pub(super) fn into_text(self) -> anyhow::Result<String> {
        ensure!(self.status == 200, "{}", self.problem());
        String::from_utf8(self.body).context("the reply is not UTF-8")
    }

    /// Text of a refusal in one line, with the hazards that refuse a fork.
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
        let explained = body["code"].as_str().and_then(himalia_model::explain_code);
        if let Some(explained) = explained {
            text = format!("{text}\nhint: {}", explained.remedy);
        }
        // It can repeat what code, tools and servers wrote.
        let lines: Vec<String> = text.lines().map(show::printable).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Secret;

    fn client(url: &str) -> anyhow::Result<Client> {
        Client::new(&Target {
            url: url.into(),
            token: Secret("t".into()),
            ca: None,
        })
    }

    #[test]
    fn addresses_are_taken_apart() {
        let one = client("http://127.0.0.1:8888/lab/").unwrap();
        assert_eq!(
            (one.authority.as_str(), one.base.as_str()),
            ("127.0.0.1:8888", "http://127.0.0.1:8888/lab")
        );
        let one = client("http://[::1]").unwrap();
        assert_eq!(one.base, "http://[::1]:80");
        for bad in ["h:1", "", "ftp://h/", "http://", "file:///x"] {
            assert!(client(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_its_code() {
        let reply = |body: &'static str| Reply {
            status: 409,
            body: body.as_bytes().to_owned(),
        };
        let text = reply(
            r#"{"detail": "no", "code": "fork_hazard", "hazards": [{"kind": "native-thread", "name": "polars", "detail": "2 threads"}]}"#,
        )
        .problem();
        let (first, hint) = text.split_once("\nhint: ").unwrap();
        assert_eq!(first, "no (fork_hazard)\n  native-thread polars: 2 threads");
        assert_eq!(hint, himalia_model::explain_code("fork_hazard").unwrap().remedy);
        assert_eq!(reply(r#"{"detail": "no", "code": "new"}"#).problem(), "no (new)");
        assert_eq!(reply("<html>").problem(), "status 409");
    }
}
