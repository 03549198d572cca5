//! Metadata of a record in the journal: the fields that recovery and feeds read without parsing messages.
//!
//! Layout of the 40 bytes, little endian:
//!
//! ```text
//!  0  u16 kernel        number of the kernel on its shim link
//!  2  u8  channel       0 none, 1 shell, 2 control, 3 stdin, 4 iopub
//!  3  u8  flags         bit 0 lane is data · bit 1 for the engine alone · bit 2 made by the gateway · bit 3 the body lacks a
//!                       secret that was in the message
//!  4  u32 incarnation
//!  8  u64 owner         hash of principal and wire session, below 2^63; 0 = no client (all clients, for iopub). With bit
//!                       63: of a native execution, the other bits are the number of its first record
//! 16  u64 request       number of the request that this is, or that it answers; 0 = none
//! 24  u64 link          the shim's number of this message in its lane; 0 = not from the shim. Of a request that is sent
//!                       again: the journal number of its earlier record
//! 32  u32 epoch         of the request
//! 36  u32 word          requests: what kind of request; messages: what recovery must know of it
//! ```

use himalia_journal::Meta;
use himalia_shim_protocol::{Lane, RequestId};
use himalia_wire::Channel;
use serde::Serialize;

/// Kind of a record; the journal's `kind` byte. Bytes are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A message of the kernel, or one that the gateway made in its name. Body: v1 frame.
    Message = 1,
    /// A message to the kernel, written before it is sent. Body: v1 frame.
    Request = 2,
    /// A lifecycle event of the shim or a decision of the engine. Body: JSON.
    Lifecycle = 3,
    /// Messages that the shim dropped. Body: JSON.
    Gap = 4,
    /// Record of a native execution. Body: JSON. The first one of an execution has no owner, its number names it.
    Execution = 5,
    /// A connection of the sandbox to the network, of the execution that its owner names. Body: JSON.
    Network = 6,
    /// Record of a prompt on behalf of the execution that its owner names. Body: JSON.
    Prompt = 8,
    /// A call of a tool, of the execution that its owner names. Body: JSON.
    ToolCall = 7,
    /// An answer to a model, about the execution that its owner names or about the kernel. Body: JSON.
    Returned = 9,
}

/// The body of a record that is one event, as JSON. Serialisation of these types cannot fail; an empty object would be read
/// as unknown.
pub(super) fn event_body(event: &impl Serialize) -> bytes::Bytes {
    serde_json::to_vec(event)
        .unwrap_or_else(|_| b"{\"event\":\"unknown\"}".to_vec())
        .into()
}

impl RecordKind {
    /// The kind of a byte; `None` for kinds of a later version.
    pub fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Message,
            Self::Request,
            Self::Lifecycle,
            Self::Gap,
            Self::Execution,
            Self::Network,
            Self::Prompt,
            Self::ToolCall,
            Self::Returned,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// The decoded fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordMeta {
    /// Number of the kernel on its link.
    pub kernel: u16,
    /// The channel of a message or a request.
    pub channel: Option<Channel>,
    /// The lane that it came on; `None` if it is not from the shim.
    pub lane: Option<Lane>,
    /// Not shown to clients: caused by the engine's own requests.
    pub hidden: bool,
    /// Made by the gateway, not by the kernel.
    pub synthetic: bool,
    /// The message had a secret in it that its record lacks.
    pub redacted: bool,
    /// The process that it belongs to.
    pub incarnation: u32,
    /// Hash of principal and wire session, or the execution that it belongs to; 0 = none.
    pub owner: u64,
    /// Number of the request that this is, or that it answers; 0 = none.
    pub request: u64,
    /// The shim's number of this message in its lane; 0 = not from the shim.
    pub link: u64,
    /// Epoch of the request.
    pub epoch: u32,
    /// Kind of the request; the fields of a message that recovery needs.
    pub word: u32,
}

const DATA_LANE: u8 = 1;
const HIDDEN: u8 = 2;
const SYNTHETIC: u8 = 4;
const REDACTED: u8 = 8;

impl RecordMeta {
    /// The request that this is, or that it answers; number 0 = none.
    pub(super) fn request_id(&self) -> RequestId {
        RequestId {
            epoch: u64::from(self.epoch),
            number: self.request,
        }
    }

    pub(super) fn set_request_id(&mut self, id: RequestId) {
        self.request = id.number;
        self.epoch = u32::try_from(id.epoch).unwrap_or(u32::MAX);
    }

    /// As the journal has them.
    pub fn encode(&self) -> Meta {
        let mut out = [0_u8; 40];
        let mut flags = 0;
        if self.lane == Some(Lane::Data) {
            flags |= DATA_LANE;
        }
        if self.hidden {
            flags |= HIDDEN;
        }
        if self.synthetic {
            flags |= SYNTHETIC;
        }
        if self.redacted {
            flags |= REDACTED;
        }
        out[0..2].copy_from_slice(&self.kernel.to_le_bytes());
        out[2] = channel_byte(self.channel);
        out[3] = flags;
        out[4..8].copy_from_slice(&self.incarnation.to_le_bytes());
        out[8..16].copy_from_slice(&self.owner.to_le_bytes());
        out[16..24].copy_from_slice(&self.request.to_le_bytes());
        out[24..32].copy_from_slice(&self.link.to_le_bytes());
        out[32..36].copy_from_slice(&self.epoch.to_le_bytes());
        out[36..40].copy_from_slice(&self.word.to_le_bytes());
        Meta(out)
    }

    /// From what the journal has. Of a later version everything that is known.
    pub fn decode(meta: &Meta) -> Self {
        let bytes = &meta.0;
        let flags = bytes[3];
        let link = u64_at(bytes, 24);
        let lane = if flags & DATA_LANE != 0 {
            Lane::Data
        } else {
            Lane::Now
        };
        Self {
            kernel: u16::from_le_bytes([bytes[0], bytes[1]]),
            channel: channel_of(bytes[2]),
            lane: (link != 0).then_some(lane),
            hidden: flags & HIDDEN != 0,
            synthetic: flags & SYNTHETIC != 0,
            redacted: flags & REDACTED != 0,
            incarnation: u32_at(bytes, 4),
            owner: u64_at(bytes, 8),
            request: u64_at(bytes, 16),
            link,
            epoch: u32_at(bytes, 32),
            word: u32_at(bytes, 36),
        }
    }
}

fn u32_at(bytes: &[u8; 40], at: usize) -> u32 {
    let mut out = [0; 4];
    out.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(out)
}

fn u64_at(bytes: &[u8; 40], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}

fn channel_byte(channel: Option<Channel>) -> u8 {
    match channel {
        None => 0,
        Some(Channel::Shell) => 1,
        Some(Channel::Control) => 2,
        Some(Channel::Stdin) => 3,
        Some(Channel::Iopub) => 4,
    }
}

fn channel_of(byte: u8) -> Option<Channel> {
    match byte {
        1 => Some(Channel::Shell),
        2 => Some(Channel::Control),
        3 => Some(Channel::Stdin),
        4 => Some(Channel::Iopub),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive() {
        let meta = RecordMeta {
            kernel: 1,
            channel: Some(Channel::Iopub),
            lane: Some(Lane::Data),
            hidden: true,
            synthetic: false,
            redacted: true,
            incarnation: 3,
            owner: u64::MAX,
            request: 5,
            link: 6,
            epoch: 7,
            word: 8,
        };
        assert_eq!(RecordMeta::decode(&meta.encode()), meta);
        assert_eq!(
            RecordMeta::decode(&RecordMeta::default().encode()),
            RecordMeta::default()
        );
    }
}
