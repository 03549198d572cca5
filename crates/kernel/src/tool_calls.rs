//! Calls of tools and of models, as the log has them: one record before a call is sent, one when its outcome is known. A call that a gateway
//! left without the second one is recorded as unknown by the next gateway, and repeated by none.

use std::collections::BTreeMap;

use himalia_journal::Record;
use himalia_model::{ModelUse, ToolCallLimits, ToolCaller};
use himalia_shim_protocol::RequestId;
use serde::{Deserialize, Serialize};

use super::core::Core;
use super::event::{Answer, CommandError, CommandResult, Effect};
use super::executions::records::owner_of;
use super::meta::{RecordMeta, event_body};
use super::writes::Next;

/// Calls of one session at once.
const MAX_OPEN: usize = 1024;
/// Records of refused calls in [`WINDOW`]. Others are counted in the next record.
const REFUSALS: u32 = 128;
/// See [`REFUSALS`], microseconds.
const WINDOW: u64 = 1_000_000;
/// Reason why the outcome of a call is unknown that an earlier gateway has begun.
const LEFT: &str =
    "the gateway that made the call has ended before the reply; whether it was done is unknown";

/// The body of a record of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ToolCallRecord {
    /// It is about to be sent.
    Begun {
        /// Number in this log, from 1.
        call: u64,
        #[serde(flatten)]
        what: ToolCallBegin,
    },
    /// It has come to its end.
    Ended {
        call: u64,
        #[serde(flatten)]
        end: ToolCallEnd,
    },
    /// It was not sent.
    Refused {
        /// Refused call.
        #[serde(flatten)]
        what: ToolCallBegin,
        /// Error code.
        code: String,
        /// Reason, in a line.
        reason: String,
        /// Calls that were refused since the record before and have no record of their own, because there are too many.
        #[serde(default, skip_serializing_if = "is_zero")]
        omitted: u64,
    },
    /// A record of a later version.
    #[serde(other)]
    Unknown,
}

/// Callee of a call: a tool or a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Callee {
    /// A tool.
    #[default]
    Tool,
    /// A model.
    Model,
}

impl Callee {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_tool(&self) -> bool {
        *self == Self::Tool
    }
}

/// Start of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallBegin {
    #[serde(default, skip_serializing_if = "Callee::is_tool")]
    pub callee: Callee,
    /// `server.tool`, or the name of a model.
    pub tool: String,
    pub caller: ToolCaller,
    /// Arguments as JSON, without secrets, cut.
    pub arguments: String,
    /// Bytes of all of its arguments.
    pub arguments_bytes: u64,
    /// The line of the cell that calls, as its code says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// End of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallEnd {
    #[serde(default, skip_serializing_if = "Callee::is_tool")]
    pub callee: Callee,
    /// `server.tool`, or the name of a model.
    pub tool: String,
    pub outcome: ToolOutcome,
    /// Error code if it has no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same, in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reply as JSON, without secrets, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// Bytes of what it returned.
    pub reply_bytes: u64,
    /// From its begin to its end.
    pub duration_ms: u64,
    /// Usage of a model call, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_use: Option<ModelUse>,
}

/// Outcomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It has a reply.
    Done,
    /// The tool, or its server, says that it failed; or its reply could not be read.
    Failed,
    /// It was not done.
    NotDone,
    /// It is unknown whether it was done.
    #[serde(other)]
    Unknown,
}

/// The calls of a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallTotals {
    /// Calls, those that were refused included.
    pub calls: u64,
    /// Number of refused calls.
    pub refused: u64,
    /// Number of calls that failed, or were not done.
    pub failed: u64,
    /// Number of calls whose outcome is unknown.
    pub unknown: u64,
    /// Bytes of replies.
    pub reply_bytes: u64,
}

impl ToolCallTotals {
    /// One was begun.
    pub fn begun(&mut self) {
        self.calls = self.calls.saturating_add(1);
    }

    /// One has ended.
    pub fn ended(&mut self, end: &ToolCallEnd) {
        match end.outcome {
            ToolOutcome::Done => {}
            ToolOutcome::Failed | ToolOutcome::NotDone => self.failed = self.failed.saturating_add(1),
            ToolOutcome::Unknown => self.unknown = self.unknown.saturating_add(1),
        }
        self.reply_bytes = self.reply_bytes.saturating_add(end.reply_bytes);
    }

    /// One was refused, and so many others since the record before.
    pub fn refused(&mut self, omitted: u64) {
        self.calls = self.calls.saturating_add(omitted).saturating_add(1);
        self.refused = self.refused.saturating_add(omitted).saturating_add(1);
    }
}

/// The calls of models of a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCallTotals {
    /// As of tools; `reply_bytes` too.
    pub calls: ToolCallTotals,
    /// Number of calls that were answered from the cache.
    pub cached: u64,
    /// Usage of the models.
    pub used: ModelUse,
}

