//! Calls that a person has to approve: a prompt in the log of the session, whose answer lets the call be made once, or its tool be called as
//! long as the session lives, or in later sessions of the same caller and template too. The last of them is a row of the store, which is
//! looked at for each call, so that its end counts at once. Each is bound to the tool as it was defined when the person was asked.

use std::time::Duration;

use himalia_credentials::Mask;
use himalia_executions::PromptId;
use himalia_kernel::{
    APPROVE_ALWAYS, APPROVE_DENY, APPROVE_ONCE, APPROVE_SESSION, Answer, Command, CommandError, Prompt,
    PromptEnd, PromptKind,
};
use himalia_model::{
    DescriptionSource, EngineError, ToolError, ToolErrorCode, ToolServerConfig, ToolServerKind,
};
use himalia_store::Store;
use himalia_tools::ToolDefinition;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::shown::cut;
use super::whole::{NotShown, shown_to_approve};
use crate::SessionKernel;
use crate::prompts::prompt_error;

/// Time that a prompt for an approval stays open.
const OPEN_TIME: Duration = Duration::from_hours(24);
/// Characters of the arguments that a person sees. A call with longer ones cannot be approved.
const ARGUMENTS_CHARS: usize = 16_000;

/// A call that needs an approval.
pub(super) struct ApprovalRequest<'a> {
    pub(super) tool: &'a str,
    /// A digest of the tool as it is defined.
    pub(super) definition: String,
    pub(super) arguments: &'a Value,
    pub(super) schema: Option<&'a Value>,
    /// Mask for secrets. `None`: the secrets cannot be read.
    pub(super) mask: Option<&'a Mask>,
    pub(super) key: Option<String>,
}

