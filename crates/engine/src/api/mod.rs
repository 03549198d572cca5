//! The commands: each method one command or query, authorised before anything else. The public interface is [`Engine`](crate::Engine),
//! which notes each call.

mod artifacts;
mod budget;
mod credentials;
mod ended;
mod executions;
mod files;
mod history;
mod jupyter;
mod kernels;
mod observe;
mod open_prompts;
mod owner;
mod prompts;
mod questions;
mod run_sessions;
mod sandboxes;
mod session_kernels;
mod submit;
mod tokens;
mod tool_approvals;
mod tools;
mod upkeep;
mod usage;

use std::sync::Arc;

pub use credentials::NewCredential;
pub use executions::MAX_INPUT_BYTES;
pub use open_prompts::{LatestPrompt, ListedPrompt, PROMPT_PAGE_BYTES, PromptPage, PromptPlace};
pub use run_sessions::{LoggedKernel, NamedSession};
pub use sandboxes::SessionUsage;
pub use submit::{ExecutionTarget, FeedStart};
pub use tokens::RevokedToken;
pub use tool_approvals::{MAX_TOOL_APPROVALS, ToolApproval};

use crate::access::Object;
use himalia_model::{Action, EngineError, Principal};
use himalia_session::SessionManager;

use crate::access::authorise;
use crate::jupyter_sessions::JupyterSessions;
use crate::prompt_turns::PromptTurns;
use crate::tokens::AccessTokens;
use crate::workflow_runs::WorkflowRunsSlot;

/// What to do with kernels when the gateway stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Leave them running for the next gateway.
    KeepKernels,
    /// End them all.
    StopKernels,
}

/// What the engine does. Only [`Engine`](crate::Engine) calls it, and notes each call.
#[derive(Clone)]
pub(crate) struct Commands {
    pub(crate) inner: Arc<SessionManager>,
    pub(crate) jupyter: Arc<JupyterSessions>,
    pub(crate) tokens: Arc<AccessTokens>,
    pub(crate) workflow_runs: WorkflowRunsSlot,
    pub(crate) prompt_turns: Arc<PromptTurns>,
    /// Absolute paths of files are those of the sandbox, for callers that may run code there. Else they are refused.
    pub(crate) absolute_paths: bool,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Commands")
    }
}

impl Commands {
    /// The first thing that every command does.
    fn allow(&self, principal: &Principal, action: Action, object: Object<'_>) -> Result<(), EngineError> {
        allow(&self.inner, principal, action, object)
    }
}

/// Authorises a command, and notes that there was one.
pub(crate) fn allow(
    sessions: &SessionManager,
    principal: &Principal,
    action: Action,
    object: Object<'_>,
) -> Result<(), EngineError> {
    authorise(principal, action, object)?;
    sessions.note_command();
    Ok(())
}
