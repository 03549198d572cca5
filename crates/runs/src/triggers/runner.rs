//! The task that starts runs of triggers.
//!
//! A due time becomes a row of a run in the same transaction that moves the trigger to its next due time, so each is one run, whichever
//! replica looks. A process claims a run before it does anything with it; what a process had claimed that is gone, another one claims.
//! The session of a run has the id of the run, and the row says `running` before the code is sent. So after a kill it is known whether
//! the code may have been sent, and where to look for it: it is sent at most once.

use std::sync::Arc;
use std::time::Duration;

use himalia_model::{CallOrigin, EngineError, OPERATOR, Principal, ResourceRef};
use himalia_schedules::{DueTime, Step, Verdict, step};
use himalia_store::{FairBatch, Lookup, OpenRun, TriggerRecord, TriggerRun, TriggerRunState};
use uuid::Uuid;

use super::callbacks::{deliver, new_delivery, url_of};
use super::client_run;
use super::definition::{Definition, Detail, definition, detail, stored, write};
use super::holder::Holder;
use super::kind::TriggerKind;
use super::places::{Lanes, Places, Slot};
use super::start::{Outcome, START_PAUSE, WatchedRun, not_begun, over, resumed, start, watch};
use super::target::Runnable;
use super::{MAX_TRIGGER_RUNS, STORED_KINDS, new_run, of_run, session_of, workflows};
use crate::Commands;
use crate::Runs;
use crate::attempt::Stage;
use crate::run::{RunError, RunState};

/// The time between two looks for due runs, if there are triggers.
const LOOK: Duration = Duration::from_secs(1);
/// The time between two removals of old runs.
const FORGET: Duration = Duration::from_mins(10);
/// Old runs are kept at least for so long.
pub(super) const KEPT: Duration = Duration::from_mins(15);
/// Triggers of one look.
const BATCH: i64 = 100;
/// Runs and deliveries of one look.
const FAIR: FairBatch = FairBatch { of_one: 16, all: 100 };
/// The task.
pub(super) struct Runner {
    runs: Runs,
    starts: Arc<Places>,
    lanes: Arc<Lanes>,
}

impl Runner {
    pub(super) fn new(runs: Runs) -> Self {
        let triggers = &runs.commands.triggers;
        Self {
            starts: Places::of_starts(triggers),
            lanes: Lanes::new(triggers),
            runs,
        }
    }

    fn commands(&self) -> &Commands {
        &self.runs.commands
    }

