//! The view of triggers and of their runs, from their rows.

use himalia_model::{EngineError, SessionId};
use himalia_store::{TriggerRecord, TriggerRun};

use super::callbacks::shown_url;
use super::definition::{definition, detail};
use super::kind::TriggerKind;
use super::models::TriggerInfo;
use super::target::Runnable;
use crate::run::{RunInfo, RunKind, RunOrigin, RunOriginKind, RunView, id_of_run};

pub(super) fn info(record: &TriggerRecord, last: Option<&TriggerRun>) -> Result<TriggerInfo, EngineError> {
    let definition = definition(record)?;
    Ok(TriggerInfo {
        id: record.id,
        name: record.name.clone(),
        owner: record.owner.clone(),
        caller: definition.holder.name,
        target: definition.target,
        inputs: definition.inputs,
        template: definition.template,
        timeout_s: definition.timeout_s,
        times: definition.times,
        enabled: definition.enabled,
        callback: definition.callback.as_deref().map(shown_url),
        stopped: definition.stopped,
        next_micros: record.next_micros,
        created_micros: record.created_micros,
        last_run: last
            .map(|run| run_info(record, run))
            .transpose()?
            .map(|run| run.info),
    })
}

/// Returns true for schedules and webhooks: the runs of other triggers start nothing.
pub(crate) fn starts_runs(record: &TriggerRecord) -> bool {
    [TriggerKind::Schedule, TriggerKind::Webhook]
        .into_iter()
        .any(|kind| record.kind == kind.as_str())
}

/// A run as its row has it.
pub(crate) fn run_info(record: &TriggerRecord, run: &TriggerRun) -> Result<RunView, EngineError> {
    let (definition, detail) = (definition(record)?, detail(run)?);
    let execution = detail.execution();
    let origin = match record.kind.as_str() {
        "schedule" => RunOrigin::trigger(RunOriginKind::Schedule, record.id),
        "webhook" => RunOrigin::trigger(RunOriginKind::Webhook, record.id),
        _ => RunOrigin::CLIENT,
    };
    let (kind, name) = match detail.target.or(definition.target).map(|target| target.what) {
        Some(Runnable::Workflow(name)) => (RunKind::Workflow, name),
        Some(Runnable::Skill(name)) => (RunKind::Skill, name),
        None => (RunKind::Skill, String::new()),
    };
    let missed_before = (origin.kind == RunOriginKind::Schedule).then_some(detail.missed_before);
    let info = RunInfo {
        id: id_of_run(run.id),
        kind,
        name,
        version: detail.version,
        digest: None,
        status: detail.status,
        error: detail.error,
        origin,
        started_by: definition.holder.name,
        asked_by: detail.asked_by,
        cancelled_by: None,
        missed_before,
        session: execution.map(|id| SessionId::of_first_kernel(id.kernel)),
        execution,
        created_micros: run.due_micros,
        started_micros: detail.started_micros,
        ended_micros: detail.ended_micros,
    };
    Ok(RunView::of(info, detail.outputs))
}
