//! Destination of a tunnel.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::credentials::{intercept, relay};
use crate::denial::{Denial, Target};
use crate::gate::{Gate, Purpose};
use crate::meter::MeteredStream;
use crate::prefixed::PrefixedStream;
use crate::tunnel;

/// Destination of a client's bytes.
pub(crate) enum Destination {
    Host(MeteredStream<TcpStream>),
    /// To a host, through TLS that the gateway reads.
    Intercepted,
    /// To a credential, by its internal name.
    Credential,
}

impl Destination {
    /// Opens the destination for this name and port, if the session may reach it.
    pub(crate) async fn open(gate: &Gate, target: &Target) -> Result<Self, Denial> {
        let noted = |denial: &Denial| gate.refused(target, denial);
        if relay::name_of(&target.host).is_some() {
            relay::check_port(target).inspect_err(noted)?;
            return Ok(Self::Credential);
        }
        if intercept::wanted(gate, target).await.inspect_err(noted)? {
            return Ok(Self::Intercepted);
        }
        let purpose = if target.port == tunnel::HTTP_PORT {
            Purpose::Http
        } else {
            Purpose::Tunnel
        };
        gate.connect(target, purpose).await.map(Self::Host)
    }

    /// Serves a client until its end.
    pub(crate) async fn serve<S>(self, client: PrefixedStream<S>, target: Target, gate: &Arc<Gate>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match self {
            Self::Host(upstream) => tunnel::run(client, upstream, target, gate).await,
            Self::Intercepted => intercept::serve(client, target, gate).await,
            Self::Credential => relay::serve(client, target, gate).await,
        }
    }
}
