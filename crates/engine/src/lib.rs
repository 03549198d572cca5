//! Kernels, their logs and their clients behind one authorised interface.
//!
//! Everything a facade (HTTP, later MCP) may do goes through [`Engine`]: each command names the [`Principal`] on
//! whose behalf it runs and is authorised on its object before anything else happens. The engine knows nothing of
//! HTTP. Below it are the sandbox provisioner, the journal and the protocol to the shims.

mod access;
mod adopt;
mod api;
mod background;
mod budget;
mod clock;
mod collect;
mod coming_up;
mod config;
mod disk;
mod ended;
mod error;
mod executions;
mod facts;
mod feed;
mod files;
mod fork;
mod gate;
mod history;
mod ids;
mod inner;
mod jupyter_sessions;
mod kept;
mod kept_files;
mod kernel;
mod kernelspecs;
mod lease;
mod left;
mod lifetimes;
mod logs;
mod memory;
pub mod model;
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

pub use access::{Action, MAX_PRINCIPAL_CHARS, Object, Principal};
pub use api::{Drain, Engine, MAX_INPUT_BYTES};
pub use budget::{BudgetUse, Held, Turn};
pub use clock::{Clock, TimeSource};
pub use config::{CullConfig, EngineConfig, Share, TenantLimits};
pub use error::{EndedSession, EngineError, ForkError, NotOffered, RemovedBy};
pub use executions::{
    Death, Execute, ExecutionBrief, ExecutionEvent, ExecutionEventKind, ExecutionFeed, ExecutionId,
    ExecutionKernel, ExecutionResult, ExecutionStatus, ExecutionText, ExecutionUsage, MAX_CLIENT_CHARS,
    MAX_CODE_BYTES, MAX_FAILURES, MAX_KEY_BYTES, MAX_TEXT_CHARS, MAX_TIMEOUT_MS, OutputPage, Provenance,
    QuotaLoss, StoredArtifact, Submitted, TextTruncated, Until,
};
pub use feed::{Attach, Attachment, Closed, Delivery, Event, EventFeed, EventKind, Feed, Requests};
pub use files::{
    ByteRange, FileDownload, FileError, FileInfo, FileKind, FileListing, FileUpload, ListedFile, MAX_LISTED,
    MAX_TRANSFER_BYTES, MAX_TRANSFERS, PackedFiles, RemovedFiles, WrittenFiles,
};
// What facades say and show of sandboxes.
pub use himalia_outcome::{MAX_PROMPT_CHARS, is_bidi_control};
pub use himalia_sandbox::{Enforcement, Isolation, LimitReport, MAX_LABEL_BYTES, MAX_LABELS, Network, Usage};
pub use history::{History, HistoryEntry, HistoryStatus, MAX_HISTORY_PAGE};
pub use ids::{JupyterSessionId, KernelId};
pub use kernel::{Language, LostVariables, OnTimeout, Replaced, SandboxLoss, StopReason};
pub use model::{
    Branch, Collected, CollectedSession, ExecutionState, FilesMode, ForkFiles, ForkKernel, ForkPolicy,
    GatewayStatus, Hazard, KernelJson, KernelModel, KernelRef, KernelSpec, KernelSpecs, MAX_BRANCHES,
    NewKernel, NewSession, Origin, Orphan, OrphanKind, Overdue, PoolConfig, PoolStatus, ProvisionerChoice,
    ProvisionerInfo, Retention, Secrets, SessionChange, SessionEnd, SessionInfo, SessionLimits, SessionModel,
    SessionPatch, SpecFile, StartKernel, StartPath, Template, TemplateInfo, TimeChange, Unanswered,
    Unresponsive, UsualSizes,
};
pub use named::{MAX_NAME_CHARS, NAME_PATTERN};
pub use provisioners::Provisioners;
pub use questions::{
    Completion, Inspection, MAX_CURSOR_CODE_BYTES, VariableFilter, VariablePage, VariableQuery, VariableSort,
    VariablesReply,
};
pub use session_kernels::MAX_SESSION_KERNELS;
