//! The shim's side: the way to the gateway.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;

use crate::tls::{TlsBlocking, TlsServer};
use crate::{KEY_FILE, PlainSocket, Socket};

/// Address of the gateway for the shim.
#[derive(Clone, Debug)]
pub enum Gateway {
    /// Unix sockets in this directory, as the sandbox sees it, each named as its link.
    Unix(PathBuf),
    /// The gateway dials; a connection of it is taken where a unix socket would be dialled.
    Tls(TlsServer),
}

/// A socket in the directory of a gateway. The next gateway makes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListeningSocket([u64; 4]);

impl Gateway {
    /// Accepts connections for as long as it is polled, where the gateway dials.
    ///
    /// # Errors
    /// When the listening socket cannot be watched.
    pub async fn serve(&self) -> io::Result<()> {
        match self {
            Self::Unix(_) => Ok(()),
            Self::Tls(server) => server.serve().await,
        }
    }

    /// Connects to the link of this name. Where the gateway dials, it waits for a connection.
    ///
    /// # Errors
    /// When no gateway is there.
    pub async fn connect(&self, link: &str) -> io::Result<Socket> {
        match self {
            Self::Unix(dir) => Socket::new(UnixStream::connect(dir.join(link)).await?),
            Self::Tls(server) => Ok(Socket::tls(server.connect(link).await?)),
        }
    }

    /// Connects to the link of this name for plain bytes.
    ///
    /// # Errors
    /// When no gateway is there.
    pub async fn connect_plain(&self, link: &str) -> io::Result<PlainSocket> {
        match self {
            Self::Unix(dir) => Ok(PlainSocket::unix(UnixStream::connect(dir.join(link)).await?)),
            Self::Tls(server) => Ok(PlainSocket::tls(server.connect(link).await?)),
        }
    }

    /// Socket with the name of this link; `None` if there is none, or where the gateway dials.
    pub fn listening(&self, link: &str) -> Option<ListeningSocket> {
        let Self::Unix(dir) = self else { return None };
        let found = dir.join(link).symlink_metadata().ok()?;
        Some(ListeningSocket([
            u64::try_from(found.ctime()).unwrap_or(0),
            u64::try_from(found.ctime_nsec()).unwrap_or(0),
            found.dev(),
            found.ino(),
        ]))
    }

    /// Connects to the link of this name, for a thread that blocks. `stall` is how long the gateway may take or give
    /// nothing.
    ///
    /// # Errors
    /// When no gateway is there.
    pub fn connect_blocking(&self, link: &str, stall: Duration) -> io::Result<BlockingSocket> {
        match self {
            Self::Unix(dir) => BlockingSocket::new(StdStream::connect(dir.join(link))?, stall),
            Self::Tls(server) => Ok(BlockingSocket(BlockingStream::Tls(Box::new(
                server.connect_blocking(link, stall)?,
            )))),
        }
    }
}

/// Opens the file with the sandbox key in this directory, which is there until the key was proven.
///
/// # Errors
/// When it is not there.
pub fn open_key(dir: &Path) -> io::Result<File> {
    File::open(dir.join(KEY_FILE))
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(dir) => dir.display().fmt(f),
            Self::Tls(server) => server.address().fmt(f),
        }
    }
}

/// A connection that is read and written by a thread that blocks. Dropping it closes it.
#[derive(Debug)]
pub struct BlockingSocket(BlockingStream);

#[derive(Debug)]
enum BlockingStream {
    Unix(StdStream),
    Tls(Box<TlsBlocking>),
}

impl BlockingSocket {
    /// Takes over a connection. `stall` is how long the peer may take or give nothing.
    ///
    /// # Errors
    /// When that time cannot be set.
    pub fn new(stream: StdStream, stall: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(stall))?;
        stream.set_write_timeout(Some(stall))?;
        Ok(Self(BlockingStream::Unix(stream)))
    }
}

impl Read for BlockingSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            BlockingStream::Unix(stream) => stream.read(buffer),
            BlockingStream::Tls(tls) => tls.0.read(buffer),
        }
    }
}

impl Write for BlockingSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            BlockingStream::Unix(stream) => stream.write(bytes),
            BlockingStream::Tls(tls) => tls.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            BlockingStream::Unix(stream) => stream.flush(),
            BlockingStream::Tls(tls) => tls.0.flush(),
        }
    }
}
