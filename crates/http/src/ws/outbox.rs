//! Messages to the peer, and how far they got.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::{Close, frame};
use crate::socket::WriteHalf;

/// Payloads up to this are copied next to each other; larger ones are shared and gathered.
const COPY_BYTES: usize = 4 << 10;
/// Most slices of one gathered write.
const SLICES: usize = 64;

/// Bytes that wait to be written, as one stream. Nothing is lost when a flush is cancelled: the next one continues where it stopped. The
/// caller bounds the size: push again only when it is empty.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    chunks: VecDeque<Bytes>,
    /// Frame headers and small payloads, behind all chunks.
    small: Vec<u8>,
    /// Bytes that were ever pushed, and how many of them the socket has taken.
    pushed: u64,
    written: u64,
}

impl Outbox {
    /// Adds a text message, of which the caller knows that it is UTF-8. Returns where it ends in the stream.
    pub(crate) fn text(&mut self, payload: Bytes) -> u64 {
        self.frame(OpCode::Data(Data::Text), payload)
    }

    /// Adds a binary message. Returns where it ends in the stream.
    pub(crate) fn binary(&mut self, payload: Bytes) -> u64 {
        self.frame(OpCode::Data(Data::Binary), payload)
    }

    pub(crate) fn ping(&mut self) {
        self.frame(OpCode::Control(Control::Ping), Bytes::new());
    }

    /// `payload`: at most 125 bytes, as the ping's that it answers.
    pub(crate) fn pong(&mut self, payload: Bytes) {
        self.frame(OpCode::Control(Control::Pong), payload);
    }

    pub(crate) fn close(&mut self, close: &Close) {
        self.frame(OpCode::Control(Control::Close), close.payload().into());
    }

    /// Answers a close of the peer with its own payload.
    pub(crate) fn close_back(&mut self, payload: Bytes) {
        self.frame(OpCode::Control(Control::Close), payload);
    }

    fn frame(&mut self, opcode: OpCode, payload: Bytes) -> u64 {
        let before = self.small.len();
        frame::write(&mut self.small, opcode, payload.len());
        let head = self.small.len() - before;
        self.pushed += (head + payload.len()) as u64;
        if payload.len() <= COPY_BYTES {
            self.small.extend_from_slice(&payload);
        } else {
            self.seal();
            self.chunks.push_back(payload);
        }
        self.pushed
    }

    fn seal(&mut self) {
        if !self.small.is_empty() {
            self.chunks.push_back(std::mem::take(&mut self.small).into());
        }
    }

    /// The number of bytes of the stream that the socket has taken.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Hands to the socket what it takes without waiting. `WouldBlock` if it does not take all.
    fn try_flush(&mut self, socket: &WriteHalf) -> io::Result<()> {
        while !(self.chunks.is_empty() && self.small.is_empty()) {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            let waiting = self
                .chunks
                .iter()
                .map(|chunk| &chunk[..])
                .chain([&self.small[..]]);
            for (slot, bytes) in slices.iter_mut().zip(waiting) {
                *slot = IoSlice::new(bytes);
                count += 1;
            }
            let taken = socket.try_write_vectored(slices.get(..count).unwrap_or_default())?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(taken);
        }
        socket.try_flush()
    }

    fn advance(&mut self, mut taken: usize) {
        self.written += taken as u64;
        while let Some(front) = self.chunks.front_mut() {
            if taken < front.len() {
                front.advance(taken);
                return;
            }
            taken -= front.len();
            self.chunks.pop_front();
        }
        if taken < self.small.len() {
            let mut rest = Bytes::from(std::mem::take(&mut self.small));
            rest.advance(taken);
            self.chunks.push_back(rest);
        } else {
            self.small.clear();
            self.small.shrink_to(COPY_BYTES);
        }
    }

    /// Hands everything to the socket; each wait for room is bounded by `patience` ([`io::ErrorKind::TimedOut`]).
    /// Cancel-safe.
    pub(crate) async fn flush(
        &mut self,
        socket: &WriteHalf,
        patience: std::time::Duration,
    ) -> io::Result<()> {
        loop {
            match self.try_flush(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::timeout(patience, socket.writable()).await??;
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Stream;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Stream::Plain(listener.accept().await.unwrap().0), client)
    }

    #[tokio::test]
    async fn small_and_large_stay_in_order() {
        let (server, mut client) = pair().await;
        let (_reader, writer) = server.into_split();
        let mut outbox = Outbox::default();
        let large = Bytes::from(vec![b'L'; 5 << 20]);
        assert_eq!(outbox.text(Bytes::from_static(b"ab")), 4);
        outbox.binary(large.clone());
        outbox.ping();
        let end = outbox.text(Bytes::from_static(b"cd"));
        let read = tokio::spawn(async move {
            let mut all = vec![0; usize::try_from(end).unwrap()];
            client.read_exact(&mut all).await.unwrap();
            all
        });
        outbox.flush(&writer, Duration::from_secs(10)).await.unwrap();
        assert_eq!(outbox.written(), end);
        let all = read.await.unwrap();
        assert_eq!(&all[..4], b"\x81\x02ab");
        assert_eq!(&all[4..6], b"\x82\x7f");
        assert_eq!(&all[14..14 + large.len()], &large[..]);
        assert_eq!(&all[14 + large.len()..], b"\x89\x00\x81\x02cd");
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_noticed() {
        let (server, _client) = pair().await;
        let (_reader, writer) = server.into_split();
        let mut outbox = Outbox::default();
        outbox.binary(Bytes::from(vec![0; 64 << 20]));
        let error = outbox
            .flush(&writer, Duration::from_millis(50))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(outbox.written() > 0 && outbox.written() < outbox.pushed);
    }
}
