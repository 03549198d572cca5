//! Commands on prompts: what a person is asked on behalf of the code of a session, or by a step of a workflow. They are one list, and are
//! answered in one way. The list of those that wait is in `open_prompts.rs`.

use std::time::Duration;

use crate::access::Object;
use himalia_executions::{Ask, MAX_ANSWER_BYTES, PromptId, PromptInfo, PromptKind, PromptName};
use himalia_kernel::{APPROVE_ALWAYS, Answer, Command};
use himalia_model::{Action, EngineError, KernelId, Principal};

use super::Commands;

impl Commands {
    pub(crate) async fn ask_person(
        &self,
        principal: &Principal,
        kernel: KernelId,
        wanted: Ask,
    ) -> Result<PromptInfo, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        self.inner.check_open()?;
        let prompt = wanted.prompt()?;
        self.one(principal, kernel, Command::Prompt(Box::new(prompt)))
            .await
    }

    pub(crate) async fn prompts(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<Vec<PromptInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let handle = self.handle(principal, kernel)?;
        match self.command(&handle, Command::ListPrompts).await? {
            Answer::Prompts(all) => Ok(all
                .into_iter()
                .map(|status| PromptInfo::new(kernel, status))
                .collect()),
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) async fn prompt(
        &self,
        principal: &Principal,
        name: &PromptName,
        wait: Duration,
    ) -> Result<PromptInfo, EngineError> {
        let id = match name {
            PromptName::Kernel(id) => *id,
            PromptName::Step(id) => return self.runs_with(id)?.step_prompt(principal, id, wait).await,
        };
        self.allow(principal, Action::Read, Object::Kernel(id.kernel))?;
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.one(principal, id.kernel, Command::AwaitPrompt { seq: id.seq, wait })
            .await
            .map_err(|error| named(error, id))
    }

    pub(crate) async fn answer_prompt(
        &self,
        principal: &Principal,
        name: &PromptName,
        value: String,
    ) -> Result<PromptInfo, EngineError> {
        let id = match name {
            PromptName::Kernel(id) => *id,
            PromptName::Step(id) => {
                return self.runs_with(id)?.answer_step_prompt(principal, id, value).await;
            }
        };
        if value == APPROVE_ALWAYS {
            let asked = self.prompt(principal, name, Duration::ZERO).await?;
            if asked.kind == PromptKind::Approval {
                return self.approve_always(principal, name).await;
            }
        }
        self.answer_kernel_prompt(principal, id, value).await
    }

    /// Answers a prompt of a kernel, without anything beside it.
    pub(super) async fn answer_kernel_prompt(
        &self,
        principal: &Principal,
        id: PromptId,
        value: String,
    ) -> Result<PromptInfo, EngineError> {
        let name = &PromptName::Kernel(id);
        self.allow(principal, Action::Execute, Object::Kernel(id.kernel))?;
        if value.len() > MAX_ANSWER_BYTES {
            let reason = format!("is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(EngineError::bad_request("value", reason));
        }
        let asked = self.prompt(principal, name, Duration::ZERO).await?;
        if asked.kind.is_approval() {
            // A caller who runs code may not approve what that code does.
            self.allow(principal, Action::Approve, Object::Kernel(id.kernel))?;
        }
        let command = Command::AnswerPrompt {
            seq: id.seq,
            value,
            by: principal.name().to_owned(),
        };
        self.one(principal, id.kernel, command)
            .await
            .map_err(|error| named(error, id))
    }

    /// Gives an order about one prompt.
    async fn one(
        &self,
        principal: &Principal,
        kernel: KernelId,
        command: Command,
    ) -> Result<PromptInfo, EngineError> {
        let handle = self.handle(principal, kernel)?;
        match self.command(&handle, command).await? {
            Answer::Prompt(status) => Ok(PromptInfo::new(kernel, *status)),
            _ => Err(EngineError::unavailable("the prompt was not taken")),
        }
    }
}

/// The error with the id that the caller knows.
fn named(error: EngineError, id: PromptId) -> EngineError {
    match error {
        EngineError::NotFound { what: "Prompt", .. } => EngineError::no_prompt(&id.to_string()),
        other => other,
    }
}
