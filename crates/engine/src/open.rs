//! The start of an engine, and queries that need no principal.

use std::sync::Arc;

use himalia_model::{EngineConfig, EngineError};
use himalia_session::{Provisioners, SessionManager};

use crate::Engine;
use crate::api::Commands;
use crate::audit::Audit;
use crate::jupyter_sessions::JupyterSessions;
use crate::tokens::AccessTokens;

impl Engine {
    /// Opens the data directory, takes the next epoch and adopts the kernels that an earlier gateway left.
    ///
    /// Returns as soon as commands can be served: kernels whose shim has not called yet are listed as `unknown`.
    /// Must be called within a tokio runtime. Two gateways on one data directory: [`EngineError::Conflict`]; a template
    /// that cannot work: [`EngineError::BadRequest`].
    pub async fn open(
        config: EngineConfig,
        provisioners: impl Into<Provisioners>,
    ) -> Result<Self, EngineError> {
        let inner = SessionManager::open(config, provisioners.into()).await?;
        let jupyter = Arc::new(JupyterSessions::new(inner.store().clone()));
        let tenants = inner.config.tenants.keys().cloned().collect();
        let (clock, stop) = (inner.config.clock.clone(), inner.draining.clone());
        let tokens = AccessTokens::open(inner.store().clone(), tenants, clock, stop).await?;
        let audit = Audit::log(inner.metrics.audit().clone());
        let commands = Commands {
            inner,
            jupyter,
            tokens: Arc::new(tokens),
            workflow_runs: Arc::default(),
            prompt_turns: Arc::default(),
            absolute_paths: false,
        };
        Ok(Self { commands, audit })
    }

    /// The same engine, whose audit log goes elsewhere.
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }

    /// The same engine, whose commands on files take absolute paths too: those of the whole sandbox, of callers that may run code there.
    #[must_use]
    pub fn with_absolute_paths(mut self) -> Self {
        self.commands.absolute_paths = true;
        self
    }

    /// Where commands are noted.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Completes when this gateway may not act any more as a replica of a shared store, with the reason. The process must then end
    /// without draining: another replica may have its sessions.
    pub async fn lost_lease(&self) -> String {
        self.commands.inner.lost_lease().await
    }

    /// Whether this gateway may answer: its lease as a replica is valid. Without a shared store it always is.
    pub fn may_answer(&self) -> bool {
        self.commands.inner.store().lease().is_valid()
    }

    /// Whether other replicas take the sessions over when this one stops.
    pub async fn has_successors(&self) -> bool {
        self.commands.inner.has_successors().await
    }

    /// Ends what was created in advance: a stop that follows is quicker.
    pub async fn end_spare(&self) {
        self.commands.inner.end_spare().await;
    }

    /// Whether the engine serves commands: open and not draining. For `/readyz`; needs no principal.
    pub fn ready(&self) -> bool {
        self.commands.inner.check_open().is_ok() && self.may_answer()
    }
}
