//! Tools of sessions: what a session may use of the configured servers, and its calls of them.
//!
//! ```text
//! find     find.rs: the session's Catalog (crate tools) from what the servers have listed, by owner, template and session
//! call     call.rs: names and arguments are checked, then policy.rs decides, then the log has the call (crate kernel, which counts and
//!            limits it), then ToolServers::call, once; then the log has its end
//! approve  approval.rs: the prompt to a person, where the policy wants one
//! show     shown.rs: what of arguments and replies is written into the log; whole.rs: what a person sees who approves a call
//! door.rs  the same for code in the sandbox (crate sandbox-api)
//! ```

mod approval;
mod begun;
mod call;
mod door;
mod find;
mod person;
mod policy;
mod shown;
mod whole;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use himalia_budget::Budget;
use himalia_credentials::CredentialSource;
use himalia_model::{EngineConfig, EngineError, OPERATOR, Session, ToolServerConfig};
use himalia_store::Store;
use himalia_tool_servers::{Programs, ToolServers};

pub use call::OpenCall;

pub(crate) use begun::BegunCall;
pub(crate) use shown::{cut, mask, shown};

use crate::meter::Meter;
use crate::{Credentials, Registry, SessionKernel};

pub struct Tools {
    servers: ToolServers,
    /// By name.
    configs: BTreeMap<String, ToolServerConfig>,
    credentials: Arc<Credentials>,
    /// Registry with the sessions at the top of trees.
    registry: Arc<Registry>,
    /// Store with the approvals for all sessions of a kind.
    store: Arc<dyn Store>,
    /// Daily quotas of owners, and their usage.
    budget: Arc<Budget>,
    meter: Arc<Meter>,
}

impl Tools {
    /// Begins to connect to the servers.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `tool_servers`.
    pub(crate) async fn open(
        config: &EngineConfig,
        credentials: &Arc<Credentials>,
        registry: &Arc<Registry>,
        store: &Arc<dyn Store>,
        (budget, meter): (&Arc<Budget>, &Arc<Meter>),
        programs: Arc<dyn Programs>,
    ) -> Result<Self, EngineError> {
        let configs = &config.tool_servers;
        let (all, source, clock) = (configs.clone(), Arc::clone(credentials), config.clock.clone());
        // It reads the certificates of this machine.
        let started = tokio::task::spawn_blocking(move || {
            let source: Arc<dyn CredentialSource> = source;
            ToolServers::start(all, &source, &programs, &clock)
        });
        let started = started
            .await
            .map_err(|error| EngineError::internal("cannot start the servers of tools", error))?;
        Ok(Self {
            servers: started.map_err(|reason| EngineError::bad_request("tool_servers", reason))?,
            configs: configs
                .iter()
                .map(|one| (one.name.clone(), one.clone()))
                .collect(),
            credentials: Arc::clone(credentials),
            registry: Arc::clone(registry),
            store: Arc::clone(store),
            budget: Arc::clone(budget),
            meter: Arc::clone(meter),
        })
    }

    /// True if there are no servers.
    pub fn is_empty(&self) -> bool {
        self.configs.is_empty()
    }

    /// The session at the top of a session's tree, if it is another one that lives at this gateway.
    pub(crate) fn root_of(&self, session: &Session) -> Option<Arc<SessionKernel>> {
        let root = session.tree?.root.first_kernel();
        self.registry.get(root).filter(|root| !root.is_over())
    }
}

/// True if a session may use the tools of this owner, whatever its template permits.
pub(crate) fn sees(session: &Session, owner: &str) -> bool {
    // What waits in a pool has no owner.
    !session.owner.is_empty() && (owner == OPERATOR || owner == session.owner)
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tools").field(&self.servers).finish()
    }
}
