//! A connection to the gateway as a stream of bytes, for what is not made of frames.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

use crate::tls::TlsSocket;

/// Decrypted at once.
const READ_BYTES: usize = 16 * 1024;

/// A connection of a shim that is read and written as a stream of bytes. Dropping it closes it.
#[derive(Debug)]
pub struct PlainSocket(Kind);

#[derive(Debug)]
enum Kind {
    Unix(UnixStream),
    Tls(Box<Tls>),
}

#[derive(Debug)]
struct Tls {
    socket: TlsSocket,
    /// Decrypted, and not taken yet.
    read: BytesMut,
}

impl PlainSocket {
    pub(crate) fn unix(stream: UnixStream) -> Self {
        Self(Kind::Unix(stream))
    }

    /// The socket, if it carries the bytes of the stream as they are.
    pub fn plain(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Kind::Unix(stream) => Some(stream.as_fd()),
            Kind::Tls(_) => None,
        }
    }

    pub(crate) fn tls(socket: TlsSocket) -> Self {
        let read = BytesMut::with_capacity(READ_BYTES);
        Self(Kind::Tls(Box::new(Tls { socket, read })))
    }
}

impl AsyncRead for PlainSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tls = match &mut self.get_mut().0 {
            Kind::Unix(stream) => return read_unix(stream, cx, buffer),
            Kind::Tls(tls) => tls,
        };
        if tls.read.is_empty() {
            tls.read.reserve(READ_BYTES);
            if ready!(tls.socket.poll_read(cx, &mut tls.read))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let count = tls.read.len().min(buffer.remaining());
        buffer.put_slice(&tls.read[..count]);
        tls.read.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// As tokio reads, but the socket counts as readable until a read finds nothing. Tokio expects an event for what comes after a
/// read that did not fill the buffer; gVisor has none for an end that came together with the last bytes.
fn read_unix(stream: &UnixStream, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    loop {
        ready!(stream.poll_read_ready(cx))?;
        let unfilled = buffer.initialize_unfilled();
        match stream.try_io(Interest::READABLE, || Ok(rustix::io::read(stream, unfilled)?)) {
            Ok(count) => {
                buffer.advance(count);
                return Poll::Ready(Ok(()));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for PlainSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Kind::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Kind::Tls(tls) => loop {
                match tls.socket.try_write(&[IoSlice::new(bytes)]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready!(tls.socket.poll_room(cx))?;
                    }
                    written => return Poll::Ready(written),
                }
            },
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Kind::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Kind::Tls(tls) => {
                while !tls.socket.flush()? {
                    ready!(tls.socket.poll_room(cx))?;
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Kind::Unix(stream) = &mut self.0 {
            return Pin::new(stream).poll_shutdown(cx);
        }
        if let Kind::Tls(tls) = &mut self.0 {
            tls.socket.end();
        }
        self.poll_flush(cx)
    }
}
