//! The result of a run of a skill: its outputs, checked against the schema, or its failure.

use himalia_executions::{Death, ExecutionId, ExecutionResult, ExecutionStatus};
use himalia_journal::may_block;
use himalia_kernel::TIMED_OUT;
use himalia_model::{EngineError, Principal};
use himalia_outcome::ArtifactReference;
use himalia_skills::{MAX_OUTPUT_BYTES, OUTPUT_TYPE, Violation, outputs};
use serde_json::{Map, Value};

use super::run::MEMBER;
use super::{Commands, invalid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkillRunStatus {
    /// It waits or runs.
    Running,
    /// It has returned outputs that fit the schema.
    Succeeded,
    /// It has not.
    Failed,
}

#[derive(Clone, Debug)]
pub(crate) struct SkillRun {
    /// The skill: name, version, digest.
    pub skill: Value,
    /// The state of the run.
    pub status: SkillRunStatus,
    /// The outputs.
    pub outputs: Option<Value>,
    /// Violations of the schema by the outputs.
    pub violations: Vec<Violation>,
    /// The execution that it is.
    pub execution: ExecutionResult,
}

impl SkillRun {
    /// Returns true if the metadata of an execution are those of a run.
    pub(crate) fn is_of(metadata: &Map<String, Value>) -> bool {
        metadata.contains_key(MEMBER)
    }

    /// The run that an execution is, without its outputs.
    pub(crate) fn unchecked(execution: ExecutionResult, status: SkillRunStatus) -> Self {
        Self {
            skill: execution.metadata.get(MEMBER).cloned().unwrap_or_default(),
            status,
            outputs: None,
            violations: Vec::new(),
            execution,
        }
    }

    /// The reason for a failure: a stable code, and a text.
    pub(crate) fn failure(&self) -> Option<(&'static str, String)> {
        if self.status != SkillRunStatus::Failed {
            return None;
        }
        if !self.violations.is_empty() {
            let wrong = self.violations.iter();
            let texts = wrong.map(|one| format!("outputs{}: {} ({})", one.path, one.text, one.rule));
            return Some(("bad_outputs", texts.collect::<Vec<_>>().join("; ")));
        }
        let (code, otherwise) = end_without_outputs(&self.execution);
        let text = match &self.execution.error {
            Some(error) => format!("{}: {}", error.name, error.value),
            None => otherwise.to_owned(),
        };
        Some((code, text))
    }
}

/// The end of an execution that gave no outputs: the code of a step's failure, and its text.
fn end_without_outputs(execution: &ExecutionResult) -> (&'static str, &'static str) {
    let timed_out = |death: &Death| death.cause == TIMED_OUT;
    match execution.status {
        ExecutionStatus::Error => ("error", "the skill has raised an exception"),
        ExecutionStatus::Timeout => ("timeout", "it took longer than its timeout_s"),
        ExecutionStatus::KernelDied if execution.death.as_ref().is_some_and(timed_out) => (
            "timeout",
            "it took longer than its timeout_s and ignored interrupts, so that its process was ended; let code that catches \
             exceptions raise KeyboardInterrupt",
        ),
        ExecutionStatus::Interrupted => ("interrupted", "it was interrupted"),
        ExecutionStatus::KernelDied => ("kernel_died", "the process of its kernel has ended"),
        ExecutionStatus::OomKilled => ("out_of_memory", "it needed more memory than it may have"),
        ExecutionStatus::Ok | ExecutionStatus::Queued | ExecutionStatus::Running => {
            ("no_outputs", "it has returned nothing that can be read")
        }
    }
}

impl Commands {
    pub(crate) async fn skill_run(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<SkillRun, EngineError> {
        let execution = self.engine.execution(principal, id).await?;
        let unknown = || EngineError::NotFound {
            what: "Run",
            id: id.to_string(),
        };
        let named = execution.metadata.get(MEMBER).cloned().ok_or_else(unknown)?;
        let text = |member: &str| named.get(member).and_then(Value::as_str).unwrap_or_default();
        let mut run = SkillRun::unchecked(execution, SkillRunStatus::Running);
        if !run.execution.status.is_over() {
            return Ok(run);
        }
        run.status = SkillRunStatus::Failed;
        let Some(shown) = self.shown_outputs(principal, id, &run.execution).await? else {
            return Ok(run);
        };
        let owner = self.engine.logged_kernel(principal, id.kernel)?.owner;
        let stored = self.stored_skill(&owner, text("name"), text("version")).await;
        let skill = match stored {
            Ok((_, skill)) if skill.digest() == text("digest") => skill,
            Ok(_) | Err(EngineError::NotFound { .. }) => {
                return Err(EngineError::Gone {
                    reason:
                        "the skill was deleted, so that its outputs cannot be checked; the execution has them"
                            .into(),
                });
            }
            Err(other) => return Err(other),
        };
        let checked = self.in_turn(principal, || skill.check_outputs(&shown).map_err(invalid));
        run.violations = checked.await?;
        if run.violations.is_empty() {
            run.status = SkillRunStatus::Succeeded;
        }
        run.outputs = Some(shown);
        Ok(run)
    }

    /// The outputs that a run displayed last.
    async fn shown_outputs(
        &self,
        principal: &Principal,
        id: ExecutionId,
        execution: &ExecutionResult,
    ) -> Result<Option<Value>, EngineError> {
        let shown = execution
            .outputs
            .iter()
            .rev()
            .find_map(|output| output.data.get(OUTPUT_TYPE));
        let Some(shown) = shown else {
            return Ok(None);
        };
        let Some(stored) = ArtifactReference::read(OUTPUT_TYPE, shown) else {
            return Ok(outputs(shown).cloned());
        };
        let artifact = self
            .engine
            .execution_artifact(principal, id, stored.sha256)
            .await?;
        // The code of the skill can display what it wants.
        if artifact.size() > 2 * MAX_OUTPUT_BYTES as u64 {
            return Ok(None);
        }
        let bytes = artifact.read(0, 2 * MAX_OUTPUT_BYTES).await?;
        let shown: Option<Value> = may_block(|| serde_json::from_slice(&bytes).ok());
        Ok(shown.as_ref().and_then(outputs).cloned())
    }
}