impl ModelCallTotals {
    /// One was begun.
    pub fn begun(&mut self) {
        self.calls.begun();
    }

    /// One has ended.
    pub fn ended(&mut self, end: &ToolCallEnd) {
        self.calls.ended(end);
        if let Some(took) = &end.model_use {
            self.cached = self.cached.saturating_add(u64::from(took.cached));
            self.used.add(took);
        }
    }

    /// One was refused, and so many others since the record before.
    pub fn refused(&mut self, omitted: u64) {
        self.calls.refused(omitted);
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits that a call may exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolLimit {
    /// Limit of one execution, or of one request of a client.
    Execution(u32),
    /// Limit of the execution at the top of a tree of sessions.
    Tree(u32),
    /// Limit of the session.
    Session(u64),
    /// So many calls have not ended.
    Open(usize),
}

/// Calls that have not ended, and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolCalls {
    pub(super) totals: ToolCallTotals,
    /// Sums of model calls.
    #[serde(default, skip_serializing_if = "ModelCallTotals::is_empty")]
    pub(super) models: ModelCallTotals,
    /// Number of the latest call.
    number: u64,
    open: BTreeMap<u64, OpenCall>,
    /// Calls of each execution, those that have ended up to the next call.
    #[serde(skip)]
    executions: BTreeMap<RequestId, u32>,
    /// When the present window of refusals began, and their records in it.
    #[serde(skip)]
    refusals: Option<(u64, u32)>,
    /// Refusals without a record.
    #[serde(skip)]
    omitted: u64,
}

/// A call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenCall {
    #[serde(default, skip_serializing_if = "Callee::is_tool")]
    callee: Callee,
    tool: String,
    /// The execution, as records name it.
    owner: u64,
    /// Microseconds since 1970.
    began: u64,
}

impl ToolCalls {
    /// True if there was none.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that one more call may run at the same time.
    fn has_place(&self) -> Result<(), ToolLimit> {
        if self.open.len() >= MAX_OPEN {
            return Err(ToolLimit::Open(MAX_OPEN));
        }
        Ok(())
    }

    /// Counts a call of a tool, by this execution if it belongs to one, unless it is too many.
    fn count(&mut self, execution: Option<RequestId>, limits: ToolCallLimits) -> Result<(), ToolLimit> {
        self.has_place()?;
        if self.totals.calls >= limits.per_session {
            return Err(ToolLimit::Session(limits.per_session));
        }
        if !self.count_execution(execution, limits.per_execution) {
            return Err(ToolLimit::Execution(limits.per_execution));
        }
        Ok(())
    }

    /// Counts a call by this execution, unless it has made so many already. Other calls count for the session only.
    fn count_execution(&mut self, execution: Option<RequestId>, most: u32) -> bool {
        let Some(execution) = execution else { return true };
        let calls = self.executions.entry(execution).or_default();
        let permitted = *calls < most;
        *calls += u32::from(permitted);
        permitted
    }

    fn begun(&mut self, callee: Callee) {
        match callee {
            Callee::Tool => self.totals.begun(),
            Callee::Model => self.models.begun(),
        }
    }

    fn ended(&mut self, end: &ToolCallEnd) {
        match end.callee {
            Callee::Tool => self.totals.ended(end),
            Callee::Model => self.models.ended(end),
        }
    }

    fn refused(&mut self, callee: Callee, omitted: u64) {
        match callee {
            Callee::Tool => self.totals.refused(omitted),
            Callee::Model => self.models.refused(omitted),
        }
    }

    /// True if one more refusal has a record of its own.
    fn has_record(&mut self, mono: u64) -> bool {
        let (began, count) = self.refusals.unwrap_or((mono, 0));
        let (began, count) = if mono.saturating_sub(began) >= WINDOW {
            (mono, 0)
        } else {
            (began, count)
        };
        let has = count < REFUSALS;
        self.refusals = Some((began, count + u32::from(has)));
        has
    }
}

impl Core {
    fn tool_owner(&self, caller: ToolCaller) -> u64 {
        let sent = self.executions.sent().filter(|_| caller == ToolCaller::Code);
        sent.map_or(0, owner_of)
    }

    /// The execution that code which calls now belongs to. The call may come before the kernel's message that it is busy, which is on
    /// another channel, and the kernel takes executions in order: it is the oldest one without an answer.
    fn calling_execution(&mut self) -> Option<RequestId> {
        let requests = &self.requests;
        let counts = &mut self.tool_calls.executions;
        counts.retain(|id, _| requests.get(*id).is_some());
        let busy = self.stopwatch.running();
        requests.oldest_execution().max(busy)
    }

