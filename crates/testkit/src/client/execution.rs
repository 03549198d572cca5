//! The messages that were received for one request.

use himalia_wire::Channel;
use serde_json::Value;

use super::Received;

/// The messages of one execution, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Execution {
    /// `msg_id` of the request.
    pub msg_id: String,
    /// Everything whose parent is the request: status, output, reply.
    pub messages: Vec<Received>,
    replied: bool,
    idle: bool,
}

impl Execution {
    pub(super) fn new(msg_id: &str) -> Self {
        Self {
            msg_id: msg_id.to_owned(),
            messages: Vec::new(),
            replied: false,
            idle: false,
        }
    }

    /// Keeps a message of this execution, gives back any other.
    pub(super) fn take(&mut self, received: Received) -> Option<Received> {
        if received.parent.as_deref() != Some(&self.msg_id) {
            return Some(received);
        }
        self.idle |= received.channel == Channel::Iopub && received.is_status("idle");
        self.replied |= received.channel != Channel::Iopub && received.msg_type.ends_with("_reply");
        self.messages.push(received);
        None
    }

    pub(super) fn is_done(&self) -> bool {
        self.replied && self.idle
    }

    /// The reply's content.
    pub fn reply(&self) -> Value {
        let replies = |received: &&Received| {
            received.channel != Channel::Iopub && received.msg_type.ends_with("_reply")
        };
        self.messages
            .iter()
            .find(replies)
            .map(Received::content)
            .unwrap_or_default()
    }

    /// `ok`, `error` or `aborted`.
    pub fn status(&self) -> String {
        self.reply()
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    /// All text on `stdout` or `stderr`.
    pub fn stream(&self, name: &str) -> String {
        let streams = self
            .of_type("stream")
            .filter(|received| received.text("name") == name);
        streams.map(|received| received.text("text")).collect()
    }

    /// All text on stdout.
    pub fn stdout(&self) -> String {
        self.stream("stdout")
    }

    /// The messages of one type.
    pub fn of_type(&self, msg_type: &str) -> impl Iterator<Item = &Received> {
        self.messages
            .iter()
            .filter(move |received| received.msg_type == msg_type)
    }

    /// The types in order, for messages of failed tests.
    pub fn summary(&self) -> String {
        let types: Vec<&str> = self
            .messages
            .iter()
            .map(|received| received.msg_type.as_str())
            .collect();
        match types.len() {
            0 => "no messages".to_owned(),
            1..=20 => types.join(", "),
            many => format!("{}, … ({many} messages)", types[..20].join(", ")),
        }
    }
}
