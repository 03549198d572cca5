//! One message as a client sees it.

use anyhow::Result;
use himalia_wire::{Channel, Parts, header};
use serde_json::Value;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// A message from the server.
#[derive(Clone, Debug)]
pub struct Received {
    /// The channel.
    pub channel: Channel,
    /// The message, byte for byte.
    pub parts: Parts,
    /// `msg_type` of its header.
    pub msg_type: String,
    /// `msg_id` of its header.
    pub msg_id: String,
    /// `msg_id` of its parent, if it has one.
    pub parent: Option<String>,
}

impl Received {
    pub(super) fn new(channel: Channel, parts: Parts) -> Result<Self> {
        let peek = header::peek(&parts.header)?;
        let (msg_type, msg_id) = (peek.msg_type.into_owned(), peek.msg_id.into_owned());
        let parent = header::peek_parent(&parts.parent_header)?.map(|peek| peek.msg_id.into_owned());
        Ok(Self {
            channel,
            parts,
            msg_type,
            msg_id,
            parent,
        })
    }

    /// The content, parsed; null if it is no JSON.
    pub fn content(&self) -> Value {
        serde_json::from_slice(&self.parts.content).unwrap_or_default()
    }

    /// A string of the content; empty if there is none.
    pub fn text(&self, field: &str) -> String {
        self.content()
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    /// Whether this is a `status` message with that state.
    pub fn is_status(&self, state: &str) -> bool {
        self.msg_type == "status" && header::execution_state(&self.parts.content).as_deref() == Some(state)
    }
}

/// How the server closed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Closed {
    /// The close code; `None` when the connection just ended.
    pub code: Option<u16>,
    /// The reason, often empty.
    pub reason: String,
}

impl From<Option<CloseFrame>> for Closed {
    fn from(frame: Option<CloseFrame>) -> Self {
        frame.map_or_else(Self::default, |frame| Self {
            code: Some(frame.code.into()),
            reason: frame.reason.to_string(),
        })
    }
}
