//! Records of what the engine decided, on their way to the journal.

use bytes::Bytes;
use himalia_journal::NewRecord;
use himalia_wire::Channel;

use super::executions::records::ExecutionRecord;
use super::life::records::LifecycleRecord;
use super::meta::{RecordKind, RecordMeta};
use super::writes::{Next, Writes};

/// Writes records in the engine's name, for one process of one kernel.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    writes: &'a mut Writes,
    kernel: u16,
    incarnation: u32,
}

impl<'a> Log<'a> {
    pub(crate) fn new(writes: &'a mut Writes, kernel: u16, incarnation: u32) -> Self {
        Self {
            writes,
            kernel,
            incarnation,
        }
    }

    /// The process that the records are of.
    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Appends a record of an execution.
    pub(crate) fn execution(&mut self, owner: u64, record: &ExecutionRecord, then: Next) {
        self.push(RecordKind::Execution, None, owner, record.to_body(), then);
    }

    /// Appends a record of the kernel's life.
    pub(crate) fn lifecycle(&mut self, record: &LifecycleRecord) {
        self.push(RecordKind::Lifecycle, None, 0, record.to_body(), Next::Nothing);
    }

    /// Appends a record of a network connection.
    pub(crate) fn network(&mut self, owner: u64, body: Bytes) {
        self.push(RecordKind::Network, None, owner, body, Next::Nothing);
    }

    /// Appends a record of a prompt.
    pub(crate) fn prompt(&mut self, owner: u64, body: Bytes, then: Next) {
        self.push(RecordKind::Prompt, None, owner, body, then);
    }

    /// Appends a record of a tool call.
    pub(crate) fn tool_call(&mut self, owner: u64, body: Bytes, then: Next) {
        self.push(RecordKind::ToolCall, None, owner, body, then);
    }

    /// An answer to a model.
    pub(crate) fn returned(&mut self, owner: u64, body: Bytes) {
        self.push(RecordKind::Returned, None, owner, body, Next::Nothing);
    }

    /// A message in the kernel's name, for all clients or for the owner of what it answers.
    pub(crate) fn message(&mut self, channel: Channel, owner: u64, frame: Bytes) {
        self.push(RecordKind::Message, Some(channel), owner, frame, Next::Nothing);
    }

    fn push(&mut self, kind: RecordKind, channel: Option<Channel>, owner: u64, body: Bytes, then: Next) {
        let meta = RecordMeta {
            kernel: self.kernel,
            channel,
            synthetic: true,
            incarnation: self.incarnation,
            owner,
            ..RecordMeta::default()
        };
        let record = NewRecord {
            kind: kind as u8,
            meta: meta.encode(),
            body,
        };
        self.writes.push(record, then);
    }
}
