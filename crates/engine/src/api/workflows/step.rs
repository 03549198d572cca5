//! An attempt of a step: the run of its skill, which is found again by the name of its session and the key of its execution.
//!
//! A session of the name that lives is the attempt's own, and its execution is the one with the key. If the session has ended, its log has
//! the execution; if it has none, nothing ran, and another session is started.

use std::time::Duration;

use himalia_executions::{ExecutionId, WaitUntil};
use himalia_model::{EngineError, KernelId, Principal, SessionId};
use himalia_skills::address;
use himalia_store::{Location, Lookup, ReplicaRecord, WorkflowRunRecord};
use himalia_workflows::{Attempt, AttemptId, Failure, Outcome, Run};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::driver::Report;
use super::pauses::Pauses;
use super::runs::LOOK;
use crate::api::Commands;
use crate::api::skills::{RunSkill, STEP_MEMBER, SkillRun, SkillRunStatus, SkillStep};

/// How long an attempt waits for room for its session, or for its session to be reached.
const PATIENCE: Duration = Duration::from_mins(10);
/// Pauses between two tries.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(500), Duration::from_secs(15));
/// Sessions that an attempt may lose before it runs.
const MOST_LOST: u32 = 5;
/// What the execution says of its client.
const CLIENT: &str = "workflow";

/// What an attempt runs, and where.
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
    /// How often its session has ended before it ran.
    lost: u32,
}

impl StepRun {
    /// Its session has ended before its code ran, as the one that a killed gateway was starting: it gets another one, a few times.
    fn lost(&mut self, error: EngineError) -> Trouble {
        let gone = matches!(
            error,
            EngineError::NotFound {
                what: "Kernel" | "Session" | "Execution",
                ..
            } | EngineError::SessionEnded(_)
                | EngineError::KernelDead { .. }
        );
        if !gone || self.lost >= MOST_LOST {
            return error.into();
        }
        self.lost += 1;
        Trouble::Wait(error)
    }
}

/// Why an attempt did not get to its end.
enum Trouble {
    /// It may continue later.
    Wait(EngineError),
    /// Its session is at another replica, and its log is read there.
    Elsewhere(ReplicaRecord),
    Fail(Outcome),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        if error.retryable() {
            return Self::Wait(error);
        }
        let again = matches!(
            error,
            EngineError::KernelStart { .. }
                | EngineError::KernelDead { .. }
                | EngineError::Internal { .. }
                | EngineError::Timeout { .. }
        );
        Self::Fail(failed(error.code(), &error.to_string(), again))
    }
}

/// The attempt that a run begins now, or continues. `None`: it has no skill.
pub(super) fn step_run(
    record: &WorkflowRunRecord,
    principal: &Principal,
    run: &Run,
    known: Option<&Attempt>,
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
        execution: known.execution.clone(),
        lost: 0,
    })
}

