//! The five sockets that clients connect to.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, io};

use himalia_wire::{ConnectionFile, Socket, Transport};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::end::{Error, Report};
use crate::guard::ConnectionEnd;
use crate::hub::Hub;
use crate::link::Io;
use crate::peer;

/// Connections to one socket.
const CONNECTIONS: usize = 64;
/// From a failed accept to the next one.
const PAUSE: Duration = Duration::from_millis(100);

/// Longest path of a directory in which ours is: paths of sockets have 107 bytes.
const PARENT_BYTES: usize = 70;

const SOCKETS: [Socket; 5] = [
    Socket::Shell,
    Socket::Iopub,
    Socket::Stdin,
    Socket::Control,
    Socket::Heartbeat,
];

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Ipc(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Io>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Ipc(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// A directory that only this user may enter, removed at the end.
#[derive(Debug)]
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn new() -> io::Result<Self> {
        let named = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let mut parents = named.into_iter().chain([env::temp_dir()]);
        let parent = parents
            .find(|dir| dir.is_dir() && dir.as_os_str().len() <= PARENT_BYTES)
            .unwrap_or_else(|| PathBuf::from("/tmp"));
        let random = Uuid::new_v4().as_fields().0;
        let dir = parent.join(format!("himalia-{}-{random:08x}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The sockets, bound.
#[derive(Debug)]
pub(crate) struct Sockets {
    listeners: Vec<(Socket, Listener)>,
    /// Directory for the crate's own sockets, and for the sockets of clients with `ipc`.
    dir: PrivateDir,
}

impl Sockets {
    /// Binds them, and describes them with this key.
    pub(crate) async fn bind(transport: Transport, key: &str) -> Result<(Self, ConnectionFile), Error> {
        let failed = |source| Error::Io {
            what: "the sockets".to_owned(),
            source,
        };
        let dir = PrivateDir::new().map_err(failed)?;
        let mut file = ConnectionFile::new_ipc(&dir.0, key)?;
        if transport == Transport::Tcp {
            file.transport = Transport::Tcp;
            "127.0.0.1".clone_into(&mut file.ip);
        }
        let mut listeners = Vec::new();
        for socket in SOCKETS {
            let listener = match transport {
                Transport::Tcp => {
                    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
                    *port(&mut file, socket) = listener.local_addr().map_err(failed)?.port();
                    Listener::Tcp(listener)
                }
                Transport::Ipc => {
                    let number = *port(&mut file, socket);
                    let path = format!("{}-{number}", file.ip);
                    Listener::Ipc(UnixListener::bind(path).map_err(failed)?)
                }
            };
            listeners.push((socket, listener));
        }
        Ok((Self { listeners, dir }, file))
    }

    /// Serves clients until it is dropped.
    pub(crate) async fn serve(self, hub: &Arc<Hub>, report: &Report) {
        let mut sockets = JoinSet::new();
        for (socket, listener) in self.listeners {
            sockets.spawn(accept(
                socket,
                listener,
                Arc::clone(hub),
                self.dir.0.clone(),
                Arc::clone(report),
            ));
        }
        while sockets.join_next().await.is_some() {}
    }
}

fn port(file: &mut ConnectionFile, socket: Socket) -> &mut u16 {
    match socket {
        Socket::Shell => &mut file.shell_port,
        Socket::Control => &mut file.control_port,
        Socket::Stdin => &mut file.stdin_port,
        Socket::Iopub => &mut file.iopub_port,
        Socket::Heartbeat => &mut file.hb_port,
    }
}

async fn accept(socket: Socket, listener: Listener, hub: Arc<Hub>, dir: PathBuf, report: Report) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok(_) if connections.len() >= CONNECTIONS => {
                report(&format!(
                    "more than {CONNECTIONS} connections to one socket; the latest was closed"
                ));
            }
            Ok(io) => {
                let (hub, report, path) = (Arc::clone(&hub), Arc::clone(&report), inner(&dir));
                connections.spawn(async move {
                    let ended = Box::pin(peer::serve(hub, socket, io, &path, &*report)).await;
                    if !matches!(ended, ConnectionEnd::Closed) {
                        report(&format!("the connection of a client was closed: {ended}"));
                    }
                });
            }
            // No descriptors are left, or the client has gone again.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// A path that no other connection has.
fn inner(dir: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    dir.join(format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}
