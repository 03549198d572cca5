//! Skills, for code in sessions. What runs them is above this crate ([`SessionSkills`]), and is given when the gateway opens.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_kernel::{Answer, Command};
use himalia_model::{EngineError, Session, SessionId};
use himalia_sandbox_api::RunOfSkill;
use serde_json::Value;

use crate::SessionKernel;

/// A session whose code asks for skills, which it may run. Gives no other access to its kernel.
#[derive(Clone)]
pub struct SkillCaller {
    pub(crate) kernel: Arc<SessionKernel>,
}

impl std::fmt::Debug for SkillCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SkillCaller").field(&self.id()).finish()
    }
}

impl SkillCaller {
    pub fn id(&self) -> SessionId {
        SessionId::of_first_kernel(self.kernel.id())
    }

    /// The attributes of the session.
    pub fn session(&self) -> Arc<Session> {
        self.kernel.session()
    }

    /// Waits for the end of the session.
    pub async fn gone(&self) {
        self.kernel.gone().await;
    }

    /// The native execution that runs, by its number. Executions run one after the other, and the first one may not have said yet that it
    /// runs.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if the session has ended.
    pub async fn running(&self) -> Result<Option<u64>, EngineError> {
        match self.kernel.order(Command::ListExecutions).await {
            Some(Ok(Answer::Executions(all))) => {
                Ok(all.iter().find(|one| one.end.is_none()).map(|one| one.seq))
            }
            _ => Err(EngineError::unavailable("the session has ended")),
        }
    }
}

/// Runs skills for code in a session. The caller is the session, which may run skills.
pub trait SessionSkills: Send + Sync {
    /// The skills that it may run or read.
    fn list(&self, caller: SkillCaller) -> BoxFuture<'_, Result<Value, EngineError>>;

    fn show(
        &self,
        caller: SkillCaller,
        name: String,
        version: Option<String>,
    ) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// Begins a run, or finds the one with the same key. The run, when it has ended or after the time that is said.
    fn run(
        &self,
        caller: SkillCaller,
        name: String,
        wanted: RunOfSkill,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// A run that this session has begun, when it has ended or after this time.
    fn look(
        &self,
        caller: SkillCaller,
        run: String,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// Interrupts such a run.
    fn stop(&self, caller: SkillCaller, run: String) -> BoxFuture<'_, Result<Value, EngineError>>;
}
