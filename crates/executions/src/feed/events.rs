//! Every record of a kernel's log, for native clients.

use bytes::Bytes;
use himalia_budget::{Pace, work};
use himalia_journal::Record;
use himalia_kernel::{RecordKind, RecordMeta, RequestKind, execution_of, word};
use himalia_model::{from_micros, wall_micros};
use himalia_wire::Channel;
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::reader::{Batch, LogReader, PacedReader};
use crate::FeedClosed;

/// Kind of an event's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LogRecordKind")]
pub enum EventKind {
    /// A message of the kernel; `body` is a v1 frame.
    Message,
    /// A request of a client to the kernel; `body` is a v1 frame.
    Request,
    /// A change in the kernel's life; `body` is JSON.
    Lifecycle,
    /// Messages that are missing; `body` is JSON `{from, to, …}`.
    Gap,
    /// Record of a native execution; `body` is JSON.
    Execution,
    /// A connection to the network that has ended or was refused; `body` is JSON.
    Network,
    /// A person is asked something, or what became of that; `body` is JSON.
    Prompt,
    /// A call of a tool: that it is about to be sent, how it has ended, or that it was refused; `body` is JSON.
    #[serde(rename = "tool_call")]
    ToolCall,
}

impl EventKind {
    /// The word used as the event's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Request => "request",
            Self::Lifecycle => "lifecycle",
            Self::Gap => "gap",
            Self::Execution => "execution",
            Self::Network => "network",
            Self::Prompt => "prompt",
            Self::ToolCall => "tool_call",
        }
    }
}

/// One record.
#[derive(Clone, Debug)]
pub struct Event {
    /// Number in the log, dense. A gap carries the last number that is missing.
    pub seq: u64,
    /// When it was stored, UTC.
    pub at: OffsetDateTime,
    /// Kind of `body`.
    pub kind: EventKind,
    /// The channel of a message or request.
    pub channel: Option<Channel>,
    /// The kernel process that it belongs to.
    pub incarnation: u32,
    /// The native execution that it belongs to: the number of that one's first record.
    pub execution: Option<u64>,
    /// A v1 frame or JSON, by `kind`.
    pub body: Bytes,
}

/// Records and bytes of one batch.
const BATCH_RECORDS: usize = 256;
const BATCH_BYTES: usize = 256 << 10;

/// A reader of all records of one kernel's log. Cancel-safe.
#[derive(Debug)]
pub struct EventFeed {
    reader: PacedReader,
    /// The kernel's process when the reading began, for gaps.
    incarnation: u32,
}

impl EventFeed {
    /// Events of `reader`. `incarnation` is the present process, for gaps.
    pub fn new(reader: LogReader, incarnation: u32, pace: Pace) -> Self {
        Self {
            reader: PacedReader::new(reader, pace),
            incarnation,
        }
    }

    /// The next records in order, at least one, at most 256 or about 256 KiB (one record always fits).
    /// Waits while there is none.
    pub async fn next(&mut self) -> Result<Vec<Event>, FeedClosed> {
        self.next_as(|events| events).await
    }

    /// Makes a value of the next events. Large values are made in a turn of the client's principal, so `make` must not wait.
    pub async fn next_as<T>(&mut self, make: impl FnOnce(Vec<Event>) -> T) -> Result<T, FeedClosed> {
        loop {
            let read = self.reader.next(BATCH_RECORDS, BATCH_BYTES).await?;
            let events: Vec<Event> = match &read.batch {
                Batch::Records(records) => records.iter().filter_map(|record| event(record)).collect(),
                Batch::Gap { from, to } => vec![self.gap(*from, *to)],
            };
            if !events.is_empty() {
                return Ok(work(read.bytes, || make(events)));
            }
        }
    }

    fn gap(&self, from: u64, to: u64) -> Event {
        let body = format!(r#"{{"from_seq":{from},"to_seq":{to},"reason":"retention"}}"#);
        let at = from_micros(wall_micros());
        Event {
            seq: to,
            at,
            kind: EventKind::Gap,
            channel: None,
            incarnation: self.incarnation,
            execution: None,
            body: body.into(),
        }
    }
}

/// A record as an event; `None` for kinds of a later version, for questions of the engine itself and their replies, and
/// for counts.
fn event(record: &Record) -> Option<Event> {
    let kind = match RecordKind::from_byte(record.kind)? {
        RecordKind::Message => EventKind::Message,
        RecordKind::Request => EventKind::Request,
        RecordKind::Lifecycle => EventKind::Lifecycle,
        RecordKind::Gap => EventKind::Gap,
        RecordKind::Execution => EventKind::Execution,
        RecordKind::Network => EventKind::Network,
        RecordKind::Prompt => EventKind::Prompt,
        RecordKind::ToolCall => EventKind::ToolCall,
        RecordKind::Returned => return None,
    };
    let meta = RecordMeta::decode(&record.meta);
    let engines = match kind {
        EventKind::Request => RequestKind::from_word(meta.word) == RequestKind::Question,
        EventKind::Message => meta.word & word::ANSWER != 0,
        _ => false,
    };
    if engines {
        return None;
    }
    Some(Event {
        seq: record.seq,
        at: from_micros(record.at_micros),
        kind,
        channel: meta.channel.filter(|_| kind != EventKind::Gap),
        incarnation: meta.incarnation,
        execution: match (kind, meta.owner) {
            (EventKind::Execution, 0) => Some(record.seq),
            (_, owner) => execution_of(owner),
        },
        body: record.body.clone(),
    })
}
