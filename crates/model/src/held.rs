//! A kernel of a pool that waits for one start.

use serde::{Deserialize, Serialize};

/// Names a kernel of the pool of a template that is held for one start, for a few seconds, at the replica that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldKernel {
    /// The template.
    pub template: String,
    /// Number of the kernel in the pool, never reused.
    pub member: u64,
}
