//! Records of calls of tools and models, written and read.

use himalia_journal::Record;
use himalia_model::{ToolCallLimits, ToolCaller};
use himalia_shim_protocol::RequestId;

use super::core::Core;
use super::event::{Answer, CommandError, CommandResult, Effect};
use super::executions::records::owner_of;
use super::meta::{RecordMeta, event_body};
use super::tool_calls::{
    Callee, OpenCall, ToolCallBegin, ToolCallEnd, ToolCallRecord, ToolLimit, ToolOutcome,
};
use super::writes::Next;

/// Reason why the outcome of a call is unknown that an earlier gateway has begun.
const LEFT: &str =
    "the gateway that made the call has ended before the reply; whether it was done is unknown";

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

    pub(super) fn end_tool_call(&mut self, call: u64, end: ToolCallEnd) {
        let Some(open) = self.tool_calls.open.remove(&call) else {
            return;
        };
        self.tool_calls.ended(&end);
        self.changed = true;
        let body = event_body(&ToolCallRecord::Ended { call, end });
        self.log().tool_call(open.owner, body, Next::Nothing);
    }

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

#[cfg(test)]
#[path = "tool_call_log_tests.rs"]
mod tests;
