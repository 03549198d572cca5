//! Calls of tools and of models, as the log has them: one record before a call is sent, one when its outcome is known. A call that a gateway
//! left without the second one is recorded as unknown by the next gateway, and repeated by none.

use std::collections::BTreeMap;

use himalia_model::{ModelUse, ToolCallLimits, ToolCaller};
use himalia_shim_protocol::RequestId;
use serde::{Deserialize, Serialize};

/// Calls of one session at once.
const MAX_OPEN: usize = 1024;
/// Records of refused calls in [`WINDOW`]. Others are counted in the next record.
const REFUSALS: u32 = 128;
/// See [`REFUSALS`], microseconds.
pub(super) const WINDOW: u64 = 1_000_000;
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
    #[default]
    Tool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It has a reply.
    Done,
    /// The tool, or its server, says that it failed; or its reply could not be read.
    Failed,
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
    pub refused: u64,
    /// Number of calls that failed, or were not done.
    pub failed: u64,
    /// Number of calls whose outcome is unknown.
    pub unknown: u64,
    pub reply_bytes: u64,
}

impl ToolCallTotals {
    pub fn begun(&mut self) {
        self.calls = self.calls.saturating_add(1);
    }

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
    pub fn begun(&mut self) {
        self.calls.begun();
    }

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
    pub(super) number: u64,
    pub(super) open: BTreeMap<u64, OpenCall>,
    /// Calls of each execution, those that have ended up to the next call.
    #[serde(skip)]
    pub(super) executions: BTreeMap<RequestId, u32>,
    /// When the present window of refusals began, and their records in it.
    #[serde(skip)]
    refusals: Option<(u64, u32)>,
    /// Refusals without a record.
    #[serde(skip)]
    pub(super) omitted: u64,
}

/// A call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenCall {
    #[serde(default, skip_serializing_if = "Callee::is_tool")]
    pub(super) callee: Callee,
    pub(super) tool: String,
    /// The execution, as records name it.
    pub(super) owner: u64,
    /// Microseconds since 1970.
    pub(super) began: u64,
}

impl ToolCalls {
    /// True if there was none.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that one more call may run at the same time.
    pub(super) fn has_place(&self) -> Result<(), ToolLimit> {
        if self.open.len() >= MAX_OPEN {
            return Err(ToolLimit::Open(MAX_OPEN));
        }
        Ok(())
    }

    /// Counts a call of a tool, by this execution if it belongs to one, unless it is too many.
    pub(super) fn count(
        &mut self,
        execution: Option<RequestId>,
        limits: ToolCallLimits,
    ) -> Result<(), ToolLimit> {
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
    pub(super) fn count_execution(&mut self, execution: Option<RequestId>, most: u32) -> bool {
        let Some(execution) = execution else { return true };
        let calls = self.executions.entry(execution).or_default();
        let permitted = *calls < most;
        *calls += u32::from(permitted);
        permitted
    }

    pub(super) fn begun(&mut self, callee: Callee) {
        match callee {
            Callee::Tool => self.totals.begun(),
            Callee::Model => self.models.begun(),
        }
    }

    pub(super) fn ended(&mut self, end: &ToolCallEnd) {
        match end.callee {
            Callee::Tool => self.totals.ended(end),
            Callee::Model => self.models.ended(end),
        }
    }

    pub(super) fn refused(&mut self, callee: Callee, omitted: u64) {
        match callee {
            Callee::Tool => self.totals.refused(omitted),
            Callee::Model => self.models.refused(omitted),
        }
    }

    /// True if one more refusal has a record of its own.
    pub(super) fn has_record(&mut self, mono: u64) -> bool {
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
