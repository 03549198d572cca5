//! The shim's side: it listens, and takes a connection when it would dial.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::material::{Material, invalid};
use super::{ALPN, CA_FILE, CERT_FILE, CERT_KEY_FILE, LinkName, TlsSocket, tcp};

/// Connections whose other side has not proven itself. One more, and the oldest is closed.
const UNPROVEN_MAX: usize = 16;
/// Time for a connection without the proof.
const PROOF_TIME: Duration = Duration::from_secs(5);
/// Connections of one link that wait to be taken. One more, and the oldest is closed.
const WAITING_MAX: usize = 4;
/// Links that have such connections.
const LINKS_MAX: usize = 64;
/// Pause after a failed accept (out of descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Most bytes of one of the files.
const FILE_BYTES: u64 = 64 << 10;
/// Time for which a closing thread still reads, so that its last bytes reach the gateway.
const LINGER: Duration = Duration::from_secs(2);

/// A shim that listens.
#[derive(Clone)]
pub struct TlsServer(Arc<Server>);

struct Server {
    address: SocketAddr,
    config: Arc<ServerConfig>,
    calls: Calls,
    /// Until it is served.
    listener: Mutex<Option<StdListener>>,
}

/// Connections of the gateway that wait to be taken.
#[derive(Default)]
struct Calls {
    links: Mutex<HashMap<String, VecDeque<Call>>>,
    came: Notify,
    came_blocking: Condvar,
}

/// One of them: the other side is proven, and nothing was said.
struct Call {
    tcp: StdStream,
    tls: ServerConnection,
}

impl TlsServer {
    /// Binds `address`, and reads [`CERT_FILE`], [`CERT_KEY_FILE`] and [`CA_FILE`] in `dir`; then it removes them where it may,
    /// as kernels of the same user could read them.
    ///
    /// # Errors
    /// When one of the files is missing or unusable, or the address is taken.
    pub fn bind(address: SocketAddr, dir: &Path) -> io::Result<Self> {
        let [ca, cert, key] = [CA_FILE, CERT_FILE, CERT_KEY_FILE].map(|name| read(&dir.join(name)));
        let Material { roots, chain, key } = Material::parse(&ca?, &cert?, &key?)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, himalia_tls::provider()).build();
        let config = ServerConfig::builder_with_provider(himalia_tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| invalid("TLS 1.3", &error))?
            .with_client_cert_verifier(
                verifier.map_err(|error| invalid("the authority's certificate", &error))?,
            )
            .with_single_cert(chain, key);
        let mut config = config.map_err(|error| invalid("the key pair", &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Each connection proves both sides anew.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let listener = tcp::listen(address)?;
        listener.set_nonblocking(true)?;
        for name in [CERT_KEY_FILE, CERT_FILE, CA_FILE] {
            // A directory that is mounted read-only keeps them.
            let _ = std::fs::remove_file(dir.join(name));
        }
        Ok(Self(Arc::new(Server {
            address: listener.local_addr()?,
            config: Arc::new(config),
            calls: Calls::default(),
            listener: Mutex::new(Some(listener)),
        })))
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Accepts for ever. Connections that prove themselves wait until a link takes them. Called again it does nothing.
    ///
    /// # Errors
    /// When the listening socket cannot be watched.
    pub async fn serve(&self) -> io::Result<()> {
        let Some(listener) = self.0.listener.lock().take() else {
            return Ok(());
        };
        let listener = TcpListener::from_std(listener)?;
        // Dropping one of them closes a connection that is not proven yet.
        let mut unproven: VecDeque<oneshot::Sender<()>> = VecDeque::new();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            unproven.retain(|kept| !kept.is_closed());
            if unproven.len() >= UNPROVEN_MAX {
                unproven.pop_front();
            }
            let (kept, closed) = oneshot::channel();
            unproven.push_back(kept);
            let this = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    proven = timeout(PROOF_TIME, this.prove(stream)) => match proven {
                        Ok(Ok((link, call))) => this.0.calls.put(link, call),
                        Ok(Err(error)) => tracing::info!(%error, "a connection is refused"),
                        Err(_) => tracing::info!("a connection is refused: nothing came in time"),
                    },
                    _ = closed => {}
                }
            });
        }
    }

    async fn prove(&self, stream: TcpStream) -> io::Result<(String, Call)> {
        tcp::prepare(&stream)?;
        let acceptor = TlsAcceptor::from(Arc::clone(&self.0.config));
        let mut stream = acceptor.accept(stream).await?;
        let link = LinkName::read(&mut stream).await?.into_name();
        let (tcp, tls) = stream.into_inner();
        let tcp = tcp.into_std()?;
        Ok((link, Call { tcp, tls }))
    }

    /// Waits for a connection to the link of this name.
    pub(crate) async fn connect(&self, link: &str) -> io::Result<TlsSocket> {
        let calls = &self.0.calls;
        loop {
            let mut came = std::pin::pin!(calls.came.notified());
            came.as_mut().enable();
            if let Some(Call { tcp, tls }) = calls.take(link) {
                return Ok(TlsSocket::new(TcpStream::from_std(tcp)?, tls));
            }
            came.await;
        }
    }

    /// The same for a thread that blocks, which waits at most `stall` now and at each read and write.
    pub(crate) fn connect_blocking(&self, link: &str, stall: Duration) -> io::Result<TlsBlocking> {
        let calls = &self.0.calls;
        let deadline = Instant::now() + stall;
        let mut links = calls.links.lock();
        loop {
            if let Some(Call { tcp, tls }) = take(&mut links, link) {
                tcp.set_nonblocking(false)?;
                tcp.set_read_timeout(Some(stall))?;
                tcp.set_write_timeout(Some(stall))?;
                return Ok(TlsBlocking(StreamOwned::new(tls, tcp)));
            }
            if calls.came_blocking.wait_until(&mut links, deadline).timed_out() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the gateway does not call",
                ));
            }
        }
    }
}

