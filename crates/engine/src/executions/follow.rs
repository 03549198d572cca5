//! One execution out of a kernel's log: record by record, without any waiting.

use himalia_journal::Record;
use himalia_outcome::{Artifact, Excerpt, Fold, Output, Sink};
use himalia_wire::{Channel, Limits, Parts, header, v1};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Death, ExecutionEvent, ExecutionEventKind as Kind, ExecutionId, ExecutionKernel, ExecutionResult,
    ExecutionStatus, QuotaLoss, TextTruncated,
};
use crate::kernel::{
    Brief, End, ExecutionRecord, Language, LostVariables, RecordKind, RecordMeta, Replaced, Submission,
    execution_of, from_micros, owner_of, wall_micros, word,
};

/// Follows one execution. `S` is what becomes of its text.
#[derive(Debug)]
pub(crate) struct Follower<S = Excerpt> {
    id: ExecutionId,
    language: Language,
    caller: String,
    text_chars: usize,
    blank: S,
    fold: Fold<S>,
    ahead: u32,
    created: u64,
    sent: bool,
    began: Option<u64>,
    ended: Option<(u64, Ended)>,
    incarnation: u32,
    replaced: Option<Replaced>,
    detached: bool,
    gaps: u64,
    /// Records that the quota took.
    removed: u64,
    seq: u64,
}

#[derive(Debug)]
struct Ended {
    status: End,
    cause: Option<String>,
    ran: bool,
    failed_before: u32,
    failures: u32,
    incarnation: u32,
    variables_lost: Option<LostVariables>,
}

/// What a record is to an execution.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) event: Option<Kind>,
    /// To be kept, since the result refers to them.
    pub(crate) artifacts: Vec<Artifact>,
}

/// What was asked for in the first record of an execution; `None` if it is none.
pub(crate) fn first(record: &Record) -> Option<Submission> {
    if RecordKind::from_byte(record.kind) != Some(RecordKind::Execution) {
        return None;
    }
    match serde_json::from_slice(&record.body).ok()? {
        ExecutionRecord::Submitted { submission, .. } => Some(submission),
        _ => None,
    }
}

impl Follower<Excerpt> {
    /// What came of it so far.
    pub(crate) fn result(&self) -> ExecutionResult {
        let outcome = self.fold.outcome();
        let over = self.ended.as_ref().map(|(at, ended)| (*at, ended));
        let now = over.map_or_else(wall_micros, |(at, _)| at);
        let status = match (over, self.began) {
            (Some((_, ended)), _) => ended.status.into(),
            (None, Some(_)) => ExecutionStatus::Running,
            (None, None) => ExecutionStatus::Queued,
        };
        let millis = |from: u64, to: u64| to.saturating_sub(from) / 1000;
        let text = outcome.text;
        let truncated = (text.bytes_omitted > 0).then(|| TextTruncated {
            bytes_total: text.bytes_total,
            bytes_shown: text.bytes_shown(),
            from: text.head.len() as u64,
            to: text.bytes_total - text.tail.len() as u64,
        });
        let more = truncated.map_or_else(String::new, |cut| {
            let (id, offset) = (self.id, cut.from);
            format!(": GET /v1/executions/{id}/output?offset={offset}")
        });
        let death = over.and_then(|(_, ended)| {
            Some(Death {
                cause: ended.cause.clone()?,
                incarnation: ended.incarnation,
                next_incarnation: ended.incarnation
                    + u32::from(matches!(ended.status, End::KernelDied | End::OomKilled)),
                variables_lost: ended.variables_lost.clone(),
            })
        });
        ExecutionResult {
            id: self.id,
            session: self.id.kernel,
            language: self.language,
            caller: self.caller.clone(),
            status,
            ran: over.map_or(self.began.is_some(), |(_, ended)| ended.ran),
            kernel: self.kernel(),
            execution_count: outcome.execution_count,
            created: from_micros(self.created),
            queued_ms: millis(self.created, self.began.unwrap_or(now)),
            duration_ms: self.began.map_or(0, |began| millis(began, now)),
            position: (status == ExecutionStatus::Queued).then_some(self.ahead),
            text: text.text(&more),
            truncated,
            outputs: outcome.outputs,
            outputs_omitted: outcome.outputs_omitted,
            error: outcome.error,
            exit_code: outcome.notes.exit_code,
            failed_before: over.map_or(0, |(_, ended)| ended.failed_before),
            failures_in_a_row: over.map_or(0, |(_, ended)| ended.failures),
            variables: outcome.notes.variables,
            files: outcome.notes.files,
            input: outcome.input.filter(|_| over.is_none()),
            death,
            detached: self.detached,
            gaps: self.gaps + outcome.unreadable,
            quota: (self.removed > 0).then_some(QuotaLoss {
                records_removed: self.removed,
            }),
            seq: self.seq,
        }
    }

