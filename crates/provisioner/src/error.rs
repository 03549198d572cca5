//! Errors of sandboxes.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Isolation, SandboxId};

/// An error of a provisioner. The text is for an operator and holds no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A field of the spec or of the configuration is not usable.
    #[error("{field} {reason}")]
    BadSpec {
        field: &'static str,
        /// Problem of the spec.
        reason: String,
    },
    /// A text that is not the name of a sandbox.
    #[error("a sandbox id is 32 lower-case hexadecimal digits")]
    BadId,
    /// The caller wants more isolation than this provisioner gives.
    #[error("isolation {wanted} is wanted, this provisioner gives {given}")]
    Isolation {
        /// The wanted minimum.
        wanted: Isolation,
        /// Level of the provisioner.
        given: Isolation,
    },
    /// There is no such sandbox, or it has ended.
    #[error("sandbox {0} does not exist")]
    NotFound(SandboxId),
    /// The directory for sockets cannot be used.
    #[error("run directory {path}: {reason}")]
    RunDir {
        /// The directory.
        path: PathBuf,
        /// Problem and remedy.
        reason: String,
    },
    /// The shim could not be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The shim's binary.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A sandbox did not end although it was killed, for example because a process hangs in the kernel.
    #[error("sandbox {0} has processes that do not end after SIGKILL")]
    Unkillable(SandboxId),
    /// The container engine cannot be reached, is not fit, or refused a call.
    #[error("container engine at {socket}: {reason}")]
    Engine {
        /// Path of the engine's socket.
        socket: PathBuf,
        /// True if the engine does not run or does not respond: the call may succeed later.
        away: bool,
        /// Problem and remedy.
        reason: String,
    },
    /// The image is not in the engine; none is ever pulled.
    #[error(
        "image {image} is not in the container engine: `himalia env image` makes himalia-kernel, `docker pull` fetches others"
    )]
    ImageMissing { image: String },
    /// The API server of the cluster cannot be reached, or refused a call.
    #[error("cluster: {reason}")]
    Cluster {
        /// True if the cluster cannot be reached or is busy: the call may succeed later.
        away: bool,
        /// Problem and remedy.
        reason: String,
    },
    /// The cluster does not run the sandbox's pod.
    #[error("the cluster does not run the sandbox: {code}: {reason}")]
    NotPlaced {
        /// Kind of the reason, as a stable code.
        code: &'static str,
        /// Text of the cluster.
        reason: String,
    },
    /// `himalia-jail` could not make the sandbox.
    #[error("the sandbox cannot be made: {0}")]
    Jail(String),
    /// The zygote did not make the sandbox's first process.
    #[error("zygote: {0}")]
    Zygote(String),
    /// Sandboxes of this provisioner have no network but their own loopback device.
    #[error("network {wanted} is wanted, this provisioner gives none")]
    NetworkUnsupported {
        /// The name of the wanted network.
        wanted: String,
    },
    /// A file could not be read, made or removed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The system gives no random numbers.
    #[error("the random number generator failed: {0}")]
    Randomness(String),
    /// A task of the provisioner was cancelled: the runtime is ending.
    #[error("the provisioner is shutting down")]
    Closed,
}

impl SandboxError {
    pub fn io(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io {
            path: path.to_owned(),
            source: source.into(),
        }
    }
}
