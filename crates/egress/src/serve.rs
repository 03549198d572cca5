//! One connection of a client, from its first byte to its end.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::BytesMut;
use himalia_model::network::PrivateAddresses;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::SemaphorePermit;

use crate::account::{Account, ConnectionPermit};
use crate::credentials::{InterceptAuthority, Roots};
use crate::denial::Denial;
use crate::gate::{Gate, MAX_CONNECTIONS, NetworkAccess};
use crate::internal::InternalService;
use crate::prefixed::PrefixedStream;
use crate::resolve::{Resolve, SystemResolver};
use crate::{http, socks};

/// First byte of a SOCKS5 client.
const SOCKS5: u8 = 5;
/// Read at first.
const FIRST_BYTES: usize = 4096;

/// Network access of all sessions.
pub struct Egress {
    pub(crate) resolver: Box<dyn Resolve>,
    pub(crate) exceptions: Vec<PrivateAddresses>,
    pub(crate) proxies: Matcher,
    pub(crate) services: Vec<Arc<dyn InternalService>>,
    pub(crate) roots: Option<Roots>,
    pub(crate) authority: Option<InterceptAuthority>,
}

impl Egress {
    /// With these addresses beside the public ones, by the resolver and the proxies of this process.
    pub fn of_this_process(exceptions: Vec<PrivateAddresses>) -> Self {
        Self {
            resolver: Box::new(SystemResolver),
            exceptions,
            proxies: Matcher::from_env(),
            services: Vec::new(),
            roots: None,
            authority: None,
        }
    }

    /// The same, which also sends the secrets of credentials to hosts that these authorities have certified. With an authority of its own,
    /// it reads the TLS of sessions.
    #[must_use]
    pub fn with_credentials(self, roots: Roots, authority: Option<InterceptAuthority>) -> Self {
        Self {
            roots: Some(roots),
            authority,
            ..self
        }
    }

    /// With a service of the gateway itself.
    #[must_use]
    pub fn with_service(mut self, service: Arc<dyn InternalService>) -> Self {
        self.services.push(service);
        self
    }

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
                    let _ = stream.write_all(&http::refusal(&denial)).await;
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
                http::serve(stream, &gate).await;
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

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("exceptions", &self.exceptions)
            .finish_non_exhaustive()
    }
}
