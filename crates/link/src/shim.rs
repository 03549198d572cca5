//! The shim's side: the way to the gateway.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UnixStream;

use crate::{KEY_FILE, Socket};

/// How the shim reaches the gateway.
#[derive(Clone, Debug)]
pub enum Gateway {
    /// Unix sockets in this directory, as the sandbox sees it, each named as its link.
    Unix(PathBuf),
}

impl Gateway {
    /// The same, independent of the current directory.
    ///
    /// # Errors
    /// When it is not there.
    pub fn absolute(&self) -> io::Result<Self> {
        let Self::Unix(dir) = self;
        Ok(Self::Unix(std::fs::canonicalize(dir)?))
    }

    /// Opens the file with the sandbox key, which is there until the key was proven.
    ///
    /// # Errors
    /// When it is not there.
    pub fn open_key(&self) -> io::Result<File> {
        let Self::Unix(dir) = self;
        File::open(dir.join(KEY_FILE))
    }

    /// Connects to the link of this name.
    ///
    /// # Errors
    /// When no gateway is there.
    pub async fn connect(&self, link: &str) -> io::Result<Socket> {
        let Self::Unix(dir) = self;
        Socket::new(UnixStream::connect(dir.join(link)).await?)
    }

    /// Connects to the link of this name, for a thread that blocks. `stall` is how long the gateway may take or give
    /// nothing.
    ///
    /// # Errors
    /// When no gateway is there.
    pub fn connect_blocking(&self, link: &str, stall: Duration) -> io::Result<BlockingSocket> {
        let Self::Unix(dir) = self;
        BlockingSocket::new(StdStream::connect(dir.join(link))?, stall)
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Unix(dir) = self;
        dir.display().fmt(f)
    }
}

/// A connection that is read and written by a thread that blocks. Dropping it closes it.
#[derive(Debug)]
pub struct BlockingSocket(StdStream);

impl BlockingSocket {
    /// Takes over a connection. `stall` is how long the peer may take or give nothing.
    ///
    /// # Errors
    /// When that time cannot be set.
    pub fn new(stream: StdStream, stall: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(stall))?;
        stream.set_write_timeout(Some(stall))?;
        Ok(Self(stream))
    }
}

impl Read for BlockingSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for BlockingSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
