//! One connection of a lane: frames in and out, never waiting for the other lane.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use himalia_shim_protocol::{Decoder, Frame, ProtocolError};

use crate::{Socket, WriteQueue};

/// A connection with what it has read and what it has to write.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    decoder: Decoder,
    out: WriteQueue,
}

impl Connection {
    /// `decoder` may hold bytes that came already.
    pub fn new(socket: Socket, decoder: Decoder) -> Self {
        Self {
            socket,
            decoder,
            out: WriteQueue::default(),
        }
    }

    /// Queues a frame that is encoded already: its head and its body.
    pub fn queue(&mut self, head: &[u8], body: &Bytes) {
        self.out.push(head, body);
    }

    /// Queues the frame that `encode` appends.
    ///
    /// # Errors
    /// That of `encode`, which must have appended nothing then.
    pub fn queue_with(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        self.out.push_with(encode)
    }

    /// Bytes that wait to be written; those in the socket count as one.
    pub fn queued(&self) -> usize {
        self.out.len() + usize::from(self.socket.is_unsent())
    }

    /// Writes what the socket takes now. True when everything is written.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.out.write_to(&mut self.socket)
    }

    /// The next frame that is here already.
    ///
    /// # Errors
    /// When what came is no frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        self.decoder.next()
    }

    /// Ready when something came. The end of the stream is an error. Cancel-safe: nothing that was read is lost.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.socket.poll_read(cx, self.decoder.buffer()))? {
            0 => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "closed by the other side",
            ))),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The socket, for another set of watched descriptors.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Ready when a socket that took nothing more has room again, or its peer is gone.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_room(cx)
    }

    /// Writes what waits as far as there is room. Where there is none, the task is woken when there is.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn write_on(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.queued() > 0 {
            match self.socket.poll_room(cx) {
                Poll::Ready(room) => room?,
                Poll::Pending => break,
            }
            self.out.write_to(&mut self.socket)?;
        }
        Ok(())
    }
}
