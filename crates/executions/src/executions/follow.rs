//! One execution out of a kernel's log: record by record, without any waiting.

mod alone;
mod mark;
mod network;
mod prompts;
mod result;
mod tools;

use himalia_journal::Record;
use himalia_kernel::{
    Brief, End, ExecutionRecord, Language, LostVariables, RecordKind, RecordMeta, ReplacedExecution,
    Submission, execution_of, owner_of, word,
};
use himalia_model::from_micros;
use himalia_outcome::{Artifact, Excerpt, Fold, Input, Sink};
use himalia_wire::{Channel, Limits, v1};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    ExecutionEvent, ExecutionEventKind as Kind, ExecutionId, ExecutionKernel, PromptId, StuckExecution,
};

pub(crate) use mark::Mark;
use network::Network;
use prompts::Prompts;
use tools::Calls;

/// Follows one execution. `S` is what becomes of its text.
#[derive(Clone, Debug)]
pub struct Follower<S = Excerpt> {
    id: ExecutionId,
    language: Language,
    caller: String,
    client: Option<String>,
    metadata: Map<String, Value>,
    text_chars: usize,
    blank: S,
    fold: Fold<S>,
    ahead: u32,
    /// Place in the queue.
    turn: u64,
    created: u64,
    sent: bool,
    attempts: u32,
    began: Option<u64>,
    ended: Option<(u64, EndRecord)>,
    incarnation: u32,
    replaced: Option<ReplacedExecution>,
    detached: bool,
    /// While it waits, the execution that the kernel has.
    behind: Option<u64>,
    /// True if that execution, or this one if it was sent, ignores interrupts.
    stuck: bool,
    gaps: u64,
    /// Bytes of the kernel's messages for it.
    bytes_out: u64,
    network: Network,
    /// Prompts on its behalf.
    prompts: Prompts,
    /// The record of what `input()` asked last.
    asked: u64,
    /// Calls of tools.
    calls: Calls,
    /// Records that the quota took.
    removed: u64,
    seq: u64,
}

#[derive(Clone, Debug)]
struct EndRecord {
    status: End,
    cause: Option<String>,
    ran: bool,
    failed_before: u32,
    failures: u32,
    incarnation: u32,
    variables_lost: Option<LostVariables>,
}

/// Effect of a record on an execution.
#[derive(Debug, Default)]
struct Step {
    event: Option<Kind>,
    /// To be kept, since the result refers to them.
    artifacts: Vec<Artifact>,
}

/// Submission in the first record of an execution; `None` for another record.
pub fn first(record: &Record) -> Option<Submission> {
    if RecordKind::from_byte(record.kind) != Some(RecordKind::Execution) {
        return None;
    }
    match serde_json::from_slice(&record.body).ok()? {
        ExecutionRecord::Submitted { submission, .. } => Some(submission),
        _ => None,
    }
}

/// Text for a client in place of records that are gone.
pub(super) fn no_longer_kept(from: u64, to: u64) -> String {
    format!(
        "[himalia: records {from} to {to} of this session's log are no longer kept: it has reached its quota]\n"
    )
}

/// Text for a client in place of messages that were dropped.
pub(super) fn lost(record: &Record) -> Option<String> {
    #[derive(Deserialize)]
    struct Loss {
        messages: u64,
        #[serde(default)]
        bytes: u64,
    }
    let Loss { messages, bytes } = serde_json::from_slice(&record.body).ok()?;
    Some(format!(
        "[himalia: {messages} messages ({bytes} bytes) of this kernel were dropped]\n"
    ))
}

impl Follower<Excerpt> {
    /// The next record with what callers learn of it.
    pub fn tell(&mut self, record: &Record) -> (Option<ExecutionEvent>, Vec<Artifact>) {
        let Step { event, artifacts } = self.step(record, true);
        let event = match event {
            None if self.ended.as_ref().is_some_and(|_| self.seq == record.seq) => Some(Kind::Done {
                result: Box::new(self.result()),
            }),
            other => other,
        };
        let event = event.map(|kind| ExecutionEvent {
            seq: record.seq,
            at: from_micros(record.at_micros),
            kind,
        });
        (event, artifacts)
    }

    /// A hash of the packages that the kernel had at its end.
    pub fn packages(&self) -> Option<&str> {
        self.fold.notes().packages.as_deref()
    }

    /// UTF-8 bytes of all text so far.
    pub fn text_bytes(&self) -> u64 {
        self.fold.text_bytes()
    }

    /// UTF-8 bytes of the text that can no longer change.
    pub fn final_bytes(&self) -> u64 {
        self.fold.final_bytes()
    }

    /// Approximate memory, in bytes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.fold.weight()
    }
}

impl Follower<String> {
    /// Takes the text that can no longer change.
    pub fn take_text(&mut self) -> String {
        self.fold.take_text()
    }
}

impl<S: Sink + Clone> Follower<S> {
    /// Changes whenever all text so far is taken back.
    pub fn turn(&self) -> (u32, u64) {
        (self.attempts, self.fold.cleared())
    }

