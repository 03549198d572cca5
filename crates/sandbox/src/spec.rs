//! What a caller wants of a new sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Isolation, SandboxError, SandboxKey};

/// Labels that a sandbox may carry.
pub const MAX_LABELS: usize = 16;
/// Bytes of a label's name and value together.
pub const MAX_LABEL_BYTES: usize = 512;

/// A sandbox that is to be started. It says nothing of kernels: those are started through the shim.
#[derive(Clone, Debug)]
pub struct SandboxSpec {
    /// The key that its shim must prove.
    pub key: SandboxKey,
    /// The weakest level that will do; a provisioner below it refuses.
    pub minimum: Isolation,
    /// Limits that are wanted; [`crate::SandboxHandle::limits`] tells which are enforced.
    pub limits: Limits,
    /// How long the shim waits for a gateway before it ends its kernels and itself; `None` is the shim's own
    /// default.
    pub orphan_ttl: Option<Duration>,
    /// The highest version of the shim protocol that the shim may offer; `None` is all it knows. For tests of
    /// upgrades.
    pub protocol_max: Option<u16>,
    /// Marks for whoever lists sandboxes, such as the id of a session. Not secret, not shown to the kernel.
    pub labels: BTreeMap<String, String>,
}

impl SandboxSpec {
    /// The plainest sandbox: any level, no limits, no labels.
    pub fn new(key: SandboxKey) -> Self {
        Self {
            key,
            minimum: Isolation::None,
            limits: Limits::default(),
            orphan_ttl: None,
            protocol_max: None,
            labels: BTreeMap::new(),
        }
    }

    /// Checks what does not depend on the provisioner.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        let bad = |reason: String| {
            Err(SandboxError::BadSpec {
                field: "labels",
                reason,
            })
        };
        if self.labels.len() > MAX_LABELS {
            return bad(format!(
                "are {}, at most {MAX_LABELS} are allowed",
                self.labels.len()
            ));
        }
        for (name, value) in &self.labels {
            if name.is_empty() || name.len() + value.len() > MAX_LABEL_BYTES {
                return bad(format!("name and value must have 1 to {MAX_LABEL_BYTES} bytes"));
            }
        }
        Ok(())
    }
}

/// Limits of a sandbox as a whole; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Processors, in thousandths of one.
    pub cpu_millis: Option<u32>,
    /// Space for files, in bytes.
    pub disk_bytes: Option<u64>,
}
