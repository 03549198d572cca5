//! A connection of a shim before and while it is a stream, over either transport.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use crate::Socket;
use crate::tls::TlsSocket;

#[derive(Debug)]
pub(super) enum IncomingStream {
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl IncomingStream {
    /// The socket, if its bytes are those of the stream.
    pub(super) fn plain(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Unix(stream) => Some(stream.as_fd()),
            Self::Tls(_) => None,
        }
    }

    /// As the socket of a lane.
    pub(super) fn into_socket(self) -> io::Result<Socket> {
        match self {
            Self::Unix(stream) => Socket::new(stream),
            Self::Tls(stream) => {
                let (tcp, tls) = stream.into_inner();
                Ok(Socket::tls(TlsSocket::new(tcp, tls)))
            }
        }
    }
}

impl AsyncRead for IncomingStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for IncomingStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
