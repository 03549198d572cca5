//! Runs of skills and workflows, whatever has started them.
//!
//! A run has no table of its own. A run of a workflow is a row; a run of a skill is the session that it has, whose log tells what came of
//! it; a run that a schedule or a webhook has asked for is a row of that too, before the run begins and when its log is gone. All have one
//! id: the session of a skill, the row of a workflow and the row of a trigger have the same.

mod feed;
mod info;
mod list;

use std::sync::Arc;
use std::time::Duration;

use himalia_engine::Object;
use himalia_executions::{ExecutionId, WaitUntil};
use himalia_model::{Action, EngineError, KernelId, Principal};
use himalia_store::{TriggerRecord, TriggerRun};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::skills::{SkillRun, SkillRunStatus};
use super::triggers::run_info;
use super::workflows::RunUntil;
use crate::Commands;
pub use feed::RunFeed;
pub use info::{
    RunError, RunInfo, RunKind, RunOrigin, RunOriginKind, RunState, RunView, id_of_run, uuid_of_run,
};
pub use list::{MAX_RUN_PAGE, RunFilter, RunPage, RunPlace};

/// The place that has a run.
pub(super) enum RunLocation {
    /// The log of a session.
    Skill(ExecutionId),
    /// A row of a run of a workflow.
    Workflow,
    /// Only a row of its schedule or webhook.
    Requested,
}

/// A run of a schedule or a webhook, with its trigger.
pub(super) type RequestedRun = (Arc<TriggerRecord>, TriggerRun);

impl Commands {
    pub(crate) async fn run(
        &self,
        principal: &Principal,
        id: &str,
        wait: Duration,
        until: RunUntil,
    ) -> Result<RunView, EngineError> {
        self.allow(principal, Action::Read, Object::Workflows)?;
        self.run_view(principal, id, Instant::now() + wait, until).await
    }

    /// A run when that has happened which is waited for, or at this time.
    async fn run_view(
        &self,
        principal: &Principal,
        id: &str,
        due: Instant,
        until: RunUntil,
    ) -> Result<RunView, EngineError> {
        loop {
            let (found, asked) = self.find_run(principal, id).await?;
            let mut view = match found {
                RunLocation::Workflow => self.workflow_run(principal, id, due, until).await?,
                RunLocation::Skill(execution) => {
                    self.settled(principal, execution, due).await?;
                    self.skill_view(principal, execution).await?
                }
                RunLocation::Requested => {
                    let Some((record, run)) = &asked else {
                        return Err(unknown(id));
                    };
                    let view = run_info(record, run)?;
                    if view.info.status.is_over() || Instant::now() >= due {
                        return Ok(view);
                    }
                    self.until_changed(None, Some(due)).await?;
                    continue;
                }
            };
            if let Some((record, run)) = &asked {
                let row = run_info(record, run)?.info;
                view.info.origin = row.origin;
                view.info.created_micros = row.created_micros;
                view.info.started_micros = row.started_micros.or(view.info.started_micros);
                (view.info.asked_by, view.info.missed_before) = (row.asked_by, row.missed_before);
            }
            return Ok(view);
        }
    }

    pub(crate) async fn cancel_run(&self, principal: &Principal, id: &str) -> Result<RunView, EngineError> {
        self.allow(principal, Action::Interrupt, Object::Workflows)?;
        match self.find_run(principal, id).await? {
            (RunLocation::Workflow, _) => self.cancel_workflow_run(principal, id).await?,
            (RunLocation::Skill(execution), _) => {
                self.engine.interrupt_execution(principal, execution).await?;
            }
            (RunLocation::Requested, asked) => {
                let view = asked.map(|(record, run)| run_info(&record, &run)).transpose()?;
                if view.is_some_and(|view| !view.info.status.is_over()) {
                    return Err(EngineError::Conflict {
                        reason: "the run has not begun here; try again when its status is running".to_owned(),
                    });
                }
            }
        }
        self.run_view(principal, id, Instant::now(), RunUntil::Ended)
            .await
    }

    /// Finds a run that the principal sees. [`EngineError::NotFound`] else, whatever else may be wrong.
    pub(super) async fn find_run(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<(RunLocation, Option<RequestedRun>), EngineError> {
        let uuid = uuid_of_run(id).ok_or_else(|| unknown(id))?;
        let asked = self.asked_run(principal, uuid).await?;
        let of_skill = match self.execution_of_run(principal, KernelId(uuid)).await {
            Ok(execution) => execution,
            // The row has what came of it.
            Err(EngineError::NotFound { .. }) => None,
            Err(_) if asked.is_some() => None,
            Err(other) => return Err(other),
        };
        if let Some(execution) = of_skill {
            return Ok((RunLocation::Skill(execution), asked));
        }
        match self.seen_run(principal, id).await {
            Ok(_) => Ok((RunLocation::Workflow, asked)),
            Err(EngineError::NotFound { .. }) if asked.is_some() => Ok((RunLocation::Requested, asked)),
            Err(EngineError::NotFound { .. }) => Err(unknown(id)),
            Err(other) => Err(other),
        }
    }

    /// The execution that the session of a run has for it.
    pub(super) async fn execution_of_run(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<Option<ExecutionId>, EngineError> {
        let all = self.engine.executions(principal, kernel).await?;
        let run = all.into_iter().find(|one| SkillRun::is_of(&one.metadata));
        Ok(run.map(|run| run.id))
    }

    /// Waits until an execution has ended, and no longer than until this time and than the gateway.
    async fn settled(
        &self,
        principal: &Principal,
        execution: ExecutionId,
        due: Instant,
    ) -> Result<(), EngineError> {
        if due <= Instant::now() {
            return Ok(());
        }
        let mut feed = self.engine.watch_execution(principal, execution).await?;
        tokio::select! {
            // Late, or without its session: the run is shown as it is.
            _ = timeout_at(due, feed.wait(WaitUntil::Settled)) => {}
            () = self.services.stopping().cancelled() => {}
        }
        Ok(())
    }

    /// A run of a skill. Outputs that cannot be checked any more, because the skill was deleted, are an error of the run.
    pub(super) async fn skill_view(
        &self,
        principal: &Principal,
        execution: ExecutionId,
    ) -> Result<RunView, EngineError> {
        let session = self.engine.session_info(principal, execution.kernel)?;
        match self.skill_run(principal, execution).await {
            Ok(run) => Ok(RunView::of_skill(run, &session)),
            Err(EngineError::Gone { reason }) => {
                let result = self.engine.execution(principal, execution).await?;
                let run = SkillRun::unchecked(result, SkillRunStatus::Failed);
                let mut view = RunView::of_skill(run, &session);
                view.info.error = Some(RunError::new("skill_deleted", reason));
                Ok(view)
            }
            Err(other) => Err(other),
        }
    }

    /// The row of a run that a schedule or a webhook has asked for, and the trigger.
    async fn asked_run(&self, principal: &Principal, id: Uuid) -> Result<Option<RequestedRun>, EngineError> {
        let found = self.trigger_run(principal, id).await?;
        Ok(found.filter(|(record, _)| super::triggers::starts_runs(record)))
    }
}

fn unknown(id: &str) -> EngineError {
    EngineError::NotFound {
        what: "Run",
        id: id.chars().take(64).collect(),
    }
}
