//! One attached client.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use himalia_budget::HeldShare;
use himalia_journal::Record;
use himalia_kernel::{ClientSlot, Handle, RecordKind, RecordMeta, notice};
use himalia_model::from_micros;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::reader::{Batch, Reader};
use crate::{Delivery, FeedClosed, Requests};

/// Messages and bytes of one batch.
const BATCH_RECORDS: usize = 64;
const BATCH_BYTES: usize = 256 << 10;
/// Time that a new connection waits for the older one of the same owner to go.
const HANDOVER: Duration = Duration::from_secs(1);

/// Options of a client that attaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// The client's `?session_id=`: 1 to 256 bytes. Stable over its reconnects, unlike any other client's.
    /// A facade makes a random one for clients that send none.
    pub wire_session: String,
    /// Show everything after this log number. `None` = where this wire session stopped, or, for a new one, from now on.
    pub after: Option<u64>,
}

/// An attached client. Counts as a connection until both halves are dropped.
#[derive(Debug)]
pub struct Attachment {
    /// Towards the kernel; cheap to clone.
    pub requests: Requests,
    pub feed: Feed,
}

/// Messages for one client: all of iopub, and the replies and input requests to its own requests.
#[derive(Debug)]
pub struct Feed {
    reader: Reader,
    owner: u64,
    /// A gap in the log that is reported with the next output, whose parent it takes.
    gap: Option<(u64, u64)>,
    _connection: Arc<Connection>,
    _held: HeldShare,
}

/// Counts a client while it lives.
#[derive(Debug)]
pub struct Connection {
    handle: Arc<Handle>,
    owner: u64,
    seat: ClientSlot,
}

impl Connection {
    /// Registers a client, in place of an older one with the same owner, which is asked to go and waited for, up to
    /// 1 s: only then is the position final at which the new one starts.
    pub async fn open(handle: Arc<Handle>, owner: u64) -> Arc<Self> {
        let seat = ClientSlot::default();
        let older = handle.attached.lock().insert(owner, seat.clone());
        handle.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Self { handle, owner, seat });
        if let Some(older) = older {
            older.closed.cancel();
            // Late: the new client may see a few messages again.
            let _ = tokio::time::timeout(HANDOVER, older.left.cancelled()).await;
        }
        connection
    }

    /// Cancelled when a newer connection of the same owner takes over.
    pub fn replaced(&self) -> CancellationToken {
        self.seat.closed.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.handle.connections.fetch_sub(1, Ordering::Relaxed);
        if !self.seat.closed.is_cancelled() {
            self.handle.attached.lock().remove(&self.owner);
        }
        self.seat.left.cancel();
    }
}

impl Feed {
    /// Feed of this owner over `reader`. The client counts until the feed is dropped.
    pub fn new(reader: Reader, owner: u64, connection: Arc<Connection>, held: HeldShare) -> Self {
        Self {
            reader,
            owner,
            gap: None,
            _connection: connection,
            _held: held,
        }
    }

    /// The next messages in order, at least one, at most 64 or about 256 KiB (one message always fits).
    /// Waits while there is none. Cancel-safe.
    pub async fn next(&mut self) -> Result<Vec<Delivery>, FeedClosed> {
        loop {
            match self.reader.next(BATCH_RECORDS, BATCH_BYTES).await? {
                Batch::Gap { from, to } => {
                    let from = self.gap.map_or(from, |(first, _)| first.min(from));
                    self.gap = Some((from, to));
                }
                Batch::Records(records) => {
                    let mut out = Vec::with_capacity(records.len() + 1);
                    for record in &records {
                        self.deliver(record, &mut out);
                    }
                    if !out.is_empty() {
                        return Ok(out);
                    }
                }
            }
        }
    }

    fn deliver(&mut self, record: &Record, out: &mut Vec<Delivery>) {
        let meta = RecordMeta::decode(&record.meta);
        let mine = match (RecordKind::from_byte(record.kind), meta.channel) {
            (Some(RecordKind::Message), Some(Channel::Iopub)) => !meta.hidden,
            (Some(RecordKind::Message), Some(_)) => meta.owner == self.owner,
            (Some(RecordKind::Gap), _) => {
                self.deliver_loss(record, out);
                return;
            }
            _ => false,
        };
        let (true, Some(channel)) = (mine, meta.channel) else {
            return;
        };
        if channel == Channel::Iopub
            && let Some((from, to)) = self.gap.take()
        {
            let text = format!("[himalia: records {from} to {to} of this kernel's log are no longer kept]\n");
            out.push(self.notice(to, record.at_micros, parent_of(record).as_deref(), &text));
        }
        let at = from_micros(record.at_micros);
        out.push(Delivery {
            seq: record.seq,
            at,
            channel,
            frame: record.body.clone(),
        });
    }

    /// Messages that the sandbox had to drop.
    fn deliver_loss(&self, record: &Record, out: &mut Vec<Delivery>) {
        #[derive(Deserialize)]
        struct Loss<'a> {
            messages: u64,
            #[serde(default)]
            bytes: u64,
            #[serde(borrow, default)]
            parent: Option<&'a RawValue>,
        }
        let Ok(loss) = serde_json::from_slice::<Loss<'_>>(&record.body) else {
            return;
        };
        let Loss {
            messages,
            bytes,
            parent,
        } = loss;
        let text = format!("[himalia: {messages} messages ({bytes} bytes) of this kernel were dropped]\n");
        let parent = parent.map(|parent| parent.get().as_bytes());
        out.push(self.notice(record.seq, record.at_micros, parent, &text));
    }

    fn notice(&self, seq: u64, at_micros: u64, parent: Option<&[u8]>, text: &str) -> Delivery {
        let frame = notice(&self.kernel_session(), parent, text);
        Delivery {
            seq,
            at: from_micros(at_micros),
            channel: Channel::Iopub,
            frame,
        }
    }

    /// The client has everything up to and including `seq`: where it resumes when it attaches again with the same
    /// wire session. Cheap; call it after each write that the transport took.
    pub fn acknowledge(&self, seq: u64) {
        if let Err(error) = self.reader.handle.journal.positions().set(self.owner, seq) {
            tracing::warn!(kernel = %self.reader.handle.id(), %error, "cannot keep a client's position");
        }
    }

    /// The session id of the kernel's own messages (`header.session`), for messages that a facade invents;
    /// empty before the kernel's first message.
    pub fn kernel_session(&self) -> String {
        self.reader.handle.snapshot.borrow().kernel_session.to_string()
    }
}

/// The raw parent header of a message.
fn parent_of(record: &Record) -> Option<Bytes> {
    let frame = Frame::parse(record.body.clone(), &Limits::KERNEL).ok()?;
    frame.peek_parent().ok()??;
    Some(frame.share(frame.parent_header()))
}

/// The position of a client that attaches now.
pub fn start_position(handle: &Handle, owner: u64, after: Option<u64>) -> u64 {
    let head = handle.journal.head();
    let kept = handle.journal.positions().get(owner);
    let position = after.or(kept).unwrap_or(head).min(head);
    if kept.is_none()
        && let Err(error) = handle.journal.positions().set(owner, position)
    {
        tracing::warn!(kernel = %handle.id(), %error, "cannot keep a client's position");
    }
    tracing::debug!(kernel = %handle.id(), position, "a client attaches");
    position
}
