//! Attacks before the first message.

use std::io::{self, Read, Write};

use super::listener::Duplex;
use super::zmtp::{self, COMMAND, LONG};

/// What a socket does instead of a handshake.
#[derive(Copy, Clone, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum AtStart {
    /// Half of a greeting, then nothing.
    HalfOpen,
    /// Accepts and says nothing.
    Silent,
    /// An HTTP reply instead of a greeting.
    BadGreeting,
    /// A READY command that announces 2^50 bytes.
    LongReady,
    /// Accepts and closes, each time.
    Close,
    /// A proper handshake, then no answer to anything.
    NeverReady,
}

impl AtStart {
    /// Plays the attack on one connection until the peer goes away.
    pub(super) fn play(self, mut stream: Box<dyn Duplex>, socket_type: &str) -> io::Result<()> {
        match self {
            Self::HalfOpen => stream.write_all(&zmtp::greeting()[..11])?,
            Self::Silent => {}
            Self::BadGreeting => stream.write_all(&b"HTTP/1.1 200 OK\r\n".repeat(8))?,
            Self::LongReady => {
                stream.write_all(&zmtp::greeting())?;
                stream.write_all(&[COMMAND | LONG])?;
                stream.write_all(&(1_u64 << 50).to_be_bytes())?;
                stream.write_all(b"\x05READY")?;
            }
            Self::Close => return Ok(()),
            Self::NeverReady => zmtp::handshake(&mut *stream, socket_type)?,
        }
        let mut sink = [0; 4096];
        while stream.read(&mut sink)? > 0 {}
        Ok(())
    }
}