    /// The next record with what is to be told of it.
    pub(crate) fn tell(&mut self, record: &Record) -> (Option<ExecutionEvent>, Vec<Artifact>) {
        let Step { event, artifacts } = self.record(record);
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
}

impl<S: Sink + Clone> Follower<S> {
    /// From its first record on.
    pub(crate) fn new(id: ExecutionId, language: Language, caller: String, text_chars: u64, sink: S) -> Self {
        let text_chars = usize::try_from(text_chars).unwrap_or(usize::MAX);
        Self {
            id,
            language,
            caller,
            text_chars,
            blank: sink.clone(),
            fold: Fold::over(sink, text_chars),
            ahead: 0,
            created: 0,
            sent: false,
            began: None,
            ended: None,
            incarnation: 0,
            replaced: None,
            detached: false,
            gaps: 0,
            removed: 0,
            seq: 0,
        }
    }

    /// Its beginning is not in the log any more: what the kernel core knows of it.
    pub(crate) fn knowing(mut self, brief: &Brief) -> Self {
        self.created = brief.at_micros;
        self.incarnation = brief.incarnation;
        self.sent = brief.running || brief.end.is_some();
        // Nearly so: when it began is not known.
        self.began = self.sent.then_some(brief.at_micros);
        self
    }

    /// Everything was read and its end was not there: the quota took that too.
    pub(crate) fn end_without_record(&mut self, brief: &Brief) {
        let Some(status) = brief.end.filter(|_| self.ended.is_none()) else {
            return;
        };
        let ended = Ended {
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

    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// It is over, or nobody need wait for it any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.ended.is_some() || self.detached
    }

    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// All text so far.
    pub(crate) fn into_text(self) -> S {
        self.fold.into_text()
    }

    fn kernel(&self) -> ExecutionKernel {
        ExecutionKernel {
            incarnation: self.incarnation,
            replaced: self.replaced.clone(),
        }
    }

    /// Records `from..=to` are not kept any more.
    pub(crate) fn missing(&mut self, from: u64, to: u64) -> Kind {
        self.gaps += 1;
        self.removed += (to + 1).saturating_sub(from.max(self.id.seq));
        self.seq = to;
        let text = format!(
            "[himalia: records {from} to {to} of this session's log are no longer kept: it has reached its quota]\n"
        );
        self.fold.note(&text);
        Kind::Gap { text }
    }

    /// The next record of the kernel's log.
    pub(crate) fn record(&mut self, record: &Record) -> Step {
        if self.ended.is_some() {
            return Step::default();
        }
        self.seq = record.seq;
        let meta = RecordMeta::decode(&record.meta);
        let mine = meta.owner == owner_of(self.id.seq);
        let event = match RecordKind::from_byte(record.kind) {
            Some(RecordKind::Execution) if mine || record.seq == self.id.seq => self.own(record, &meta),
            Some(RecordKind::Execution) => self.another(record, &meta),
            Some(RecordKind::Message) if mine => return self.message(record, &meta),
            Some(RecordKind::Request) if mine && meta.channel == Some(Channel::Stdin) => {
                self.fold.answered();
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
            ExecutionRecord::Submitted { ahead, .. } => {
                (self.ahead, self.created, self.incarnation) = (ahead, record.at_micros, meta.incarnation);
                Some(Kind::Queued { position: ahead })
            }
            ExecutionRecord::Sent { replaced, .. } => {
                (self.sent, self.ahead, self.began) = (true, 0, None);
                (self.incarnation, self.replaced) = (meta.incarnation, replaced);
                self.fold = Fold::over(self.blank.clone(), self.text_chars);
                None
            }
            ExecutionRecord::Stopping { reason } => Some(Kind::Stopping { reason }),
            ExecutionRecord::Detached => {
                self.detached = true;
                Some(Kind::Detached)
            }
            ExecutionRecord::Ended {
                status,
                cause,
                ran,
                failed_before,
                variables_lost,
                failures,
            } => {
                let ended = Ended {
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

    /// One before it is over.
    fn another(&mut self, record: &Record, meta: &RecordMeta) -> Option<Kind> {
        let before = execution_of(meta.owner).is_some_and(|seq| seq < self.id.seq);
        if self.sent || !before || self.ahead == 0 {
            return None;
        }
        match serde_json::from_slice(&record.body).ok()? {
            ExecutionRecord::Ended { .. } => {
                self.ahead -= 1;
                Some(Kind::Queued { position: self.ahead })
            }
            _ => None,
        }
    }

    fn loss(&mut self, record: &Record) -> Option<Kind> {
        #[derive(Deserialize)]
        struct Loss {
            messages: u64,
            #[serde(default)]
            bytes: u64,
        }
        let loss: Loss = serde_json::from_slice(&record.body).ok()?;
        self.gaps += 1;
        let text = format!(
            "[himalia: {} messages ({} bytes) of this kernel were dropped]\n",
            loss.messages, loss.bytes
        );
        self.fold.note(&text);
        Some(Kind::Gap { text })
    }

    fn message(&mut self, record: &Record, meta: &RecordMeta) -> Step {
        let Ok((channel, parts)) = v1::decode(&record.body, &Limits::KERNEL) else {
            return Step::default();
        };
        let artifacts = self.fold.message(channel, &parts);
        let event = if meta.word & word::BEGAN != 0 && self.began.is_none() {
            self.began = Some(record.at_micros);
            if meta.incarnation != self.incarnation {
                // It was on its way when the process was replaced.
                let before = Replaced {
                    incarnation: self.incarnation,
                    cause: None,
                    variables_lost: None,
                };
                self.replaced.get_or_insert(before);
                self.incarnation = meta.incarnation;
            }
            Some(Kind::Started(self.kernel()))
        } else {
            event_of(channel, &parts, self.text_chars)
        };
        Step { event, artifacts }
    }
}

/// A message on its own.
fn event_of(channel: Channel, parts: &Parts, text_chars: usize) -> Option<Kind> {
    let header = header::peek(&parts.header).ok()?;
    let kind = &*header.msg_type;
    let content = || serde_json::from_slice::<Map<String, Value>>(&parts.content).ok();
    match (channel, kind) {
        (Channel::Iopub, "stream") => {
            let mut content = content()?;
            let Some(Value::String(text)) = content.remove("text") else {
                return None;
            };
            let is_stderr = content.get("name").and_then(Value::as_str) == Some("stderr");
            Some(if is_stderr {
                Kind::Stderr { text }
            } else {
                Kind::Stdout { text }
            })
        }
        (Channel::Iopub, "display_data") => Some(Kind::Display(output(channel, parts, text_chars)?)),
        (Channel::Iopub, "execute_result") => Some(Kind::Result(output(channel, parts, text_chars)?)),
        (Channel::Iopub, "update_display_data") => {
            Some(Kind::UpdateDisplay(output(channel, parts, text_chars)?))
        }
        (Channel::Iopub, "clear_output") => Some(Kind::ClearOutput {
            wait: content()?.get("wait") == Some(&Value::Bool(true)),
        }),
        (Channel::Iopub, "error") => Some(Kind::Error(alone(channel, parts, text_chars).error?)),
        (Channel::Stdin, "input_request") => {
            Some(Kind::InputRequest(alone(channel, parts, text_chars).input?))
        }
        _ => None,
    }
}

fn alone(channel: Channel, parts: &Parts, text_chars: usize) -> himalia_outcome::Outcome {
    let mut fold = Fold::new(text_chars);
    // Kept already, from the fold of the whole.
    drop(fold.message(channel, parts));
    fold.outcome()
}

fn output(channel: Channel, parts: &Parts, text_chars: usize) -> Option<Output> {
    alone(channel, parts, text_chars).outputs.pop()
}
