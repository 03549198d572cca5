//! The commands: each method one command or query, authorised before anything else. The public interface is [`Engine`](crate::Engine),
//! which notes each call.

mod artifacts;
mod budget;
mod collect;
mod credentials;
mod ended;
mod executions;
mod files;
mod history;
mod kernels;
mod observe;
mod open;
mod open_prompts;
mod owner;
mod pooled;
mod prompt_turns;
mod prompts;
mod questions;
mod sandboxes;
mod session_kernels;
mod sessions;
mod skills;
mod specs;
mod tokens;
mod tool_approvals;
mod tools;
mod triggers;
mod usage;
mod workflows;

use std::sync::Arc;

pub use budget::About;
pub use credentials::NewCredential;
pub use executions::MAX_INPUT_BYTES;
pub use open_prompts::{ListedPrompt, PROMPT_PAGE_BYTES, PromptPage, PromptPlace};
pub use pooled::Search;
pub use sandboxes::SessionUsage;
pub use skills::{
    BegunRun, MAX_SKILL_VERSIONS, MAX_SKILLS_BYTES, RunSkill, SkillInfo, SkillRun, SkillRunStatus, SkillStep,
};
pub use tokens::RevokedToken;
pub use tool_approvals::{MAX_TOOL_APPROVALS, ToolApproval};
pub(crate) use triggers::Triggers;
pub use triggers::{
    AnswerSigner, AskedRun, CallbackSecret, DeliveriesOf, DeliveryAttempt, DeliveryInfo, DeliveryState,
    MAX_CALLBACK_URL, MAX_CALLBACKS, MAX_DELIVERIES, MAX_OPEN_CALLBACKS, MAX_OPEN_RUNS, MAX_TRIGGER_NAME,
    MAX_TRIGGER_RUNS, MAX_TRIGGERS, MAX_WEBHOOK_BYTES, NewSecrets, NewTrigger, RunTarget, Runnable,
    StartedTriggerRun, Times, TriggerChange, TriggerInfo, TriggerKind, TriggerRunInfo, TriggerRunStatus,
    WebhookMessage,
};
pub(crate) use workflows::Drivers;
pub use workflows::{
    MAX_RUNS, MAX_RUNS_IN_PROGRESS, MAX_WORKFLOW_VERSIONS, MAX_WORKFLOWS_BYTES, RunFilter, RunInfo, RunUntil,
    RunView, StartRun, StartedRun, StepState, StepView, WorkflowInfo,
};

use himalia_model::{Action, EngineError, Object, Principal};
use himalia_session::SessionManager;
use prompt_turns::PromptTurns;

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

/// What the engine does. Only [`Engine`](crate::Engine) calls it, and notes each call.
#[derive(Clone)]
pub(crate) struct Commands {
    inner: Arc<SessionManager>,
    jupyter: Arc<JupyterSessions>,
    tokens: Arc<AccessTokens>,
    workflows: Arc<Drivers>,
    triggers: Arc<Triggers>,
    prompt_turns: Arc<PromptTurns>,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Commands")
    }
}

impl Commands {
    /// The first thing that every command does.
    fn allow(&self, principal: &Principal, action: Action, object: Object<'_>) -> Result<(), EngineError> {
        authorise(principal, action, object)?;
        self.inner.note_command();
        Ok(())
    }
}
