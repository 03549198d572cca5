//! The collector, and one request to it.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url, redirect};

/// Time for a connection, TLS included, and for a whole request.
const CONNECT: Duration = Duration::from_secs(5);
const REQUEST: Duration = Duration::from_secs(10);
/// Bytes of a response that are read.
const RESPONSE_BYTES: usize = 64 << 10;

/// Collector that receives spans and log records.
#[derive(Clone, Debug)]
pub struct Collector {
    client: Client,
    traces: Url,
    logs: Url,
    headers: HeaderMap,
}

/// Reasons why a collector cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadCollector {
    /// The address is invalid.
    #[error("must be an http:// or https:// address of a collector")]
    Address,
    /// A line is no header.
    #[error("line {0} must be a header (Name: value)")]
    Header(usize),
    /// TLS cannot be used on this machine.
    #[error("TLS: {0}")]
    Tls(String),
}

/// Contents of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Traces,
    Logs,
}

/// Result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExportOutcome {
    /// The collector has them, except so many.
    Taken { refused: u64 },
    /// It may take them later.
    Later(String),
    /// It does not want them.
    Never(String),
}

impl Collector {
    /// `endpoint` is the base address, below which `v1/traces` and `v1/logs` are. `headers` are lines `Name: value`, sent with each request; empty lines
    /// and those that begin with `#` are left out.
    pub fn new(endpoint: &str, headers: &str) -> Result<Self, BadCollector> {
        let (traces, logs) = (below(endpoint, "traces")?, below(endpoint, "logs")?);
        let headers = parse(headers)?;
        himalia_tls::install_provider();
        let builder = Client::builder()
            .connect_timeout(CONNECT)
            .timeout(REQUEST)
            .redirect(redirect::Policy::none());
        // The certificates of the system are read for https only.
        let builder = if traces.scheme() == "https" {
            builder
        } else {
            builder.tls_certs_only([])
        };
        let client = builder
            .build()
            .map_err(|error| BadCollector::Tls(error.to_string()))?;
        Ok(Self {
            client,
            traces,
            logs,
            headers,
        })
    }

    pub(crate) async fn send(&self, signal: Signal, body: Vec<u8>) -> ExportOutcome {
        let url = match signal {
            Signal::Traces => &self.traces,
            Signal::Logs => &self.logs,
        };
        let request = self
            .client
            .post(url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(body);
        match request.send().await {
            Ok(response) => judge(response).await,
            Err(error) => ExportOutcome::Later(reason(&error)),
        }
    }
}

/// The text of the last cause: that of the error itself is the address.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

async fn judge(mut response: Response) -> ExportOutcome {
    let status = response.status();
    if status.is_success() {
        let mut body = Vec::new();
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() > RESPONSE_BYTES {
                break;
            }
        }
        // The response to log records has the same fields under other names.
        let said = ExportTraceServiceResponse::decode(&*body).unwrap_or_default();
        let refused = said.partial_success.map_or(0, |partial| partial.rejected_spans);
        return ExportOutcome::Taken {
            refused: u64::try_from(refused).unwrap_or(0),
        };
    }
    let reason = format!("HTTP {}", status.as_u16());
    let later = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    if later.contains(&status) {
        ExportOutcome::Later(reason)
    } else {
        ExportOutcome::Never(reason)
    }
}

fn below(endpoint: &str, signal: &str) -> Result<Url, BadCollector> {
    let mut url = Url::parse(endpoint).map_err(|_| BadCollector::Address)?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(BadCollector::Address);
    }
    url.path_segments_mut()
        .map_err(|()| BadCollector::Address)?
        .pop_if_empty()
        .extend(["v1", signal]);
    Ok(url)
}

fn parse(lines: &str) -> Result<HeaderMap, BadCollector> {
    let mut headers = HeaderMap::new();
    for (at, line) in lines.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || BadCollector::Header(at + 1);
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        let name: HeaderName = name.trim().parse().map_err(|_| bad())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_below_the_endpoint() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://a.example/otlp/", "https://a.example/otlp/v1/traces"),
        ] {
            assert_eq!(below(endpoint, "traces").unwrap().as_str(), url);
        }
        for bad in ["", "127.0.0.1:4318", "grpc://a", "http://a/?b=c", "http://a/#b"] {
            assert!(below(bad, "traces").is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_are_lines_and_not_shown() {
        let headers = parse("# of the collector\n\nAuthorization: Bearer canary\nX-Scope: a:b\n").unwrap();
        assert_eq!(headers["authorization"], "Bearer canary");
        assert_eq!(headers["x-scope"], "a:b");
        assert!(!format!("{headers:?}").contains("canary"));
        for (bad, line) in [("a", 1), ("A: b\nc d: e", 2), (": b", 1)] {
            assert!(
                matches!(parse(bad), Err(BadCollector::Header(at)) if at == line),
                "{bad}"
            );
        }
    }
}
