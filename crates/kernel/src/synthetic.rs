//! Messages that the gateway makes itself, as v1 frames.

use bytes::Bytes;
use himalia_wire::{Channel, build, v1};
use serde_json::Value;

/// Session id in the engine's own requests. What a kernel publishes on their behalf is not shown to clients.
pub(crate) const ENGINE_SESSION: &str = "himalia-engine";

/// A `status` on iopub in the kernel's name.
pub(crate) fn status(kernel_session: &str, state: &str) -> Bytes {
    v1::encode(Channel::Iopub, &build::status(kernel_session, state))
}

/// A notice to users: text on stderr, in the kernel's name, below `parent` (a raw header) if there is one.
pub fn notice(kernel_session: &str, parent: Option<&[u8]>, text: &str) -> Bytes {
    v1::encode(
        Channel::Iopub,
        &build::stream(kernel_session, parent, "stderr", text),
    )
}

/// A message in the kernel's name that answers the request with this header (raw).
pub(super) fn answer(
    kernel_session: &str,
    channel: Channel,
    msg_type: &str,
    request: &[u8],
    content: &Value,
) -> Bytes {
    v1::encode(
        channel,
        &build::message(kernel_session, msg_type, Some(request), content),
    )
}
