//! Messages from the peer.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::consume_budget;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::Close;
use super::frame::{self, Header};

/// Room that is made for one read, and all that an idle connection holds.
const READ_BYTES: usize = 8 << 10;
/// With less room than this, more is made before the next read.
const LEAST_BYTES: usize = 1 << 10;
/// Most that is allocated ahead of the bytes' arrival: an announced length alone costs no more.
const AHEAD_BYTES: usize = 256 << 10;
/// Most fragments of one message. Browsers cut at 64 KiB or more; the Autobahn test suite sends 65,536.
const FRAGMENTS: usize = 1 << 17;
/// Most pings and pongs together within [`CONTROL_TIME`]. Clients ping every few seconds, and answer ours.
const CONTROLS: usize = 100;
const CONTROL_TIME: Duration = Duration::from_secs(10);

/// A message from the peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IncomingMessage {
    /// Checked UTF-8.
    Text(Bytes),
    Binary(Bytes),
    Ping(Bytes),
    Pong,
    /// The peer closes; answer with the same payload.
    Close(Bytes),
    /// The connection is gone without a close.
    End,
}

/// Reads messages, unmasked and put together.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    io: R,
    /// Received, not yet looked at; at its front a frame header or the payload of `current`.
    buffer: BytesMut,
    current: Option<Header>,
    /// A fragmented message so far: what it is, its bytes, its fragments.
    partial: Option<(Data, BytesMut, usize)>,
    max: usize,
    controls: Controls,
    /// An error was returned: what comes next is not at the start of a frame.
    refused: bool,
}

/// Pings and pongs of one time.
#[derive(Debug)]
struct Controls {
    since: Instant,
    count: usize,
}

impl Controls {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            count: 0,
        }
    }

    fn one_more(&mut self, now: Instant) -> Result<(), Close> {
        if now.duration_since(self.since) >= CONTROL_TIME {
            (self.since, self.count) = (now, 0);
        }
        if self.count >= CONTROLS {
            let seconds = CONTROL_TIME.as_secs();
            return Err(Close::too_often(format!(
                "more than {CONTROLS} pings and pongs within {seconds} s"
            )));
        }
        self.count += 1;
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// `early` are bytes that were received with the upgrade request; `max` is the largest message.
    pub(crate) fn new(io: R, early: &[u8], max: usize) -> Self {
        Self {
            io,
            buffer: BytesMut::from(early),
            current: None,
            partial: None,
            max,
            controls: Controls::new(),
            refused: false,
        }
    }

    /// The next message. Cancel-safe. After [`IncomingMessage::Close`] and [`IncomingMessage::End`] nothing more may be read, after
    /// an error only [`Reader::drain`].
    pub(crate) async fn next(&mut self) -> Result<IncomingMessage, Close> {
        // Many messages may have come in one read: other tasks run between them.
        consume_budget().await;
        loop {
            match self.buffered() {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(close) => {
                    self.refused = true;
                    return Err(close);
                }
            }
            self.make_room();
            match self.io.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(IncomingMessage::End),
                Ok(_) => {}
            }
        }
    }

    /// Set after a message was refused, so that the peer's close is not recognised any more.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Reads until the peer says goodbye or ends, and throws all of it away. After a refused message that is what still
    /// arrives of it.
    pub(crate) async fn drain(&mut self) {
        while !self.refused {
            if let Ok(IncomingMessage::Close(_) | IncomingMessage::End) = self.next().await {
                return;
            }
        }
        loop {
            self.buffer.clear();
            self.buffer.reserve(READ_BYTES);
            if !matches!(self.io.read_buf(&mut self.buffer).await, Ok(1..)) {
                return;
            }
        }
    }

    /// Grows with what has arrived, so that memory is at most twice of that plus a constant.
    fn make_room(&mut self) {
        let have = self.buffer.len();
        let wanted = match self.current {
            Some(header) => {
                let missing = usize::try_from(header.length)
                    .unwrap_or(usize::MAX)
                    .saturating_sub(have);
                missing.min(have.max(AHEAD_BYTES))
            }
            None => READ_BYTES,
        };
        if self.buffer.capacity() - have < wanted.min(LEAST_BYTES) {
            self.buffer.reserve(wanted);
        }
    }

    /// A message out of what has been received.
    fn buffered(&mut self) -> Result<Option<IncomingMessage>, Close> {
        loop {
            let header = match self.current {
                Some(header) => header,
                None => match frame::parse(&self.buffer)? {
                    Some((header, size)) => {
                        let _ = self.buffer.split_to(size);
                        self.check(&header)?;
                        *self.current.insert(header)
                    }
                    None => return Ok(None),
                },
            };
            let length = usize::try_from(header.length).map_err(|_| self.too_big())?;
            if self.buffer.len() < length {
                return Ok(None);
            }
            self.current = None;
            let mut payload = self.buffer.split_to(length);
            frame::unmask(&mut payload, header.mask);
            if let Some(message) = self.take(header, payload)? {
                return Ok(Some(message));
            }
        }
    }

    /// Order and size of fragments, before any of the payload is waited for.
    fn check(&self, header: &Header) -> Result<(), Close> {
        let before = match (header.opcode, &self.partial) {
            (OpCode::Data(Data::Continue), None) => return Err(Close::protocol("continuation of nothing")),
            (OpCode::Data(Data::Continue), Some((_, bytes, fragments))) => {
                if *fragments >= FRAGMENTS {
                    return Err(Close::too_big(format!("more than {FRAGMENTS} fragments")));
                }
                bytes.len()
            }
            (OpCode::Data(_), Some(_)) => {
                return Err(Close::protocol("new message within a fragmented one"));
            }
            _ => 0,
        };
        if header.length.saturating_add(before as u64) > self.max as u64 {
            return Err(self.too_big());
        }
        Ok(())
    }

    fn too_big(&self) -> Close {
        Close::too_big(format!("message is larger than {} bytes", self.max))
    }

    fn take(&mut self, header: Header, payload: BytesMut) -> Result<Option<IncomingMessage>, Close> {
        let data = match header.opcode {
            OpCode::Control(control) => return self.control(control, payload.freeze()).map(Some),
            OpCode::Data(data) => data,
        };
        let (data, bytes, fragments) = match self.partial.take() {
            None => (data, payload, 1),
            Some((data, mut bytes, fragments)) => {
                bytes.extend_from_slice(&payload);
                (data, bytes, fragments + 1)
            }
        };
        if header.last {
            return whole(data, bytes.freeze()).map(Some);
        }
        self.partial = Some((data, bytes, fragments));
        Ok(None)
    }

    fn control(&mut self, control: Control, payload: Bytes) -> Result<IncomingMessage, Close> {
        match control {
            Control::Close => closing(payload),
            Control::Ping => {
                self.controls.one_more(Instant::now())?;
                Ok(IncomingMessage::Ping(payload))
            }
            Control::Pong => {
                self.controls.one_more(Instant::now())?;
                Ok(IncomingMessage::Pong)
            }
            Control::Reserved(_) => Err(Close::protocol("unknown opcode")),
        }
    }
}

