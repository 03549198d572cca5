//! Unix and TCP sockets behind one interface.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Result, bail};

/// A connection that can be read and written from two threads.
pub(super) trait Duplex: Read + Write + Send {
    fn twin(&self) -> io::Result<Box<dyn Duplex>>;
}

impl Duplex for UnixStream {
    fn twin(&self) -> io::Result<Box<dyn Duplex>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl Duplex for TcpStream {
    fn twin(&self) -> io::Result<Box<dyn Duplex>> {
        Ok(Box::new(self.try_clone()?))
    }
}

pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Binds `ipc://…` or `tcp://…`.
    pub(super) fn bind(endpoint: &str) -> Result<Self> {
        if let Some(path) = endpoint.strip_prefix("ipc://") {
            let _ = std::fs::remove_file(path);
            return Ok(Self::Unix(UnixListener::bind(path)?));
        }
        match endpoint.strip_prefix("tcp://") {
            Some(address) => Ok(Self::Tcp(TcpListener::bind(address)?)),
            None => bail!("endpoint {endpoint}: neither ipc nor tcp"),
        }
    }

    pub(super) fn accept(&self) -> io::Result<Box<dyn Duplex>> {
        match self {
            Self::Unix(listener) => Ok(Box::new(listener.accept()?.0)),
            Self::Tcp(listener) => Ok(Box::new(listener.accept()?.0)),
        }
    }
}
