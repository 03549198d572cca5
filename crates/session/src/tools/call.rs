//! One call of a tool.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_budget::{DailyQuantity, DayHeld};
use himalia_credentials::Mask;
use himalia_journal::may_block;
use himalia_kernel::{Answer, Callee, Command, ToolCallBegin, ToolLimit, ToolOutcome};
use himalia_model::{
    ArgumentViolation, CallTool, EngineError, Principal, Session, ToolCaller, ToolError, ToolErrorCode,
    ToolFile, ToolReply, TraceContext,
};
use himalia_tool_servers::{CallError, Caller, Limits, Reply};
use himalia_tools::{Tool, ToolId, Violation};
use serde_json::Value;

use super::Tools;
use super::approval::{ApprovalRequest, approved, definition_of};
use super::begun::{BegunCall, Reason};
use super::person::Prompts;
use super::policy::{Decision, decide};
use super::shown::{cut, mask, shown};
use crate::SessionKernel;
use crate::skills::SkillCaller;

/// Characters of arguments and of a reply in the log.
const ARGUMENTS_CHARS: usize = 2000;
const REPLY_CHARS: usize = 4000;
/// Characters of the name of a tool in the log.
const NAME_CHARS: usize = 200;
/// In the place of arguments whose secrets are not known.
const NOT_SHOWN: &str = "(not shown: the gateway cannot read its credentials now)";
/// Hint for a tenant whose quota of the day is used up.
const NEXT_DAY: &str = "Continue then, or ask the operator for more.";
/// Characters of what a tool says about its failure.
const FAILURE_CHARS: usize = 2000;

/// Action of code that is logged as a tool call, and has no end in the log yet.
#[must_use]
pub struct OpenCall {
    begun: BegunCall,
    mask: Mask,
}

/// The part of a tenant's day of a call that may yet be refused.
struct NotMade(Option<DayHeld>);

impl NotMade {
    /// It counts.
    fn made(mut self) {
        if let Some(held) = self.0.take() {
            held.settle(1);
        }
    }
}

impl Drop for NotMade {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.settle(0);
        }
    }
}

impl fmt::Debug for OpenCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCall")
            .field("call", &self.begun.call)
            .finish_non_exhaustive()
    }
}

impl OpenCall {
    /// Writes its end.
    pub async fn end(self, outcome: ToolOutcome, reason: Option<String>, reply: Option<&Value>) {
        let reason = reason.map(|reason| cut(&reason, FAILURE_CHARS));
        let failure = reason.filter(|_| outcome != ToolOutcome::Done);
        let code = ToolErrorCode::Failed.as_str();
        let mut end = self
            .begun
            .end(outcome, failure.as_deref().map(|reason| (code, reason)));
        if let Some(reply) = reply {
            end.reply = Some(shown(reply, None, &self.mask, REPLY_CHARS));
            end.reply_bytes = reply.to_string().len() as u64;
        }
        self.begun.write(end).await;
    }
}

