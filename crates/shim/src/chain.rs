use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes, BytesMut};
use himalia_lane_socket::LaneSocket;
use himalia_shim_protocol::shim_link::Item;

/// Bodies up to this are copied next to each other; larger ones are written from where they are.
const COPY_BYTES: usize = 16 * 1024;
/// Segments of one write.
const SEGMENTS: usize = 32;
/// Bytes of one segment's allocation.
const SEGMENT_BYTES: usize = 64 * 1024;

/// Bytes on their way to a socket, in order.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    ready: VecDeque<Bytes>,
    tail: BytesMut,
    bytes: usize,
}

impl Chain {
    /// Nothing is left to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes left to write.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Adds what is kept for the gateway.
    pub(crate) fn push_item(&mut self, item: &Item) {
        let mut prefix = item.prefix();
        for piece in item.body().pieces() {
            self.push(std::mem::take(&mut prefix), piece);
        }
    }

    /// Adds a frame: a short prefix and a body.
    pub(crate) fn push(&mut self, prefix: &[u8], body: &Bytes) {
        self.bytes += prefix.len() + body.len();
        if self.tail.len() + prefix.len() + body.len() > SEGMENT_BYTES {
            self.seal();
        }
        if self.tail.capacity() == 0 {
            let whole = prefix.len() + if body.len() <= COPY_BYTES { body.len() } else { 0 };
            self.tail.reserve(whole.max(512));
        }
        self.tail.extend_from_slice(prefix);
        if body.len() <= COPY_BYTES {
            self.tail.extend_from_slice(body);
        } else {
            self.seal();
            self.ready.push_back(body.clone());
        }
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.ready.push_back(std::mem::take(&mut self.tail).freeze());
        }
    }

    /// Writes what the socket takes now. True when everything is written.
    pub(crate) fn write_to(&mut self, socket: &LaneSocket) -> io::Result<bool> {
        self.seal();
        while self.bytes > 0 {
            let slices: Vec<IoSlice<'_>> = self
                .ready
                .iter()
                .take(SEGMENTS)
                .map(|segment| IoSlice::new(segment))
                .collect();
            let written = match socket.try_write(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            self.advance(written);
        }
        Ok(true)
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(first) = self.ready.front_mut() {
            if written < first.len() {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.ready.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn what_goes_in_comes_out_in_order_whatever_the_socket_takes() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut left = LaneSocket::new(left).unwrap();
        let mut chain = Chain::default();
        let mut sent = Vec::new();
        for (round, size) in [10, 20_000, 5, 1_000_000, 16_384, 16_385, 0, 300]
            .into_iter()
            .enumerate()
        {
            let body = Bytes::from(vec![u8::try_from(round).unwrap(); size]);
            chain.push(b"head", &body);
            sent.extend_from_slice(b"head");
            sent.extend_from_slice(&body);
        }
        assert_eq!(chain.len(), sent.len());
        let mut received = vec![0; sent.len()];
        let read = right.read_exact(&mut received);
        let write = async {
            while !chain.write_to(&left).unwrap() {
                poll_fn(|cx| left.poll_room(cx)).await.unwrap();
            }
        };
        let (read, ()) = tokio::join!(read, write);
        read.unwrap();
        assert!(chain.is_empty() && received == sent);
    }
}
