//! One connection: two queues, either end of which may be gone.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use himalia_shim_protocol::shim_link::Item;
use himalia_shim_protocol::{Decoder, Frame, Lane, PendingRequest, ToGateway, Welcome};

/// What the gateway writes.
#[derive(Debug)]
pub(super) enum Down {
    Welcome(Welcome),
    Request(PendingRequest),
    Ack(Lane, u64),
}

#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) to_shim: VecDeque<Down>,
    pub(super) to_gateway: VecDeque<Bytes>,
    /// The gateway has this end open.
    pub(super) gateway: bool,
    /// The gateway has seen its hello; before that it writes to the connection that this one replaces.
    pub(super) greeted: bool,
    /// The shim has this end open.
    pub(super) shim: bool,
}

/// A frame's bytes.
pub(super) fn bytes_of(item: &Item) -> Bytes {
    let mut out = BytesMut::with_capacity(item.wire_bytes());
    out.extend_from_slice(item.prefix());
    out.extend(item.body().pieces().flatten());
    out.freeze()
}

/// A frame's bytes.
pub(super) fn encoded(frame: &ToGateway) -> Bytes {
    let mut out = BytesMut::new();
    frame.encode(&mut out).unwrap();
    out.freeze()
}

/// A frame, understood.
pub(super) fn parsed(bytes: &Bytes) -> ToGateway {
    let mut decoder = Decoder::new();
    decoder.buffer().extend_from_slice(bytes);
    let frame: Frame = decoder.next().unwrap().unwrap();
    ToGateway::parse(frame).unwrap()
}
