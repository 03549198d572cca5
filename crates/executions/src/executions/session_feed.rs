//! The events of all executions of a kernel, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use himalia_budget::{Pace, work};
use himalia_journal::Record;
use himalia_kernel::{RecordKind, RecordMeta, execution_of};
use himalia_model::{KernelId, from_micros, wall_micros};
use himalia_outcome::Excerpt;

use super::feed::{BATCH_BYTES, BATCH_RECORDS};
use super::follow::{lost, no_longer_kept};
use crate::feed::{Batch, PacedReader, Position};
use crate::{
    ArtifactStore, ExecutionEvent, ExecutionEventKind, ExecutionId, FeedClosed, Follower, LogReader, first,
};

/// Opens the log after a number.
type Open = Box<dyn Fn(u64) -> LogReader + Send + Sync>;

/// An event, and the execution that it belongs to; `None` of a gap that may concern several.
#[derive(Clone, Debug)]
pub struct SessionEvent {
    pub execution: Option<ExecutionId>,
    pub event: ExecutionEvent,
}

/// All executions of a kernel, followed. A record of the log is at most one event. Cheap to drop at any time.
///
/// An execution that began before the reading did is read from its own beginning when there is something new of it.
pub struct SessionFeed {
    kernel: KernelId,
    reader: PacedReader,
    open: Open,
    artifacts: ArtifactStore,
    /// Executions that have not ended: at most as many as wait and run.
    followed: BTreeMap<u64, Follower>,
    /// Up to this record, the beginnings of executions were not read here.
    unread: u64,
    /// Executions that began there and are not followed, because they have ended or their beginning is gone.
    passed: BTreeSet<u64>,
    detour: Option<Detour>,
    /// Gaps of executions whose beginnings are gone, for the next events.
    gaps: Vec<SessionEvent>,
}

/// An execution that is read from its own beginning, while the log waits.
struct Detour {
    /// Position at which the log is continued.
    back: Position,
    id: ExecutionId,
    /// The last record to be read.
    until: u64,
    follower: Option<Follower>,
    /// The number of the record that was read last.
    seq: u64,
}

impl fmt::Debug for SessionFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionFeed")
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}

impl SessionFeed {
    /// The events after `after`.
    pub fn new(kernel: KernelId, open: Open, artifacts: ArtifactStore, after: u64, pace: Pace) -> Self {
        Self {
            kernel,
            reader: PacedReader::new(open(after), pace),
            open,
            artifacts,
            followed: BTreeMap::new(),
            unread: after,
            passed: BTreeSet::new(),
            detour: None,
            gaps: Vec::new(),
        }
    }

    /// The number of the record that it begins after, before anything was read.
    pub fn start(&self) -> u64 {
        self.unread
    }

    /// Makes a value of the next events, at least one; waits while there is none. Texts of one stream that came together are one event. Large values
    /// are made in a turn of the client's principal, so `make` must not wait. Cancel-safe.
    pub async fn next_as<T>(&mut self, make: impl FnOnce(Vec<SessionEvent>) -> T) -> Result<T, FeedClosed> {
        loop {
            let read = self.reader.next(BATCH_RECORDS, BATCH_BYTES).await?;
            // Nothing is awaited from here on.
            if let Some(detour) = &mut self.detour {
                work(read.bytes, || detour.read(&read.batch, &self.artifacts));
                self.arrive();
                continue;
            }
            if let Some(id) = self.unknown(&read.batch) {
                self.depart(id, read.batch);
                continue;
            }
            let events = work(read.bytes, || self.events(&read.batch));
            if !events.is_empty() {
                return Ok(work(read.bytes, || make(events)));
            }
        }
    }

    /// An execution with a record here whose beginning was not read.
    fn unknown(&self, batch: &Batch) -> Option<ExecutionId> {
        let Batch::Records(records) = batch else {
            return None;
        };
        let unknown = |record: &Arc<Record>| {
            let seq = owner(record)?;
            let is_known =
                seq > self.unread || self.followed.contains_key(&seq) || self.passed.contains(&seq);
            (!is_known).then_some(seq)
        };
        let seq = records.iter().find_map(unknown)?;
        Some(ExecutionId {
            kernel: self.kernel,
            seq,
        })
    }

    /// Reads an execution up to what was read of the log, which waits.
    fn depart(&mut self, id: ExecutionId, batch: Batch) {
        let until = match &batch {
            Batch::Records(records) => records.first().map_or(0, |record| record.seq - 1),
            Batch::Gap { to, .. } => *to,
        };
        self.detour = Some(Detour {
            back: self.reader.depart((self.open)(id.seq - 1), batch),
            id,
            until,
            follower: None,
            seq: id.seq - 1,
        });
    }

