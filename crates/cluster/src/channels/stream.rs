//! The stream between the replica of a client and the owner of its kernel.
//!
//! ```text
//! 0  kind   1  u32 length of what follows   5  payload
//! ```

use std::convert::Infallible;

use axum::body::Body;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::stream;
use himalia_engine::FeedClosed;
use himalia_wire::Limits;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

/// Bytes of kind and length.
const HEAD: usize = 5;
/// Payload: a message of a kernel, with offsets and a number.
const MOST: usize = Limits::KERNEL.message_bytes + (64 << 10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamItem {
    /// A message of the client.
    Request {
        number: u64,
        /// The message, encoded.
        frame: Bytes,
    },
    /// The client has everything up to this number of the log.
    Acknowledged(u64),
    /// A message for the client.
    Delivery {
        /// The number in the log; 0 if it is not in the log.
        seq: u64,
        /// The message, encoded.
        frame: Bytes,
    },
    /// The kernel's queue has this request, or nothing else will have it.
    Accepted(u64),
    /// The session id of the kernel's own messages.
    KernelSession(Bytes),
    /// The feed has ended, for this reason.
    Closed(FeedClosed),
}

/// A body that is written piece by piece.
pub(super) fn outgoing() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    let pieces = stream::unfold(receiver, async |mut pieces: mpsc::Receiver<Bytes>| {
        let piece = pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), pieces))
    });
    (sender, Body::from_stream(pieces))
}

/// The rest of the stream cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrokenStream;

const REQUEST: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
const DELIVERY: u8 = 3;
const ACCEPTED: u8 = 4;
const KERNEL_SESSION: u8 = 5;
const CLOSED: u8 = 6;

/// The reasons of an end, by number.
const REASONS: [FeedClosed; 4] = [
    FeedClosed::KernelGone,
    FeedClosed::Draining,
    FeedClosed::Replaced,
    FeedClosed::Storage,
];

impl StreamItem {
    /// Appends the item.
    pub(super) fn write(&self, out: &mut BytesMut) {
        let mut put = |kind: u8, number: Option<u64>, bytes: &[u8]| {
            let length = bytes.len() + number.map_or(0, |_| size_of::<u64>());
            out.reserve(HEAD + length);
            out.put_u8(kind);
            out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
            if let Some(number) = number {
                out.put_u64(number);
            }
            out.put_slice(bytes);
        };
        match self {
            Self::Request { number, frame } => put(REQUEST, Some(*number), frame),
            Self::Acknowledged(seq) => put(ACKNOWLEDGED, Some(*seq), b""),
            Self::Delivery { seq, frame } => put(DELIVERY, Some(*seq), frame),
            Self::Accepted(number) => put(ACCEPTED, Some(*number), b""),
            Self::KernelSession(text) => put(KERNEL_SESSION, None, text),
            Self::Closed(closed) => {
                let reason = REASONS.iter().position(|reason| reason == closed);
                put(
                    CLOSED,
                    Some(reason.unwrap_or(REASONS.len().saturating_sub(1)) as u64),
                    b"",
                );
            }
        }
    }

    /// Encodes the item.
    pub(super) fn bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.write(&mut out);
        out.freeze()
    }

    fn read(kind: u8, mut payload: Bytes) -> Result<Self, BrokenStream> {
        if kind == KERNEL_SESSION {
            return Ok(Self::KernelSession(payload));
        }
        let number = payload.try_get_u64().map_err(|_| BrokenStream)?;
        match kind {
            REQUEST => Ok(Self::Request {
                number,
                frame: payload,
            }),
            DELIVERY => Ok(Self::Delivery {
                seq: number,
                frame: payload,
            }),
            ACKNOWLEDGED => Ok(Self::Acknowledged(number)),
            ACCEPTED => Ok(Self::Accepted(number)),
            CLOSED => {
                let reason = usize::try_from(number).ok().and_then(|at| REASONS.get(at));
                reason.cloned().map(Self::Closed).ok_or(BrokenStream)
            }
            _ => Err(BrokenStream),
        }
    }
}

/// Decodes a stream as it arrives.
#[derive(Debug, Default)]
pub(super) struct StreamDecoder(BytesMut);

impl StreamDecoder {
    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
    }

    /// Takes the next item, once it is complete.
    pub(super) fn take(&mut self) -> Result<Option<StreamItem>, BrokenStream> {
        let Some((head, rest)) = self.0.split_at_checked(HEAD) else {
            return Ok(None);
        };
        let [kind, length @ ..] = head else {
            return Err(BrokenStream);
        };
        let length = length.try_into().map_err(|_| BrokenStream)?;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| BrokenStream)?;
        if length > MOST {
            return Err(BrokenStream);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let kind = *kind;
        self.0.advance(HEAD);
        StreamItem::read(kind, self.0.split_to(length).freeze()).map(Some)
    }
}

/// Reads the next item of a body; `None` at its end. Cancel-safe.
pub(super) async fn next_item(
    body: &mut Body,
    decoder: &mut StreamDecoder,
) -> Result<Option<StreamItem>, BrokenStream> {
    loop {
        if let Some(item) = decoder.take()? {
            return Ok(Some(item));
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    decoder.push(&data);
                }
            }
            Some(Err(_)) => return Err(BrokenStream),
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item() -> impl Strategy<Value = StreamItem> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
        prop_oneof![
            (any::<u64>(), bytes()).prop_map(|(number, frame)| StreamItem::Request { number, frame }),
            (any::<u64>(), bytes()).prop_map(|(seq, frame)| StreamItem::Delivery { seq, frame }),
            any::<u64>().prop_map(StreamItem::Acknowledged),
            any::<u64>().prop_map(StreamItem::Accepted),
            bytes().prop_map(StreamItem::KernelSession),
            prop::sample::select(REASONS.to_vec()).prop_map(StreamItem::Closed),
        ]
    }

    proptest! {
        #[test]
        fn items_come_out_as_they_went_in(items in prop::collection::vec(item(), 0..20), cut in 1usize..50) {
            let mut out = BytesMut::new();
            for item in &items {
                item.write(&mut out);
            }
            let (mut decoder, mut read) = (StreamDecoder::default(), Vec::new());
            for part in out.chunks(cut) {
                decoder.push(part);
                while let Some(item) = decoder.take().unwrap() {
                    read.push(item);
                }
            }
            prop_assert_eq!(read, items);
        }

        #[test]
        fn hostile_bytes_end_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = StreamDecoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take() {}
        }
    }

    #[test]
    fn an_announced_length_is_bounded() {
        let mut decoder = StreamDecoder::default();
        decoder.push(&[DELIVERY, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(decoder.take(), Err(BrokenStream));
    }
}
