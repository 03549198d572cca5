//! A kernel of a pool that waits for one start.

use serde::{Deserialize, Serialize};

/// Names a kernel of the pool of a template that is held for one start, for a few seconds, at the replica that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldKernel {
    /// The template.
    pub template: String,
    /// Its number in the pool, which no other one ever has.
    pub member: u64,
}
