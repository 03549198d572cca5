//! Branches of a living session.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Hazard, SessionInfo};

/// Most branches that one call makes.
pub const MAX_BRANCHES: u32 = 16;

/// Request for new branches of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkKernel {
    /// Number of branches, 1 to [`MAX_BRANCHES`]. They are created one after another.
    pub count: u32,
    /// Policy for state that a fork may break.
    pub policy: ForkPolicy,
    /// Files of the branches.
    pub files: ForkFiles,
    /// All or none: after a failure the branches that were made before it are ended.
    pub atomic: bool,
    /// Variables that differ in the branches.
    pub env: BTreeMap<String, String>,
    /// Marks of the branches; `None` is those of the parent.
    pub labels: Option<BTreeMap<String, String>>,
}

impl Default for ForkKernel {
    fn default() -> Self {
        Self {
            count: 1,
            policy: ForkPolicy::Strict,
            files: ForkFiles::default(),
            atomic: false,
            env: BTreeMap::new(),
            labels: None,
        }
    }
}

/// Policy for threads, pools and handles in the parent that do not survive a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForkPolicy {
    /// Any of them refuses the fork.
    #[default]
    Strict,
    /// Only hazards that would break the branch refuse the fork. Other hazards are reported.
    Report,
}

/// Files that a branch works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkFiles {
    /// A copy of the parent's, refused above this many bytes. Absolute paths still mean the parent's files.
    Copy {
        /// 256 MiB by default.
        max_bytes: u64,
    },
    /// The parent's own.
    Share,
}

impl Default for ForkFiles {
    fn default() -> Self {
        Self::Copy { max_bytes: 256 << 20 }
    }
}

/// A branch that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The new session; its `parent` is the one that was forked.
    pub session: SessionInfo,
    /// Bytes of files that were copied.
    pub copied_bytes: u64,
    /// State of the parent that may not work in the branch.
    pub hazards: Vec<Hazard>,
    /// Duration of each step, in milliseconds.
    pub ms: BTreeMap<String, u64>,
}
