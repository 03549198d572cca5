//! SOCKS5 (RFC 1928): CONNECT without authentication, by name or address.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use himalia_model::network::Host;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::denial::{Denial, DenialKind, Target};
use crate::destination::Destination;
use crate::gate::Gate;
use crate::prefixed::PrefixedStream;

/// Time for a client to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(30);

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// Answers of a proxy.
#[derive(Clone, Copy, Debug)]
enum Reply {
    Succeeded = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

/// Serves a client until its end.
pub(crate) async fn serve<S>(mut client: PrefixedStream<S>, gate: &Arc<Gate>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let target = match timeout(REQUEST_TIME, request(&mut client)).await {
        Ok(Ok(Ok(target))) => target,
        Ok(Ok(Err(reply))) => return answer(client, reply).await,
        Ok(Err(_)) | Err(_) => return,
    };
    match Destination::open(gate, &target).await {
        Ok(destination) => {
            if client.write_all(&bytes_of(Reply::Succeeded)).await.is_ok() {
                destination.serve(client, target, gate).await;
            }
        }
        Err(denial) => answer(client, reply_to(&denial)).await,
    }
}

fn reply_to(denial: &Denial) -> Reply {
    match denial.kind {
        DenialKind::Policy | DenialKind::Limit | DenialKind::Request | DenialKind::Credential => {
            Reply::NotAllowed
        }
        DenialKind::Unreachable | DenialKind::CredentialUnavailable => Reply::HostUnreachable,
    }
}

/// The last words to a client.
async fn answer<S: AsyncWrite + Unpin>(mut client: S, reply: Reply) {
    // The client may have gone.
    let _ = client.write_all(&bytes_of(reply)).await;
    let _ = client.shutdown().await;
}

/// An answer, with the address 0.0.0.0:0.
fn bytes_of(reply: Reply) -> [u8; 10] {
    [VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Target of the client, or the reply that refuses it.
async fn request<S>(client: &mut S) -> std::io::Result<Result<Target, Reply>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let [version, count] = read(client).await?;
    if version != VERSION {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read(client).await?;
    if version != VERSION {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        1 => Ok(Host::Address(Ipv4Addr::from(read::<4, _>(client).await?).into())),
        3 => {
            let [length] = read(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            let name = String::from_utf8(name).unwrap_or_default();
            Host::parse(&name).map_err(|_| Reply::AddressNotSupported)
        }
        4 => {
            let address = Ipv6Addr::from(read::<16, _>(client).await?);
            Ok(Host::Address(std::net::IpAddr::from(address).to_canonical()))
        }
        _ => return Ok(Err(Reply::AddressNotSupported)),
    };
    let port = u16::from_be_bytes(read(client).await?);
    if command != CONNECT {
        return Ok(Err(Reply::CommandNotSupported));
    }
    Ok(host.map(|host| Target { host, port }))
}

async fn read<const N: usize, S: AsyncRead + Unpin>(client: &mut S) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}
