//! The executions of a log, record by record, without any waiting.

use std::collections::{BTreeSet, HashMap};

use himalia_journal::Record;
use himalia_kernel::{
    End, ExecutionRecord, Language, RecordKind, RecordMeta, RequestKind, execution_of, word,
};
use himalia_outcome::{Cell, MAX_DISPLAY_ID, ReplyStatus};
use himalia_wire::{Channel, Limits, Parts, header, v1};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{HistoryStatus, MAX_METADATA_BYTES};

/// Executions that are kept, the latest ones, and bytes of their code.
const MAX_CELLS: usize = 10_000;
const CODE_BYTES: usize = 64 << 20;
/// Bytes of all outputs that are kept, those of the latest executions.
const OUTPUT_BYTES: usize = 64 << 20;
/// Displays that later cells can change. Others keep the content of their own cell.
const MAX_DISPLAYS: usize = 10_000;
/// Bytes of all that is kept of a log, at most.
pub const MAX_CELL_BYTES: u64 = (CODE_BYTES + OUTPUT_BYTES) as u64;

/// Extent of the wanted data about an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The code alone.
    Code,
    /// The outputs too.
    Outputs,
}

/// One execution.
#[derive(Debug)]
pub struct RanCell {
    /// Number of its first record.
    pub seq: u64,
    /// When it was taken, microseconds since 1970.
    pub at_micros: u64,
    /// It came through the native API; otherwise from a Jupyter client.
    pub native: bool,
    /// The principal's name, of a native one. The records of clients do not have it.
    pub caller: Option<String>,
    /// Name that the client gave itself.
    pub client: Option<String>,
    /// Data of the caller.
    pub metadata: Map<String, Value>,
    pub code: String,
    pub language: Language,
    /// The process that it ran in.
    pub incarnation: u32,
    /// Number of the record with which the kernel began with it.
    pub began: Option<u64>,
    /// Outputs, as a cell of a notebook.
    pub cell: Cell,
    ended: Option<HistoryStatus>,
}

impl RanCell {
    /// Bytes of its code, and about those of its metadata.
    fn bytes(&self) -> usize {
        let metadata = if self.metadata.is_empty() {
            0
        } else {
            MAX_METADATA_BYTES
        };
        self.code.len() + metadata
    }

    /// Status when its kernel `is_over`: unfinished cells are not queued or running any more.
    fn status_when(&self, is_over: bool) -> HistoryStatus {
        match self.status() {
            HistoryStatus::Queued if is_over && !self.native => HistoryStatus::Aborted,
            HistoryStatus::Queued | HistoryStatus::Running if is_over => HistoryStatus::KernelDied,
            status => status,
        }
    }

    /// Status so far.
    fn status(&self) -> HistoryStatus {
        // A native execution ends with a record of its own, which knows more.
        match (
            self.cell.replied().filter(|_| !self.native),
            self.ended,
            self.began,
        ) {
            (Some(ReplyStatus::Ok), ..) => HistoryStatus::Ok,
            (Some(ReplyStatus::Error), ..) => HistoryStatus::Error,
            (Some(ReplyStatus::Aborted), ..) => HistoryStatus::Aborted,
            (None, Some(ended), _) => ended,
            (None, None, Some(_)) => HistoryStatus::Running,
            (None, None, None) => HistoryStatus::Queued,
        }
    }
}

/// Execution that a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A native one, by its number.
    Native(u64),
    /// A request of a client: epoch and number.
    Request(u32, u64),
}

/// All executions of a log so far.
#[derive(Debug)]
pub struct Cells {
    detail: Detail,
    ran: Vec<RanCell>,
    /// Places in `ran`, less `omitted`.
    by_key: HashMap<Key, u64>,
    /// Requests that are sent again have another number: the record that they had first.
    by_record: HashMap<u64, u64>,
    /// Places in `ran` of the cells with a display, by its id.
    displays: HashMap<String, BTreeSet<u64>>,
    omitted: u64,
    code_bytes: usize,
    output_bytes: usize,
    /// The first one whose outputs are kept.
    full_from: u64,
    /// Records that are no longer kept, or messages that were dropped.
    pub gaps: u64,
    is_over: bool,
}

#[derive(Deserialize)]
struct ExecuteRequest {
    #[serde(default)]
    code: String,
    #[serde(default)]
    silent: bool,
}

/// The part of a display's content that names it.
#[derive(Deserialize)]
struct Display {
    transient: Option<Transient>,
}

#[derive(Deserialize)]
struct Transient {
    display_id: Option<String>,
}

impl Display {
    fn id_of(channel: Channel, parts: &Parts) -> Option<String> {
        if channel != Channel::Iopub {
            return None;
        }
        let display: Self = serde_json::from_slice(&parts.content).ok()?;
        let id = display.transient?.display_id;
        id.filter(|id| id.len() <= MAX_DISPLAY_ID)
    }
}

