//! Connections of clients in the sandbox.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use himalia_link::PlainSocket;
use himalia_splice::{Sockets, carry};
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::parked::Want;

/// Clients at once, more than the gateway serves: it says so to those that are too many. The next ones wait in the backlog of the
/// socket.
pub(super) const CLIENTS_MAX: usize = 320;
/// Longest time that a client waits for the gateway.
const GATEWAY_TIME: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// Longest wait for a client's first byte, and for a client to read its response, if there is no gateway.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Pause after a failed accept (out of descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// First byte of a SOCKS5 client.
const SOCKS5: u8 = 5;
/// To a client of HTTP while no gateway is there.
const AWAY: &[u8] = b"HTTP/1.1 503 egress_unreachable: the gateway is away\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 40\r\nconnection: close\r\n\r\n\
    egress_unreachable: the gateway is away\n";

/// Accepts for ever.
pub(super) async fn accept(listener: TcpListener, wanted: mpsc::Sender<Want>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((client, _)) => {
                let wanted = wanted.clone();
                tokio::spawn(async move {
                    serve(client, &wanted).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client of the proxy");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(mut client: TcpStream, wanted: &mpsc::Sender<Want>) {
    // Small messages of a conversation do not wait for each other.
    let _ = client.set_nodelay(true);
    let Ok(Some(gateway)) = timeout(GATEWAY_TIME, connection(wanted)).await else {
        return refuse(client).await;
    };
    let up = Sockets::new(Some(client.as_fd()), gateway.plain());
    let down = Sockets::new(gateway.plain(), Some(client.as_fd()));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_gateway, mut to_gateway) = split(gateway);
    // However it ends, both are closed.
    let _ = tokio::try_join!(
        carry(&mut from_client, &mut to_gateway, up, |_| Ok(())),
        carry(&mut from_gateway, &mut to_client, down, |_| Ok(())),
    );
}

/// One that was parked.
async fn connection(wanted: &mpsc::Sender<Want>) -> Option<PlainSocket> {
    let (want, given) = oneshot::channel();
    wanted.send(want).await.ok()?;
    given.await.ok()
}

/// Says that no gateway is there, to a client that can understand it.
async fn refuse(mut client: TcpStream) {
    let answer = async {
        if matches!(client.read_u8().await, Ok(first) if first != SOCKS5) {
            client.write_all(AWAY).await?;
            client.shutdown().await?;
            // A close before the client has said all would make TCP forget the answer.
            while client.read(&mut [0; 4096]).await? > 0 {}
        }
        std::io::Result::Ok(())
    };
    // The client may have gone.
    let _ = timeout(ANSWER_TIME, answer).await;
}
