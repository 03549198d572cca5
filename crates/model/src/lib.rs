//! The words that the crates of the gateway share: who asks, what for, what is answered, and what can go wrong.
//!
//! Plain data; serialisation to a dialect is the facade's. Nothing in here runs, waits or looks at the disk.

#![warn(missing_docs)]

mod clock;
mod collect;
mod config;
pub mod credential;
mod error;
mod error_codes;
mod error_status;
mod file_error;
mod fork;
mod fork_error;
mod held;
mod ids;
mod jupyter_session;
mod kernel;
mod kernelspec;
mod llm;
mod mount;
pub mod network;
mod packages;
mod panic_text;
mod peer_sessions;
mod principal;
mod session;
mod skill_access;
mod status;
mod template;
mod time;
mod token;
mod tool_call;
mod tool_policy;
mod tool_server;
mod trace;
mod tree;
mod usage;

pub use clock::{Clock, Looks, TimeSource};
pub use collect::{Collected, CollectedSession, Orphan, OrphanKind, Overdue, Retention};
pub use config::{CullConfig, DayLimits, EngineConfig, NetworkLimits, Share, SharedStore, TenantLimits};
pub use error::{EndedSession, EngineError, NotOffered, RemovedBy, exhausted};
pub use error_codes::{CodeExplanation, ERROR_CODES, Retry, explain_code, not_found_code};
pub use file_error::FileError;
pub use fork::{Branch, ForkFiles, ForkKernel, ForkPolicy, MAX_BRANCHES};
pub use fork_error::{ForkError, Hazard};
pub use held::HeldKernel;
pub use himalia_provisioner::{DiskUse, Isolation};
pub use himalia_wire::{MAX_JSON_MEMORY, exceeds_json_memory};
pub use ids::{JupyterSessionId, KernelId, SessionId};
pub use jupyter_session::{KernelRef, NewSession, SessionModel, SessionPatch};
pub use kernel::{
    ExecutionState, GatewayStatus, KernelModel, MAX_LOST_NAMES, NewKernel, Unanswered, Unresponsive,
};
pub use kernelspec::{InterruptMode, KernelJson, KernelSpec, KernelSpecs, SpecFile};
pub use llm::{
    LlmCap, LlmConfig, LlmEndpoint, LlmError, LlmErrorCode, LlmFields, LlmLimitFields, LlmLimits, LlmPolicy,
    MAX_LLMS_OF_TEMPLATE, ModelUse, OutputLimitName, Prices, Spend,
};
pub use mount::MountTemplate;
pub use packages::PackageIndex;
pub use panic_text::panic_text;
pub use peer_sessions::PeerSessions;
pub use principal::{Action, CallOrigin, MAX_PRINCIPAL_CHARS, OPERATOR, Principal, Scope};
pub use session::{
    GivenVariables, Origin, ResourceRef, Role, SandboxConfig, Secrets, Session, SessionChange, SessionEnd,
    SessionInfo, SessionOwner, StartKey, StartPath, StartSession, TimeChange, ToolServerSession,
};
pub use skill_access::SkillAccess;
pub use status::{PoolStatus, ProvisionerInfo};
pub use template::{
    FilesMode, PoolConfig, ProvisionerChoice, SessionLimits, Template, TemplateInfo, UsualSizes, usual_shm,
};
pub use time::{from_micros, now_micros, wall_micros};
pub use token::{AccessToken, NewToken};
pub use tool_call::{
    ApiServer, ApiServers, ArgumentViolation, CallTool, FoundTool, FoundTools, ServerToolsPage, ToolCaller,
    ToolError, ToolErrorCode, ToolFile, ToolInfo, ToolReply, ToolSchema,
};
pub use tool_policy::{MAX_TOOL_PATTERNS, ToolCallLimits, ToolPattern, ToolPolicy, common_tools};
pub use tool_server::{
    AllowedCallers, DescriptionSource, HttpUrl, ProgramConfig, ToolServerConfig, ToolServerFields,
    ToolServerKind,
};
pub use trace::{NoTraceContext, TraceContext};
pub use tree::{Starter, TreeLimits, TreePlace};
pub use usage::{CallerUsage, OwnerUsage, Used, UsedSpend};
