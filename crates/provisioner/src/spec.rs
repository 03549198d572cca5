//! Request for a new sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Isolation, SandboxError, SandboxKey, SharedMount};

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
    /// Network that its processes see.
    pub network: Network,
    /// Host paths that its kernels need beside the system's own (an interpreter's prefix, an environment), bound
    /// read-only at their own places. For provisioners that build a root; the others ignore it.
    pub binds: Vec<PathBuf>,
    /// Names in `/himalia` for directories of `binds`, as symbolic links: paths that are shown to users need none of
    /// the host's. A name is one path component that the root does not have otherwise.
    pub names: BTreeMap<&'static str, PathBuf>,
    /// Mounts of the operator.
    pub mounts: Vec<SharedMount>,
    /// Show the work directory at [`crate::inside::DATA_DIR`] too, where the sandbox has a root of its own and none of its mounts
    /// or binds is there.
    pub show_data: bool,
    /// Image of its root, for provisioners that run images; `None` is the configured one.
    pub image: Option<String>,
    /// Runtime of the container engine; `None` is the configured one.
    pub runtime: Option<String>,
    /// Lifetime of the files.
    pub files: Files,
    /// Start it as a fork of a process that has these modules loaded already, where the provisioner can.
    pub zygote: Option<ZygoteSpec>,
    /// Time without a gateway after which the shim ends its kernels and itself; `None`: the default of the shim.
    pub orphan_ttl: Option<Duration>,
    /// Labels for lists of sandboxes, such as the id of a session. Not secret, not shown to the kernel.
    pub labels: BTreeMap<String, String>,
}

impl SandboxSpec {
    /// The plainest sandbox: any level, no limits, no labels.
    pub fn new(key: SandboxKey) -> Self {
        Self {
            key,
            minimum: Isolation::None,
            limits: Limits::default(),
            network: Network::None,
            binds: Vec::new(),
            names: BTreeMap::new(),
            mounts: Vec::new(),
            show_data: false,
            image: None,
            runtime: None,
            files: Files::Ephemeral,
            zygote: None,
            orphan_ttl: None,
            labels: BTreeMap::new(),
        }
    }

    /// Checks what does not depend on the provisioner.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] for labels.
    pub fn check(&self) -> Result<(), SandboxError> {
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

/// Network that a sandbox sees.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Only a loopback device of its own.
    #[default]
    None,
    /// The same, with the gateway as a proxy, on a port of that device.
    Allow,
    /// The network of this name, which the operator made.
    Open(String),
}

/// Lifetime of the files in a sandbox's work directory.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Files {
    /// Files in memory that end with the sandbox.
    #[default]
    Ephemeral,
    /// Files are kept under this name, and a later sandbox with the name gets them again. At most 64 characters of `[a-z0-9_-]`.
    Session(String),
}

/// A process that forks ready-made kernels: what it is started as. Sandboxes whose specs are equal share one, and with
/// it memory; so one must serve a single trust domain, and must never hold a secret.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ZygoteSpec {
    /// Trust domain of the zygote: kernels in it share memory pages.
    pub trust_domain: String,
    /// The Python interpreter, absolute.
    pub python: PathBuf,
    /// Complete environment of the zygote.
    pub env: BTreeMap<String, String>,
    /// Modules that it imports before the first fork.
    pub preload: Vec<String>,
}

/// Limits of a sandbox as a whole; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Processors, in thousandths of one.
    pub cpu_millis: Option<u32>,
    /// Space for files in the work directory, in bytes.
    pub disk_bytes: Option<u64>,
    /// Size of `/tmp`, in bytes. What is in it counts as memory beside `memory_bytes`.
    pub tmp_bytes: Option<u64>,
    /// Size of `/dev/shm`, in bytes; counts as `tmp_bytes` does.
    pub shm_bytes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
}
