//! Bytes on their way to a socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes, BytesMut};

use crate::Socket;

/// Bodies up to this are copied next to each other; larger ones are written from where they are.
const COPY_BYTES: usize = 16 * 1024;
/// Segments of one write.
const SEGMENTS: usize = 32;
/// Bytes of one segment's allocation.
const SEGMENT_BYTES: usize = 64 * 1024;
/// Bytes of an allocation that is kept for what comes next.
const KEEP_BYTES: usize = 4 * 1024;

/// Bytes to be written, in order. It has no bound of its own: the caller looks at [`WriteQueue::len`] before it adds.
#[derive(Debug, Default)]
pub struct WriteQueue {
    /// Before `tail`; none of them is empty.
    ready: VecDeque<Bytes>,
    tail: BytesMut,
    bytes: usize,
}

impl WriteQueue {
    /// True if no bytes are left to write.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes left to write.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Adds a frame: a short prefix and a body.
    pub fn push(&mut self, prefix: &[u8], body: &Bytes) {
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

    /// Adds what `encode` appends.
    ///
    /// # Errors
    /// That of `encode`; what it has appended until then is written all the same.
    pub fn push_with<E>(&mut self, encode: impl FnOnce(&mut BytesMut) -> Result<(), E>) -> Result<(), E> {
        let before = self.tail.len();
        let encoded = encode(&mut self.tail);
        self.bytes += self.tail.len().saturating_sub(before);
        encoded
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.ready.push_back(std::mem::take(&mut self.tail).freeze());
        }
    }

    /// Writes what the socket takes now. True when everything is written.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn write_to(&mut self, socket: &mut Socket) -> io::Result<bool> {
        while self.bytes > 0 {
            let mut slices = [IoSlice::new(&[]); SEGMENTS];
            let segments = self.ready.iter().map(|segment| &segment[..]);
            let segments = segments.chain(Some(&self.tail[..]).filter(|tail| !tail.is_empty()));
            let mut count = 0;
            for (slice, segment) in slices.iter_mut().zip(segments) {
                *slice = IoSlice::new(segment);
                count += 1;
            }
            let written = match socket.try_write(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            self.advance(written);
        }
        socket.flush()
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        if self.bytes == 0 {
            self.ready.clear();
            if self.tail.capacity() > KEEP_BYTES {
                self.tail = BytesMut::new();
            } else {
                self.tail.clear();
            }
            return;
        }
        if self.ready.iter().map(Bytes::len).sum::<usize>() < written {
            self.seal();
        }
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
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    /// Writes all of it and gives what arrived.
    async fn arrived(queue: &mut WriteQueue, socket: &mut Socket, peer: &mut UnixStream) -> Vec<u8> {
        let mut received = vec![0; queue.len()];
        let write = async {
            while !queue.write_to(socket).unwrap() {
                poll_fn(|cx| socket.poll_room(cx)).await.unwrap();
            }
        };
        let (read, ()) = tokio::join!(peer.read_exact(&mut received), write);
        read.unwrap();
        assert!(queue.is_empty());
        received
    }

    #[tokio::test]
    async fn what_goes_in_comes_out_in_order_whatever_the_socket_takes() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut left = Socket::new(left).unwrap();
        let mut queue = WriteQueue::default();
        for _ in 0..3 {
            let mut sent = Vec::new();
            for (round, size) in [10, 20_000, 5, 1_000_000, 16_384, 16_385, 0, 300, 200_000, 7]
                .into_iter()
                .enumerate()
            {
                let body = Bytes::from(vec![u8::try_from(round).unwrap(); size]);
                queue.push(b"head", &body);
                sent.extend_from_slice(b"head");
                sent.extend_from_slice(&body);
                let encoded: Result<(), ()> = queue.push_with(|tail| {
                    tail.extend_from_slice(b"frame");
                    Ok(())
                });
                encoded.unwrap();
                sent.extend_from_slice(b"frame");
            }
            assert_eq!(queue.len(), sent.len());
            assert!(arrived(&mut queue, &mut left, &mut right).await == sent);
        }
    }

    #[tokio::test]
    async fn room_for_a_burst_is_not_kept() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut left = Socket::new(left).unwrap();
        let mut queue = WriteQueue::default();
        for (count, is_kept) in [(1, true), (1000, false), (1, true)] {
            for _ in 0..count {
                queue.push(b"a frame with some bytes", &Bytes::new());
            }
            arrived(&mut queue, &mut left, &mut right).await;
            assert_eq!(queue.tail.capacity() > 0, is_kept);
        }
    }
}