impl Commands {
    /// Runs it to its end, and reports.
    pub(super) async fn run_step(&self, mut step: StepRun, reports: &mpsc::Sender<Report>) {
        let mut pauses = PAUSES;
        let mut since: Option<Instant> = None;
        let outcome = loop {
            let error = match self.try_step(&mut step, reports).await {
                Ok(outcome) | Err(Trouble::Fail(outcome)) => break outcome,
                Err(Trouble::Wait(error)) => error,
                Err(Trouble::Elsewhere(replica)) if replica.live => {
                    // The run follows its session, once nothing of it runs here.
                    let _ = reports.send(Report::Elsewhere(step.place.clone(), replica)).await;
                    since = None;
                    sleep(LOOK).await;
                    continue;
                }
                Err(Trouble::Elsewhere(replica)) => {
                    EngineError::unavailable(format!("its session is at the replica {}", replica.name))
                }
            };
            if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                break failed(error.code(), &error.to_string(), true);
            }
            tracing::debug!(run = step.run, step = step.place.step, %error, "a step waits");
            sleep(pauses.take()).await;
        };
        let _ = reports.send(Report::Finished(step.place, outcome)).await;
    }

    async fn try_step(&self, step: &mut StepRun, reports: &mpsc::Sender<Report>) -> Result<Outcome, Trouble> {
        let known = step
            .execution
            .as_deref()
            .and_then(|id| id.parse::<ExecutionId>().ok());
        let id = match known {
            Some(id) => id,
            None => self.begin_step(step, reports).await?,
        };
        step.execution = Some(id.to_string());
        let told = Report::Started {
            place: step.place.clone(),
            session: SessionId::of_first_kernel(id.kernel).to_string(),
            execution: Some(id.to_string()),
        };
        let _ = reports.send(told).await;
        let mut feed = match self.watch_execution(&step.principal, id).await {
            Ok(feed) => feed,
            Err(error) => return Err(self.without_execution(step, id, error).await),
        };
        if feed.wait(WaitUntil::Settled).await.is_err() {
            return Err(Trouble::Wait(EngineError::unavailable(
                "its log cannot be followed now",
            )));
        }
        match self.skill_run(&step.principal, id).await {
            Ok(run) => Ok(outcome(run)),
            Err(error @ EngineError::Gone { .. }) => Err(Trouble::Fail(failed(
                "skill_not_found",
                &error.to_string(),
                false,
            ))),
            Err(error) => Err(self.without_execution(step, id, error).await),
        }
    }

    /// What becomes of an attempt whose execution cannot be read.
    async fn without_execution(&self, step: &mut StepRun, id: ExecutionId, error: EngineError) -> Trouble {
        for lookup in [Lookup::Kernel(id.kernel.0), Lookup::Ended(id.kernel.0)] {
            if let Err(trouble) = self.reachable(lookup).await {
                return trouble;
            }
        }
        if error.is_absent() && self.never_ran(&step.principal, id.kernel) {
            step.execution = None;
            return step.lost(error);
        }
        match error {
            EngineError::NotFound { .. } | EngineError::Removed { .. } | EngineError::SessionEnded(_) => {
                Trouble::Fail(failed(
                    "unknown",
                    "the log of its session is gone, so that it is not known what came of it",
                    false,
                ))
            }
            other => other.into(),
        }
    }

    /// The execution of an attempt: one that is there, or a new one.
    async fn begin_step(
        &self,
        step: &mut StepRun,
        reports: &mpsc::Sender<Report>,
    ) -> Result<ExecutionId, Trouble> {
        let name = session_name(&step.run, &step.place);
        let principal = step.principal.clone();
        let owner = principal.owner();
        let key = key(&step.run, &step.place);
        let living = self.inner.named(owner, &name);
        if living.is_none() {
            let lookup = Lookup::Name {
                owner: owner.to_owned(),
                name: name.clone(),
            };
            self.reachable(lookup).await?;
        }
        let ended = || self.inner.ended.named(owner, &name).map(|row| KernelId(row.id));
        let kernel = living.as_ref().map(|handle| handle.id()).or_else(ended);
        if let Some(kernel) = kernel {
            match self.ran(&step.principal, kernel, &key).await {
                Ok(Some(id)) => return Ok(id),
                Ok(None) => {}
                Err(error) => return Err(step.lost(error)),
            }
        }
        if living.is_some_and(|handle| handle.ends()) {
            return Err(Trouble::Wait(EngineError::unavailable("its session is ending")));
        }
        let (_, skill) = self
            .stored_skill(owner, &step.skill, &step.version)
            .await
            .map_err(|error| match error {
                EngineError::NotFound { .. } => {
                    Trouble::Fail(failed("skill_not_found", &error.to_string(), false))
                }
                other => other.into(),
            })?;
        if skill.digest() != step.digest {
            let text = format!(
                "{} {} is not the skill that was published with the workflow",
                step.skill, step.version
            );
            return Err(Trouble::Fail(failed("skill_changed", &text, false)));
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
        let begun = Box::pin(self.start_step(&step.principal, &skill, wanted)).await;
        let (id, session) = begun.map_err(|error| match error {
            EngineError::BadRequest { field: "inputs", .. } => {
                Trouble::Fail(failed("bad_inputs", &error.to_string(), false))
            }
            other => step.lost(other),
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
        let all = self.executions(principal, kernel).await?;
        let mine = all
            .iter()
            .find(|one| one.metadata.get(STEP_MEMBER).and_then(Value::as_str) == Some(key));
        Ok(mine.map(|one| one.id))
    }

    /// Refuses what is at another replica.
    async fn reachable(&self, what: Lookup) -> Result<(), Trouble> {
        let store = self.inner.store();
        if !store.is_shared() {
            return Ok(());
        }
        let found = store.locate(what).await.map_err(super::stored)?;
        match found {
            Some(Location { replica, .. }) if replica.name != store.replica() => {
                Err(Trouble::Elsewhere(replica))
            }
            _ => Ok(()),
        }
    }

    /// Ends what an attempt runs, if it is there.
    pub(super) async fn stop_step(&self, principal: &Principal, run: &str, place: &AttemptId) {
        if let Some(handle) = self.inner.named(principal.owner(), &session_name(run, place)) {
            self.end_of_step(principal, handle.id()).await;
        }
    }

    async fn end_of_step(&self, principal: &Principal, kernel: KernelId) {
        match self.shutdown_kernel(principal, kernel).await {
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
}
