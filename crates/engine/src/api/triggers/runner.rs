//! The task that starts runs of triggers.
//!
//! A due time becomes a row of a run in the same transaction that moves the trigger to its next due time, so each is one run, whichever
//! replica looks. A process claims a run before it does anything with it; what a process had claimed that is gone, another one claims.
//! The session of a run has the id of the run, and the row says `running` before the code is sent. So after a kill it is known whether
//! the code may have been sent, and where to look for it: it is sent at most once.

use std::sync::Arc;
use std::time::Duration;

use himalia_executions::{ExecutionId, ExecutionStatus, WaitUntil};
use himalia_model::{CallOrigin, EngineError, OPERATOR, Principal, ResourceRef};
use himalia_schedules::{DueTime, Step, Verdict, step};
use himalia_store::{FairBatch, Lookup, OpenRun, TriggerRecord, TriggerRun, TriggerRunState};
use uuid::Uuid;

use super::callbacks::{deliver, new_delivery, url_of};
use super::definition::{Definition, Detail, Holder, TriggerKind, definition, detail, stored, write};
use super::places::{Lanes, Places, Slot};
use super::target::Runnable;
use super::{MAX_TRIGGER_RUNS, STORED_KINDS, new_run, of_run, run_skill, session_of, workflows};
use crate::Engine;
use crate::api::Commands;
use crate::api::runs::{RunError, RunState};
use crate::api::skills::{PreparedRun, RunSkill, SkillRun, SkillRunStatus};
use crate::audit::{Effect, Subject};

/// How often it is looked for what is due, if there are triggers.
const LOOK: Duration = Duration::from_secs(1);
/// How often old runs are forgotten.
const FORGET: Duration = Duration::from_mins(10);
/// Old runs are kept at least for so long.
pub(super) const KEPT: Duration = Duration::from_mins(15);
/// Triggers of one look.
const BATCH: i64 = 100;
/// Runs and deliveries of one look.
const FAIR: FairBatch = FairBatch { of_one: 16, all: 100 };
/// How often a start is tried that a limit refuses: for about ten minutes.
const START_TRIES: u32 = 120;
/// How often it is tried when it fails, or its session is lost, before its code was sent.
const LOST_TRIES: u32 = 5;
/// The pauses between its attempts.
const START_PAUSE: Duration = Duration::from_secs(5);
/// The pause before a run is looked for again whose log could not be read.
pub(super) const READ_PAUSE: Duration = Duration::from_secs(2);
/// Bytes of outputs, as JSON, that are stored with a run.
const OUTPUT_BYTES: usize = 16 << 10;
/// Characters of a reason.
const REASON_CHARS: usize = 500;

/// The task.
pub(super) struct Runner {
    engine: Engine,
    starts: Arc<Places>,
    lanes: Arc<Lanes>,
}

/// What comes of a run that this process has claimed.
pub(super) enum Outcome {
    /// It has ended.
    Over,
    /// It is to be tried after this time.
    Later(Duration),
    /// It is another one's, or there is none any more.
    Dropped,
}

/// What comes of a run whose code was sent to its session.
pub(super) enum Watched {
    Outcome(Outcome),
    /// Its session has ended before it had a process.
    Lost(EngineError),
}

impl Runner {
    pub(super) fn new(engine: Engine) -> Self {
        let triggers = &engine.commands.triggers;
        Self {
            starts: Places::of_starts(triggers),
            lanes: Lanes::new(triggers),
            engine,
        }
    }

    fn commands(&self) -> &Commands {
        &self.engine.commands
    }

    /// Until the gateway stops.
    pub(super) async fn run(self) {
        let stop = self.commands().inner.draining.clone();
        let triggers = Arc::clone(&self.commands().triggers);
        let shared = self.commands().inner.store().is_shared();
        if !matches!(self.begin().await, Ok(false)) {
            triggers.wake();
        }
        let mut forgotten = tokio::time::Instant::now();
        loop {
            if shared || triggers.any.load(std::sync::atomic::Ordering::Acquire) {
                if let Err(error) = self.look().await {
                    tracing::warn!(%error, "cannot look for what is due");
                }
                if forgotten.elapsed() >= FORGET {
                    forgotten = tokio::time::Instant::now();
                    self.forget().await;
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = triggers.wake.notified() => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
            } else {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = triggers.wake.notified() => {}
                }
            }
        }
    }