    /// Sink of the text that can no longer change.
    pub fn text(&self) -> &S {
        self.fold.text()
    }

    /// From its first record on.
    pub fn new(id: ExecutionId, language: Language, caller: String, text_chars: u64, sink: S) -> Self {
        let text_chars = usize::try_from(text_chars).unwrap_or(usize::MAX);
        Self {
            id,
            language,
            caller,
            client: None,
            metadata: Map::new(),
            text_chars,
            blank: sink.clone(),
            fold: Fold::over(sink, text_chars),
            ahead: 0,
            turn: 0,
            created: 0,
            sent: false,
            attempts: 0,
            began: None,
            ended: None,
            incarnation: 0,
            replaced: None,
            detached: false,
            behind: None,
            stuck: false,
            gaps: 0,
            bytes_out: 0,
            network: Network::default(),
            prompts: Prompts::default(),
            asked: 0,
            calls: Calls::default(),
            removed: 0,
            seq: 0,
        }
    }

    /// Adds facts of the kernel core, since the beginning is no longer in the log.
    #[must_use]
    pub fn knowing(mut self, brief: &Brief) -> Self {
        self.created = brief.at_micros;
        self.client.clone_from(&brief.client);
        self.metadata.clone_from(&brief.metadata);
        self.incarnation = brief.incarnation;
        self.sent = brief.running || brief.end.is_some();
        // Nearly so: when it began is not known.
        self.began = self.sent.then_some(brief.at_micros);
        self
    }

    /// Ends an execution whose end is not in the log: the quota took it too.
    pub fn end_without_record(&mut self, brief: &Brief) {
        let Some(status) = brief.end.filter(|_| self.ended.is_none()) else {
            return;
        };
        let ended = EndRecord {
            status,
            cause: None,
            ran: true,
            failed_before: 0,
            failures: 0,
            incarnation: brief.incarnation,
            variables_lost: None,
        };
        self.ended = Some((brief.at_micros, ended));
    }

    /// True if it has ended.
    pub fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// It has ended, or no caller needs to wait for it any more.
    pub fn is_settled(&self) -> bool {
        self.ended.is_some() || self.detached
    }

    /// It is settled, or ignores interrupts, or the one that it waits for does.
    pub fn is_notified(&self) -> bool {
        self.is_settled() || self.stuck
    }

    /// The kernel works on it, or no caller needs to wait for that any more.
    pub fn has_begun(&self) -> bool {
        self.began.is_some() || self.asks() || self.is_notified()
    }

    /// The execution that ignores interrupts: this one, or the running one that it waits for.
    fn stuck(&self) -> Option<StuckExecution> {
        let own = self.sent.then_some(self.id.seq);
        let seq = own
            .or(self.behind)
            .filter(|_| self.stuck && self.ended.is_none())?;
        let execution = ExecutionId {
            kernel: self.id.kernel,
            seq,
        };
        Some(StuckExecution::new(execution, self.sent))
    }

    /// It waits for a person: in `input()`, or for the answer to a prompt.
    pub fn asks(&self) -> bool {
        self.fold.asks() || self.prompts.wait()
    }

    /// Question of `input()`, with the id of its prompt.
    fn named(&self, input: Input) -> Input {
        let prompt = PromptId {
            kernel: self.id.kernel,
            seq: self.asked,
        };
        Input {
            id: Some(prompt.to_string()),
            ..input
        }
    }

    fn with_prompt(&self, event: Kind) -> Kind {
        match event {
            Kind::InputRequest(input) => Kind::InputRequest(self.named(input)),
            other => other,
        }
    }

    /// Number of the latest record that was read.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// All text so far.
    pub fn into_text(self) -> S {
        self.fold.into_text()
    }

    fn kernel(&self) -> ExecutionKernel {
        ExecutionKernel {
            incarnation: self.incarnation,
            replaced: self.replaced.clone(),
        }
    }

    /// Records `from..=to` are not kept any more.
    pub fn missing(&mut self, from: u64, to: u64) -> Kind {
        self.gaps += 1;
        self.removed += (to + 1).saturating_sub(from.max(self.id.seq));
        self.seq = to;
        let text = no_longer_kept(from, to);
        self.fold.note(&text);
        Kind::Gap { text }
    }

    /// The next record of the kernel's log. What is returned is to be kept: the result refers to it.
    pub fn record(&mut self, record: &Record) -> Vec<Artifact> {
        self.step(record, false).artifacts
    }