    /// A call is about to be sent. Its caller is answered when that is in the log.
    pub(super) fn begin_tool_call(
        &mut self,
        waiter: u64,
        what: ToolCallBegin,
        limits: ToolCallLimits,
        out: &mut Vec<Effect>,
    ) -> CommandResult {
        if self.life.phase() == super::life::Phase::Ended {
            return Err(CommandError::NotRunning);
        }
        let execution = self
            .calling_execution()
            .filter(|_| what.caller == ToolCaller::Code);
        let counted = match what.callee {
            Callee::Tool => self.tool_calls.count(execution, limits),
            // What else limits them is that of a tree of sessions.
            Callee::Model => self.tool_calls.has_place(),
        };
        if let Err(limit) = counted {
            out.push(Effect::Done(waiter, Ok(Answer::ToolCallOverLimit(limit))));
            return Ok(false);
        }
        let owner = self.tool_owner(what.caller);
        self.tool_calls.number += 1;
        let call = self.tool_calls.number;
        self.tool_calls.begun(what.callee);
        let open = OpenCall {
            callee: what.callee,
            tool: what.tool.clone(),
            owner,
            began: self.now.wall,
        };
        self.tool_calls.open.insert(call, open);
        self.changed = true;
        let body = event_body(&ToolCallRecord::Begun { call, what });
        self.log().tool_call(owner, body, Next::ToolCall { waiter, call });
        Ok(false)
    }

    /// A session below this one is about to call a tool, on behalf of what runs here. Says whether it may.
    pub(super) fn count_tree_call(&mut self, waiter: u64, limits: ToolCallLimits, out: &mut Vec<Effect>) {
        let execution = self.calling_execution();
        let most = limits.per_execution;
        let answer = if self.tool_calls.count_execution(execution, most) {
            Answer::Done
        } else {
            Answer::ToolCallOverLimit(ToolLimit::Tree(most))
        };
        out.push(Effect::Done(waiter, Ok(answer)));
    }

    /// The record of a call could not be written: it is not sent.
    pub(super) fn tool_call_not_begun(&mut self, waiter: u64, call: u64, out: &mut Vec<Effect>) {
        if let Some(open) = self.tool_calls.open.remove(&call) {
            let totals = match open.callee {
                Callee::Tool => &mut self.tool_calls.totals,
                Callee::Model => &mut self.tool_calls.models.calls,
            };
            totals.calls = totals.calls.saturating_sub(1);
        }
        out.push(Effect::Done(waiter, Err(CommandError::DiskFailing)));
    }

    /// A call has ended.
    pub(super) fn end_tool_call(&mut self, call: u64, end: ToolCallEnd) {
        let Some(open) = self.tool_calls.open.remove(&call) else {
            return;
        };
        self.tool_calls.ended(&end);
        self.changed = true;
        let body = event_body(&ToolCallRecord::Ended { call, end });
        self.log().tool_call(open.owner, body, Next::Nothing);
    }

    /// A call was refused.
    pub(super) fn refuse_tool_call(&mut self, what: ToolCallBegin, code: String, reason: String) {
        self.changed = true;
        let calls = &mut self.tool_calls;
        calls.refused(what.callee, 0);
        if !calls.has_record(self.now.mono) {
            calls.omitted += 1;
            return;
        }
        let omitted = std::mem::take(&mut calls.omitted);
        let owner = self.tool_owner(what.caller);
        let record = ToolCallRecord::Refused {
            what,
            code,
            reason,
            omitted,
        };
        self.log().tool_call(owner, event_body(&record), Next::Nothing);
    }

    /// One that is in the journal.
    pub(super) fn fold_tool_call(&mut self, record: &Record, meta: &RecordMeta) {
        let calls = &mut self.tool_calls;
        match serde_json::from_slice(&record.body) {
            Ok(ToolCallRecord::Begun { call, what }) => {
                calls.number = calls.number.max(call);
                calls.begun(what.callee);
                let open = OpenCall {
                    callee: what.callee,
                    tool: what.tool,
                    owner: meta.owner,
                    began: record.at_micros,
                };
                calls.open.insert(call, open);
            }
            Ok(ToolCallRecord::Ended { call, end }) => {
                calls.open.remove(&call);
                calls.ended(&end);
            }
            Ok(ToolCallRecord::Refused { what, omitted, .. }) => calls.refused(what.callee, omitted),
            Ok(ToolCallRecord::Unknown) | Err(_) => {}
        }
    }

    /// All records are read: what an earlier gateway has begun and not ended has an unknown outcome.
    pub(super) fn end_left_tool_calls(&mut self) {
        let left: Vec<(u64, OpenCall)> = self.tool_calls.open.clone().into_iter().collect();
        for (call, open) in left {
            let end = ToolCallEnd {
                callee: open.callee,
                tool: open.tool,
                outcome: ToolOutcome::Unknown,
                code: Some("outcome_unknown".to_owned()),
                reason: Some(LEFT.to_owned()),
                reply: None,
                reply_bytes: 0,
                duration_ms: self.now.wall.saturating_sub(open.began) / 1000,
                model_use: None,
            };
            self.end_tool_call(call, end);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
#[path = "tool_calls_tests.rs"]
mod tests;
