//! Native executions as callers see them: submitted, followed through the log, read at any later time.
//!
//! An execution's id says where its first record is ([`ExecutionId`]), so that nothing but the log has to be asked: what
//! is shown of it is always folded from its records.

mod artifacts;
mod events;
mod feed;
mod follow;
mod id;
mod known;
#[cfg(test)]
mod known_tests;
mod language;
mod model;
mod provenance;
mod session_feed;

pub use artifacts::{ArtifactInfo, ArtifactStore, StoredArtifact};
pub use events::{ExecutionEvent, ExecutionEventKind};
pub use feed::{ExecutionFeed, WaitUntil};
pub use follow::{Follower, first};
pub use id::ExecutionId;
pub(crate) use id::{read_record_id, write_record_id};
pub use known::CachedExecution;
pub use known::ExecutionText;
pub use language::{language, scoped};
pub(crate) use model::as_timestamp;
pub use model::submission;
pub use model::{
    Death, Execute, ExecutionBrief, ExecutionKernel, ExecutionResult, ExecutionStatus, ExecutionUsage,
    MAX_CLIENT_CHARS, MAX_CODE_BYTES, MAX_CWD_BYTES, MAX_EXECUTION_ENV, MAX_FAILURES, MAX_KEY_BYTES,
    MAX_METADATA_BYTES, MAX_TEXT_CHARS, MAX_TIMEOUT_MS, OutputPage, QuotaLoss, StuckExecution,
    SubmittedExecution, TextTruncated,
};
pub use provenance::Provenance;
pub use provenance::lock_hash;
pub use session_feed::{SessionEvent, SessionFeed};