impl Calls {
    fn put(&self, link: String, call: Call) {
        let mut links = self.links.lock();
        links.retain(|_, calls| {
            calls.retain(Call::is_alive);
            !calls.is_empty()
        });
        if links.len() >= LINKS_MAX && !links.contains_key(&link) {
            tracing::warn!("too many links are called");
            return;
        }
        let calls = links.entry(link).or_default();
        if calls.len() >= WAITING_MAX {
            calls.pop_front();
        }
        calls.push_back(call);
        drop(links);
        self.came.notify_waiters();
        self.came_blocking.notify_all();
    }

    fn take(&self, link: &str) -> Option<Call> {
        take(&mut self.links.lock(), link)
    }
}

/// The latest one that is still there: an older gateway's may not know yet that it has ended.
fn take(links: &mut HashMap<String, VecDeque<Call>>, link: &str) -> Option<Call> {
    let calls = links.get_mut(link)?;
    let found = std::iter::from_fn(|| calls.pop_back()).find(Call::is_alive);
    if calls.is_empty() {
        links.remove(link);
    }
    found
}

impl Call {
    /// The gateway says nothing before the hello, so that anything to read is the end.
    fn is_alive(&self) -> bool {
        let peeked = self.tcp.peek(&mut [0]);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(named)?;
    file.take(FILE_BYTES).read_to_end(&mut bytes).map_err(named)?;
    Ok(bytes)
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsServer({})", self.0.address)
    }
}

/// A connection of a thread that blocks.
#[derive(Debug)]
pub(crate) struct TlsBlocking(pub(crate) StreamOwned<ServerConnection, StdStream>);

impl Drop for TlsBlocking {
    /// Says that it is the end, and reads what the gateway still sends: a close before that would make TCP forget the last
    /// bytes that were written.
    fn drop(&mut self) {
        let StreamOwned { conn, sock } = &mut self.0;
        conn.send_close_notify();
        while conn.wants_write() {
            if conn.write_tls(sock).is_err() {
                return;
            }
        }
        let ended = sock.shutdown(std::net::Shutdown::Write);
        let deadline = Instant::now() + LINGER;
        let mut waste = [0; 16 * 1024];
        let mut left = ended.is_ok();
        while left {
            let time = deadline.saturating_duration_since(Instant::now());
            left = !time.is_zero()
                && sock.set_read_timeout(Some(time)).is_ok()
                && matches!(io::Read::read(sock, &mut waste), Ok(read) if read > 0);
        }
    }
}
