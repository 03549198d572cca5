//! One connection of a client, from its first byte to its end.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::SemaphorePermit;

use crate::account::{Account, ConnectionPermit};
use crate::denial::Denial;
use crate::egress::Egress;
use crate::gate::{Gate, MAX_CONNECTIONS, NetworkAccess};
use crate::prefixed::PrefixedStream;
use crate::{proxy, server, socks};

/// First byte of a SOCKS5 client.
const SOCKS5: u8 = 5;
/// Read at first.
const FIRST_BYTES: usize = 4096;

impl Egress {
    /// Serves a connection of a client in a sandbox, of which `first` was read already: HTTP or SOCKS5. Waits for its first byte as
    /// long as it takes.
    ///
    /// `socket` is that of the stream, if its bytes are those of the stream: it may be read and written without the stream then.
    pub async fn serve<S>(
        self: Arc<Self>,
        mut stream: S,
        mut first: BytesMut,
        socket: Option<OwnedFd>,
        access: Arc<NetworkAccess>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if first.is_empty() {
            first.reserve(FIRST_BYTES);
            if !matches!(stream.read_buf(&mut first).await, Ok(read) if read > 0) {
                return;
            }
        }
        let is_socks = first.first() == Some(&SOCKS5);
        let mut stream = PrefixedStream {
            prefix: first.freeze(),
            inner: stream,
        };
        let account = access.account();
        let place = match place(&access, &*account) {
            Ok(place) => place,
            Err(denial) => {
                if !is_socks {
                    // The client may have gone.
                    let _ = stream.write_all(&server::refusal(&denial)).await;
                    let _ = stream.shutdown().await;
                }
                return;
            }
        };
        let gate = Arc::new(Gate::new(self, Arc::clone(&access), account, socket));
        let served = async {
            if is_socks {
                socks::serve(stream, &gate).await;
            } else {
                proxy::serve(stream, &gate).await;
            }
        };
        tokio::select! {
            () = served => {}
            () = gate.cut() => {}
        }
        drop(place);
    }
}

/// A place for one more connection of a session, among its own and among those that it shares a bound with.
fn place<'a>(
    access: &'a NetworkAccess,
    account: &dyn Account,
) -> Result<(SemaphorePermit<'a>, ConnectionPermit), Denial> {
    let permit = access.open.try_acquire().map_err(|_| {
        Denial::limit(format_args!(
            "{MAX_CONNECTIONS} connections of this session are open"
        ))
    })?;
    let place = account.connection().map_err(Denial::limit)?;
    Ok((permit, place))
}
