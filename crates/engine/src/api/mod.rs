//! The public interface: one type, each method one command or query, each authorised before anything else.

mod budget;
mod collect;
mod ended;
mod executions;
mod files;
mod history;
mod kernels;
mod open;
mod owner;
mod questions;
mod sandboxes;
mod session_kernels;
mod sessions;
mod specs;
mod tokens;

use std::sync::Arc;

pub use executions::MAX_INPUT_BYTES;

use himalia_model::{Action, EngineError, Object, Principal};
use himalia_session::SessionManager;

use crate::access::authorise;
use crate::jupyter_sessions::JupyterSessions;
use crate::tokens::AccessTokens;

/// What to do with kernels when the gateway stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Leave them running for the next gateway.
    KeepKernels,
    /// End them all.
    StopKernels,
}

/// The engine. Clones are cheap and name the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<SessionManager>,
    jupyter: Arc<JupyterSessions>,
    tokens: Arc<AccessTokens>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Engine {
    /// The first thing that every command does.
    fn allow(&self, principal: &Principal, action: Action, object: Object<'_>) -> Result<(), EngineError> {
        authorise(principal, action, object)?;
        if action != Action::Read {
            tracing::info!(target: "himalia::audit", principal = principal.name(), ?action, ?object);
        }
        self.inner.note_command();
        Ok(())
    }
}