    /// Until the gateway stops.
    pub(super) async fn run(self) {
        let stop = self.commands().services.stopping().clone();
        let triggers = Arc::clone(&self.commands().triggers);
        let shared = self.commands().services.store().is_shared();
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
            let all = commands.services.store().triggers(None, kind.to_owned()).await;
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
        let store = commands.services.store();
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
            let runs = self.runs.clone();
            commands.services.spawn(tend(runs, run, place));
        }
        for due in store.due_deliveries(now, FAIR).await.map_err(stored)? {
            if let Some(place) = self.lanes.take(&due, &url_of(&due.record).unwrap_or_default())
                && let Some(claimed) = store.claim_delivery(due.record).await.map_err(stored)?
            {
                let delivered = deliver(self.runs.clone(), claimed, place);
                commands.services.spawn(delivered);
            }
        }
        Ok(())
    }

    /// Makes of a due time a run, and finds the next one.
    async fn fire(&self, mut record: TriggerRecord, now: i64) -> Result<(), EngineError> {
        let commands = self.commands();
        let store = commands.services.store();
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

    /// Returns true if another replica has the session of a run, and will see to it.
    async fn is_elsewhere(&self, run: &TriggerRun) -> Result<bool, EngineError> {
        let commands = self.commands();
        let store = commands.services.store();
        let (kernel, operator) = (session_of(run), Principal::operator());
        if !store.is_shared() || commands.engine.has(&operator, &ResourceRef::Kernel(kernel)) {
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
                let store = commands.services.store();
                let runs = store.forget_trigger_runs(keep, now - kept).await;
                let callbacks = store
                    .forget_callbacks(client_run::KIND.to_owned(), now - kept)
                    .await;
                runs.and(callbacks).map_err(stored)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = forgotten {
            tracing::warn!(%error, "old runs of triggers are not forgotten");
        }
    }
}

/// The run that a due time becomes.
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
    pub(crate) fn principal_of(&self, owner: &str, holder: &Holder) -> Result<Principal, &'static str> {
        let marked = self.triggers.marked.get().ok_or("the gateway is starting")?;
        if owner != OPERATOR && !self.services.config().tenants.contains_key(owner) {
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

/// Returns true if runs of a kind of triggers start a session or a run. The others only post a result.
fn starts_something(kind: &str) -> bool {
    kind != client_run::KIND && kind != TriggerKind::Prompts.as_str()
}

/// Sees to a run that this process has claimed.
async fn tend(runs: Runs, mut run: TriggerRun, place: Option<Slot>) {
    let (id, trigger) = (run.id, run.trigger);
    let outcome = match detail(&run) {
        Ok(mut detail) => {
            let outcome = tended(&runs, &mut run, &mut detail, place).await;
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
    let commands = &runs.commands;
    let outcome = outcome.unwrap_or_else(|error| {
        tracing::warn!(%id, %trigger, %error, "a run of a trigger is tried again");
        Outcome::Later(START_PAUSE)
    });
    let written = match outcome {
        Outcome::Dropped => return,
        Outcome::Over => {
            let told = match commands.services.store().trigger(trigger).await {
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
                    let written = commands
                        .services
                        .store()
                        .change_trigger_run(run, false, told)
                        .await;
                    if tells {
                        commands.triggers.wake();
                    }
                    written
                }
                Err(error) => {
                    tracing::error!(%id, %trigger, %error, "cannot store the result of a triggered run");
                    commands
                        .services
                        .store()
                        .change_trigger_run(run, false, None)
                        .await
                }
            }
        }
        Outcome::Later(pause) => {
            let pause = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
            match commands.trigger_time().await {
                Ok(now) => {
                    run.not_before_micros = now.saturating_add(pause);
                    commands
                        .services
                        .store()
                        .change_trigger_run(run, false, None)
                        .await
                }
                Err(error) => {
                    tracing::error!(%id, %trigger, %error, "a run of a trigger stays claimed");
                    return;
                }
            }
        }
    };
    if let Err(error) = written {
        tracing::error!(%id, %trigger, %error, "cannot store the result of a triggered run");
    }
}

async fn tended(
    runs: &Runs,
    run: &mut TriggerRun,
    detail: &mut Detail,
    place: Option<Slot>,
) -> Result<Outcome, EngineError> {
    let commands = &runs.commands;
    let Some(record) = commands
        .services
        .store()
        .trigger(run.trigger)
        .await
        .map_err(stored)?
    else {
        return Ok(Outcome::Dropped);
    };
    if record.kind == client_run::KIND {
        return of_run::follow(commands, &record.owner, detail).await;
    }
    if let Some(id) = detail.workflow_run.clone() {
        drop(place);
        return workflows::watch(commands, &record.owner, &id, detail).await;
    }
    let mut attempt = detail.attempt(run.state != TriggerRunState::Due);
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
        let begun = workflows::start(runs, &principal, name, &definition, run, detail).await;
        drop(place);
        return match (begun, detail.workflow_run.clone()) {
            (Ok(true), Some(id)) => workflows::watch(commands, &record.owner, &id, detail).await,
            (Ok(_), _) => Ok(Outcome::Dropped),
            (Err(error), _) => not_begun(commands, detail, &mut attempt, &error).await,
        };
    }
    let begun = match run.state {
        TriggerRunState::Due => start(runs, &principal, &definition, run, detail, &mut attempt).await,
        _ => resumed(runs, &principal, &definition, run, detail).await,
    };
    drop(place);
    let execution = match begun {
        Ok(Some(execution)) => execution,
        Ok(None) => return Ok(Outcome::Dropped),
        Err(error) => return not_begun(commands, detail, &mut attempt, &error).await,
    };
    if detail.execution() != Some(execution) {
        detail.execution = Some(execution.to_string());
        run.detail = write(detail)?;
        if !commands
            .services
            .store()
            .change_trigger_run(run.clone(), true, None)
            .await
            .map_err(stored)?
        {
            return Ok(Outcome::Dropped);
        }
    }
    attempt.reached(Stage::Executing);
    match watch(commands, &principal, execution, detail).await? {
        WatchedRun::Outcome(outcome) => Ok(outcome),
        WatchedRun::Lost(error) => {
            detail.status = RunState::Queued;
            (detail.started_micros, detail.execution) = (None, None);
            attempt.never_ran();
            not_begun(commands, detail, &mut attempt, &error).await
        }
    }
}
