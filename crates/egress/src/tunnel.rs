//! Checks the bytes that follow a CONNECT. TLS must name the host of the tunnel, port 443 carries nothing but TLS, and port 80 nothing but HTTP for
//! that host: a tunnel is no way to another host behind the same address.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use himalia_model::network::Host;
use himalia_splice::{Sockets, carry};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client_hello::{ClientHello, FirstBytes, HELLO_BYTES, UNRECOGNIZED_NAME, look};
use crate::denial::{Denial, Target};
use crate::gate::Gate;
use crate::meter::MeteredStream;
use crate::prefixed::PrefixedStream;
use crate::proxy;

pub(crate) const HTTP_PORT: u16 = 80;
const TLS_PORT: u16 = 443;
/// Time for a TLS client to complete its first message once it has begun it.
const HELLO_TIME: Duration = Duration::from_secs(30);
/// Room for the first message.
const FIRST_BYTES: usize = 4096;

/// Carries bytes between a client and a host until both have ended.
pub(crate) async fn run<S>(
    client: PrefixedStream<S>,
    upstream: MeteredStream<TcpStream>,
    target: Target,
    gate: &Arc<Gate>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if target.port == HTTP_PORT {
        return proxy::serve_tunnel(client, upstream, target, gate).await;
    }
    let MeteredStream { stream, meter, .. } = upstream;
    let sockets_up = Sockets::new(gate.client(), Some(stream.as_fd()));
    let sockets_down = Sockets::new(Some(stream.as_fd()), gate.client());
    let (mut from_client, mut to_client) = split(client);
    let (mut from_host, mut to_host) = stream.into_split();
    let denied = {
        let up = async {
            let first = first_bytes(&mut from_client, &target).await?;
            to_host.write_all(&first).await?;
            meter.sent(first.len())?;
            drop(first);
            carry(&mut from_client, &mut to_host, sockets_up, |bytes| {
                meter.sent(bytes)
            })
            .await?;
            Ok(())
        };
        // The host may speak first, except on the port of TLS.
        let down = async {
            let carried = carry(&mut from_host, &mut to_client, sockets_down, |bytes| {
                meter.received(bytes)
            });
            carried.await.map_err(End::from)
        };
        match tokio::try_join!(up, down) {
            Err(End::Denied(denial, last_words)) => Some((denial, last_words)),
            Err(End::Broken) | Ok(_) => None,
        }
    };
    if let Some((denial, last_words)) = denied {
        meter.deny(&denial);
        // The client may have gone.
        let _ = to_client.write_all(last_words).await;
        let _ = to_client.shutdown().await;
    }
}

/// Early ends of a direction.
enum End {
    Broken,
    /// With what the client is sent.
    Denied(Denial, &'static [u8]),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// Reads until it is known what a client speaks, and that it may.
async fn first_bytes<R: AsyncRead + Unpin>(client: &mut R, target: &Target) -> Result<Bytes, End> {
    let mut bytes = BytesMut::with_capacity(FIRST_BYTES);
    loop {
        match look(&bytes) {
            FirstBytes::Part if bytes.len() <= HELLO_BYTES => {
                let read = if bytes.is_empty() {
                    client.read_buf(&mut bytes).await?
                } else {
                    let reading = timeout(HELLO_TIME, client.read_buf(&mut bytes));
                    reading.await.map_err(|_| End::Broken)??
                };
                if read == 0 {
                    return Ok(bytes.freeze());
                }
            }
            FirstBytes::Part | FirstBytes::Other if target.port == TLS_PORT || bytes.len() > HELLO_BYTES => {
                return Err(End::Denied(
                    Denial::policy(format_args!(
                        "the bytes that were sent to {target} are not readable TLS"
                    )),
                    &[],
                ));
            }
            FirstBytes::Part | FirstBytes::Other => return Ok(bytes.freeze()),
            FirstBytes::Hello(hello) => {
                check(&hello, target).map_err(|denial| End::Denied(denial, &UNRECOGNIZED_NAME))?;
                return Ok(bytes.freeze());
            }
        }
    }
}

/// The server name must be the host of the tunnel.
fn check(hello: &ClientHello, target: &Target) -> Result<(), Denial> {
    if hello.encrypted {
        return Err(Denial::policy(format_args!(
            "the TLS server name of a connection to {target} is encrypted (ECH)"
        )));
    }
    match (&hello.server_name, &target.host) {
        (None, Host::Address(_)) => Ok(()),
        (None, Host::Name(_)) => Err(Denial::policy(format_args!(
            "a connection to {target} names no TLS server (SNI)"
        ))),
        (Some(name), host) if Host::parse(name).as_ref() == Ok(host) => Ok(()),
        (Some(name), _) => Err(Denial::policy(format_args!(
            "a connection to {target} names the TLS server {name:?}"
        ))),
    }
}
