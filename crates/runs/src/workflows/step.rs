//! An attempt of a step: the run of its skill, which is found again by the name of its session and the key of its execution.
//!
//! A session of the name that lives is the attempt's own, and its execution is the one with the key. If the session has ended, its log has
//! the execution; if it has none, nothing ran, and another session is started.

use std::time::Duration;

use himalia_backoff::Backoff;
use himalia_executions::{ExecutionId, WaitUntil};
use himalia_model::{EngineError, KernelId, Principal, SessionId};
use himalia_skills::address;
use himalia_store::{Location, Lookup, ReplicaRecord, WorkflowRunRecord};
use himalia_workflows::{AttemptId, Failure, Outcome, Run};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::driver::Report;
use super::runs::LOOK;
use crate::Commands;
use crate::attempt::{Attempt, Next, Stage};
use crate::skills::{RunSkill, STEP_MEMBER, SkillRun, SkillRunStatus, SkillStep};

/// Pauses between two tries.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));
/// The client of the execution.
const CLIENT: &str = "workflow";

/// The skill and the place of an attempt.
#[derive(Debug)]
pub(super) struct StepRun {
    principal: Principal,
    run: String,
    place: AttemptId,
    skill: String,
    version: String,
    digest: String,
    template: Option<String>,
    timeout: Option<Duration>,
    inputs: Map<String, Value>,
    execution: Option<String>,
    attempt: Attempt,
}

/// The pauses of an attempt. Its patience is for them, not for the time in which its code runs.
struct Pauses {
    next: Backoff,
    waited: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            next: PAUSE,
            waited: Duration::ZERO,
        }
    }
}

impl Pauses {
    async fn pause(&mut self) {
        let pause = self.next.pause();
        sleep(pause).await;
        self.waited += pause;
    }
}

/// The reason why a try of a step did not get to its end.
enum StepError {
    /// An error; the attempt says what follows.
    Engine(EngineError),
    /// The session is at another replica, and its log is read there.
    Elsewhere(ReplicaRecord),
    Ended(Outcome),
}

impl From<EngineError> for StepError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// The attempt that a run begins now, or continues. `None`: it has no skill.
pub(super) fn step_run(
    record: &WorkflowRunRecord,
    principal: &Principal,
    run: &Run,
    known: Option<&himalia_workflows::Attempt>,
    inputs: Map<String, Value>,
) -> Option<StepRun> {
    let known = known?;
    let step = run.workflow().step(&known.place.step)?;
    let skill = step.skill.as_ref()?;
    Some(StepRun {
        principal: principal.clone(),
        run: record.brief.id.clone(),
        place: known.place.clone(),
        skill: skill.name.clone(),
        version: skill.version.clone().unwrap_or_default(),
        digest: skill.digest.clone().unwrap_or_default(),
        template: step.template.clone(),
        timeout: step.timeout_s.map(|seconds| Duration::from_secs(seconds.into())),
        inputs,
        attempt: Attempt::found(0, false, known.execution.is_some()),
        execution: known.execution.clone(),
    })
}

impl Commands {
    /// Runs it to its end, and reports.
    pub(super) async fn run_step(&self, mut step: StepRun, reports: &mpsc::Sender<Report>) {
        let mut pauses = Pauses::default();
        let outcome = loop {
            let error = match self.try_step(&mut step, reports).await {
                Ok(outcome) | Err(StepError::Ended(outcome)) => break outcome,
                Err(StepError::Engine(error)) => error,
                Err(StepError::Elsewhere(replica)) if replica.live => {
                    // The run follows its session, once nothing of it runs here.
                    let _ = reports.send(Report::Elsewhere(step.place.clone(), replica)).await;
                    pauses.waited = Duration::ZERO;
                    sleep(LOOK).await;
                    continue;
                }
                Err(StepError::Elsewhere(replica)) => {
                    EngineError::unavailable(format!("its session is at the replica {}", replica.name))
                }
            };
            match step.attempt.failed(&error, pauses.waited) {
                Next::Wait => {}
                Next::Restart => step.execution = None,
                Next::Fail { again } => break failed(error.code(), &error.to_string(), again),
                Next::Unknown => {
                    let text = "the log of its session is gone, so that its result is unknown";
                    break failed("unknown", text, false);
                }
            }
            let (stage, restarts) = (step.attempt.stage(), step.attempt.restarts());
            tracing::debug!(run = step.run, step = step.place.step, ?stage, restarts, %error, "a step waits");
            pauses.pause().await;
        };
        let _ = reports.send(Report::Finished(step.place, outcome)).await;
    }

