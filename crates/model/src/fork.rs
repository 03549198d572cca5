//! Branches of a living session.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Hazard, SessionInfo};

/// Most branches that one call makes.
pub const MAX_BRANCHES: u32 = 16;

/// What a caller asks of new branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkKernel {
    /// How many, 1 to [`MAX_BRANCHES`]; they are made one after another.
    pub count: u32,
    /// What to do about state that a fork may break.
    pub policy: ForkPolicy,
    /// Whose files a branch works on.
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

/// What to do about threads, pools and handles in the parent that do not survive a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForkPolicy {
    /// Any of them refuses the fork.
    #[default]
    Strict,
    /// Only those that would break the branch refuse it; the others are reported.
    Report,
}

/// Whose files a branch works on.
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
    /// What of the parent may not work in it.
    pub hazards: Vec<Hazard>,
    /// What took how long, milliseconds.
    pub ms: BTreeMap<String, u64>,
}