    /// Seals secrets with the current key. Whether there are triggers.
    async fn begin(&self) -> Result<bool, EngineError> {
        let commands = self.commands();
        let mut found = false;
        for kind in STORED_KINDS {
            let all = commands.inner.store().triggers(None, kind.to_owned()).await;
            let all = all.map_err(stored)?;
            found |= !all.is_empty();
            if let Err(error) = commands.seal_again(all).await {
                tracing::error!(%error, kind, "secrets of triggers stay sealed as they are");
            }
        }
        Ok(found)
    }

    async fn look(&self) -> Result<(), EngineError> {
        let commands = self.commands();
        let store = commands.inner.store();
        let now = commands.trigger_time().await?;
        for record in store.due_triggers(now, BATCH).await.map_err(stored)? {
            let (id, owner) = (record.id, record.owner.clone());
            if let Err(error) = self.fire(record, now).await {
                tracing::error!(%id, owner, %error, "a schedule is due and cannot be run");
            }
        }
        for OpenRun { run, kind } in store.open_trigger_runs(now, FAIR).await.map_err(stored)? {
            let starts = starts_something(&kind);
            if starts && !self.starts.has_room(&run.owner) {
                continue;
            }
            if self.is_elsewhere(&run).await?
                || !store
                    .claim_trigger_run(run.id, run.claim.clone())
                    .await
                    .map_err(stored)?
            {
                continue;
            }
            // No other task takes these places. One that is given back at once would wake this task without an end.
            let place = if starts {
                self.starts.take(&run.owner)
            } else {
                None
            };
            let engine = self.engine.clone();
            commands.inner.background.spawn(tend(engine, run, place));
        }
        for due in store.due_deliveries(now, FAIR).await.map_err(stored)? {
            if let Some(place) = self.lanes.take(&due, &url_of(&due.record).unwrap_or_default())
                && let Some(claimed) = store.claim_delivery(due.record).await.map_err(stored)?
            {
                let delivered = deliver(self.engine.clone(), claimed, place);
                commands.inner.background.spawn(delivered);
            }
        }
        Ok(())
    }

    /// Makes of a due time a run, and finds the next one.
    async fn fire(&self, mut record: TriggerRecord, now: i64) -> Result<(), EngineError> {
        let commands = self.commands();
        let store = commands.inner.store();
        let mut definition = definition(&record)?;
        let stop = match self.holder(&record, &definition) {
            Ok(_) => None,
            Err(reason) => Some(reason.to_owned()),
        };
        let (Some(times), Some(next)) = (&definition.times, record.next_micros) else {
            return Ok(());
        };
        if let Some(reason) = stop {
            tracing::warn!(id = %record.id, owner = record.owner, reason, "a schedule is stopped");
            (definition.enabled, definition.stopped) = (false, Some(reason));
            record.next_micros = None;
            record.definition = write(&definition)?;
            store.change_trigger(record, None).await.map_err(stored)?;
            return Ok(());
        }
        let active = store.count_open_trigger_runs(record.id).await.map_err(stored)?;
        let table = times.table()?;
        let Some(Step { due, next }) = step(&table, times.policy(), next, now, active > 0) else {
            return Ok(());
        };
        record.next_micros = next;
        let full = active >= i64::try_from(super::MAX_OPEN_RUNS).unwrap_or(i64::MAX);
        let run = new_run(
            &record,
            Uuid::new_v4(),
            due.at.to_string(),
            due.at,
            &decided(&due, full, now),
        )?;
        // Another replica may have been quicker.
        store.change_trigger(record, Some(run)).await.map_err(stored)?;
        Ok(())
    }