    async fn try_step(
        &self,
        step: &mut StepRun,
        reports: &mpsc::Sender<Report>,
    ) -> Result<Outcome, StepError> {
        let known = step
            .execution
            .as_deref()
            .and_then(|id| id.parse::<ExecutionId>().ok());
        let id = match known {
            Some(id) => id,
            None => self.begin_step(step, reports).await?,
        };
        step.execution = Some(id.to_string());
        step.attempt.reached(Stage::Executing);
        let told = Report::Started {
            place: step.place.clone(),
            session: SessionId::of_first_kernel(id.kernel).to_string(),
            execution: Some(id.to_string()),
        };
        let _ = reports.send(told).await;
        let mut feed = match self.engine.watch_execution(&step.principal, id).await {
            Ok(feed) => feed,
            Err(error) => return Err(self.without_execution(step, id, error).await),
        };
        if feed.wait(WaitUntil::Settled).await.is_err() {
            return Err(EngineError::unavailable("its log cannot be followed now").into());
        }
        match self.skill_run(&step.principal, id).await {
            Ok(run) => Ok(outcome(run)),
            Err(error @ EngineError::Gone { .. }) => Err(StepError::Ended(failed(
                "skill_not_found",
                &error.to_string(),
                false,
            ))),
            Err(error) => Err(self.without_execution(step, id, error).await),
        }
    }

    /// The error of an attempt whose execution cannot be read. If it is certain that its code did not run, it gets another session.
    async fn without_execution(&self, step: &mut StepRun, id: ExecutionId, error: EngineError) -> StepError {
        for lookup in [Lookup::Kernel(id.kernel.0), Lookup::Ended(id.kernel.0)] {
            if let Err(error) = self.reachable(lookup).await {
                return error;
            }
        }
        if error.is_absent() && self.never_ran(&step.principal, id.kernel) {
            step.execution = None;
            step.attempt.never_ran();
        }
        error.into()
    }

