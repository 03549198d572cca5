//! Kernels, their logs and their clients behind one authorised interface.
//!
//! Everything a facade (HTTP, later MCP) may do goes through [`Engine`]: each command names the [`Principal`] on
//! whose behalf it runs and is authorised on its object before anything else happens. The engine knows nothing of
//! HTTP. Below it are the sandbox provisioner, the journal and the protocol to the shims.

mod access;
mod adopt;
mod api;
mod background;
mod collect;
mod coming_up;
mod disk;
mod ended;
mod executions;
mod facts;
mod feed;
mod files;
mod fork;
mod gate;
mod history;
mod inner;
mod jupyter_sessions;
mod kept;
mod kept_files;
mod kernel;
mod lease;
mod left;
mod lifetimes;
mod logs;
mod memory;
mod named;
mod new_sandbox;
mod places;
mod pool;
mod provisioners;
mod questions;
mod refusal;
mod registry;
mod resume;
mod session_kernels;
mod start;
mod templates;
#[cfg(test)]
mod testing;

pub use api::{Drain, Engine, MAX_INPUT_BYTES};
pub use executions::{
    Death, Execute, ExecutionBrief, ExecutionEvent, ExecutionEventKind, ExecutionFeed, ExecutionId,
    ExecutionKernel, ExecutionResult, ExecutionStatus, ExecutionText, ExecutionUsage, MAX_CLIENT_CHARS,
    MAX_CODE_BYTES, MAX_FAILURES, MAX_KEY_BYTES, MAX_TEXT_CHARS, MAX_TIMEOUT_MS, OutputPage, Provenance,
    QuotaLoss, StoredArtifact, Submitted, TextTruncated, Until,
};
pub use feed::{Attach, Attachment, Closed, Delivery, Event, EventFeed, EventKind, Feed, Requests};
pub use files::{
    ByteRange, FileDownload, FileInfo, FileKind, FileListing, FileUpload, ListedFile, MAX_LISTED,
    MAX_TRANSFER_BYTES, MAX_TRANSFERS, PackedFiles, RemovedFiles, WrittenFiles,
};
pub use himalia_budget::{BudgetUse, Held, Turn};
pub use himalia_model::{
    Action, Branch, Clock, Collected, CollectedSession, CullConfig, EndedSession, EngineConfig, EngineError,
    ExecutionState, FileError, FilesMode, ForkError, ForkFiles, ForkKernel, ForkPolicy, GatewayStatus,
    Hazard, JupyterSessionId, KernelId, KernelJson, KernelModel, KernelRef, KernelSpec, KernelSpecs,
    MAX_BRANCHES, MAX_PRINCIPAL_CHARS, NewKernel, NewSession, NotOffered, Object, Origin, Orphan, OrphanKind,
    Overdue, PoolConfig, PoolStatus, Principal, ProvisionerChoice, ProvisionerInfo, RemovedBy, Retention,
    Secrets, SessionChange, SessionEnd, SessionId, SessionInfo, SessionLimits, SessionModel, SessionPatch,
    Share, SpecFile, StartKernel, StartPath, Template, TemplateInfo, TenantLimits, TimeChange, TimeSource,
    Unanswered, Unresponsive, UsualSizes,
};
// What facades say and show of sandboxes.
pub use himalia_outcome::{MAX_PROMPT_CHARS, is_bidi_control};
pub use himalia_sandbox::{Enforcement, Isolation, LimitReport, MAX_LABEL_BYTES, MAX_LABELS, Network, Usage};
pub use history::{History, HistoryEntry, HistoryStatus, MAX_HISTORY_PAGE};
pub use kernel::{Language, LostVariables, OnTimeout, Replaced, SandboxLoss, StopReason};
pub use named::{MAX_NAME_CHARS, NAME_PATTERN};
pub use provisioners::Provisioners;
pub use questions::{
    Completion, Inspection, MAX_CURSOR_CODE_BYTES, VariableFilter, VariablePage, VariableQuery, VariableSort,
    VariablesReply,
};
pub use session_kernels::MAX_SESSION_KERNELS;