/// `data` is what the first fragment was.
fn whole(data: Data, payload: Bytes) -> Result<IncomingMessage, Close> {
    match data {
        Data::Binary => Ok(IncomingMessage::Binary(payload)),
        Data::Text if std::str::from_utf8(&payload).is_ok() => Ok(IncomingMessage::Text(payload)),
        Data::Text => Err(Close::invalid("text is not UTF-8")),
        Data::Continue | Data::Reserved(_) => Err(Close::protocol("unknown opcode")),
    }
}

/// RFC 6455 §5.5.1 and §7.4: nothing, or a code that may be sent and a text.
fn closing(payload: Bytes) -> Result<IncomingMessage, Close> {
    let code = match payload.first_chunk::<2>() {
        None if payload.is_empty() => return Ok(IncomingMessage::Close(payload)),
        None => return Err(Close::protocol("close frame of one byte")),
        Some(code) => u16::from_be_bytes(*code),
    };
    if !CloseCode::from(code).is_allowed() {
        return Err(Close::protocol("close code that must not be sent"));
    }
    if std::str::from_utf8(payload.get(2..).unwrap_or_default()).is_err() {
        return Err(Close::invalid("close reason is not UTF-8"));
    }
    Ok(IncomingMessage::Close(payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame::write(&mut out, OpCode::Data(Data::Binary), payload.len());
        out[0] = first;
        out[1] |= 0x80;
        let mask = [0x12, 0x34, 0x56, 0x78];
        out.extend_from_slice(&mask);
        let mut payload = payload.to_vec();
        frame::unmask(&mut payload, mask);
        out.extend_from_slice(&payload);
        out
    }

    async fn read_all(bytes: &[u8], max: usize) -> Vec<Result<IncomingMessage, Close>> {
        let mut reader = Reader::new(bytes, b"", max);
        let mut out = Vec::new();
        loop {
            let next = reader.next().await;
            let end = matches!(
                next,
                Err(_) | Ok(IncomingMessage::End | IncomingMessage::Close(_))
            );
            out.push(next);
            if end {
                return out;
            }
        }
    }

    #[tokio::test]
    async fn fragments_with_a_ping_between() {
        let mut bytes = frame(0x01, b"he");
        bytes.extend(frame(0x89, b"?"));
        bytes.extend(frame(0x00, b"ll"));
        bytes.extend(frame(0x80, b"o"));
        bytes.extend(frame(0x88, b""));
        let all = read_all(&bytes, 100).await;
        assert_eq!(
            all,
            [
                Ok(IncomingMessage::Ping(Bytes::from_static(b"?"))),
                Ok(IncomingMessage::Text(Bytes::from_static(b"hello"))),
                Ok(IncomingMessage::Close(Bytes::new())),
            ]
        );
    }

    /// Case W7: a client that pings without end.
    #[tokio::test]
    async fn pings_without_end_are_refused() {
        let mut bytes = Vec::new();
        for _ in 0..50_000 {
            bytes.extend(frame(0x89, b"?"));
            bytes.extend(frame(0x8a, b"?"));
        }
        let mut reader = Reader::new(&bytes[..], b"", 100);
        let mut taken = 0;
        let end = loop {
            match reader.next().await {
                Ok(IncomingMessage::Ping(_) | IncomingMessage::Pong) => taken += 1,
                other => break other,
            }
        };
        assert_eq!(
            (end.unwrap_err().code, taken >= CONTROLS),
            (1008, true),
            "{taken}"
        );
    }

    #[test]
    fn as_many_pings_as_a_client_needs_are_taken() {
        let (mut controls, start) = (Controls::new(), Instant::now());
        let mut taken = |at: Duration, tries: usize| {
            let tries = (0..tries).filter(|_| controls.one_more(start + at).is_ok());
            tries.count()
        };
        assert_eq!(taken(Duration::ZERO, 2 * CONTROLS), CONTROLS);
        assert_eq!(taken(CONTROL_TIME / 2, 1), 0);
        assert_eq!(taken(2 * CONTROL_TIME, 2 * CONTROLS), CONTROLS);
        assert_eq!(taken(4 * CONTROL_TIME, 1), 1);
    }

    /// Many messages in one read are not one step of a task.
    #[tokio::test]
    async fn messages_that_came_together_let_others_run() {
        let mut bytes = Vec::new();
        for _ in 0..10_000 {
            bytes.extend(frame(0x82, b"x"));
        }
        let mut reader = Reader::new(&b""[..], &bytes, 100);
        let reading = async { while reader.next().await != Ok(IncomingMessage::End) {} };
        let turns = async {
            let mut turns = 0;
            loop {
                turns += 1;
                tokio::task::yield_now().await;
                if turns == 10 {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = reading => panic!("no other task ran"),
            () = turns => {}
        }
    }

    #[tokio::test]
    async fn early_bytes_come_first() {
        let bytes = frame(0x82, b"abc");
        let mut reader = Reader::new(&bytes[5..], &bytes[..5], 100);
        assert_eq!(
            reader.next().await,
            Ok(IncomingMessage::Binary(Bytes::from_static(b"abc")))
        );
        assert_eq!(reader.next().await, Ok(IncomingMessage::End));
    }

    #[tokio::test]
    async fn refusals() {
        let code = |mut all: Vec<Result<IncomingMessage, Close>>| all.pop().unwrap().unwrap_err().code;
        let mut two_starts = frame(0x01, b"a");
        two_starts.extend(frame(0x81, b"b"));
        let mut grows = frame(0x02, &[0; 60]);
        grows.extend(frame(0x80, &[0; 41]));
        let mut endless = frame(0x02, b"");
        for _ in 0..FRAGMENTS {
            endless.extend(frame(0x00, b""));
        }
        for (bytes, wanted) in [
            (frame(0x80, b"x"), 1002),
            (two_starts, 1002),
            (frame(0x81, &[0xff]), 1007),
            (frame(0x88, b"x"), 1002),
            (frame(0x88, &1005u16.to_be_bytes()), 1002),
            (frame(0x88, &[3, 0xe8, 0xff]), 1007),
            (frame(0x82, &[0; 101]), 1009),
            (grows, 1009),
            (endless, 1009),
        ] {
            assert_eq!(code(read_all(&bytes, 100).await), wanted);
        }
        let announced = [
            0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4,
        ];
        assert_eq!(code(read_all(&announced, 100).await), 1009);
    }

    #[tokio::test]
    async fn an_announced_length_allocates_little() {
        let bytes = [0x82, 0xff, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4, 9];
        let mut reader = Reader::new(&bytes[..], b"", 64 << 20);
        assert_eq!(reader.next().await, Ok(IncomingMessage::End));
        assert!(reader.buffer.capacity() <= 2 * AHEAD_BYTES);
    }
}
