use bytes::{Buf, Bytes, BytesMut};

use super::Body;
use crate::packet::to_json;
use crate::{Frame, Gap, GapReason, HEAD_BYTES, Kind, ORIGIN_BYTES, Origin, ProtocolError, encode_head};

/// Bytes that a kept frame costs beside its body: the entry, its prefix and the allocation.
const OVERHEAD: usize = 256;

/// A frame that is kept for the gateway: a short prefix (head and, for messages, origin) and the body.
#[derive(Clone, Debug)]
pub struct Item {
    prefix: [u8; HEAD_BYTES + ORIGIN_BYTES],
    prefix_bytes: usize,
    kind: Kind,
    link: u64,
    body: Body,
}

impl Item {
    pub(super) fn message(
        kernel: u16,
        link: u64,
        origin: Origin,
        frame: Body,
    ) -> Result<Self, ProtocolError> {
        let mut encoded = BytesMut::with_capacity(ORIGIN_BYTES);
        origin.encode(&mut encoded);
        let head = encode_head(Kind::Message, kernel, link, ORIGIN_BYTES + frame.len())?;
        let mut prefix = [0; HEAD_BYTES + ORIGIN_BYTES];
        prefix[..HEAD_BYTES].copy_from_slice(&head);
        prefix[HEAD_BYTES..].copy_from_slice(&encoded);
        let prefix_bytes = prefix.len();
        Ok(Self {
            prefix,
            prefix_bytes,
            kind: Kind::Message,
            link,
            body: frame,
        })
    }

    pub(super) fn other(kind: Kind, kernel: u16, link: u64, body: Bytes) -> Result<Self, ProtocolError> {
        let mut prefix = [0; HEAD_BYTES + ORIGIN_BYTES];
        prefix[..HEAD_BYTES].copy_from_slice(&encode_head(kind, kernel, link, body.len())?);
        Ok(Self {
            prefix,
            prefix_bytes: HEAD_BYTES,
            kind,
            link,
            body: body.into(),
        })
    }

    /// Reads an item of a spill file.
    pub(super) fn from_frame(frame: Frame) -> Result<Self, ProtocolError> {
        let Frame {
            kind,
            kernel,
            number,
            mut body,
        } = frame;
        if kind != Kind::Message {
            return Self::other(kind, kernel, number, body);
        }
        let (origin, _) = Origin::split(body.clone())?;
        body.advance(ORIGIN_BYTES);
        Self::message(kernel, number, origin, body.into())
    }

    /// A gap in the place of this one.
    pub(super) fn as_gap(&self, kernel: u16, incarnation: u32) -> Option<Self> {
        let gap = Gap {
            incarnation,
            from: self.link,
            to: self.link,
            messages: 1,
            bytes: self.body.len() as u64,
            reason: GapReason::Unknown,
        };
        let body = to_json(Kind::Gap, &gap).ok()?;
        Self::other(Kind::Gap, kernel, self.link, body.into()).ok()
    }

    /// The bytes before the body.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix[..self.prefix_bytes]
    }

    /// The body; for messages the v1 frame.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Kind of the item's frame.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Link number; for a gap the last one.
    pub fn link(&self) -> u64 {
        self.link
    }

    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> usize {
        self.prefix().len() + self.body.len()
    }

    /// Bytes that it is charged in the window.
    pub(super) fn cost(&self) -> usize {
        self.body.len() + OVERHEAD
    }
}