impl Tools {
    /// Calls a tool for a session, once. Everything that becomes of it is in the session's log. `trace` is the span above it.
    pub async fn call(
        &self,
        kernel: &SessionKernel,
        caller: ToolCaller,
        call: CallTool,
        trace: Option<TraceContext>,
    ) -> Result<ToolReply, EngineError> {
        let session = kernel.session();
        let CallTool {
            tool,
            arguments,
            timeout_s,
            approval,
            approval_key,
            line,
        } = call;
        let time = match timeout_s {
            None => Duration::MAX,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|time| !time.is_zero())
                .ok_or_else(|| EngineError::bad_request("timeout_s", "must be a time above 0"))?,
        };
        let arguments = Value::Object(arguments);
        let catalog = self.catalog(&session);
        let found = catalog.get(&tool);
        let schema = found
            .as_ref()
            .ok()
            .map(|found| &found.tool.definition().input_schema);
        let mask = self.mask(&session, &tool).await;
        let what = ToolCallBegin {
            callee: Callee::Tool,
            tool: cut(&tool, NAME_CHARS),
            caller,
            arguments: match &mask {
                Some(mask) => shown(&arguments, schema, mask, ARGUMENTS_CHARS),
                None => NOT_SHOWN.to_owned(),
            },
            arguments_bytes: arguments.to_string().len() as u64,
            line,
        };
        let found = match found {
            Ok(found) => found,
            Err(unknown) => {
                let error = self.unknown_tool(&session, &unknown);
                return Err(refuse(kernel, what, error).await);
            }
        };
        let violations = self.violations(&session, found.tool, &arguments).await?;
        if !violations.is_empty() {
            let mut error = ToolError::new(
                ToolErrorCode::InvalidArguments,
                format!("the arguments do not fit {tool}; nothing was sent"),
            );
            error.violations = violations
                .into_iter()
                .map(|one| ArgumentViolation {
                    path: one.path,
                    rule: one.rule,
                    text: one.text,
                })
                .collect();
            let example = cut(&found.tool.example().to_string(), 500);
            let error = error.with_hint(format!("An example: {example}"));
            return Err(refuse(kernel, what, error).await);
        }
        match decide(&session.sandbox.tools, &found, self.callers(&found), caller) {
            Decision::Allow => {}
            Decision::Ask => {
                let wanted = ApprovalRequest {
                    tool: &tool,
                    definition: definition_of(found.tool.definition(), self.configs.get(found.id().server)),
                    arguments: &arguments,
                    schema,
                    mask: mask.as_ref(),
                    key: approval_key,
                };
                if let Err(error) = approved(kernel, &*self.store, approval.as_deref(), wanted).await? {
                    if error.code == ToolErrorCode::ApprovalNeeded {
                        return Err(EngineError::tool(error));
                    }
                    return Err(refuse(kernel, what, error).await);
                }
            }
            Decision::Deny { reason, hint } => {
                let error = ToolError::new(ToolErrorCode::Denied, reason).with_hint(hint);
                return Err(refuse(kernel, what, error).await);
            }
        }
        let (begun, running) = self.begin(kernel, what).await?;
        let trace = if caller == ToolCaller::Code {
            running
        } else {
            trace
        };
        let id = found.id();
        let of = kernel.session_id().to_string();
        let person = Prompts { kernel, tool: &tool };
        let caller = Caller {
            owner: &session.owner,
            session: &of,
            trace,
            person: Some(&person),
        };
        let reply = self.servers.call(
            caller,
            id.server,
            id.tool,
            into_object(arguments),
            Limits {
                time,
                reply_bytes: usize::MAX,
            },
        );
        let reply = reply.await;
        let mask = mask.unwrap_or_else(|| Mask::new([]));
        finish(begun, reply, &mask).await
    }

    /// Violations of arguments. What takes longer is checked in a turn of the session's owner.
    async fn violations(
        &self,
        session: &Session,
        tool: &Tool,
        arguments: &Value,
    ) -> Result<Vec<Violation>, EngineError> {
        if let Some(found) = tool.check_at_once(arguments) {
            return Ok(found);
        }
        let _turn = self.budget.turn(&Principal::of_session(session)).await?;
        Ok(may_block(|| tool.check(arguments)))
    }

    /// Writes that a call is about to be made, within the limits. Also returns the span of the code that runs.
    async fn begin(
        &self,
        kernel: &SessionKernel,
        what: ToolCallBegin,
    ) -> Result<(BegunCall, Option<TraceContext>), EngineError> {
        let session = kernel.session();
        let day = self.budget.day(&session.owner, DailyQuantity::ToolCalls);
        let day = match day.map(|gate| gate.hold(1)).transpose() {
            Ok(day) => NotMade(day),
            Err(over) => {
                let error = ToolError::new(ToolErrorCode::Limit, over.to_string()).with_hint(NEXT_DAY);
                return Err(refuse(kernel, what, error).await);
            }
        };
        if let Some(error) = self.over_in_tree(&session).await {
            return Err(refuse(kernel, what, error).await);
        }
        let limits = session.sandbox.tools.limits;
        let begun = kernel
            .order(Command::BeginToolCall(Box::new(what.clone()), limits))
            .await;
        let (number, trace) = match begun {
            Some(Ok(Answer::ToolCallBegun { call, trace })) => (call, trace),
            Some(Ok(Answer::ToolCallOverLimit(limit))) => {
                return Err(refuse(kernel, what, over(limit)).await);
            }
            Some(Err(error)) => return Err(EngineError::unavailable(error.to_string())),
            Some(Ok(_)) | None => return Err(EngineError::unavailable("the session has ended")),
        };
        day.made();
        self.meter.tool_called(&session.owner);
        Ok((BegunCall::new(kernel.handle(), number, &what), trace))
    }

    /// The same for something that code does and that is no tool, such as the run of a skill: `what` names it.
    pub async fn begin_other(
        &self,
        caller: &SkillCaller,
        what: String,
        arguments: &Value,
        schema: Option<&Value>,
    ) -> Result<OpenCall, EngineError> {
        let kernel = &caller.kernel;
        let mask = self.mask(&kernel.session(), &what).await;
        let what = ToolCallBegin {
            callee: Callee::Tool,
            tool: cut(&what, NAME_CHARS),
            caller: ToolCaller::Code,
            arguments: match &mask {
                Some(mask) => shown(arguments, schema, mask, ARGUMENTS_CHARS),
                None => NOT_SHOWN.to_owned(),
            },
            arguments_bytes: arguments.to_string().len() as u64,
            line: None,
        };
        let (begun, _) = self.begin(kernel, what).await?;
        let mask = mask.unwrap_or_else(|| Mask::new([]));
        Ok(OpenCall { begun, mask })
    }

    /// Counts a call of a session below another one with those of what runs in that. Why it may not be made, if it may not.
    async fn over_in_tree(&self, session: &Session) -> Option<ToolError> {
        let root = self.root_of(session)?;
        let limits = root.session().sandbox.tools.limits;
        match root.order(Command::CountTreeCall(limits)).await {
            Some(Ok(Answer::ToolCallOverLimit(limit))) => Some(over(limit)),
            _ => None,
        }
    }

    /// Mask for the credentials of a session and of the tool's server. `None`: they cannot be read.
    async fn mask(&self, session: &Session, tool: &str) -> Option<Mask> {
        let config = ToolId::parse(tool).and_then(|id| self.configs.get(id.server));
        let of_server =
            config.and_then(|config| Some((config.owner.as_str(), config.credential.as_deref()?)));
        mask(&self.credentials, session, of_server).await
    }
}

