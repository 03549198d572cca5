//! A run of a trigger that is a run of a skill: its start, its way through a gateway that was killed, and its end.

use std::time::Duration;

use himalia_engine::{CallNames, Effect, Subject};
use himalia_executions::{ExecutionId, ExecutionStatus, WaitUntil};
use himalia_model::{EngineError, Principal};
use himalia_store::{TriggerRun, TriggerRunState};

use super::definition::{Definition, Detail, stored, write};
use super::kind::TriggerKind;
use super::target::Runnable;
use super::{run_skill, session_of};
use crate::attempt::{Attempt, Next, Stage};
use crate::run::{RunError, RunState};
use crate::skills::{PreparedRun, RunSkill, SkillRun, SkillRunStatus};
use crate::{Commands, Runs};

/// The pause between two tries of a start.
pub(super) const START_PAUSE: Duration = Duration::from_secs(5);
/// The pause before a run is looked for again whose log could not be read.
pub(super) const READ_PAUSE: Duration = Duration::from_secs(2);
/// Bytes of outputs, as JSON, that are stored with a run.
const OUTPUT_BYTES: usize = 16 << 10;
/// Characters of a reason.
const REASON_CHARS: usize = 500;

/// The outcome of a run that this process has claimed.
pub(super) enum Outcome {
    /// It has ended.
    Over,
    /// It is to be tried after this time.
    Later(Duration),
    /// It is another one's, or there is none any more.
    Dropped,
}

/// The outcome of a run whose code was sent to its session.
pub(super) enum WatchedRun {
    Outcome(Outcome),
    /// The session has ended before it had a process.
    Lost(EngineError),
}

/// A run that could not be begun is tried again, if that may help.
pub(super) async fn not_begun(
    commands: &Commands,
    detail: &mut Detail,
    attempt: &mut Attempt,
    error: &EngineError,
) -> Result<Outcome, EngineError> {
    if commands.services.check_open().is_err() {
        // Its claim ends with this process.
        return Ok(Outcome::Later(Duration::ZERO));
    }
    match after(detail, attempt, error) {
        Next::Wait | Next::Restart => Ok(Outcome::Later(START_PAUSE)),
        Next::Fail { .. } | Next::Unknown => over(commands, detail, Err(error_of(error))).await,
    }
}

/// The action after a start that failed. If it is tried again, the row has the number of tries and of lost sessions.
fn after(detail: &mut Detail, attempt: &mut Attempt, error: &EngineError) -> Next {
    let next = attempt.failed(error, START_PAUSE * detail.attempts);
    if matches!(next, Next::Wait | Next::Restart) {
        detail.attempts += 1;
        detail.restarts = attempt.restarts();
        detail.error = Some(error_of(error));
    }
    next
}

pub(super) fn error_of(error: &EngineError) -> RunError {
    RunError::new(error.code(), clip(&error.to_string()))
}

/// Starts the session of a run, writes that it runs, and sends the code. `None`: another process has it.
pub(super) async fn start(
    runs: &Runs,
    principal: &Principal,
    definition: &Definition,
    run: &mut TriggerRun,
    detail: &mut Detail,
    attempt: &mut Attempt,
) -> Result<Option<ExecutionId>, EngineError> {
    let commands = &runs.commands;
    let prepared = prepare(commands, principal, definition, run, detail).await?;
    let names = CallNames {
        command: "run_skill",
        span: "himalia.run_skill",
    };
    let call = runs.begin_call(
        names,
        Effect::Change,
        principal,
        Subject::Named("skill", skill_of(definition)?),
    );
    let started = async {
        let session = commands.open_run(principal, &prepared, session_of(run)).await?;
        attempt.reached(Stage::Session);
        detail.version = Some(prepared.version());
        detail.status = RunState::Running;
        detail.error = None;
        detail.target.clone_from(&definition.target);
        detail.started_micros = Some(commands.trigger_time().await?);
        run.state = TriggerRunState::Running;
        run.detail = write(detail)?;
        // From here on the code may have been sent.
        let store = commands.services.store();
        if !store
            .change_trigger_run(run.clone(), true, None)
            .await
            .map_err(stored)?
        {
            commands.end_of_run(principal, session.kernel.id).await;
            return Ok(None);
        }
        attempt.reached(Stage::Sent);
        commands
            .begin_prepared(principal, prepared, &session)
            .await
            .map(Some)
    };
    let result = started.await;
    call.end(&result, None);
    if result.is_err() && run.state == TriggerRunState::Running {
        // Its session is in the list still, so that its log tells whether it got the code.
        let got = commands.engine.executions(principal, session_of(run)).await;
        commands.end_of_run(principal, session_of(run)).await;
        if got.is_ok_and(|all| all.is_empty()) {
            attempt.never_ran();
            detail.status = RunState::Queued;
            detail.started_micros = None;
            run.state = detail.status.stored();
        }
    }
    result
}