    /// The execution of an attempt: one that is there, or a new one.
    async fn begin_step(
        &self,
        step: &mut StepRun,
        reports: &mpsc::Sender<Report>,
    ) -> Result<ExecutionId, StepError> {
        let name = session_name(&step.run, &step.place);
        let principal = step.principal.clone();
        let owner = principal.owner();
        let key = key(&step.run, &step.place);
        let known = self.engine.session_named(&principal, &name)?;
        if known.is_none_or(|session| !session.lives) {
            let lookup = Lookup::Name {
                owner: owner.to_owned(),
                name: name.clone(),
            };
            self.reachable(lookup).await?;
        }
        if let Some(session) = known {
            match self.ran(&step.principal, session.kernel, &key).await {
                Ok(Some(id)) => return Ok(id),
                Ok(None) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if known.is_some_and(|session| session.lives && session.ends) {
            return Err(EngineError::unavailable("its session is ending").into());
        }
        let (_, skill) = self
            .stored_skill(owner, &step.skill, &step.version)
            .await
            .map_err(|error| match error {
                EngineError::NotFound { .. } => {
                    StepError::Ended(failed("skill_not_found", &error.to_string(), false))
                }
                other => other.into(),
            })?;
        if skill.digest() != step.digest {
            let text = format!(
                "{} {} is not the skill that was published with the workflow",
                step.skill, step.version
            );
            return Err(StepError::Ended(failed("skill_changed", &text, false)));
        }
        let wanted = RunSkill {
            version: Some(step.version.clone()),
            template: step.template.clone(),
            inputs: step.inputs.clone(),
            timeout: step.timeout,
            client: Some(CLIENT.to_owned()),
            step: Some(SkillStep {
                session: name,
                key,
                run: step.run.clone(),
            }),
            ..RunSkill::default()
        };
        step.attempt.reached(Stage::Session);
        let begun = Box::pin(self.start_step(&step.principal, &skill, wanted)).await;
        let (id, session) = begun.map_err(|error| match error {
            EngineError::BadRequest { field: "inputs", .. } => {
                StepError::Ended(failed("bad_inputs", &error.to_string(), false))
            }
            other => other.into(),
        })?;
        let told = Report::Started {
            place: step.place.clone(),
            session: session.id().to_string(),
            execution: None,
        };
        let _ = reports.send(told).await;
        Ok(id)
    }

    /// The execution with this key in a session that has ended, if it has one.
    async fn ran(
        &self,
        principal: &Principal,
        kernel: KernelId,
        key: &str,
    ) -> Result<Option<ExecutionId>, EngineError> {
        let all = self.engine.executions(principal, kernel).await?;
        let mine = all
            .iter()
            .find(|one| one.metadata.get(STEP_MEMBER).and_then(Value::as_str) == Some(key));
        Ok(mine.map(|one| one.id))
    }

    /// Refuses what is at another replica.
    async fn reachable(&self, what: Lookup) -> Result<(), StepError> {
        let store = self.services.store();
        if !store.is_shared() {
            return Ok(());
        }
        let found = store.locate(what).await.map_err(super::stored)?;
        match found {
            Some(Location { replica, .. }) if replica.name != store.replica() => {
                Err(StepError::Elsewhere(replica))
            }
            _ => Ok(()),
        }
    }

    /// Ends what an attempt runs, if it is there.
    pub(super) async fn stop_step(&self, principal: &Principal, run: &str, place: &AttemptId) {
        let found = self.engine.session_named(principal, &session_name(run, place));
        if let Ok(Some(session)) = found
            && session.lives
        {
            self.end_of_step(principal, session.kernel).await;
        }
    }

    async fn end_of_step(&self, principal: &Principal, kernel: KernelId) {
        match self.engine.shutdown_kernel(principal, kernel).await {
            Ok(()) | Err(EngineError::NotFound { .. } | EngineError::SessionEnded(_)) => {}
            Err(error) => tracing::warn!(%kernel, %error, "cannot end the session of a step of a workflow"),
        }
    }
}

/// The name of the session of an attempt: no caller chooses it by chance.
fn session_name(run: &str, place: &AttemptId) -> String {
    let address = address(json!([run, place.step, place.item, place.attempt]));
    let hash = address.rsplit(':').next().unwrap_or_default();
    format!("wfr-{}", hash.get(..40).unwrap_or_default())
}

/// The key of its execution.
fn key(run: &str, place: &AttemptId) -> String {
    format!("{run}/{}/{}/{}", place.step, place.attempt, place.item)
}

fn failed(code: &str, message: &str, again: bool) -> Outcome {
    Outcome::Failed {
        failure: Failure::new(code, message),
        again,
    }
}

fn outcome(run: SkillRun) -> Outcome {
    if run.status == SkillRunStatus::Succeeded
        && let Some(outputs) = run.outputs
    {
        return Outcome::Done(outputs);
    }
    let (code, text) = run.failure().unwrap_or_default();
    failed(code, &text, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::PATIENCE;

    #[test]
    fn each_attempt_has_a_name_and_a_key_of_its_own() {
        let place = |step: &str, item: u32, attempt: u32| AttemptId {
            step: step.to_owned(),
            item,
            attempt,
        };
        let all = [
            place("a", 0, 1),
            place("a", 1, 1),
            place("a", 0, 2),
            place("b", 0, 1),
        ];
        let names: std::collections::BTreeSet<String> =
            all.iter().map(|place| session_name("run_1", place)).collect();
        let keys: std::collections::BTreeSet<String> = all.iter().map(|place| key("run_1", place)).collect();
        assert_eq!((names.len(), keys.len()), (4, 4));
        assert!(
            names
                .iter()
                .all(|name| name.len() == 44 && name.starts_with("wfr-"))
        );
        assert_eq!(session_name("run_1", &all[0]), session_name("run_1", &all[0]));
        assert_ne!(session_name("run_1", &all[0]), session_name("run_2", &all[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_patience_of_a_step_is_not_used_up_while_its_code_runs() {
        let mut attempt = Attempt::found(0, true, true);
        let mut pauses = Pauses::default();
        let unreadable = EngineError::unavailable("its log cannot be followed now");
        for _ in 0..5 {
            assert_eq!(attempt.failed(&unreadable, pauses.waited), Next::Wait);
            pauses.pause().await;
            sleep(PATIENCE).await;
        }
        assert_eq!(
            pauses.waited,
            Duration::from_millis(500 + 1000 + 2000 + 4000 + 8000)
        );
        while attempt.failed(&unreadable, pauses.waited) == Next::Wait {
            pauses.pause().await;
        }
        assert!(pauses.waited >= PATIENCE && pauses.waited < PATIENCE + Duration::from_secs(15));
    }
}
