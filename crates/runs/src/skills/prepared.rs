//! Runs that a workflow or a trigger begins: in two steps, each of which is found again by a name or an id after a gateway was killed.

use himalia_engine::Object;
use himalia_engine::{ExecutionTarget, FeedStart};
use himalia_executions::ExecutionId;
use himalia_model::{Action, EngineError, KernelId, Principal, SessionInfo, StartSession};
use himalia_skills::{Skill, code as run_code};

use super::run::{RunSkill, check_inputs};
use super::{Commands, invalid};

/// A run that is checked and has not begun.
#[derive(Debug)]
pub(crate) struct PreparedRun {
    skill: Skill,
    wanted: RunSkill,
    code: String,
}

impl PreparedRun {
    /// The version that will run.
    pub(crate) fn version(&self) -> String {
        self.skill.manifest().version.to_string()
    }
}

impl Commands {
    /// Begins a run that is the step of a workflow, or finds it. Its session ends when what came of the step is written.
    pub(crate) async fn start_step(
        &self,
        principal: &Principal,
        skill: &Skill,
        wanted: RunSkill,
    ) -> Result<(ExecutionId, SessionInfo), EngineError> {
        let text = self.checked_code(principal, skill, &wanted).await?;
        let start = self.start_of(skill.manifest(), &wanted)?;
        let (session, _) = self.engine.put_session(principal, start).await?;
        let begun = async {
            let execute = self.execution_of(skill, &session, wanted, text).await?;
            self.engine.execute(principal, session.kernel.id, execute).await
        };
        match begun.await {
            Ok(submitted) => Ok((submitted.id, session)),
            Err(error) => {
                self.end_of_run(principal, session.kernel.id).await;
                Err(error)
            }
        }
    }

    /// Checks what a run needs before anything is started; also its inputs, if they are known.
    pub(crate) async fn check_run(
        &self,
        principal: &Principal,
        name: &str,
        wanted: &RunSkill,
        has_inputs: bool,
    ) -> Result<(), EngineError> {
        let (_, skill) = self.skill(principal, name, wanted.version.as_deref()).await?;
        let checked = self.in_turn(principal, || {
            if has_inputs {
                check_inputs(&skill, &wanted.inputs)?;
            }
            run_code(&skill, &wanted.inputs).map_err(invalid)
        });
        checked.await?;
        self.start_of(skill.manifest(), wanted).map(drop)
    }

    /// A run that is to be begun in two steps: its session, and its code.
    pub(crate) async fn prepare_run(
        &self,
        principal: &Principal,
        name: &str,
        wanted: RunSkill,
    ) -> Result<PreparedRun, EngineError> {
        self.allow(principal, Action::Execute, Object::Skills)?;
        self.services.check_open()?;
        let (_, skill) = self.skill(principal, name, wanted.version.as_deref()).await?;
        let code = self.checked_code(principal, &skill, &wanted).await?;
        Ok(PreparedRun { skill, wanted, code })
    }

    /// The session of a run, with this id; the one that is there already, if it lives.
    pub(crate) async fn open_run(
        &self,
        principal: &Principal,
        run: &PreparedRun,
        id: KernelId,
    ) -> Result<SessionInfo, EngineError> {
        if let Some(there) = self.live_session(principal, id) {
            return Ok(there);
        }
        let start = StartSession {
            id: Some(id),
            ..self.start_of(run.skill.manifest(), &run.wanted)?
        };
        Ok(self.engine.start_run_session(principal, start).await?.0)
    }

    /// The session of a run, if it lives here.
    pub(crate) fn live_session(&self, principal: &Principal, id: KernelId) -> Option<SessionInfo> {
        let there = self.engine.session_info(principal, id).ok()?;
        there.end.is_none().then_some(there)
    }

    /// Returns true if the code of a run certainly did not run: its session has left nothing, as one that never had a process. Always false
    /// where nothing is kept of any session.
    pub(crate) fn never_ran(&self, principal: &Principal, kernel: KernelId) -> bool {
        let is_kept = !self.services.config().retention.time.is_zero();
        is_kept
            && matches!(
                self.engine.logged_kernel(principal, kernel),
                Err(EngineError::NotFound { .. })
            )
    }

    /// Sends the code of a run.
    pub(crate) async fn begin_prepared(
        &self,
        principal: &Principal,
        run: PreparedRun,
        session: &SessionInfo,
    ) -> Result<ExecutionId, EngineError> {
        let PreparedRun { skill, wanted, code } = run;
        let execute = self.execution_of(&skill, session, wanted, code).await?;
        let target = ExecutionTarget::Kernel(session.kernel.id);
        let submitted = self.engine.submit(principal, target, execute, FeedStart::Now);
        let (taken, feed) = submitted.await?;
        self.watch(principal, taken.id, feed, None, None);
        Ok(taken.id)
    }
}