/// The execution of a run that a process before this one has begun.
pub(super) async fn resumed(
    runs: &Runs,
    principal: &Principal,
    definition: &Definition,
    run: &TriggerRun,
    detail: &Detail,
) -> Result<Option<ExecutionId>, EngineError> {
    let commands = &runs.commands;
    if let Some(execution) = detail.execution() {
        return Ok(Some(execution));
    }
    let kernel = session_of(run);
    let gone = || EngineError::Gone {
        reason: "its session ended before the code ran".to_owned(),
    };
    let all = match commands.engine.executions(principal, kernel).await {
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
) -> Result<WatchedRun, EngineError> {
    let is_lost = |error: &EngineError| error.is_absent() && commands.never_ran(principal, execution.kernel);
    let settled = match commands.engine.watch_execution(principal, execution).await {
        Ok(mut feed) => feed.wait(WaitUntil::Settled).await.is_ok(),
        Err(error) if is_lost(&error) => return Ok(WatchedRun::Lost(error)),
        Err(EngineError::NotFound { .. } | EngineError::Removed { .. }) => {
            let error = RunError::new("unknown", "its log is not kept any more");
            return over(commands, detail, Err(error)).await.map(WatchedRun::Outcome);
        }
        Err(_) => false,
    };
    if commands.services.check_open().is_err() {
        return Ok(WatchedRun::Outcome(Outcome::Dropped));
    }
    // Who only follows a run does not end its session.
    if settled && !principal.is_read_only() {
        commands.end_of_run(principal, execution.kernel).await;
    }
    let outcome = match commands.skill_run(principal, execution).await {
        Err(error) if is_lost(&error) => return Ok(WatchedRun::Lost(error)),
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
        Err(error) => match Attempt::found(0, true, true).failed(&error, Duration::ZERO) {
            Next::Wait => Ok(Outcome::Later(READ_PAUSE)),
            _ => over(commands, detail, Err(error_of(&error))).await,
        },
    };
    outcome.map(WatchedRun::Outcome)
}

/// The outputs of a run, or the reason why it has none.
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

fn clip(text: &str) -> String {
    text.chars().take(REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::{MAX_RESTARTS, PATIENCE};

    /// One try by a process that reads the row, fails, and writes the row.
    fn tried(row: &mut String, error: &EngineError) -> Next {
        let mut detail: Detail = serde_json::from_str(row).unwrap();
        let mut attempt = detail.attempt(false);
        let next = after(&mut detail, &mut attempt, error);
        *row = write(&detail).unwrap();
        next
    }

    #[test]
    fn waits_use_up_no_sessions() {
        let mut row = write(&Detail::new(RunState::Queued)).unwrap();
        let busy = EngineError::unavailable("later");
        let dead = EngineError::KernelDead {
            cause: "signal(9)".to_owned(),
        };
        for _ in 0..2 * MAX_RESTARTS {
            assert_eq!(tried(&mut row, &busy), Next::Wait);
        }
        for _ in 0..MAX_RESTARTS {
            assert_eq!(tried(&mut row, &dead), Next::Restart);
        }
        assert_eq!(tried(&mut row, &dead), Next::Fail { again: true });
    }

    #[test]
    fn waits_end_with_the_patience() {
        let mut row = write(&Detail::new(RunState::Queued)).unwrap();
        let busy = EngineError::unavailable("later");
        let mut waits = 0;
        while tried(&mut row, &busy) == Next::Wait {
            waits += 1;
        }
        assert_eq!(START_PAUSE * waits, PATIENCE);
    }
}