impl Cells {
    /// Creates an empty history.
    pub fn new(detail: Detail) -> Self {
        Self {
            detail,
            ran: Vec::new(),
            by_key: HashMap::new(),
            by_record: HashMap::new(),
            displays: HashMap::new(),
            omitted: 0,
            code_bytes: 0,
            output_bytes: 0,
            full_from: 0,
            gaps: 0,
            is_over: false,
        }
    }

    /// The executions in the order in which the kernel came to them, those that it did not come to last; and how many
    /// earlier ones were left out.
    pub fn in_order(&self) -> (Vec<&RanCell>, u64) {
        let mut ran: Vec<&RanCell> = self.ran.iter().collect();
        // Nearly all are in order already, which makes this quick.
        ran.sort_by_key(|ran| (ran.began.is_none(), ran.began.unwrap_or(ran.seq)));
        (ran, self.omitted)
    }

    /// Sets if the kernel has ended, and no more records will come.
    pub fn set_over(&mut self, is_over: bool) {
        self.is_over = is_over;
    }

    pub fn status(&self, ran: &RanCell) -> HistoryStatus {
        ran.status_when(self.is_over)
    }

    /// Approximate memory, in bytes.
    pub fn weight(&self) -> usize {
        let places =
            self.by_key.len() * size_of::<(Key, u64)>() + self.by_record.len() * size_of::<(u64, u64)>();
        self.code_bytes + self.output_bytes + self.ran.len() * size_of::<RanCell>() + places
    }

    fn get(&mut self, place: u64) -> Option<&mut RanCell> {
        let at = usize::try_from(place.checked_sub(self.omitted)?).ok()?;
        self.ran.get_mut(at)
    }

    fn find(&mut self, key: Key) -> Option<&mut RanCell> {
        let place = *self.by_key.get(&key)?;
        self.get(place)
    }

    fn add(&mut self, key: Key, ran: RanCell) {
        let place = self.omitted + self.ran.len() as u64;
        self.by_key.insert(key, place);
        self.by_record.insert(ran.seq, place);
        self.code_bytes += ran.bytes();
        self.ran.push(ran);
        if self.ran.len() > MAX_CELLS || self.code_bytes > CODE_BYTES {
            self.forget_oldest();
        }
    }

    /// Leaves out a part of the oldest, so that this is not done for every single one.
    fn forget_oldest(&mut self) {
        let count = (self.ran.len() / 8).max(1);
        for ran in self.ran.drain(..count) {
            self.code_bytes -= ran.bytes();
            self.output_bytes = self.output_bytes.saturating_sub(ran.cell.bytes());
        }
        self.omitted += count as u64;
        let first = self.omitted;
        self.by_key.retain(|_, place| *place >= first);
        self.by_record.retain(|_, place| *place >= first);
        self.displays.retain(|_, places| {
            places.retain(|place| *place >= first);
            !places.is_empty()
        });
        self.full_from = self.full_from.max(first);
    }

    /// The next record of the log.
    pub fn record(&mut self, record: &Record) {
        let meta = RecordMeta::decode(&record.meta);
        match RecordKind::from_byte(record.kind) {
            Some(RecordKind::Execution) => self.execution(record, &meta),
            Some(RecordKind::Request) => self.request(record, &meta),
            Some(RecordKind::Message) if !meta.hidden && !meta.synthetic => self.message(record, &meta),
            Some(RecordKind::Lifecycle) => self.lifecycle(record, &meta),
            Some(RecordKind::Gap) => self.gaps += 1,
            _ => {}
        }
    }

    fn execution(&mut self, record: &Record, meta: &RecordMeta) {
        let Ok(event) = serde_json::from_slice::<ExecutionRecord>(&record.body) else {
            return;
        };
        if let ExecutionRecord::Submitted { submission, .. } = event {
            let ran = RanCell {
                seq: record.seq,
                at_micros: record.at_micros,
                native: true,
                caller: Some(submission.caller),
                client: submission.client,
                metadata: submission.metadata,
                code: submission.code,
                language: submission.language,
                incarnation: meta.incarnation,
                began: None,
                cell: Cell::default(),
                ended: None,
            };
            self.add(Key::Native(record.seq), ran);
            return;
        }
        let Some(seq) = execution_of(meta.owner) else {
            return;
        };
        let Some(ran) = self.find(Key::Native(seq)) else {
            return;
        };
        match event {
            ExecutionRecord::Sent { .. } => {
                ran.incarnation = meta.incarnation;
                ran.began = None;
                let before = std::mem::take(&mut ran.cell).bytes();
                self.output_bytes = self.output_bytes.saturating_sub(before);
            }
            ExecutionRecord::Ended { status, .. } => ran.ended = Some(status.into()),
            _ => {}
        }
    }

