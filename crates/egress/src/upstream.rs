//! The proxy of the gateway's own network, if it has one: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` of its environment.

use std::io;
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::denial::{Denial, Target};

/// Time for a connection, and for the answer to a CONNECT.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Most bytes of its answer to a CONNECT.
const HEAD_BYTES: usize = 16 * 1024;
const HTTP_PORT: u16 = 80;

/// A proxy that requests are sent to with their whole URL.
#[derive(Clone, Debug)]
pub(crate) struct HttpProxy {
    pub(crate) authorization: Option<HeaderValue>,
}

/// The proxy for a host, if it is not reached directly.
pub(crate) fn proxy_for(proxies: &Matcher, target: &Target, http: bool) -> Option<Intercept> {
    let scheme = if http { "http" } else { "https" };
    let url: Uri = format!("{scheme}://{target}/").parse().ok()?;
    proxies.intercept(&url)
}

/// Connects through it: for HTTP to the proxy itself, for other bytes by its CONNECT.
pub(crate) async fn connect(
    proxy: &Intercept,
    target: &Target,
    http: bool,
) -> Result<(TcpStream, Option<HttpProxy>), Denial> {
    let failed =
        |reason: String| Denial::unreachable(format_args!("{target}: the proxy of the gateway: {reason}"));
    if proxy.uri().scheme_str() != Some("http") {
        return Err(failed("only http:// proxies are supported".to_owned()));
    }
    let host = proxy.uri().host().unwrap_or_default();
    let port = proxy.uri().port_u16().unwrap_or(HTTP_PORT);
    let authorization = proxy.basic_auth().cloned();
    let connecting = async {
        let mut stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
        let _ = stream.set_nodelay(true);
        if http {
            return Ok((stream, Some(HttpProxy { authorization })));
        }
        open(&mut stream, target, authorization.as_ref()).await?;
        io::Result::Ok((stream, None))
    };
    match timeout(CONNECT_TIME, connecting).await {
        Ok(connected) => connected.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed(format!("no answer within {} s", CONNECT_TIME.as_secs()))),
    }
}

/// Has the proxy open a tunnel.
async fn open(
    stream: &mut TcpStream,
    target: &Target,
    authorization: Option<&HeaderValue>,
) -> io::Result<()> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n").into_bytes();
    if let Some(value) = authorization {
        request.extend_from_slice(b"proxy-authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await?;
    // No more than the head: what follows is the host's.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its answer is too long",
            ));
        }
        head.push(stream.read_u8().await?);
    }
    let line = String::from_utf8_lossy(&head);
    let line = line.lines().next().unwrap_or_default();
    let status = line.split(' ').nth(1).unwrap_or_default();
    if line.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2') {
        return Ok(());
    }
    Err(io::Error::other(format!("it answered {line:?}")))
}

/// Ways to hosts from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Without a proxy.
    Direct,
    /// Through this proxy.
    Proxy { host: String, port: u16 },
    /// The environment names a proxy of another kind.
    Unsupported(String),
}

/// Route to a host over TLS with the environment of this process.
pub fn route(host: &str) -> Route {
    let url = format!("https://{host}/").parse::<Uri>().ok();
    let Some(proxy) = url.and_then(|url| Matcher::from_env().intercept(&url)) else {
        return Route::Direct;
    };
    let uri = proxy.uri();
    if uri.scheme_str() != Some("http") {
        return Route::Unsupported(uri.scheme_str().unwrap_or_default().to_owned() + "://");
    }
    Route::Proxy {
        host: uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
        port: uri.port_u16().unwrap_or(HTTP_PORT),
    }
}
