//! Connections to the hosts of credentials.

use std::sync::Arc;

use himalia_model::credential::UrlScheme;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

use super::tls::Roots;
use crate::denial::{Denial, Target};
use crate::gate::{Gate, Purpose};
use crate::internal::Body;
use crate::meter::Meter;
use crate::server::HEAD_BYTES;
use crate::upstream::HttpProxy;

/// A host, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) scheme: UrlScheme,
    pub(super) target: Target,
}

/// A connection that takes requests.
pub(super) struct Upstream {
    endpoint: Endpoint,
    pub(super) sender: SendRequest<Body>,
    pub(super) meter: Arc<Meter>,
    pub(super) via: Option<HttpProxy>,
    /// Ends with it.
    _driver: AbortOnDropHandle<()>,
}

/// Upstream connection of one client's latest request.
#[derive(Default)]
pub(super) struct Upstreams(Mutex<Option<Upstream>>);

impl Upstreams {
    /// A connection to a host, if the session may send this request there: the one before, if it is still open, or a new one.
    pub(super) async fn take(
        &self,
        gate: &Gate,
        roots: &Roots,
        endpoint: &Endpoint,
        method: &str,
    ) -> Result<Upstream, Denial> {
        let purpose = match endpoint.scheme {
            UrlScheme::Https => Purpose::SecureRequest(method.to_owned()),
            UrlScheme::Http => Purpose::Request(method.to_owned()),
        };
        let before = self.0.lock().take();
        if let Some(mut before) = before.filter(|before| before.endpoint == *endpoint)
            && before.sender.ready().await.is_ok()
        {
            gate.again(&endpoint.target, &purpose, &before.meter)?;
            return Ok(before);
        }
        let connected = gate.connect(&endpoint.target, purpose).await?;
        let (meter, via) = (Arc::clone(&connected.meter), connected.via.clone());
        let made = match endpoint.scheme {
            UrlScheme::Http => open(connected, endpoint, Arc::clone(&meter), via).await,
            UrlScheme::Https => match roots.connect(&endpoint.target, connected).await {
                Ok(stream) => open(stream, endpoint, Arc::clone(&meter), via).await,
                Err(denial) => Err(denial),
            },
        };
        made.inspect_err(|denial| meter.deny(denial))
    }

    /// Gives up the connection that was kept.
    pub(super) fn forget(&self) -> Option<Upstream> {
        self.0.lock().take()
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(&self, upstream: Upstream) {
        *self.0.lock() = Some(upstream);
    }
}

async fn open<S>(
    stream: S,
    endpoint: &Endpoint,
    meter: Arc<Meter>,
    via: Option<HttpProxy>,
) -> Result<Upstream, Denial>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let made = hyper::client::conn::http1::Builder::new()
        .max_buf_size(HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await;
    let target = &endpoint.target;
    let (sender, connection) =
        made.map_err(|error| Denial::unreachable(format_args!("{target}: {error}")))?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a host of a credential");
        }
    });
    Ok(Upstream {
        endpoint: endpoint.clone(),
        sender,
        meter,
        via,
        _driver: AbortOnDropHandle::new(driver),
    })
}