    /// The same, with what callers learn of it if it is `told`.
    fn step(&mut self, record: &Record, told: bool) -> Step {
        if self.ended.is_some() {
            return Step::default();
        }
        self.seq = record.seq;
        let meta = RecordMeta::decode(&record.meta);
        let mine = meta.owner == owner_of(self.id.seq);
        let event = match RecordKind::from_byte(record.kind) {
            Some(RecordKind::Execution) if mine || record.seq == self.id.seq => self.own(record, &meta),
            Some(RecordKind::Execution) => self.another(record, &meta),
            Some(RecordKind::Message) if mine => return self.message(record, &meta, told),
            Some(RecordKind::Request) if mine && meta.channel == Some(Channel::Stdin) => {
                self.fold.answered();
                None
            }
            Some(RecordKind::Network) if mine => {
                self.network.add(record);
                None
            }
            Some(RecordKind::Prompt) if mine => {
                let prompt = self.prompts.add(self.id.kernel, self.id.seq, record);
                prompt.map(|prompt| Kind::Prompt(Box::new(prompt)))
            }
            Some(RecordKind::ToolCall) if mine => {
                self.calls.add(record);
                None
            }
            Some(RecordKind::Gap) if self.sent => self.loss(record),
            _ => None,
        };
        Step {
            event,
            ..Step::default()
        }
    }

    fn own(&mut self, record: &Record, meta: &RecordMeta) -> Option<Kind> {
        match serde_json::from_slice(&record.body).ok()? {
            ExecutionRecord::Submitted {
                ahead,
                turn,
                submission,
                behind,
                stuck,
            } => {
                (self.behind, self.stuck) = (behind, stuck);
                (self.ahead, self.created, self.incarnation) = (ahead, record.at_micros, meta.incarnation);
                (self.turn, self.client, self.metadata) = (turn, submission.client, submission.metadata);
                let stuck = self.stuck().map(Kind::Stuck);
                Some(stuck.unwrap_or(Kind::Queued { position: ahead }))
            }
            ExecutionRecord::Sent { replaced, .. } => {
                (self.sent, self.ahead, self.began) = (true, 0, None);
                (self.behind, self.stuck) = (None, false);
                self.attempts += 1;
                (self.incarnation, self.replaced) = (meta.incarnation, replaced);
                self.fold = Fold::over(self.blank.clone(), self.text_chars);
                None
            }
            ExecutionRecord::Stopping { reason } => Some(Kind::Stopping { reason }),
            ExecutionRecord::Detached => {
                self.detached = true;
                Some(Kind::Detached)
            }
            ExecutionRecord::Stuck => {
                self.stuck = true;
                self.stuck().map(Kind::Stuck)
            }
            ExecutionRecord::Ended {
                status,
                cause,
                ran,
                failed_before,
                variables_lost,
                failures,
                turn: _,
            } => {
                let ended = EndRecord {
                    status,
                    cause,
                    ran,
                    failed_before,
                    failures,
                    incarnation: meta.incarnation,
                    variables_lost,
                };
                self.ended = Some((record.at_micros, ended));
                None
            }
            ExecutionRecord::Unknown => None,
        }
    }

    /// One before it ended, or one came whose turn is before its own.
    fn another(&mut self, record: &Record, meta: &RecordMeta) -> Option<Kind> {
        if self.sent || record.seq < self.id.seq {
            return None;
        }
        let other = execution_of(meta.owner);
        let ahead = match serde_json::from_slice(&record.body).ok()? {
            ExecutionRecord::Sent { .. } => {
                (self.behind, self.stuck) = (other, false);
                return None;
            }
            ExecutionRecord::Stuck => {
                (self.behind, self.stuck) = (other, true);
                return self.stuck().map(Kind::Stuck);
            }
            ExecutionRecord::Submitted { turn, .. } if turn < self.turn => self.ahead + 1,
            // What ran was before it; what was taken back was if its place was.
            ExecutionRecord::Ended { ran, turn, .. } if ran || (turn, other?) < (self.turn, self.id.seq) => {
                if self.behind == other {
                    (self.behind, self.stuck) = (None, false);
                }
                self.ahead.checked_sub(1)?
            }
            _ => return None,
        };
        self.ahead = ahead;
        Some(Kind::Queued { position: ahead })
    }

    fn loss(&mut self, record: &Record) -> Option<Kind> {
        let text = lost(record)?;
        self.gaps += 1;
        self.fold.note(&text);
        Some(Kind::Gap { text })
    }

    fn message(&mut self, record: &Record, meta: &RecordMeta, told: bool) -> Step {
        self.bytes_out = self.bytes_out.saturating_add(record.body.len() as u64);
        let Ok((channel, parts)) = v1::decode(&record.body, &Limits::KERNEL) else {
            return Step::default();
        };
        let artifacts = self.fold.message(channel, &parts);
        if channel == Channel::Stdin {
            self.asked = record.seq;
        }
        let event = if meta.word & word::BEGAN != 0 && self.began.is_none() {
            self.began = Some(record.at_micros);
            if meta.incarnation != self.incarnation {
                // It was on its way when the process was replaced.
                let before = ReplacedExecution {
                    incarnation: self.incarnation,
                    cause: None,
                    variables_lost: None,
                    sandbox_lost: None,
                };
                self.replaced.get_or_insert(before);
                self.incarnation = meta.incarnation;
            }
            Some(Kind::Started(self.kernel()))
        } else if told {
            let event = alone::event_of(channel, &parts, self.text_chars);
            event.map(|event| self.with_prompt(event))
        } else {
            None
        };
        Step { event, artifacts }
    }
}
