//! A minimal HTTP/1.1 client for tests: one request per connection, and event streams.
//!
//! It parses little and adds nothing, so that tests see and send exactly what is on the wire.

mod body;
mod events;

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use body::Body;
pub use events::{Event, Events};

use crate::patience::within;

/// A server and the token for it.
#[derive(Clone, Debug)]
pub struct Http {
    address: String,
    token: Option<String>,
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without transfer coding.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The body as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("{} {}", self.status, self.text()))
    }

    /// This reply if it has that status, else an error that shows it.
    pub fn expect(self, status: u16) -> Result<Self> {
        if self.status != status {
            bail!("status {}, not {status}: {}", self.status, self.text());
        }
        Ok(self)
    }
}

impl Http {
    /// `address` is `host:port`; the token is sent as `Authorization: token …`.
    pub fn new(address: impl Into<String>, token: Option<&str>) -> Self {
        Self {
            address: address.into(),
            token: token.map(str::to_owned),
        }
    }

    /// The same server without a token.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self {
            address: self.address.clone(),
            token: None,
        }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.request("GET", path, &[], None).await
    }

    /// POST with a JSON body or none.
    pub async fn post(&self, path: &str, body: Option<&Value>) -> Result<Response> {
        self.json("POST", path, body).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Result<Response> {
        self.request("DELETE", path, &[], None).await
    }

    /// Any method with a JSON body or none.
    pub async fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response> {
        let body = body.map(Value::to_string);
        let headers = [("content-type", "application/json")];
        let headers = if body.is_some() { &headers[..] } else { &[] };
        self.request(method, path, headers, body.as_ref().map(String::as_bytes))
            .await
    }

    /// Any request.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Response> {
        let what = format!("{method} {path}");
        let exchange = async {
            let (status, headers, mut body) = self.open(method, path, headers, body).await?;
            let mut bytes = Vec::new();
            while let Some(chunk) = body.chunk().await? {
                bytes.extend_from_slice(&chunk);
            }
            anyhow::Ok(Response {
                status,
                headers,
                body: bytes,
            })
        };
        within(&what, exchange).await?.with_context(|| what)
    }

    /// Opens an event stream.
    pub async fn events(&self, path: &str, last_event_id: Option<u64>) -> Result<Events> {
        let id = last_event_id.map(|id| id.to_string());
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(id.as_deref().map(|id| ("last-event-id", id)));
        let opened = within("an event stream", self.open("GET", path, &headers, None));
        let (status, headers, mut body) = opened.await??;
        let content_type = find(&headers, "content-type").unwrap_or_default().to_owned();
        if status != 200 || !content_type.starts_with("text/event-stream") {
            let text = body.chunk().await?.unwrap_or_default();
            bail!(
                "GET {path}: {status} {content_type}: {}",
                String::from_utf8_lossy(&text)
            );
        }
        Ok(Events::new(body))
    }

    async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<(u16, Vec<(String, String)>, Body)> {
        let stream = TcpStream::connect(&self.address)
            .await
            .with_context(|| self.address.clone())?;
        stream.set_nodelay(true)?;
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n",
            self.address
        );
        let token = self
            .token
            .as_ref()
            .map(|token| ("authorization", format!("token {token}")));
        let length = body.map(|body| ("content-length", body.len().to_string()));
        let own = token
            .iter()
            .chain(&length)
            .map(|(name, value)| (*name, value.as_str()));
        for (name, value) in own.chain(headers.iter().copied()) {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        let mut stream = BufReader::new(stream);
        // A server may answer, and close, before it has read everything.
        let written = stream.write_all(&bytes).await;
        let (status, headers) = match head(&mut stream).await {
            Ok(head) => head,
            Err(error) => return Err(written.err().map_or(error, Into::into)),
        };
        let body = Body::new(stream, status, method, &headers);
        Ok((status, headers, body))
    }
}

async fn head(stream: &mut BufReader<TcpStream>) -> Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("no HTTP reply: {line:?}"))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => return Ok((status, headers)),
        }
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(found, _)| found == name)
        .map(|(_, value)| value.as_str())
}