fn into_object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    }
}

/// Notes that a call was not made, and why.
async fn refuse(kernel: &SessionKernel, what: ToolCallBegin, error: ToolError) -> EngineError {
    let noted = kernel.order(Command::RefuseToolCall {
        what: Box::new(what),
        code: error.code.as_str().to_owned(),
        reason: cut(&error.message, FAILURE_CHARS),
    });
    // A kernel that has ended has no log to write to.
    let _ = noted.await;
    EngineError::tool(error)
}

fn over(limit: ToolLimit) -> ToolError {
    let (message, hint) = match limit {
        ToolLimit::Execution(most) => (
            format!("what runs has called tools {most} times, as often as it may (tool_calls_per_execution)"),
            "Call them fewer times: fetch more with each call, or continue in another execution.",
        ),
        ToolLimit::Tree(most) => (
            format!(
                "the sessions of this tree have called tools {most} times for what runs at its top, as often as they may (tool_calls_per_execution)"
            ),
            "Call them fewer times: fetch more with each call.",
        ),
        ToolLimit::Session(most) => (
            format!("this session has called tools {most} times, as often as it may (tool_calls)"),
            "Start another session.",
        ),
        ToolLimit::Open(most) => (
            format!("{most} calls of this session have not ended"),
            "Wait for some of them.",
        ),
    };
    ToolError::new(ToolErrorCode::Limit, message).with_hint(hint)
}

