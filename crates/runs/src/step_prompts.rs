//! Runs of workflows for the commands of the engine that depend on them: lists of prompts, answers, and tokens that are revoked.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_engine::{ListedPrompt, PromptPlace, WorkflowRuns};
use himalia_executions::{PromptInfo, StepPromptId};
use himalia_model::{EngineError, Principal};

use crate::commands::Commands;

/// The runs of workflows, as long as the gateway is there.
pub(crate) struct StepPrompts(Weak<Commands>);

impl StepPrompts {
    pub(crate) fn new(commands: &Arc<Commands>) -> Self {
        Self(Arc::downgrade(commands))
    }

    fn commands(&self) -> Result<Arc<Commands>, EngineError> {
        let commands = self.0.upgrade();
        commands.ok_or_else(|| EngineError::unavailable("the gateway is stopping"))
    }
}

impl WorkflowRuns for StepPrompts {
    fn waiting_steps<'a>(
        &'a self,
        principal: &'a Principal,
        after: Option<&'a PromptPlace>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<ListedPrompt>, EngineError>> {
        Box::pin(async move { self.commands()?.waiting_steps(principal, after, most).await })
    }

    fn step_prompt<'a>(
        &'a self,
        principal: &'a Principal,
        id: &'a StepPromptId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<PromptInfo, EngineError>> {
        Box::pin(async move { self.commands()?.step_prompt(principal, id, wait).await })
    }

    fn answer_step_prompt<'a>(
        &'a self,
        principal: &'a Principal,
        id: &'a StepPromptId,
        value: String,
    ) -> BoxFuture<'a, Result<PromptInfo, EngineError>> {
        Box::pin(async move { self.commands()?.answer_step_prompt(principal, id, value).await })
    }

    fn runs_of_token<'a>(
        &'a self,
        owner: &'a str,
        mark: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, EngineError>> {
        Box::pin(async move { self.commands()?.runs_of_token(owner, mark).await })
    }

    fn stop_without_token(&self, runs: BTreeSet<String>) -> BoxFuture<'_, Result<Vec<String>, EngineError>> {
        Box::pin(async move { self.commands()?.stop_without_token(runs).await })
    }
}
