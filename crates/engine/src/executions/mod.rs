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

pub(crate) use artifacts::ArtifactStore;
pub use artifacts::StoredArtifact;
pub use events::{ExecutionEvent, ExecutionEventKind};
pub use feed::{ExecutionFeed, Until};
pub(crate) use follow::{Follower, first};
pub use id::ExecutionId;
pub use known::ExecutionText;
pub(crate) use known::Known;
pub(crate) use language::language;
pub(crate) use model::submission;
pub use model::{
    Death, Execute, ExecutionBrief, ExecutionKernel, ExecutionResult, ExecutionStatus, ExecutionUsage,
    MAX_CLIENT_CHARS, MAX_CODE_BYTES, MAX_FAILURES, MAX_KEY_BYTES, MAX_TEXT_CHARS, MAX_TIMEOUT_MS,
    OutputPage, QuotaLoss, Submitted, TextTruncated,
};
pub use provenance::Provenance;
pub(crate) use provenance::lock_hash;
