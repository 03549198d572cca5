//! One connection of a shim: bytes in and out, never waiting for the other lane.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use himalia_lane_socket::LaneSocket;
use himalia_shim_protocol::{Decoder, Frame, Pending, ProtocolError, ToShim};

/// Bodies up to this length are copied behind each other, so that one write takes many.
const COPY_UP_TO: usize = 16 * 1024;

/// An authenticated connection of one lane.
#[derive(Debug)]
pub(crate) struct LaneIo {
    socket: LaneSocket,
    decoder: Decoder,
    /// To be written, in order; `small` is behind all of `out`.
    out: VecDeque<Bytes>,
    small: BytesMut,
}

impl LaneIo {
    /// `decoder` may hold bytes that came after the hello.
    pub(crate) fn new(socket: LaneSocket, decoder: Decoder) -> Self {
        Self {
            socket,
            decoder,
            out: VecDeque::new(),
            small: BytesMut::new(),
        }
    }

    /// Queues a frame.
    pub(crate) fn queue(&mut self, frame: &ToShim) -> Result<(), ProtocolError> {
        frame.encode(&mut self.small)
    }

    /// Queues a request.
    pub(crate) fn queue_request(&mut self, pending: &Pending) {
        self.small.extend_from_slice(&pending.head);
        if pending.body.len() <= COPY_UP_TO {
            self.small.extend_from_slice(&pending.body);
        } else {
            self.out.push_back(self.small.split().freeze());
            self.out.push_back(pending.body.clone());
        }
    }

    /// Writes what the socket takes now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.out.front_mut() {
            if first.is_empty() {
                self.out.pop_front();
            } else if !write_some(&self.socket, first)? {
                return Ok(());
            }
        }
        let length = self.small.len();
        if length > 0 {
            write_some(&self.socket, &mut self.small)?;
        }
        if !self.small.is_empty() {
            self.out.push_back(std::mem::take(&mut self.small).freeze());
        } else if length > COPY_UP_TO {
            // Room for a burst is not kept.
            self.small = BytesMut::new();
        }
        Ok(())
    }

    fn has_output(&self) -> bool {
        !self.out.is_empty() || !self.small.is_empty()
    }

    /// The next frame that is here already.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        self.decoder.next()
    }

    /// Waits for bytes (unless `read` is false) and for room for what is to be written. Ready when something was read;
    /// an end of the stream is an error. Cancel-safe: nothing that was read is lost.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, read: bool) -> Poll<io::Result<()>> {
        while self.has_output() {
            match self.socket.poll_room(cx) {
                Poll::Ready(result) => {
                    result?;
                    self.flush()?;
                }
                Poll::Pending => break,
            }
        }
        if !read {
            return Poll::Pending;
        }
        if ready!(self.socket.poll_read(cx, self.decoder.buffer()))? == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(()))
    }
}

/// Hands over what the socket takes now; whether it took something.
fn write_some(socket: &LaneSocket, bytes: &mut impl Buf) -> io::Result<bool> {
    match socket.try_write(&[IoSlice::new(bytes.chunk())]) {
        Ok(written) => {
            bytes.advance(written);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