    fn request(&mut self, record: &Record, meta: &RecordMeta) {
        let kind = RequestKind::from_word(meta.word);
        if kind != RequestKind::Execute || execution_of(meta.owner).is_some() {
            return;
        }
        let key = Key::Request(meta.epoch, meta.request);
        if let Some(place) = self.by_record.get(&meta.link).copied().filter(|_| meta.link != 0) {
            self.by_key.insert(key, place);
            self.by_record.insert(record.seq, place);
            return;
        }
        let Ok((_, parts)) = v1::decode(&record.body, &Limits::KERNEL) else {
            return;
        };
        let Ok(asked) = serde_json::from_slice::<ExecuteRequest>(&parts.content) else {
            return;
        };
        if asked.silent {
            return;
        }
        let ran = RanCell {
            seq: record.seq,
            at_micros: record.at_micros,
            native: false,
            caller: None,
            client: None,
            metadata: Map::new(),
            code: asked.code,
            language: Language::Kernel,
            incarnation: meta.incarnation,
            began: None,
            cell: Cell::default(),
            ended: None,
        };
        self.add(key, ran);
    }

    fn message(&mut self, record: &Record, meta: &RecordMeta) {
        let key = match execution_of(meta.owner) {
            Some(seq) => Key::Native(seq),
            None => Key::Request(meta.epoch, meta.request),
        };
        let detail = self.detail;
        let Some(place) = self.by_key.get(&key).copied() else {
            return;
        };
        let Some(ran) = self.get(place) else { return };
        if meta.word & word::BEGAN != 0 && ran.began.is_none() {
            ran.began = Some(record.seq);
            ran.incarnation = meta.incarnation;
        }
        let Ok((channel, parts)) = v1::decode(&record.body, &Limits::KERNEL) else {
            return;
        };
        let wanted = detail == Detail::Outputs
            || channel == Channel::Shell
            || header::peek(&parts.header).is_ok_and(|header| header.msg_type == "execute_input");
        if !wanted {
            return;
        }
        let kind = header::peek(&parts.header).map(|header| header.msg_type.into_owned());
        let id = Display::id_of(channel, &parts);
        match (kind.as_deref(), id) {
            (Ok("update_display_data"), Some(id)) => {
                let mut places = self.displays.get(&id).cloned().unwrap_or_default();
                places.insert(place);
                for place in places {
                    self.show(place, channel, &parts);
                }
            }
            (Ok(_), Some(id)) => {
                self.show(place, channel, &parts);
                self.note_display(id, place);
            }
            _ => self.show(place, channel, &parts),
        }
        self.fit(place);
    }

    /// A message of the cell at this place.
    fn show(&mut self, place: u64, channel: Channel, parts: &Parts) {
        let Some(ran) = self.get(place) else { return };
        let before = ran.cell.bytes();
        ran.cell.message(channel, parts);
        let after = ran.cell.bytes();
        self.output_bytes = (self.output_bytes + after).saturating_sub(before);
    }

    /// The cell at this place has the display.
    fn note_display(&mut self, id: String, place: u64) {
        if self.displays.len() >= MAX_DISPLAYS && !self.displays.contains_key(&id) {
            return;
        }
        self.displays.entry(id).or_default().insert(place);
    }

    /// Leaves out the outputs of the oldest until all others fit.
    fn fit(&mut self, latest: u64) {
        while self.output_bytes > OUTPUT_BYTES && self.full_from <= latest {
            let place = self.full_from;
            self.full_from += 1;
            if let Some(ran) = self.get(place) {
                let bytes = ran.cell.bytes();
                if bytes > 0 {
                    ran.cell.drop_outputs();
                    self.output_bytes = self.output_bytes.saturating_sub(bytes);
                }
            }
        }
    }

    /// A process that ends takes with it what clients had it run.
    fn lifecycle(&mut self, record: &Record, meta: &RecordMeta) {
        let event = serde_json::from_slice::<Value>(&record.body).unwrap_or_default();
        if !matches!(event["event"].as_str(), Some("exited" | "restarting" | "dead")) {
            return;
        }
        let process = event["incarnation"]
            .as_u64()
            .unwrap_or_else(|| meta.incarnation.into());
        let lost =
            |ran: &&mut RanCell| !ran.native && ran.began.is_some() && ran.status() == HistoryStatus::Running;
        for ran in self.ran.iter_mut().filter(lost) {
            if u64::from(ran.incarnation) <= process {
                ran.ended = Some(HistoryStatus::KernelDied);
            }
        }
    }
}

impl From<End> for HistoryStatus {
    fn from(end: End) -> Self {
        match end {
            End::Ok => Self::Ok,
            End::Error => Self::Error,
            End::Timeout => Self::Timeout,
            End::Interrupted => Self::Interrupted,
            End::KernelDied => Self::KernelDied,
            End::OomKilled => Self::OomKilled,
        }
    }
}
