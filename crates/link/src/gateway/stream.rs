//! The connection of one stream, on the gateway's side.

use std::io;
use std::os::fd::BorrowedFd;

use bytes::BytesMut;
use himalia_shim_protocol::{Decoder, Frame, ProtocolError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};

use super::incoming::IncomingStream;

/// A connection for one stream whose shim has proven the key. Dropping it closes it.
#[derive(Debug)]
pub struct StreamConnection {
    socket: IncomingStream,
    /// May hold bytes that came after the hello.
    decoder: Decoder,
}

/// Reasons why there is no next frame.
#[derive(Debug)]
pub enum StreamError {
    /// The shim has closed the stream.
    Closed,
    /// It broke off.
    Io(io::Error),
    /// The bytes are not a frame.
    Protocol(ProtocolError),
}

impl StreamConnection {
    pub(super) fn new(socket: IncomingStream, decoder: Decoder) -> Self {
        Self { socket, decoder }
    }

    /// Splits a stream on which both sides send at any time.
    pub fn split(self) -> (StreamReader, StreamWriter) {
        let (reader, writer) = split(self.socket);
        let reader = StreamReader {
            socket: reader,
            decoder: self.decoder,
        };
        (reader, StreamWriter { socket: writer })
    }

    /// The next frame. Cancel-safe.
    ///
    /// # Errors
    /// At the end of the stream, however it ends.
    pub async fn next(&mut self) -> Result<Frame, StreamError> {
        next(&mut self.socket, &mut self.decoder).await
    }

    /// The socket of the connection, if it carries its bytes as they are.
    pub fn plain_socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.plain()
    }

    /// The connection itself, for plain bytes, and those that came already.
    pub fn into_plain(mut self) -> (impl AsyncRead + AsyncWrite + Send + Unpin + 'static, BytesMut) {
        let read = std::mem::take(self.decoder.buffer());
        (self.socket, read)
    }

    /// Sends encoded frames. False when not all of it was sent, because the shim has said something first or has gone:
    /// [`Self::next`] tells. Not cancel-safe.
    pub async fn send(&mut self, frames: &[u8]) -> bool {
        if self.decoder.buffered() > 0 {
            return false;
        }
        let (mut reader, mut writer) = split(&mut self.socket);
        let write = async {
            writer.write_all(frames).await?;
            writer.flush().await
        };
        tokio::select! {
            biased;
            _ = reader.read_buf(self.decoder.buffer()) => false,
            written = write => written.is_ok(),
        }
    }
}

async fn next(socket: &mut (impl AsyncRead + Unpin), decoder: &mut Decoder) -> Result<Frame, StreamError> {
    loop {
        if let Some(frame) = decoder.next().map_err(StreamError::Protocol)? {
            return Ok(frame);
        }
        match socket.read_buf(decoder.buffer()).await {
            Ok(0) => return Err(StreamError::Closed),
            Ok(_) => {}
            // TLS tells an end without its own last word apart.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(StreamError::Closed),
            Err(error) => return Err(StreamError::Io(error)),
        }
    }
}

/// Reads the frames that the shim sends on a stream. The stream closes when both directions are dropped.
#[derive(Debug)]
pub struct StreamReader {
    socket: ReadHalf<IncomingStream>,
    decoder: Decoder,
}

impl StreamReader {
    /// The next frame. Cancel-safe.
    ///
    /// # Errors
    /// At the end of the stream, however it ends.
    pub async fn next(&mut self) -> Result<Frame, StreamError> {
        next(&mut self.socket, &mut self.decoder).await
    }
}

/// Writes frames of the gateway to a stream.
#[derive(Debug)]
pub struct StreamWriter {
    socket: WriteHalf<IncomingStream>,
}

impl StreamWriter {
    /// Sends encoded frames. Not cancel-safe.
    ///
    /// # Errors
    /// When the shim has gone.
    pub async fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        self.socket.write_all(frames).await?;
        self.socket.flush().await
    }
}
