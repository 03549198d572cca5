//! Skills, for code in sessions. What runs them is above this crate ([`SessionSkills`]), and is given when the gateway opens.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_model::EngineError;
use himalia_sandbox_api::RunOfSkill;
use serde_json::Value;

use crate::SessionKernel;

/// Runs skills for code in a session. The caller is the kernel of the session, which may run skills.
pub trait SessionSkills: Send + Sync {
    /// The skills that it may run or read.
    fn list(&self, caller: Arc<SessionKernel>) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// One of them.
    fn show(
        &self,
        caller: Arc<SessionKernel>,
        name: String,
        version: Option<String>,
    ) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// Begins a run, or finds the one with the same key. The run, when it has ended or after the time that is said.
    fn run(
        &self,
        caller: Arc<SessionKernel>,
        name: String,
        wanted: RunOfSkill,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// A run that this session has begun, when it has ended or after this time.
    fn look(
        &self,
        caller: Arc<SessionKernel>,
        run: String,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>>;

    /// Interrupts such a run.
    fn stop(&self, caller: Arc<SessionKernel>, run: String) -> BoxFuture<'_, Result<Value, EngineError>>;
}