    /// As whom runs of a trigger are started.
    fn holder(&self, record: &TriggerRecord, definition: &Definition) -> Result<Principal, &'static str> {
        holder(self.commands(), record, definition)
    }

    /// Whether another replica has the session of a run, and will see to it.
    async fn is_elsewhere(&self, run: &TriggerRun) -> Result<bool, EngineError> {
        let commands = self.commands();
        let store = commands.inner.store();
        let (kernel, operator) = (session_of(run), Principal::operator());
        if !store.is_shared() || commands.has(&operator, &ResourceRef::Kernel(kernel)) {
            return Ok(false);
        }
        for lookup in [Lookup::Kernel(kernel.0), Lookup::Ended(kernel.0)] {
            if store.locate(lookup).await.map_err(stored)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn forget(&self) {
        let commands = self.commands();
        let keep = i64::try_from(MAX_TRIGGER_RUNS).unwrap_or(i64::MAX);
        let kept = i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX);
        let forgotten = match commands.trigger_time().await {
            Ok(now) => {
                let store = commands.inner.store();
                let runs = store.forget_trigger_runs(keep, now - kept).await;
                let callbacks = store.forget_callbacks(of_run::KIND.to_owned(), now - kept).await;
                runs.and(callbacks).map_err(stored)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = forgotten {
            tracing::warn!(%error, "old runs of triggers are not forgotten");
        }
    }
}

/// What a due time becomes.
fn decided(due: &DueTime, full: bool, now: i64) -> Detail {
    let (status, error) = match due.verdict {
        Verdict::Run if full => (
            RunState::Skipped,
            Some(RunError::new(
                "too_many_runs",
                "too many runs of it are in progress",
            )),
        ),
        Verdict::Run => (RunState::Queued, None),
        Verdict::Missed => (
            RunState::Missed,
            Some(RunError::new("missed", "no gateway saw it in time")),
        ),
        Verdict::Overlaps => (
            RunState::Skipped,
            Some(RunError::new("overlap", "an earlier run was in progress")),
        ),
    };
    let mut detail = Detail::new(status);
    detail.error = error;
    detail.missed_before = due.missed_before;
    detail.ended_micros = (status != RunState::Queued).then_some(now);
    detail
}

pub(super) fn holder(
    commands: &Commands,
    record: &TriggerRecord,
    definition: &Definition,
) -> Result<Principal, &'static str> {
    commands.principal_of(&record.owner, &definition.holder)
}

impl Commands {
    /// The caller with a token of this owner, as long as the token is valid and may run something.
    pub(in crate::api) fn principal_of(
        &self,
        owner: &str,
        holder: &Holder,
    ) -> Result<Principal, &'static str> {
        let marked = self.triggers.marked.get().ok_or("the gateway is starting")?;
        if owner != OPERATOR && !self.inner.config.tenants.contains_key(owner) {
            return Err("its tenant is not in the configuration");
        }
        let found = holder.principal(marked).filter(|found| found.owner() == owner);
        let found =
            found.ok_or("the token of its caller was revoked, has expired, or runs nothing any more")?;
        // What it starts is bound to the same token.
        Ok(found.came(CallOrigin {
            mark: holder.mark.clone(),
            ..CallOrigin::default()
        }))
    }
}

/// Whether runs of a kind of triggers start a session or a run. The others only post what has come of something.
fn starts_something(kind: &str) -> bool {
    kind != of_run::KIND && kind != TriggerKind::Prompts.as_str()
}

