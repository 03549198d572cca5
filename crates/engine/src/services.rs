//! The services of the engine for crates above it that keep things of their own: the store, the clock, shares of owners, tasks, secrets. They
//! reach no kernel and no session: those are reached by commands.

use std::sync::Arc;

use crate::access::Object;
use himalia_budget::{HeldShare, Turn};
use himalia_model::{Action, EngineConfig, EngineError, KernelSpec, Principal};
use himalia_session::{OpenCall, Room, SessionManager, SessionSkills, SkillCaller};
use himalia_store::Store;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::api::allow;
use crate::{Engine, WorkflowRuns};

/// The services of an engine. Clones are cheap and name the same engine.
#[derive(Clone)]
pub struct Services(Arc<SessionManager>);

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Services")
    }
}

impl Engine {
    /// The services for a crate that keeps things of its own.
    pub fn services(&self) -> Services {
        Services(Arc::clone(&self.commands.inner))
    }

    /// From now on, this runs skills for code of sessions. A second call does nothing.
    pub fn serve_skills(&self, skills: Arc<dyn SessionSkills>) {
        self.commands.inner.serve_skills(skills);
    }

    /// From now on, these are the runs of workflows. A second call does nothing.
    pub fn serve_workflow_runs(&self, runs: Arc<dyn WorkflowRuns>) {
        let _ = self.commands.workflow_runs.set(runs);
    }
}

impl Services {
    /// Authorises a command, which is the first thing that it does. [`EngineError::Forbidden`].
    pub fn allow(
        &self,
        principal: &Principal,
        action: Action,
        object: Object<'_>,
    ) -> Result<(), EngineError> {
        allow(&self.0, principal, action, object)
    }

    /// [`EngineError::Unavailable`] while the gateway stops.
    pub fn check_open(&self) -> Result<(), EngineError> {
        self.0.check_open()
    }

    /// The signal that the gateway stops.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.draining
    }

    /// Runs a task, for whose end a stop of the gateway waits.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.background.spawn(task);
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.0.store()
    }

    /// The configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.0.config
    }

    /// The time by which rows are stored, microseconds since 1970.
    pub fn now_micros(&self) -> i64 {
        self.0.config.clock.stored_micros()
    }

    /// A turn of the principal's owner. [`EngineError::Busy`] after 30 s.
    pub async fn turn(&self, principal: &Principal) -> Result<Turn, EngineError> {
        self.0.budget.turn(principal).await
    }

    /// Does what takes a processor for a while in a turn of the principal, off the threads of asynchronous work.
    pub async fn in_turn<T>(
        &self,
        principal: &Principal,
        work: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let _turn = self.turn(principal).await?;
        himalia_budget::work(usize::MAX, work)
    }

    /// A place among the clients of events of the principal's owner. [`EngineError::OverBudget`].
    pub fn stream(&self, principal: &Principal) -> Result<HeldShare, EngineError> {
        self.0.budget.stream(principal)
    }

    /// Room for so many bytes of an owner that are about to be stored, until the guard is dropped. [`EngineError::DiskFull`],
    /// [`EngineError::OverBudget`].
    pub async fn room(&self, owner: &str, bytes: usize) -> Result<Room, EngineError> {
        self.0.room(owner, bytes as u64).await
    }

    /// A kernelspec of this host. [`EngineError::NoSuchKernelspec`].
    pub async fn kernelspec(&self, name: &str) -> Result<KernelSpec, EngineError> {
        self.0.catalog.get(name).await
    }

    /// The error for a template that is not there.
    pub async fn no_such_template(&self, name: String) -> EngineError {
        self.0.templates.no_such(&self.0.catalog, name).await
    }

    /// [`EngineError::Unsupported`] if secrets cannot be sealed, because there is no key.
    pub fn check_sealing_key(&self) -> Result<(), EngineError> {
        self.0.credentials.check_key()
    }

    /// The id of the key that seals, if there is one.
    pub fn sealing_key(&self) -> Option<&str> {
        self.0.credentials.current_key()
    }

    /// Seals a secret for these texts: the id of the key, and the sealed bytes. [`EngineError::Unsupported`] without a key.
    pub fn seal(&self, bound: &[&str], plain: &[u8]) -> Result<(String, Vec<u8>), EngineError> {
        let sealed = self.0.credentials.seal_for(bound, plain)?;
        Ok((sealed.key_id, sealed.bytes))
    }

    /// Opens a secret that was sealed for these texts. [`EngineError::Unsupported`] without a key.
    pub fn open_sealed(
        &self,
        bound: &[&str],
        key_id: String,
        bytes: Vec<u8>,
    ) -> Result<Zeroizing<Vec<u8>>, EngineError> {
        self.0.credentials.open_for(bound, key_id, bytes)
    }

    /// Writes into the log of a session that its code begins something that is no tool: `what` names it. [`EngineError::Tool`] beyond the
    /// limits of calls of the session.
    pub async fn begin_call_of_code(
        &self,
        caller: &SkillCaller,
        what: String,
        arguments: &Value,
        schema: Option<&Value>,
    ) -> Result<OpenCall, EngineError> {
        self.0.tools.begin_other(caller, what, arguments, schema).await
    }

    /// Posts JSON to a URL of a tenant, within 20 s; the status of the response, or why there is none.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<u16, String> {
        self.0.post(url, headers, body).await
    }
}
