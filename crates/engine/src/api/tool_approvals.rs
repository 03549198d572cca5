//! Commands on tools that a person has approved for later sessions of the same caller and template.

use crate::access::Object;
use himalia_executions::{PromptInfo, PromptKind, PromptName, PromptState};
use himalia_kernel::{APPROVE_ALWAYS, Answer, Command};
use himalia_model::{Action, EngineError, Principal};
use himalia_session::not_stored;
pub use himalia_store::ToolApprovalRecord as ToolApproval;
use himalia_store::{StoreError, ToolApprovalAdded};
use std::time::Duration;
use uuid::Uuid;

use super::Commands;

/// Approvals of tools of an owner.
pub const MAX_TOOL_APPROVALS: usize = 1_000;
/// How long the end of a prompt may take to be written.
const END_TIME: Duration = Duration::from_secs(10);

impl Commands {
    pub(crate) async fn approve_always(
        &self,
        principal: &Principal,
        name: &PromptName,
    ) -> Result<PromptInfo, EngineError> {
        let wrong = || EngineError::bad_request("value", "must be an answer to a tool approval");
        let PromptName::Kernel(id) = name else {
            return Err(wrong());
        };
        self.allow(principal, Action::Execute, Object::Kernel(id.kernel))?;
        // What is not there, or another tenant's, is unknown before anything else is said of it.
        let asked = self.prompt(principal, name, Duration::ZERO).await?;
        if asked.kind != PromptKind::Approval {
            return Err(wrong());
        }
        // A caller who runs code may not approve what that code does.
        self.allow(principal, Action::Approve, Object::Kernel(id.kernel))?;
        let offered = asked.options.iter().any(|option| option == APPROVE_ALWAYS);
        let (Some(tool), true) = (asked.tool, offered && asked.state == PromptState::Open) else {
            // It says why.
            return self
                .answer_kernel_prompt(principal, *id, APPROVE_ALWAYS.to_owned())
                .await;
        };
        let handle = self.handle(principal, id.kernel)?;
        let session = handle.session();
        let wait = Command::AwaitPrompt { seq: id.seq, wait: 0 };
        let definition = match self.command(&handle, wait).await? {
            Answer::Prompt(status) => status.prompt.definition.unwrap_or_default(),
            _ => String::new(),
        };
        let record = ToolApproval {
            id: Uuid::new_v4(),
            owner: session.owner.clone(),
            caller: session.started_by.clone(),
            template: session.template.clone(),
            tool,
            definition,
            approved_by: principal.name().to_owned(),
            approved_micros: self.inner.config.clock.stored_micros(),
        };
        // The code continues as soon as it is answered, and finds the row.
        let (added, most) = (record.id, i64::try_from(MAX_TOOL_APPROVALS).unwrap_or(i64::MAX));
        let adding = self.inner.store().add_tool_approval(record, most);
        let is_new = match adding.await.map_err(stored)? {
            ToolApprovalAdded::Added => true,
            ToolApprovalAdded::Present => false,
            ToolApprovalAdded::Full => {
                return Err(EngineError::Conflict {
                    reason: format!(
                        "{MAX_TOOL_APPROVALS} tools are approved for later sessions: revoke some"
                    ),
                });
            }
        };
        let answered = self
            .answer_kernel_prompt(principal, *id, APPROVE_ALWAYS.to_owned())
            .await;
        if answered.is_err() && is_new && !self.was_always(principal, name).await {
            let deleting = self.inner.store().delete_tool_approval(None, added);
            deleting.await.map_err(stored)?;
        }
        answered
    }

    /// Whether the answer that counted is the same one, of another person: the row is that answer's, too.
    async fn was_always(&self, principal: &Principal, name: &PromptName) -> bool {
        // It may be on its way to the log.
        let ended = self.prompt(principal, name, END_TIME).await;
        ended.is_ok_and(|prompt| prompt.answer.as_deref() == Some(APPROVE_ALWAYS))
    }

    pub(crate) async fn tool_approvals(
        &self,
        principal: &Principal,
    ) -> Result<Vec<ToolApproval>, EngineError> {
        self.allow(principal, Action::Read, Object::ToolApprovals)?;
        let owner = (!principal.is_operator()).then(|| principal.owner().to_owned());
        self.inner.store().tool_approvals(owner).await.map_err(stored)
    }

    pub(crate) async fn revoke_tool_approval(
        &self,
        principal: &Principal,
        id: Uuid,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::ToolApprovals)?;
        let owner = (!principal.is_operator()).then(|| principal.owner().to_owned());
        let deleted = self.inner.store().delete_tool_approval(owner, id).await;
        if deleted.map_err(stored)? {
            return Ok(());
        }
        Err(EngineError::NotFound {
            what: "Tool approval",
            id: id.to_string(),
        })
    }
}

fn stored(error: StoreError) -> EngineError {
    not_stored("approvals of tools in the store", error)
}