/// Sees to a run that this process has claimed.
async fn tend(engine: Engine, mut run: TriggerRun, place: Option<Slot>) {
    let (id, trigger) = (run.id, run.trigger);
    let outcome = match detail(&run) {
        Ok(mut detail) => {
            let outcome = tended(&engine, &mut run, &mut detail, place).await;
            match (outcome, write(&detail)) {
                (Ok(outcome), Ok(text)) => {
                    run.detail = text;
                    run.state = detail.status.stored();
                    Ok(outcome)
                }
                (Err(error), _) | (_, Err(error)) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    let commands = &engine.commands;
    let outcome = outcome.unwrap_or_else(|error| {
        tracing::warn!(%id, %trigger, %error, "a run of a trigger is tried again");
        Outcome::Later(START_PAUSE)
    });
    let written = match outcome {
        Outcome::Dropped => return,
        Outcome::Over => {
            let told = match commands.inner.store().trigger(trigger).await {
                Ok(Some(record)) => {
                    let now = detail(&run)
                        .ok()
                        .and_then(|detail| detail.ended_micros)
                        .unwrap_or(run.due_micros);
                    new_delivery(&record, &run, now)
                }
                Ok(None) => Ok(None),
                Err(error) => Err(stored(error)),
            };
            match told {
                Ok(told) => {
                    let tells = told.is_some();
                    let written = commands.inner.store().change_trigger_run(run, false, told).await;
                    if tells {
                        commands.triggers.wake();
                    }
                    written
                }
                Err(error) => {
                    tracing::error!(%id, %trigger, %error, "what came of a run of a trigger is not stored");
                    commands.inner.store().change_trigger_run(run, false, None).await
                }
            }
        }
        Outcome::Later(pause) => {
            let pause = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
            match commands.trigger_time().await {
                Ok(now) => {
                    run.not_before_micros = now.saturating_add(pause);
                    commands.inner.store().change_trigger_run(run, false, None).await
                }
                Err(error) => {
                    tracing::error!(%id, %trigger, %error, "a run of a trigger stays claimed");
                    return;
                }
            }
        }
    };
    if let Err(error) = written {
        tracing::error!(%id, %trigger, %error, "what came of a run of a trigger is not stored");
    }
}

async fn tended(
    engine: &Engine,
    run: &mut TriggerRun,
    detail: &mut Detail,
    place: Option<Slot>,
) -> Result<Outcome, EngineError> {
    let commands = &engine.commands;
    let Some(record) = commands
        .inner
        .store()
        .trigger(run.trigger)
        .await
        .map_err(stored)?
    else {
        return Ok(Outcome::Dropped);
    };
    if record.kind == of_run::KIND {
        return of_run::follow(commands, &record.owner, detail).await;
    }
    if let Some(id) = detail.workflow_run.clone() {
        drop(place);
        return workflows::watch(commands, &record.owner, &id, detail).await;
    }
    let definition = definition(&record)?;
    let principal = match holder(commands, &record, &definition) {
        Ok(principal) => principal,
        Err(reason) => return over(commands, detail, Err(RunError::new("token_revoked", reason))).await,
    };
    if record.kind == TriggerKind::Prompts.as_str() {
        // All that is to be done is its delivery.
        detail.status = RunState::Succeeded;
        detail.ended_micros = Some(commands.trigger_time().await?);
        return Ok(Outcome::Over);
    }
    if let (Runnable::Workflow(name), TriggerRunState::Due) = (&definition.target()?.what, run.state) {
        let begun = workflows::start(engine, &principal, name, &definition, run, detail).await;
        drop(place);
        return match (begun, detail.workflow_run.clone()) {
            (Ok(true), Some(id)) => workflows::watch(commands, &record.owner, &id, detail).await,
            (Ok(_), _) => Ok(Outcome::Dropped),
            (Err(error), _) => not_begun(commands, detail, &error).await,
        };
    }
    let begun = match run.state {
        TriggerRunState::Due => start(engine, &principal, &definition, run, detail).await,
        _ => resumed(engine, &principal, &definition, run, detail).await,
    };
    drop(place);
    let execution = match begun {
        Ok(Some(execution)) => execution,
        Ok(None) => return Ok(Outcome::Dropped),
        Err(error) => return not_begun(commands, detail, &error).await,
    };
    if detail.execution() != Some(execution) {
        detail.execution = Some(execution.to_string());
        run.detail = write(detail)?;
        if !commands
            .inner
            .store()
            .change_trigger_run(run.clone(), true, None)
            .await
            .map_err(stored)?
        {
            return Ok(Outcome::Dropped);
        }
    }
    match watch(commands, &principal, execution, detail).await? {
        Watched::Outcome(outcome) => Ok(outcome),
        Watched::Lost(error) => {
            detail.status = RunState::Queued;
            (detail.started_micros, detail.execution) = (None, None);
            not_begun(commands, detail, &error).await
        }
    }
}

/// A run that could not be begun is tried again, if that may help.
async fn not_begun(
    commands: &Commands,
    detail: &mut Detail,
    error: &EngineError,
) -> Result<Outcome, EngineError> {
    if commands.inner.check_open().is_err() {
        // Its claim ends with this process.
        return Ok(Outcome::Later(Duration::ZERO));
    }
    // Of one that is due nothing has been sent.
    let lost = detail.status == RunState::Queued && is_lost(error) && detail.attempts < LOST_TRIES;
    if lost || (is_transient(error) && detail.attempts < START_TRIES) {
        detail.attempts += 1;
        detail.error = Some(error_of(error));
        return Ok(Outcome::Later(START_PAUSE));
    }
    over(commands, detail, Err(error_of(error))).await
}

pub(super) fn error_of(error: &EngineError) -> RunError {
    RunError::new(error.code(), clip(&error.to_string()))
}

/// Starts the session of a run, writes that it runs, and sends the code. `None`: another process has it.
async fn start(
    engine: &Engine,
    principal: &Principal,
    definition: &Definition,
    run: &mut TriggerRun,
    detail: &mut Detail,
) -> Result<Option<ExecutionId>, EngineError> {
    let commands = &engine.commands;
    let prepared = prepare(commands, principal, definition, run, detail).await?;
    let call = engine.audit.call(
        "run_skill",
        Effect::Change,
        principal,
        Subject::Skill(skill_of(definition)?),
    );
    let started = async {
        let session = commands.open_run(principal, &prepared, session_of(run)).await?;
        detail.version = Some(prepared.version());
        detail.status = RunState::Running;
        detail.error = None;
        detail.target.clone_from(&definition.target);
        detail.started_micros = Some(commands.trigger_time().await?);
        run.state = TriggerRunState::Running;
        run.detail = write(detail)?;
        // From here on the code may have been sent.
        let store = commands.inner.store();
        if !store
            .change_trigger_run(run.clone(), true, None)
            .await
            .map_err(stored)?
        {
            commands.end_of_run(principal, session.kernel.id).await;
            return Ok(None);
        }
        commands
            .begin_prepared(principal, prepared, &session)
            .await
            .map(Some)
    };
    let result = started.await;
    call.end(&result, None);
    if result.is_err() && run.state == TriggerRunState::Running {
        // Its session is in the list still, so that its log tells whether it got the code.
        let got = commands.executions(principal, session_of(run)).await;
        commands.end_of_run(principal, session_of(run)).await;
        if got.is_ok_and(|all| all.is_empty()) {
            detail.status = RunState::Queued;
            detail.started_micros = None;
            run.state = detail.status.stored();
        }
    }
    result
}

/// The execution of a run that a process before this one has begun.
async fn resumed(
    engine: &Engine,
    principal: &Principal,
    definition: &Definition,
    run: &TriggerRun,
    detail: &Detail,
) -> Result<Option<ExecutionId>, EngineError> {
    let commands = &engine.commands;
    if let Some(execution) = detail.execution() {
        return Ok(Some(execution));
    }
    let kernel = session_of(run);
    let gone = || EngineError::Gone {
        reason: "its session ended before the code ran".to_owned(),
    };
    let all = match commands.executions(principal, kernel).await {
        Ok(all) => all,
        Err(EngineError::NotFound { .. } | EngineError::Removed { .. }) => return Err(gone()),
        Err(other) => return Err(other),
    };
    if let Some(first) = all.first() {
        return Ok(Some(first.id));
    }
    let session = commands.live_session(principal, kernel).ok_or_else(gone)?;
    let prepared = prepare(commands, principal, definition, run, detail).await?;
    commands
        .begin_prepared(principal, prepared, &session)
        .await
        .map(Some)
}

async fn prepare(
    commands: &Commands,
    principal: &Principal,
    definition: &Definition,
    run: &TriggerRun,
    detail: &Detail,
) -> Result<PreparedRun, EngineError> {
    let kind = if definition.times.is_some() {
        TriggerKind::Schedule
    } else {
        TriggerKind::Webhook
    };
    let wanted = RunSkill {
        trigger: Some((kind, run.trigger)),
        ..run_skill(definition, detail)?
    };
    commands
        .prepare_run(principal, skill_of(definition)?, wanted)
        .await
}

/// The skill that a run is of.
fn skill_of(definition: &Definition) -> Result<&str, EngineError> {
    match &definition.target()?.what {
        Runnable::Skill(name) => Ok(name),
        Runnable::Workflow(_) => Err(EngineError::Conflict {
            reason: "what it starts was changed before its code was sent".to_owned(),
        }),
    }
}

/// Waits for the end of a run.
pub(super) async fn watch(
    commands: &Commands,
    principal: &Principal,
    execution: ExecutionId,
    detail: &mut Detail,
) -> Result<Watched, EngineError> {
    let is_lost = |error: &EngineError| error.is_absent() && commands.never_ran(principal, execution.kernel);
    let settled = match commands.watch_execution(principal, execution).await {
        Ok(mut feed) => feed.wait(WaitUntil::Settled).await.is_ok(),
        Err(error) if is_lost(&error) => return Ok(Watched::Lost(error)),
        Err(EngineError::NotFound { .. } | EngineError::Removed { .. }) => {
            let error = RunError::new("unknown", "its log is not kept any more");
            return over(commands, detail, Err(error)).await.map(Watched::Outcome);
        }
        Err(_) => false,
    };
    if commands.inner.check_open().is_err() {
        return Ok(Watched::Outcome(Outcome::Dropped));
    }
    // Who only follows a run does not end its session.
    if settled && !principal.is_read_only() {
        commands.end_of_run(principal, execution.kernel).await;
    }
    let outcome = match commands.skill_run(principal, execution).await {
        Err(error) if is_lost(&error) => return Ok(Watched::Lost(error)),
        Ok(run) if run.status == SkillRunStatus::Running => Ok(Outcome::Later(READ_PAUSE)),
        Ok(run) => {
            let version = run.skill.get("version").and_then(serde_json::Value::as_str);
            detail.version = detail.version.take().or_else(|| version.map(str::to_owned));
            let interrupted = run.execution.status == ExecutionStatus::Interrupted;
            let done = over(commands, detail, result(run)).await?;
            if interrupted {
                detail.status = RunState::Cancelled;
            }
            Ok(done)
        }
        Err(error) if is_transient(&error) => Ok(Outcome::Later(READ_PAUSE)),
        Err(error) => over(commands, detail, Err(error_of(&error))).await,
    };
    outcome.map(Watched::Outcome)
}

/// What a run returned, or why it has not.
fn result(run: SkillRun) -> Result<Option<serde_json::Value>, RunError> {
    match run.failure() {
        Some((code, text)) => Err(RunError::new(code, text)),
        None => Ok(run.outputs),
    }
}

/// Writes how a run ended.
pub(super) async fn over(
    commands: &Commands,
    detail: &mut Detail,
    result: Result<Option<serde_json::Value>, RunError>,
) -> Result<Outcome, EngineError> {
    detail.ended_micros = Some(commands.trigger_time().await?);
    detail.inputs = None;
    match result {
        Ok(outputs) => {
            detail.status = RunState::Succeeded;
            detail.error = None;
            detail.outputs = outputs.filter(|outputs| outputs.to_string().len() <= OUTPUT_BYTES);
        }
        Err(mut error) => {
            detail.status = RunState::Failed;
            error.message = clip(&error.message);
            detail.error = Some(error);
        }
    }
    Ok(Outcome::Over)
}

/// Whether the same may go later.
fn is_transient(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Unavailable { .. }
            | EngineError::Busy { .. }
            | EngineError::OverBudget { .. }
            | EngineError::QuotaExceeded { .. }
            | EngineError::KernelLimit { .. }
            | EngineError::DiskFull { .. }
            | EngineError::Timeout { .. }
            | EngineError::Internal { .. }
    )
}

/// Whether a session could not be started, or was lost: one that a killed gateway was starting has no process, and one that ends has its
/// id still.
fn is_lost(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Conflict { .. }
            | EngineError::KernelStart { .. }
            | EngineError::KernelDead { .. }
            | EngineError::SessionEnded(_)
            | EngineError::NotFound {
                what: "Kernel" | "Session" | "Execution",
                ..
            }
    )
}

fn clip(text: &str) -> String {
    text.chars().take(REASON_CHARS).collect()
}
