//! The two ways in which clients write a message.
//!
//! A legacy client's messages are converted when they are sent to it, for each client anew: 1 µs for a small message and 1 ns for each
//! byte of a large one, less than sharing the result between clients would cost.

use himalia_engine::Delivery;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Error, Limits, legacy, v1};

use crate::jupyter::quirks::Quirks;
use crate::ws::{Close, IncomingMessage, Outbox};

/// The encoding of messages on a connection.
#[derive(Clone, Debug)]
pub(super) enum Framing {
    /// `v1.kernel.websocket.jupyter.org`, which is also how messages are kept: nothing is converted.
    V1,
    /// JSON text, or binary with big-endian offsets when there are buffers.
    Legacy(Quirks),
}

/// The reason to refuse a message of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The connection has to end.
    Close(Close),
    /// The message is dropped; the connection continues.
    Drop(&'static str),
}

impl Framing {
    /// The subprotocol in the response to the handshake.
    pub(super) fn subprotocol(&self) -> Option<&'static str> {
        match self {
            Self::V1 => Some(v1::SUBPROTOCOL),
            Self::Legacy(_) => None,
        }
    }

    /// Checks a client's message; v1 frames stay as they are, byte for byte. `limits` are those for the message, so that it is
    /// refused before anything is parsed.
    pub(super) fn decode(&self, incoming: &IncomingMessage, limits: &Limits) -> Result<Frame, Refusal> {
        let frame = match (self, incoming) {
            (Self::V1, IncomingMessage::Binary(bytes)) => {
                Frame::parse(bytes.clone(), limits).map_err(refusal)?
            }
            (Self::V1, _) => {
                return Err(Refusal::Close(Close::unsupported(
                    "this subprotocol has binary messages only",
                )));
            }
            (Self::Legacy(_), incoming) => {
                let (channel, parts) = match incoming {
                    IncomingMessage::Text(text) => legacy::decode_text(text, limits),
                    IncomingMessage::Binary(frame) => legacy::decode_binary(frame, limits),
                    _ => return Err(Refusal::Drop("not a message")),
                }
                .map_err(refusal)?;
                let channel = channel.unwrap_or_else(|| {
                    tracing::debug!("a message without a channel is taken for shell");
                    Channel::Shell
                });
                Frame::new(channel, &parts)
            }
        };
        if frame.channel() == Channel::Iopub {
            return Err(Refusal::Drop("clients cannot send on iopub"));
        }
        Ok(frame)
    }

    /// Puts a message for the client into the outbox. Returns where it ends; `None` if it could not be converted.
    pub(super) fn put(&mut self, outbox: &mut Outbox, delivery: &Delivery) -> Option<u64> {
        let quirks = match self {
            Self::V1 => return Some(outbox.binary(delivery.frame.clone())),
            Self::Legacy(quirks) => quirks,
        };
        let converted = v1::decode(&delivery.frame, &Limits::KERNEL)
            .and_then(|(channel, parts)| quirks.encode(channel, &parts));
        match converted {
            Ok(frames) => frames.into_iter().map(|frame| put_legacy(outbox, frame)).last(),
            Err(error) => {
                tracing::warn!(seq = delivery.seq, %error, "a message of the kernel cannot be written as JSON");
                None
            }
        }
    }
}

fn put_legacy(outbox: &mut Outbox, frame: legacy::Frame) -> u64 {
    match frame {
        legacy::Frame::Text(text) => outbox.text(text.into()),
        legacy::Frame::Binary(bytes) => outbox.binary(bytes),
    }
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::UnknownChannel => Refusal::Drop("unknown channel"),
        error if error.is_too_large() => Refusal::Close(Close::too_big(error.to_string())),
        error => Refusal::Close(Close::invalid(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use himalia_wire::Parts;

    fn parts() -> Parts {
        himalia_wire::build::kernel_info_request("s")
    }

    fn legacy() -> Framing {
        Framing::Legacy(Quirks::of("", true, false))
    }

    fn code(framing: &Framing, incoming: &IncomingMessage) -> u16 {
        match framing.decode(incoming, &Limits::CLIENT) {
            Err(Refusal::Close(close)) => close.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn v1_frames_pass_unchanged() {
        let frame = v1::encode(Channel::Control, &parts());
        let passed = Framing::V1
            .decode(&IncomingMessage::Binary(frame.clone()), &Limits::CLIENT)
            .unwrap();
        assert_eq!(
            (passed.channel(), passed.bytes().as_ptr()),
            (Channel::Control, frame.as_ptr())
        );
    }

    #[test]
    fn legacy_text_becomes_v1() {
        let text = legacy::encode_text(Channel::Shell, &parts()).unwrap();
        let frame = legacy()
            .decode(&IncomingMessage::Text(text.into()), &Limits::CLIENT)
            .unwrap();
        assert_eq!(frame.channel(), Channel::Shell);
        assert_eq!(
            v1::decode(frame.bytes(), &Limits::CLIENT).unwrap().0,
            Channel::Shell
        );
    }

    #[test]
    fn refusals_have_their_codes() {
        let frame = v1::encode(Channel::Shell, &parts());
        assert_eq!(
            code(&Framing::V1, &IncomingMessage::Text(Bytes::from_static(b"{}"))),
            1003
        );
        assert_eq!(
            code(
                &Framing::V1,
                &IncomingMessage::Binary(frame.slice(..frame.len() - 1))
            ),
            1007
        );
        assert_eq!(
            code(
                &legacy(),
                &IncomingMessage::Text(Bytes::from_static(b"{\"header\""))
            ),
            1007
        );
        assert_eq!(
            code(
                &legacy(),
                &IncomingMessage::Binary(Bytes::from_static(b"\0\0\0\x02\0"))
            ),
            1007
        );
        let tight = Limits {
            message_bytes: 1,
            ..Limits::CLIENT
        };
        match Framing::V1.decode(&IncomingMessage::Binary(frame), &tight) {
            Err(Refusal::Close(close)) => assert_eq!(close.code, 1009),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn channels_that_are_not_a_clients() {
        let frame = v1::encode(Channel::Iopub, &parts());
        let refused = Framing::V1.decode(&IncomingMessage::Binary(frame), &Limits::CLIENT);
        assert_eq!(refused, Err(Refusal::Drop("clients cannot send on iopub")));
        let text = br#"{"channel":"x","header":{},"parent_header":{},"metadata":{},"content":{}}"#;
        let refused = legacy().decode(&IncomingMessage::Text(Bytes::from_static(text)), &Limits::CLIENT);
        assert_eq!(refused, Err(Refusal::Drop("unknown channel")));
    }
}