    /// Continues with the log if the execution was read far enough.
    fn arrive(&mut self) {
        let Some(detour) = self.detour.take_if(|detour| detour.is_complete()) else {
            return;
        };
        self.reader.arrive(detour.back);
        match detour.follower {
            Some(follower) if !follower.is_over() => {
                self.followed.insert(detour.id.seq, follower);
                return;
            }
            Some(_) => {}
            None => {
                let text =
                    "[himalia: the beginning of this execution is no longer kept; its result can be read]\n";
                let gap = gap(Some(detour.id), detour.until, wall_micros(), text.to_owned());
                self.gaps.push(gap);
            }
        }
        self.passed.insert(detour.id.seq);
    }

    fn events(&mut self, batch: &Batch) -> Vec<SessionEvent> {
        let mut events = std::mem::take(&mut self.gaps);
        match batch {
            Batch::Gap { from, to } => {
                // What happened to them is not known; what comes of them is read from their own beginnings, if those are there.
                self.followed.clear();
                self.passed.clear();
                self.unread = *to;
                let text = no_longer_kept(*from, *to);
                events.push(gap(None, *to, wall_micros(), text));
            }
            Batch::Records(records) => {
                for record in records {
                    if let Some(event) = self.tell(record) {
                        append(&mut events, event);
                    }
                }
            }
        }
        events
    }

    fn tell(&mut self, record: &Record) -> Option<SessionEvent> {
        if RecordKind::from_byte(record.kind) == Some(RecordKind::Gap) {
            return self.loss(record);
        }
        let id = ExecutionId {
            kernel: self.kernel,
            seq: owner(record)?,
        };
        if let Some(follower) = beginning(id, record) {
            self.followed.insert(id.seq, follower);
        }
        let follower = self.followed.get_mut(&id.seq)?;
        let (event, artifacts) = follower.tell(record);
        if follower.is_over() {
            self.followed.remove(&id.seq);
        }
        self.artifacts.keep(&artifacts);
        Some(SessionEvent {
            execution: Some(id),
            event: event?,
        })
    }

    /// Messages of the kernel are missing: those of the execution that runs, if it is known.
    fn loss(&mut self, record: &Record) -> Option<SessionEvent> {
        for (seq, follower) in &mut self.followed {
            if let (Some(event), _) = follower.tell(record) {
                let execution = Some(ExecutionId {
                    kernel: self.kernel,
                    seq: *seq,
                });
                return Some(SessionEvent { execution, event });
            }
        }
        Some(gap(None, record.seq, record.at_micros, lost(record)?))
    }
}

impl Detour {
    fn read(&mut self, batch: &Batch, artifacts: &ArtifactStore) {
        match batch {
            // Its beginning is gone.
            Batch::Gap { .. } => self.seq = u64::MAX,
            Batch::Records(records) => {
                for record in records.iter().take_while(|record| record.seq <= self.until) {
                    if self.follower.is_none() {
                        self.follower = beginning(self.id, record);
                    }
                    if let Some(follower) = &mut self.follower {
                        artifacts.keep(&follower.record(record));
                    }
                }
                self.seq = records.last().map_or(self.seq, |record| record.seq);
            }
        }
    }

    /// An execution has its beginning in the record that its id names.
    fn is_complete(&self) -> bool {
        let is_over = self
            .follower
            .as_ref()
            .map_or(self.seq >= self.id.seq, Follower::is_over);
        is_over || self.seq >= self.until
    }
}

/// The execution that a record belongs to.
fn owner(record: &Record) -> Option<u64> {
    match (
        RecordKind::from_byte(record.kind)?,
        RecordMeta::decode(&record.meta).owner,
    ) {
        (RecordKind::Execution, 0) => Some(record.seq),
        (_, owner) => execution_of(owner),
    }
}

/// An execution that begins with this record.
fn beginning(id: ExecutionId, record: &Record) -> Option<Follower> {
    let submission = first(record).filter(|_| record.seq == id.seq)?;
    let sink = Excerpt::new(usize::try_from(submission.text_chars).unwrap_or(usize::MAX));
    Some(Follower::new(
        id,
        submission.language,
        submission.caller,
        submission.text_chars,
        sink,
    ))
}

fn gap(execution: Option<ExecutionId>, seq: u64, at_micros: u64, text: String) -> SessionEvent {
    SessionEvent {
        execution,
        event: ExecutionEvent {
            seq,
            at: from_micros(at_micros),
            kind: ExecutionEventKind::Gap { text },
        },
    }
}

fn append(events: &mut Vec<SessionEvent>, next: SessionEvent) {
    match events.last_mut() {
        Some(last) if last.execution == next.execution => {
            if let Some(event) = last.event.join(next.event) {
                events.push(SessionEvent {
                    execution: next.execution,
                    event,
                });
            }
        }
        _ => events.push(next),
    }
}
