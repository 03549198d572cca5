//! A lane's connection over TLS: bytes are taken and given without waiting.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustls::Connection;
use tokio::net::TcpStream;

/// Most bytes that one read gives.
const READ_BYTES: usize = 16 * 1024;

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    tcp: TcpStream,
    tls: Connection,
}

/// TCP as rustls takes it.
struct Tcp<'a>(&'a TcpStream);

impl Read for Tcp<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Tcp<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsSocket {
    pub(crate) fn new(tcp: TcpStream, tls: impl Into<Connection>) -> Self {
        Self { tcp, tls: tls.into() }
    }

    /// See [`crate::Socket::poll_read`].
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.take(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                taken => return Poll::Ready(taken),
            }
            ready!(self.tcp.poll_read_ready(cx))?;
            match self.tls.read_tls(&mut Tcp(&self.tcp)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                read => read?,
            };
            if let Err(error) = self.tls.process_new_packets() {
                // The other side learns why, if it still reads.
                let _ = self.flush();
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
    }

    /// Reads bytes that are decrypted already; 0 at the orderly end.
    fn take(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let start = buffer.len();
        let room = (buffer.capacity() - start).clamp(64, READ_BYTES);
        buffer.resize(start + room, 0);
        let read = self.tls.reader().read(&mut buffer[start..]);
        buffer.truncate(start + read.as_ref().copied().unwrap_or_default());
        read
    }

    /// See [`crate::Socket::try_write`].
    pub(crate) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.tls.writer().write_vectored(slices)?;
        self.flush()?;
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    /// Writes what is encrypted. True when nothing of it is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Tcp(&self.tcp)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Ends the writing side. The end goes out with the next flush.
    pub(crate) fn end(&mut self) {
        self.tls.send_close_notify();
    }

    /// True if accepted bytes are not written yet.
    pub(crate) fn is_unsent(&self) -> bool {
        self.tls.wants_write()
    }

    /// See [`crate::Socket::poll_room`].
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_write_ready(cx)
    }
}

impl AsFd for TlsSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}
