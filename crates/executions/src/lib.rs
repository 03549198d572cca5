//! Executions of a kernel, and its clients, all read from the kernel's log.
//!
//! - `executions`: native executions, from what is asked to what came of them;
//! - `prompts`: what a person is asked while code runs;
//! - `history`: what was run, by native callers and by Jupyter clients alike;
//! - `feed`: clients, what they send and what they are shown;
//! - `questions`: what a kernel is asked on behalf of a caller (variables, completion).
//!
//! Nothing here knows where a kernel came from.

mod executions;
mod feed;
mod history;
mod prompts;
mod questions;

pub use executions::{
    ArtifactInfo, ArtifactStore, CachedExecution, Death, Execute, ExecutionBrief, ExecutionEvent,
    ExecutionEventKind, ExecutionFeed, ExecutionId, ExecutionKernel, ExecutionResult, ExecutionStatus,
    ExecutionText, ExecutionUsage, Follower, MAX_CLIENT_CHARS, MAX_CODE_BYTES, MAX_CWD_BYTES,
    MAX_EXECUTION_ENV, MAX_FAILURES, MAX_KEY_BYTES, MAX_METADATA_BYTES, MAX_TEXT_CHARS, MAX_TIMEOUT_MS,
    OutputPage, Provenance, QuotaLoss, SessionEvent, SessionFeed, StoredArtifact, StuckExecution,
    SubmittedExecution, TextTruncated, WaitUntil, first, language, lock_hash, scoped, submission,
};
pub use feed::{
    Attach, Attachment, Connection, Delivery, Event, EventFeed, EventKind, Feed, FeedClosed, LogReader,
    Reader, Requests, start_position,
};
pub use history::{
    CachedHistory, Detail, History, HistoryEntry, HistoryPosition, HistoryStatus, MAX_CELL_BYTES,
    MAX_HISTORY_PAGE, briefs, history, notebook, script,
};
pub use prompts::{
    Ask, DEFAULT_PROMPT_TIME, MAX_ANSWER_BYTES, MAX_OPTION_CHARS, MAX_PROMPT_OPTIONS, MAX_PROMPT_TIME,
    PromptId, PromptInfo, PromptKind, PromptName, PromptState, StepPromptId,
};
pub use questions::{
    COMPLETE, Completion, INSPECT, Inspection, MAX_CURSOR_CODE_BYTES, VARIABLES, VariableFilter,
    VariableInfo, VariablePage, VariableQuery, VariableSort, VariablesReply, code_of, completion, content_of,
    inspection, list_request, listed, paged,
};