/// Checks that the call is approved: by the prompt that the caller names, for the session, or for all of its kind. If no person was asked yet, one is
/// asked. The inner error says why it may not.
pub(super) async fn approved(
    kernel: &SessionKernel,
    store: &dyn Store,
    named: Option<&str>,
    wanted: ApprovalRequest<'_>,
) -> Result<Result<(), ToolError>, EngineError> {
    let id = kernel.handle().id();
    let seq = match named {
        None => None,
        Some(text) => match text.parse::<PromptId>() {
            Ok(prompt) if prompt.kernel == id => Some(prompt.seq),
            _ => {
                return Err(EngineError::bad_request(
                    "approval",
                    "must be a prompt of this session",
                ));
            }
        },
    };
    let digest = digest(&wanted);
    let use_approval = Command::UseApproval {
        prompt: seq,
        tool: wanted.tool.to_owned(),
        definition: wanted.definition.clone(),
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
    if has_standing(kernel, store, &tool, &wanted.definition).await? {
        return Ok(Ok(()));
    }
    let arguments = match shown_to_approve(wanted.arguments, wanted.schema, wanted.mask, ARGUMENTS_CHARS) {
        Ok(arguments) => arguments,
        Err(NotShown::Unavailable(reason)) => {
            let error = ToolError::new(
                ToolErrorCode::Unavailable,
                format!("{tool} was not called: {reason}"),
            );
            return Ok(Err(error.with_hint("Try it again later.")));
        }
        Err(NotShown::TooLong(reason)) => {
            let error = ToolError::new(ToolErrorCode::Denied, format!("{tool} was not called: {reason}"));
            let hint = "Send less with one call, or ask the operator to permit the tool (tools_write).";
            return Ok(Err(error.with_hint(hint)));
        }
    };
    let prompt = Command::Prompt(Box::new(prompt(wanted, digest, arguments)));
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

/// True if the tool is approved for all sessions of this kind.
async fn has_standing(
    kernel: &SessionKernel,
    store: &dyn Store,
    tool: &str,
    definition: &str,
) -> Result<bool, EngineError> {
    let session = kernel.session();
    // Those that wait in a pool have no owner.
    if session.owner.is_empty() {
        return Ok(false);
    }
    let (owner, caller) = (session.owner.clone(), session.started_by.clone());
    let found = store.has_tool_approval(
        owner,
        caller,
        session.template.clone(),
        tool.to_owned(),
        definition.to_owned(),
    );
    found
        .await
        .map_err(|error| EngineError::internal("reading the approvals of tools", error))
}

fn prompt(wanted: ApprovalRequest<'_>, digest: String, arguments: Value) -> Prompt {
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
        definition: Some(wanted.definition),
        digest: Some(digest),
        arguments: Some(arguments),
        key: wanted.key,
        password: false,
        wait_ms: Some(u64::try_from(OPEN_TIME.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// The identity of a call: a hash over its tool, as it is defined, and its arguments, whose members are in the order of their names.
fn digest(wanted: &ApprovalRequest<'_>) -> String {
    let call = json!({"tool": wanted.tool, "definition": wanted.definition, "arguments": wanted.arguments});
    hex::encode(Sha256::digest(call.to_string()))
}

/// A hash over what a person knows of a tool: its name, its description, its schemas, and where its server is.
pub(super) fn definition_of(tool: &ToolDefinition, server: Option<&ToolServerConfig>) -> String {
    let place = server.map(|server| match &server.kind {
        ToolServerKind::Mcp { url } => json!({ "url": url.as_str() }),
        ToolServerKind::Program(settings) => json!({ "command": settings.command }),
        ToolServerKind::OpenApi {
            description,
            base_url,
        } => {
            let description = match description {
                DescriptionSource::Url(url) => url.to_string(),
                DescriptionSource::File(path) => path.display().to_string(),
            };
            json!({ "description": description, "base_url": base_url.as_ref().map(ToString::to_string) })
        }
    });
    let all = json!({
        "name": tool.name, "description": tool.description, "input": tool.input_schema, "output": tool.output_schema,
        "server": server.map(|server| &server.name), "at": place, "place": tool.place,
    });
    hex::encode(Sha256::digest(all.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use himalia_model::{AllowedCallers, HttpUrl};

    use super::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    fn server(name: &str, kind: ToolServerKind) -> ToolServerConfig {
        ToolServerConfig {
            name: name.to_owned(),
            kind,
            description: String::new(),
            credential: None,
            owner: "operator".to_owned(),
            callers: AllowedCallers::default(),
            call_time: Duration::from_secs(1),
            reply_bytes: 1,
        }
    }

    fn mcp(address: &str) -> ToolServerKind {
        ToolServerKind::Mcp { url: url(address) }
    }

    fn openapi(description: &str, base: Option<&str>) -> ToolServerKind {
        ToolServerKind::OpenApi {
            description: DescriptionSource::Url(url(description)),
            base_url: base.map(url),
        }
    }

    /// An approval is of what its person knew: whatever changes of it makes another definition.
    #[test]
    fn a_tool_that_changes_has_another_definition() {
        let tool = ToolDefinition {
            name: "pay".to_owned(),
            input_schema: json!({"type": "object"}),
            ..ToolDefinition::default()
        };
        let at = server("bank", mcp("https://bank.test/mcp"));
        let changed = [
            ToolDefinition {
                name: "refund".to_owned(),
                ..tool.clone()
            },
            ToolDefinition {
                description: "Pays twice.".to_owned(),
                ..tool.clone()
            },
            ToolDefinition {
                input_schema: json!({"type": "object", "required": ["to"]}),
                ..tool.clone()
            },
            ToolDefinition {
                output_schema: Some(json!({})),
                ..tool.clone()
            },
            ToolDefinition {
                place: "POST /pay".to_owned(),
                ..tool.clone()
            },
        ];
        let places = [
            server("other", mcp("https://bank.test/mcp")),
            server("bank", mcp("https://evil.test/mcp")),
            server("bank", openapi("https://bank.test/api", None)),
            server("bank", openapi("https://evil.test/api", None)),
            server(
                "bank",
                openapi("https://bank.test/api", Some("https://evil.test/")),
            ),
        ];
        let mut all = vec![definition_of(&tool, Some(&at)), definition_of(&tool, None)];
        all.extend(changed.iter().map(|tool| definition_of(tool, Some(&at))));
        all.extend(places.iter().map(|at| definition_of(&tool, Some(at))));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        assert_eq!(all[0], definition_of(&tool.clone(), Some(&at.clone())));
    }

    #[test]
    fn an_approved_call_is_of_its_tool_its_definition_and_its_arguments() {
        let digest_of = |tool: &str, definition: &str, arguments: &Value| {
            digest(&ApprovalRequest {
                tool,
                definition: definition.to_owned(),
                arguments,
                schema: None,
                mask: None,
                key: None,
            })
        };
        let first = digest_of("bank.pay", "1", &json!({"to": "ada"}));
        assert_eq!(first, digest_of("bank.pay", "1", &json!({"to": "ada"})));
        for other in [
            digest_of("bank.refund", "1", &json!({"to": "ada"})),
            digest_of("bank.pay", "2", &json!({"to": "ada"})),
            digest_of("bank.pay", "1", &json!({"to": "eve"})),
        ] {
            assert_ne!(first, other);
        }
    }
}
