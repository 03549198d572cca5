//! Questions to a kernel, and its replies.

use bytes::Bytes;
use himalia_wire::Channel;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Shell or control.
    pub channel: Channel,
    pub msg_type: &'static str,
    pub content: Value,
    /// Time to wait for the reply, in microseconds.
    pub wait: u64,
}

/// Reply of the kernel. Neither part was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The content, JSON as the kernel wrote it.
    pub content: Bytes,
    pub buffers: Vec<Bytes>,
}
