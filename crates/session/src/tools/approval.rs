//! Calls that a person has to approve: a prompt in the log of the session, whose answer lets the call be made once, or its tool be called as
//! long as the session lives, or in later sessions of the same caller and template too. The last of them is a row of the store, which is
//! looked at for each call, so that its end counts at once.

use std::time::Duration;

use himalia_credentials::Mask;
use himalia_executions::PromptId;
use himalia_kernel::{
    APPROVE_ALWAYS, APPROVE_DENY, APPROVE_ONCE, APPROVE_SESSION, Answer, Command, CommandError, Prompt,
    PromptEnd, PromptKind,
};
use himalia_model::{EngineError, ToolError, ToolErrorCode};
use himalia_store::Store;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::shown::{cut, shown_whole};
use crate::SessionKernel;
use crate::prompts::prompt_error;

/// How long a prompt for an approval stays open.
const OPEN_TIME: Duration = Duration::from_hours(24);
/// Characters of the arguments that a person sees. Longer ones are cut, and say so.
const ARGUMENTS_CHARS: usize = 16_000;

/// A call that needs an approval.
pub(super) struct Wanted<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: &'a Value,
    pub(super) schema: Option<&'a Value>,
    /// What hides secrets. `None`: it is not known.
    pub(super) mask: Option<&'a Mask>,
    pub(super) key: Option<String>,
}

/// Whether the call may be made: by the prompt that the caller names, for the session, or for all of its kind. If no person was asked yet, one is asked. The
/// inner error says why it may not.
pub(super) async fn approved(
    kernel: &SessionKernel,
    store: &dyn Store,
    named: Option<&str>,
    wanted: Wanted<'_>,
) -> Result<Result<(), ToolError>, EngineError> {
    let id = kernel.handle().id();
    let seq = match named {
        None => None,
        Some(text) => match text.parse::<PromptId>() {
            Ok(prompt) if prompt.kernel == id => Some(prompt.seq),
            _ => {
                return Err(EngineError::bad_request(
                    "approval",
                    "is no prompt of this session",
                ));
            }
        },
    };
    let digest = digest(&wanted);
    let use_approval = Command::UseApproval {
        prompt: seq,
        tool: wanted.tool.to_owned(),
        digest: digest.clone(),
    };
    match kernel.order(use_approval).await {
        Some(Ok(_)) => return Ok(Ok(())),
        Some(Err(CommandError::NotApproved(reason))) if seq.is_some() => {
            let error = ToolError::new(
                ToolErrorCode::Denied,
                format!("{} was not called: {reason}", wanted.tool),
            );
            return Ok(Err(error.with_hint("Do not try it again with this approval.")));
        }
        Some(Err(CommandError::NotApproved(_))) => {}
        Some(Err(error)) => return Err(prompt_error(error)),
        None => return Err(EngineError::unavailable("the session has ended")),
    }
    let tool = wanted.tool.to_owned();
    if has_standing(kernel, store, &tool).await? {
        return Ok(Ok(()));
    }
    let prompt = Command::Prompt(Box::new(prompt(wanted, digest)));
    let status = match kernel.order(prompt).await {
        Some(Ok(Answer::Prompt(status))) => status,
        Some(Err(CommandError::TooManyPrompts)) => {
            let error = ToolError::new(
                ToolErrorCode::Limit,
                format!("{tool} was not called: too many other prompts of this session wait for a person"),
            );
            return Ok(Err(error.with_hint("Wait for some of them.")));
        }
        Some(Err(error)) => return Err(prompt_error(error)),
        Some(Ok(_)) | None => return Err(EngineError::unavailable("the session has ended")),
    };
    if let Some(PromptEnd::Withdrawn { reason }) = &status.end {
        let message = format!("{tool} was not called: {reason}");
        return Ok(Err(ToolError::new(ToolErrorCode::Denied, message)));
    }
    let prompt = PromptId {
        kernel: id,
        seq: status.seq,
    };
    let mut error = ToolError::new(
        ToolErrorCode::ApprovalNeeded,
        format!("{tool} changes something: a person has to approve this call; nothing was sent"),
    )
    .with_hint(format!(
        "Wait for the answer to the prompt {prompt}, then send the same call again with it as its approval."
    ));
    error.prompt = Some(prompt.to_string());
    Ok(Err(error))
}

/// Whether the tool is approved for all sessions of this kind.
async fn has_standing(kernel: &SessionKernel, store: &dyn Store, tool: &str) -> Result<bool, EngineError> {
    let session = kernel.session();
    // Those that wait in a pool have no owner.
    if session.owner.is_empty() {
        return Ok(false);
    }
    let (owner, caller) = (session.owner.clone(), session.started_by.clone());
    let found = store.has_tool_approval(owner, caller, session.template.clone(), tool.to_owned());
    found
        .await
        .map_err(|error| EngineError::internal("reading the approvals of tools", error))
}

fn prompt(wanted: Wanted<'_>, digest: String) -> Prompt {
    let arguments = match wanted.mask {
        Some(mask) => shown_whole(wanted.arguments, wanted.schema, mask, ARGUMENTS_CHARS),
        None => "(not shown: the gateway cannot read its credentials now)".into(),
    };
    let text = format!(
        "May the code call {}? It changes something.",
        cut(wanted.tool, 200)
    );
    Prompt {
        kind: PromptKind::Approval,
        text,
        options: [APPROVE_ONCE, APPROVE_SESSION, APPROVE_ALWAYS, APPROVE_DENY]
            .map(str::to_owned)
            .to_vec(),
        tool: Some(wanted.tool.to_owned()),
        digest: Some(digest),
        arguments: Some(arguments),
        key: wanted.key,
        password: false,
        wait_ms: Some(u64::try_from(OPEN_TIME.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// What identifies a call: a hash over its tool and its arguments, whose members are in the order of their names.
fn digest(wanted: &Wanted<'_>) -> String {
    let call = serde_json::json!({"tool": wanted.tool, "arguments": wanted.arguments});
    hex::encode(Sha256::digest(call.to_string()))
}
