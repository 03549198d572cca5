//! Address of the shim of one sandbox.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::gateway::{Gate, Listener};
use crate::tls::TlsEndpoint;

/// The name of a sandbox's first link.
pub const FIRST_LINK: &str = "gw.sock";
/// The file with the sandbox key, beside the sockets. The gateway deletes it when the shim has proven the key.
pub const KEY_FILE: &str = "key";

/// Address by which the gateway reaches the shim of one sandbox.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Endpoint {
    /// Unix sockets in this directory of the host, each named as its link: the gateway listens, the shim dials. [`KEY_FILE`]
    /// lies there too.
    Unix(PathBuf),
    /// One port, on which the shim listens for all its links: the gateway dials.
    Tls(TlsEndpoint),
}

impl Endpoint {
    /// Gets ready for the shim's connections of the link of this name, in place of a gateway that was there before.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn listen(&self, link: &str, gate: Gate) -> io::Result<Listener> {
        Listener::bind(self.clone(), link, gate)
    }

    /// Removes what the link of this name has left.
    pub fn remove_link(&self, link: &str) {
        if let Self::Unix(dir) = self {
            // Gone with the sandbox, if that has ended meanwhile.
            let _ = std::fs::remove_file(dir.join(link));
        }
    }

    /// Deletes the key file: the shim has the key in memory, and nothing else needs it.
    pub(crate) fn remove_key(&self) -> io::Result<()> {
        let Self::Unix(dir) = self else {
            return Ok(());
        };
        match std::fs::remove_file(dir.join(KEY_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// As it is written into logs: the directory, or the name and the address.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(dir) => dir.display().fmt(f),
            Self::Tls(tls) => tls.fmt(f),
        }
    }
}
