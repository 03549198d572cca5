//! Plan of a sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// User and group id of every process in a sandbox, as it sees itself.
pub const SANDBOX_ID: u32 = 1000;
/// Longest plan that is read, in bytes.
pub const MAX_PLAN_BYTES: u64 = 1 << 20;

/// The place that a sandbox is. What is not named here does not exist in it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Ids on the host that stand behind [`SANDBOX_ID`]. `None`: the caller's own, the only ones that an ordinary user
    /// may take. Root must give ids that nothing else on the host uses.
    pub host_ids: Option<HostIds>,
    /// Host name, 1 to 64 bytes.
    pub hostname: String,
    /// Mounts of the root in addition to `/proc`, in this order. The root itself is a read-only tmpfs.
    pub mounts: Vec<Mount>,
}

/// User and group id on the host.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostIds {
    /// User id, not 0.
    pub uid: u32,
    /// Group id, not 0.
    pub gid: u32,
}

/// One entry of the root. Targets are absolute paths in the sandbox without `.` and `..`; directories that are missing
/// above them are made. A target never leads through a symbolic link: the entry is refused.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Mount {
    /// A file or directory of the host with all that is mounted below it, never setuid, never with devices.
    Bind {
        /// Absolute path on the host; symbolic links are followed. One that is missing fails the plan.
        source: PathBuf,
        /// Path in the sandbox.
        target: PathBuf,
        /// True if the mount and all mounts below it are read-only.
        read_only: bool,
    },
    /// A directory of the host that is shared with other sandboxes, never setuid, never with devices.
    Shared {
        /// Absolute path of a directory on the host; symbolic links are followed.
        base: PathBuf,
        /// The part of it that is mounted; empty: all. A symbolic link or `..` in it fails the plan.
        subdirectory: PathBuf,
        /// Path in the sandbox.
        target: PathBuf,
        /// True if the mount is read-only.
        read_only: bool,
        /// Owner of the files to which [`SANDBOX_ID`] is mapped, by an idmapped mount; needs root. `None`: no mapping.
        owner: Option<HostIds>,
    },
    /// An empty file system in memory, writable.
    Tmpfs {
        /// Path in the sandbox.
        target: PathBuf,
        /// Space for its files, in bytes. Also bounds their number: one for each 4 KiB, at least 1,024.
        size_bytes: u64,
        /// Permission bits of its root directory, such as `0o1777` (in JSON the number 1023). The directory belongs to
        /// [`SANDBOX_ID`].
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Path of the link.
        target: PathBuf,
        /// Target of the link.
        to: PathBuf,
    },
    /// A device of the host at `/dev/<name>`.
    Device { device: Device },
    /// Pseudo terminals of its own: `/dev/pts` and the link `/dev/ptmx`. A shell command in a notebook needs them.
    Pty,
    /// A small file, read-only for all.
    File {
        /// Path in the sandbox.
        target: PathBuf,
        /// Content of the file.
        content: String,
    },
    /// An empty directory, read-only, as a place for what others mount or as a thing that must exist.
    Directory {
        /// Path in the sandbox.
        target: PathBuf,
    },
}

/// Devices that hold nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
    /// `/dev/full`
    Full,
    /// `/dev/random`
    Random,
    /// `/dev/urandom`
    Urandom,
    /// `/dev/tty`
    Tty,
}

impl Device {
    pub const ALL: [Self; 6] = [
        Self::Null,
        Self::Zero,
        Self::Full,
        Self::Random,
        Self::Urandom,
        Self::Tty,
    ];

    /// Path, the same inside and outside.
    pub fn path(self) -> &'static str {
        match self {
            Self::Null => "/dev/null",
            Self::Zero => "/dev/zero",
            Self::Full => "/dev/full",
            Self::Random => "/dev/random",
            Self::Urandom => "/dev/urandom",
            Self::Tty => "/dev/tty",
        }
    }
}

/// A sandbox and its first process.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecPlan {
    pub place: Plan,
    /// Files `cgroup.procs` on the host of the control groups that it joins, before everything else.
    #[serde(default)]
    pub cgroups: Vec<PathBuf>,
    /// Resource limits of its first process, inherited by the others.
    #[serde(default)]
    pub rlimits: Vec<Rlimit>,
    /// First process, PID 1 of its PID namespace. When it ends, the operating system kernel kills all others.
    pub program: Program,
}

/// A program to execute.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Absolute path in the sandbox, then the arguments.
    pub argv: Vec<String>,
    /// Complete environment.
    pub env: BTreeMap<String, String>,
    /// Working directory in the sandbox, absolute.
    pub cwd: PathBuf,
    /// Descriptor of `himalia-jail` that becomes standard input; `None` is `/dev/null`.
    #[serde(default)]
    pub stdin: Option<i32>,
    /// Descriptor that becomes standard output; `None` is `/dev/null`.
    #[serde(default)]
    pub stdout: Option<i32>,
    /// Descriptor that becomes standard error; `None` is `/dev/null`.
    #[serde(default)]
    pub stderr: Option<i32>,
    /// Descriptors from 3 on that stay open, under their numbers. All others are closed.
    #[serde(default)]
    pub keep_fds: Vec<i32>,
}

/// New sizes for file systems in memory of a sandbox that lives.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// Each a [`Mount::Tmpfs`] of the sandbox's plan.
    pub tmpfs: Vec<TmpfsSize>,
}

/// The size of one file system in memory.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TmpfsSize {
    /// Path in the sandbox.
    pub target: PathBuf,
    /// Space for its files, in bytes. One that holds more is refused.
    pub size_bytes: u64,
}

/// A resource limit (`setrlimit(2)`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rlimit {
    /// Limited resource.
    pub resource: Resource,
    /// The limit, in the resource's own unit; `None` is none.
    pub soft: Option<u64>,
    /// Bound up to which processes may raise it themselves; `None`: unlimited.
    pub hard: Option<u64>,
}

/// Resources that can be limited.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// Address space of a process, in bytes.
    As,
    /// Core files, in bytes.
    Core,
    /// Processor time of a process, in seconds.
    Cpu,
    /// Data segment of a process, in bytes.
    Data,
    /// A file that is written, in bytes.
    Fsize,
    /// Locked memory, in bytes.
    Memlock,
    /// Number above the highest open descriptor.
    Nofile,
    /// Processes and threads of the sandbox's user. Counted in each user namespace by itself, so in each sandbox.
    Nproc,
    /// Stack, in bytes.
    Stack,
}
