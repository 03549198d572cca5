//! The part of [`Store`](crate::Store) for runs of workflows.

use std::fmt::Debug;

use crate::{
    NewCallback, StepAnswer, StepPromptFilter, StepPromptRecord, StepsWritten, StoreFuture, WorkflowRunAdded,
    WorkflowRunBrief, WorkflowRunEnd, WorkflowRunFilter, WorkflowRunQuota, WorkflowRunRecord,
    WorkflowStepRecord,
};

/// Runs of workflows, their steps, and what steps ask persons.
pub trait WorkflowRunStore: Debug + Send + Sync + 'static {
    /// Adds a run of a workflow, which this process has then, if its owner has fewer than the quota and none has its key. Where the quota of
    /// bytes is exceeded, runs that have ended are forgotten. Its callback is
    /// added with it: both or neither.
    fn add_workflow_run(
        &self,
        record: WorkflowRunRecord,
        quota: WorkflowRunQuota,
        callback: Option<NewCallback>,
    ) -> StoreFuture<'_, WorkflowRunAdded>;

    /// One run of a workflow, of any owner.
    fn workflow_run(&self, id: String) -> StoreFuture<'_, Option<WorkflowRunRecord>>;

    /// The run of an owner with this idempotency key.
    fn workflow_run_of(&self, owner: String, key: String) -> StoreFuture<'_, Option<WorkflowRunRecord>>;

    /// Runs of an owner, the latest first.
    fn workflow_runs(
        &self,
        owner: String,
        filter: WorkflowRunFilter,
    ) -> StoreFuture<'_, Vec<WorkflowRunBrief>>;

    /// Steps that wait for a person, of an owner or of all.
    fn step_prompts(&self, filter: StepPromptFilter) -> StoreFuture<'_, Vec<StepPromptRecord>>;

    /// A step that asks or has asked a person.
    fn step_prompt(&self, run: String, step: String) -> StoreFuture<'_, Option<StepPromptRecord>>;

    /// Steps that wait for a person and of which [`Self::set_told`] has noted nothing, by their turn, at most `most`.
    fn untold_step_prompts(&self, most: i64) -> StoreFuture<'_, Vec<StepPromptRecord>>;

    /// Notes that the prompts of these steps were posted to webhooks, by run and id.
    fn set_told(&self, steps: Vec<(String, String)>) -> StoreFuture<'_, ()>;

    /// The answers to steps of a run that the run has not seen yet.
    fn step_answers(&self, run: String) -> StoreFuture<'_, Vec<StepAnswer>>;

    /// Returns true if a step of a run waits for a person.
    fn run_asks(&self, run: String) -> StoreFuture<'_, bool>;

    /// All attempts of all steps of a run, by step, item and attempt.
    fn workflow_steps(&self, run: String) -> StoreFuture<'_, Vec<WorkflowStepRecord>>;

    /// Writes attempts of a run that this process has, each in the place of the one with its step, item and number.
    fn write_workflow_steps(
        &self,
        run: String,
        steps: Vec<WorkflowStepRecord>,
    ) -> StoreFuture<'_, StepsWritten>;

    /// The answer to a step that waits; `false` when it does not wait: it was answered or has ended.
    fn answer_workflow_step(&self, given: StepAnswer) -> StoreFuture<'_, bool>;

    /// Notes that a run is to end; `false` when it has ended.
    fn cancel_workflow_run(&self, run: String, by: String) -> StoreFuture<'_, bool>;

    /// A run that this process has has ended; `false` when it has it not, or it had ended.
    fn end_workflow_run(&self, run: String, end: WorkflowRunEnd) -> StoreFuture<'_, bool>;

    /// Takes the runs that continue and whose process has gone; gives back all that this process has, oldest first.
    fn claim_workflow_runs(&self) -> StoreFuture<'_, Vec<String>>;

    /// Gives a run that this process has to the living replica of an epoch, which takes it when it claims runs the next time. `false`: this
    /// process has it not, or there is no such replica.
    fn hand_over_workflow_run(&self, run: String, epoch: u64) -> StoreFuture<'_, bool>;

    /// Forgets runs that ended before `micros`; gives back how many.
    fn forget_workflow_runs(&self, micros: i64) -> StoreFuture<'_, usize>;
}
