//! Kernels, their logs and their clients behind one authorised interface.
//!
//! Everything a facade (HTTP, MCP) may do goes through [`Engine`]: each command names the [`Principal`] on
//! whose behalf it runs and is authorised on its object before anything else happens. The engine knows nothing of
//! HTTP. Below it are the sandbox provisioner, the journal and the protocol to the shims.

#![warn(missing_docs)]

mod access;
mod api;
mod audit;
mod authentication;
mod call;
mod cost;
mod engine;
mod jupyter_sessions;
mod list;
mod open;
mod pooled;
mod prompt_turns;
mod services;
mod shares;
mod tokens;
mod traced;
mod workflow_runs;

pub use access::Object;
pub use api::*;
pub use audit::{Audit, AuditRecord, AuditSink, AuditTarget, Door, Effect, Subject};
pub use call::{CallNames, CommandCall};
pub use cost::{CommandRow, Cost};
pub use engine::{COMMANDS, Engine};
pub use himalia_budget::{BudgetUse, HeldShare};
pub use himalia_executions::{
    ArtifactInfo, Ask, Attach, Attachment, Completion, DEFAULT_PROMPT_TIME, Death, Delivery, Event,
    EventFeed, EventKind, Execute, ExecutionBrief, ExecutionEvent, ExecutionEventKind, ExecutionFeed,
    ExecutionId, ExecutionKernel, ExecutionResult, ExecutionStatus, ExecutionText, ExecutionUsage, Feed,
    FeedClosed, History, HistoryEntry, HistoryPosition, HistoryStatus, Inspection, MAX_ANSWER_BYTES,
    MAX_CLIENT_CHARS, MAX_CODE_BYTES, MAX_CURSOR_CODE_BYTES, MAX_CWD_BYTES, MAX_EXECUTION_ENV, MAX_FAILURES,
    MAX_HISTORY_PAGE, MAX_KEY_BYTES, MAX_METADATA_BYTES, MAX_PROMPT_TIME, MAX_TEXT_CHARS, MAX_TIMEOUT_MS,
    OutputPage, PromptId, PromptInfo, PromptKind, PromptName, PromptState, Provenance, QuotaLoss, Requests,
    SessionEvent, SessionFeed, StepPromptId, StoredArtifact, StuckExecution, SubmittedExecution,
    TextTruncated, VariableFilter, VariableInfo, VariablePage, VariableQuery, VariableSort, VariablesReply,
    WaitUntil,
};
pub use himalia_metrics::{CONTENT_TYPE as METRICS_CONTENT_TYPE, Clients, Counter, Metrics};
pub use himalia_model::credential::{
    ConfiguredCredential, CredentialDefinition, CredentialFields, CredentialInfo, CredentialKeys,
    CredentialKind, CredentialSettings, Intercept, MAX_CREDENTIAL_HOSTS, OAuthFields, TemplateCredential,
    TokenInfo, ValueSource, check_credential_name,
};
pub use himalia_model::network::{AllowList, PrivateAddresses};
pub use himalia_model::{
    AccessToken, Action, AllowedCallers, ApiServer, ApiServers, Branch, CallOrigin, CallTool, CallerUsage,
    Clock, Collected, CollectedSession, CullConfig, DayLimits, EndedSession, EngineConfig, EngineError,
    ExecutionState, FileError, FilesMode, ForkError, ForkFiles, ForkKernel, ForkPolicy, FoundTool,
    FoundTools, GatewayStatus, Hazard, HeldKernel, JupyterSessionId, KernelId, KernelJson, KernelModel,
    KernelRef, KernelSpec, KernelSpecs, LlmConfig, LlmFields, LlmLimitFields, LlmLimits, LlmPolicy,
    MAX_BRANCHES, MAX_PRINCIPAL_CHARS, NetworkLimits, NewKernel, NewSession, NewToken, NotOffered, Origin,
    Orphan, OrphanKind, Overdue, OwnerUsage, PackageIndex, PeerSessions, PoolConfig, PoolStatus, Principal,
    ProvisionerChoice, ProvisionerInfo, RemovedBy, ResourceRef, Retention, Role, SandboxConfig, Scope,
    Secrets, Session, SessionChange, SessionEnd, SessionId, SessionInfo, SessionLimits, SessionModel,
    SessionOwner, SessionPatch, Share, SharedStore, SpecFile, Spend, StartPath, StartSession, Starter,
    Template, TemplateInfo, TenantLimits, TimeChange, TimeSource, ToolCallLimits, ToolCaller, ToolError,
    ToolErrorCode, ToolFile, ToolInfo, ToolPattern, ToolPolicy, ToolReply, ToolServerConfig,
    ToolServerFields, TraceContext, TreeLimits, TreePlace, Unanswered, Unresponsive, Used, UsedSpend,
    UsualSizes, from_micros, panic_text, usual_shm,
};
pub use himalia_model::{ERROR_CODES, MountTemplate, explain_code, not_found_code};
pub use himalia_provisioner::inside::{DATA_DIR, WORK_DIR};
pub use himalia_session::{
    ByteRange, CredentialValue, FileDownload, FileInfo, FileKind, FileListing, FileUpload, GivenSecrets,
    GrantAnswer, ListedFile, MAX_LISTED, MAX_NAME_CHARS, MAX_PROCESSES, MAX_SESSION_KERNELS,
    MAX_START_KEY_BYTES, MAX_TRANSFER_BYTES, MAX_TRANSFERS, NAME_PATTERN, ObjectStoreUrl, PackedFiles,
    PostgresUrl, Process, ProcessEvent, ProcessEvents, ProcessWriter, Provisioners, REPLICA_FILE,
    RemoteSandboxes, RemovedFiles, SecretText, StartedGrant, WrittenFiles, check_replica_name, name_of_key,
    name_of_run,
};
pub use himalia_shim_protocol::{
    BRANCHES, ProcessExit, ProcessOrder, ProcessSource, RunProcess, TerminalSize,
};
pub use himalia_store::{SqliteStore, StoreError, copy_database, detach_sandboxes};
pub use himalia_traces::{Span, SpanKind, Traces};
pub use pooled::Search;
pub use services::Services;
pub use shares::About;
pub use tokens::{
    IssuedTokens, MAX_DESCRIPTION_CHARS, MAX_SIGN_INS, MAX_SIGN_INS_OF_PERSON, MAX_TOKEN_LIFETIME,
    MAX_TOKENS, MAX_TOKENS_OF_OWNER, TOKEN_PREFIX, issued_mark, issued_of_mark,
};
pub use workflow_runs::WorkflowRuns;
// What facades say and show of sandboxes.
pub use himalia_kernel::{
    Language, LostVariables, OnTimeout, ReplacedExecution, STOP_TIME, SandboxLoss, StopReason,
};
pub use himalia_outcome::{
    ArtifactFile, ArtifactReference, IMAGE_KINDS, MAX_PROMPT_CHARS, OmittedArtifact, OmittedArtifacts,
    Output, Sight, escape_unseen, exceeds, image_of, is_unseen,
};
pub use himalia_provisioner::{
    Enforcement, Isolation, LimitReport, MAX_LABEL_BYTES, MAX_LABELS, Network, Usage,
};
