//! The response of `himalia-jail`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Answer of `exec`: the program runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct ExecReply {
    /// Process id of the sandbox's first process in the caller's PID namespace. Its parent is the nearest subreaper
    /// above `himalia-jail`, else the host's init.
    pub pid: u32,
}

/// Answer of `prepare`: a sandbox without a process. It lives as long as the descriptors that come with this message.
///
/// What the process that enters it must still do is written at [`ProcRules`].
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PrepareReply {
    /// Kinds of the descriptors (`SCM_RIGHTS`), in the order for `setns(2)`: user first.
    pub fds: Vec<NamespaceKind>,
    /// The seccomp filter: an array of `struct sock_filter` (8 bytes each) in base64.
    pub seccomp: String,
    /// True if `setgroups(2)` is allowed: as root. An ordinary user's sandbox keeps the user's supplementary groups, and the call must be
    /// left out.
    pub setgroups: bool,
    pub proc: ProcRules,
}

/// Answer of `resize`: all of them have their new sizes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct ResizeReply {
    /// Number of resized file systems.
    pub resized: usize,
}

/// Namespaces of a sandbox that outlive its preparation. The PID and cgroup namespaces do not exist without a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceKind {
    /// User ids and capabilities.
    User,
    /// The root and what is mounted in it.
    Mnt,
    /// Network devices and sockets.
    Net,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Host name.
    Uts,
}

impl NamespaceKind {
    /// All of them, in the order in which they are sent.
    pub const ALL: [Self; 5] = [Self::User, Self::Mnt, Self::Net, Self::Ipc, Self::Uts];

    /// Name in `/proc/<pid>/ns`.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Mnt => "mnt",
            Self::Net => "net",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
        }
    }
}

/// Paths of `/proc` that a sandbox hides. Paths that do not exist are skipped.
///
/// `exec` does all this itself. A process that enters a prepared sandbox does this, in this order and before any foreign code runs:
///
/// 1. join the cgroups, `setns` to [`PrepareReply::fds`], `unshare(CLONE_NEWPID | CLONE_NEWCGROUP)`, `fork`; in the child:
/// 2. `setsid`; mount `proc` at `/proc` with `nosuid,nodev,noexec`;
/// 3. bind `/dev/null` over each of `files` (if the plan has that device);
/// 4. mount an empty read-only tmpfs over each of `directories`;
/// 5. bind each of `read_only` to itself and make that mount read-only, `nosuid,nodev,noexec`;
/// 6. `keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)`: an own, empty keyring; `umask(022)`;
/// 7. resource limits; drop every capability of the bounding set; `PR_SET_SECUREBITS` 0xef;
/// 8. `setgroups([])` if [`PrepareReply::setgroups`]; `setresgid` and `setresuid` to [`crate::SANDBOX_ID`]; `capset` to
///    nothing (the ambient set empties itself);
/// 9. `PR_SET_NO_NEW_PRIVS`; load [`PrepareReply::seccomp`]. The last step: the filter forbids the ones before.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct ProcRules {
    /// Files that are covered by `/dev/null`.
    pub files: Vec<String>,
    /// Directories that are covered by an empty one.
    pub directories: Vec<String>,
    /// Paths that can be read but not written.
    pub read_only: Vec<String>,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// `None`: sandboxes can be made on this host by this user. Otherwise the first thing that fails.
    pub failure: Option<Failure>,
    /// Remedy for the operator.
    pub hint: Option<String>,
    /// Release of the Linux kernel.
    pub linux: String,
    /// `user.max_user_namespaces`: how many sandboxes this user can have at once, about.
    pub max_user_namespaces: Option<u64>,
}

/// Reason why there is no sandbox. Nothing of it remains.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{step}: {error}")]
pub struct Failure {
    /// Step that failed.
    pub step: Step,
    /// Error, with the path or name that caused it.
    pub error: String,
}

impl Failure {
    /// A failure of `step`.
    pub fn new(step: Step, error: impl fmt::Display) -> Self {
        Self {
            step,
            error: error.to_string(),
        }
    }
}

/// Step of `himalia-jail`, roughly in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Reading the plan.
    Plan,
    /// Joining control groups.
    Cgroups,
    /// Making processes and talking to them.
    Process,
    /// Making namespaces.
    Namespaces,
    /// Mapping user and group ids.
    IdMap,
    /// Building the root.
    Mounts,
    /// Mounting `/proc` and hiding parts of it.
    Proc,
    /// Setting the host name.
    Hostname,
    /// Starting the loopback device.
    Loopback,
    /// Leaving the caller's keyring.
    Keyring,
    /// Setting resource limits.
    Rlimits,
    /// Dropping capabilities.
    Capabilities,
    /// Becoming the sandbox's user.
    Identity,
    /// Compiling or loading the filter of system calls.
    Seccomp,
    /// Arranging descriptors.
    Descriptors,
    /// Entering the working directory.
    Cwd,
    /// Executing the program.
    Exec,
    /// Sending the answer.
    Report,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "plan",
            Self::Cgroups => "cgroups",
            Self::Process => "process",
            Self::Namespaces => "namespaces",
            Self::IdMap => "id-map",
            Self::Mounts => "mounts",
            Self::Proc => "proc",
            Self::Hostname => "hostname",
            Self::Loopback => "loopback",
            Self::Keyring => "keyring",
            Self::Rlimits => "rlimits",
            Self::Capabilities => "capabilities",
            Self::Identity => "identity",
            Self::Seccomp => "seccomp",
            Self::Descriptors => "descriptors",
            Self::Cwd => "cwd",
            Self::Exec => "exec",
            Self::Report => "report",
        })
    }
}