/// Writes the end of a call, and answers its caller.
async fn finish(
    begun: BegunCall,
    reply: Result<Reply, CallError>,
    mask: &Mask,
) -> Result<ToolReply, EngineError> {
    let call = begun.call;
    match reply {
        Ok(reply) => {
            let failure = reply.is_error.then(|| {
                let text = match &reply.content {
                    Value::String(text) => text.clone(),
                    Value::Null => "the tool gives no reason".to_owned(),
                    other => other.to_string(),
                };
                let message = format!("{} failed: {}", begun.tool, cut(&text, FAILURE_CHARS));
                ToolError::new(ToolErrorCode::Failed, message)
            });
            let outcome = if failure.is_some() {
                ToolOutcome::Failed
            } else {
                ToolOutcome::Done
            };
            let mut end = begun.end(outcome, failure.as_ref().map(reason));
            end.reply = Some(shown(&reply.content, None, mask, REPLY_CHARS));
            end.reply_bytes = reply.bytes as u64;
            let duration_ms = end.duration_ms;
            begun.write(end).await;
            if let Some(mut failure) = failure {
                failure.call = Some(call);
                return Err(EngineError::tool(failure));
            }
            let files = reply.blobs.into_iter().map(|blob| ToolFile {
                mime_type: blob.mime_type,
                data: STANDARD.encode(&blob.bytes),
            });
            Ok(ToolReply {
                call,
                content: reply.content,
                files: files.collect(),
                bytes: reply.bytes,
                duration_ms,
            })
        }
        Err(error) => {
            let (outcome, mut failure) = failure(&begun.tool, &error);
            failure.call = Some(call);
            let end = begun.end(outcome, Some(reason(&failure)));
            begun.write(end).await;
            Err(EngineError::tool(failure))
        }
    }
}

fn reason(error: &ToolError) -> Reason<'_> {
    (error.code.as_str(), &error.message)
}

fn failure(tool: &str, error: &CallError) -> (ToolOutcome, ToolError) {
    let (outcome, code, hint) = match error {
        CallError::Unavailable(_) => (
            ToolOutcome::NotDone,
            ToolErrorCode::Unavailable,
            Some("Nothing was sent. Try again later."),
        ),
        CallError::BadArguments(_) => (ToolOutcome::NotDone, ToolErrorCode::InvalidArguments, None),
        CallError::Timeout(_) => (
            ToolOutcome::Unknown,
            ToolErrorCode::Timeout,
            Some("Look whether it was done before you call it again."),
        ),
        CallError::Lost(_) => (
            ToolOutcome::Unknown,
            ToolErrorCode::OutcomeUnknown,
            Some("Look whether it was done before you call it again."),
        ),
        CallError::TooLarge(_) => (
            ToolOutcome::Failed,
            ToolErrorCode::ReplyTooLarge,
            Some("It was done. Ask for less, in pages or with a filter."),
        ),
        CallError::Refused { .. } | CallError::Failed(_) => {
            (ToolOutcome::Failed, ToolErrorCode::Failed, None)
        }
    };
    let mut made = ToolError::new(code, format!("{tool}: {error}"));
    if let CallError::Refused {
        code, retry_after, ..
    } = error
    {
        // Codes of JSON-RPC are negative.
        made.server_status = u16::try_from(*code).ok().filter(|code| (300..600).contains(code));
        made.retry_after = *retry_after;
    }
    (
        outcome,
        match hint {
            Some(hint) => made.with_hint(hint),
            None => made,
        },
    )
}
