//! What is asked of a kernel, and what it answers.

use bytes::Bytes;
use himalia_wire::Channel;
use serde_json::Value;

/// A question to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Shell or control.
    pub channel: Channel,
    /// Its `msg_type`.
    pub msg_type: &'static str,
    /// Its content.
    pub content: Value,
    /// How long the reply is waited for, microseconds.
    pub wait: u64,
}

/// What the kernel said. Neither part was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The content, JSON as the kernel wrote it.
    pub content: Bytes,
    /// The buffers.
    pub buffers: Vec<Bytes>,
}
