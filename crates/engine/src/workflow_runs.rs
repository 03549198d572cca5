//! Runs of workflows, as far as commands of the engine depend on them. The crate that keeps them is above this one.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_executions::{PromptInfo, StepPromptId};
use himalia_model::{EngineError, Principal};

use crate::api::{Commands, ListedPrompt, PromptPlace};

/// Runs of workflows: their steps ask persons, and they end with the token that started them.
pub trait WorkflowRuns: Send + Sync {
    /// Steps of workflows that the principal sees which wait for an answer: the first `most` after a place.
    fn waiting_steps<'a>(
        &'a self,
        principal: &'a Principal,
        after: Option<&'a PromptPlace>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<ListedPrompt>, EngineError>>;

    /// The prompt of a step, when it has ended or after this time.
    fn step_prompt<'a>(
        &'a self,
        principal: &'a Principal,
        id: &'a StepPromptId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<PromptInfo, EngineError>>;

    /// Answers the prompt of a step, once.
    fn answer_step_prompt<'a>(
        &'a self,
        principal: &'a Principal,
        id: &'a StepPromptId,
        value: String,
    ) -> BoxFuture<'a, Result<PromptInfo, EngineError>>;

    /// The runs in progress of an owner that end with a token, by its mark.
    fn runs_of_token<'a>(
        &'a self,
        owner: &'a str,
        mark: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, EngineError>>;

    /// Cancels runs whose token was revoked; returns those that the gateway cancelled for that.
    fn stop_without_token(&self, runs: BTreeSet<String>) -> BoxFuture<'_, Result<Vec<String>, EngineError>>;
}

/// The runs of workflows, once there are any.
pub(crate) type WorkflowRunsSlot = Arc<OnceLock<Arc<dyn WorkflowRuns>>>;

impl Commands {
    pub(crate) async fn waiting_steps(
        &self,
        principal: &Principal,
        after: Option<&PromptPlace>,
        most: usize,
    ) -> Result<Vec<ListedPrompt>, EngineError> {
        match self.workflow_runs.get() {
            Some(runs) => runs.waiting_steps(principal, after, most).await,
            None => Ok(Vec::new()),
        }
    }

    /// The runs, to find the prompt of a step.
    pub(crate) fn runs_with(&self, id: &StepPromptId) -> Result<&Arc<dyn WorkflowRuns>, EngineError> {
        let runs = self.workflow_runs.get();
        runs.ok_or_else(|| {
            EngineError::no_prompt(&himalia_executions::PromptName::Step(id.clone()).to_string())
        })
    }

    pub(crate) async fn runs_of_token(&self, owner: &str, mark: &str) -> Result<Vec<String>, EngineError> {
        match self.workflow_runs.get() {
            Some(runs) => runs.runs_of_token(owner, mark).await,
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn stop_without_token(&self, ids: BTreeSet<String>) -> Result<Vec<String>, EngineError> {
        match self.workflow_runs.get() {
            Some(runs) => runs.stop_without_token(ids).await,
            None => Ok(Vec::new()),
        }
    }
}
