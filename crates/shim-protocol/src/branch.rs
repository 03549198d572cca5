use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::RequestId;

/// Most bytes of the file name of a branch's socket.
const SOCKET_NAME_BYTES: usize = 32;
/// Below the work directory of a sandbox: where its branches have their copies of it, each in a directory of its own.
pub const BRANCHES: &str = ".branches";
/// Most hazards in a `forked` or `fork_failed`.
pub const HAZARDS_MAX: usize = 32;

/// Body of `bind`: what a running kernel is given late, as if it had been started with it. Debug output names the
/// variables and hides their values.
#[derive(Clone, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Bind {
    /// Variables to set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of variables to remove.
    #[serde(default)]
    pub unset: Vec<String>,
    /// New working directory, absolute; absent: the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The id that the kernel has from now on; absent: no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_id: Option<String>,
}

impl fmt::Debug for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bind")
            .field("env", &self.env.keys())
            .field("unset", &self.unset)
            .field("cwd", &self.cwd)
            .field("kernel_id", &self.kernel_id)
            .finish()
    }
}

/// Body of `bound`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The `bind` that this answers.
    pub request: RequestId,
    /// Was it done? If not, the kernel is what it was, as far as the shim can tell: better not to use it.
    pub ok: bool,
    /// Reason for a failure, one line; empty on success.
    #[serde(default)]
    pub reason: String,
}

/// Files of a branch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BranchFiles {
    /// The branch gets a copy of the parent's work directory, which is removed when the last link that uses it is
    /// closed.
    Copy,
    /// Parent and branch work in the same directory.
    #[default]
    Share,
}

/// Policy of a kernel for state that may not survive a fork.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkPolicy {
    /// Any hazard refuses the fork.
    #[default]
    Strict,
    /// Hazards that are only warnings are reported; the others still refuse.
    Report,
}

/// Body of `fork`. Debug output hides the values of variables.
#[derive(Clone, Eq, PartialEq, Serialize, Deserialize)]
pub struct Fork {
    /// File name of the gateway's socket for the branch's link, in the directory of `gw.sock`; see
    /// [`Fork::check_socket`].
    pub socket: String,
    /// Working directory of the branch, absolute; absent: the parent's, with `copy` its counterpart in the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Files of the branch.
    #[serde(default)]
    pub files: BranchFiles,
    /// With `copy`: most bytes of files; more refuse the fork.
    #[serde(default)]
    pub max_copy_bytes: u64,
    /// Variables to set in the branch.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Policy for hazards.
    #[serde(default)]
    pub policy: ForkPolicy,
    /// Milliseconds that the kernel may wait for the end of what it runs. At most 10 minutes count.
    #[serde(default)]
    pub wait_ms: u64,
    /// Milliseconds for the branch to bind its sockets and to answer a silent, empty execution. At most 10 minutes
    /// count.
    #[serde(default = "default_probe_ms")]
    pub probe_ms: u64,
}

fn default_probe_ms() -> u64 {
    10_000
}

impl Fork {
    /// Is `name` fit for the socket of a branch? A plain file name of at most 32 bytes, lower case letters, digits
    /// and `-`, then `.sock`; not `gw.sock`.
    pub fn check_socket(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        name.len() <= SOCKET_NAME_BYTES
            && name
                .strip_suffix(".sock")
                .is_some_and(|stem| !stem.is_empty() && stem != "gw" && stem.bytes().all(plain))
    }
}

impl fmt::Debug for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork")
            .field("socket", &self.socket)
            .field("cwd", &self.cwd)
            .field("files", &self.files)
            .field("max_copy_bytes", &self.max_copy_bytes)
            .field("env", &self.env.keys())
            .field("policy", &self.policy)
            .field("wait_ms", &self.wait_ms)
            .field("probe_ms", &self.probe_ms)
            .finish()
    }
}

/// Something in a kernel that does not survive a fork well. What the kernel says, cut to bounds.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Hazard {
    /// Kind, for example `native-thread`; at most 64 bytes.
    #[serde(default)]
    pub kind: String,
    /// Name of the instance; at most 200 bytes.
    #[serde(default)]
    pub name: String,
    /// More about it, one line; at most 500 bytes.
    #[serde(default)]
    pub detail: String,
    /// Severity of the hazard.
    #[serde(default)]
    pub severity: Severity,
}

/// Severity of a hazard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A branch would work, with a restriction.
    Warn,
    /// A branch would break. Also what is not known.
    #[default]
    #[serde(other)]
    Refuse,
}

/// Milliseconds of the steps of a fork.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct ForkTimes {
    /// Copying files.
    #[serde(default)]
    pub copy: u64,
    /// From the request to the kernel to its reply.
    #[serde(default)]
    pub fork: u64,
    /// Until the branch's sockets were connected.
    #[serde(default)]
    pub connect: u64,
    /// The silent execution.
    #[serde(default)]
    pub probe: u64,
    /// All of it, waiting included.
    #[serde(default)]
    pub total: u64,
}

/// Body of `forked`, on the parent's link. The branch is kernel 1 of a link of its own, which dials the socket that the
/// `fork` named; it runs already, as incarnation 1, without a `started`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct KernelForked {
    /// The `fork` that this answers.
    pub request: RequestId,
    /// Process id of the branch as the shim sees it.
    pub pid: i32,
    /// Working directory of the branch.
    pub cwd: String,
    /// Bytes of files that were copied.
    #[serde(default)]
    pub copied_bytes: u64,
    /// Entries that were not copied: sockets, pipes, devices.
    #[serde(default)]
    pub skipped: u32,
    /// Hazards that the kernel warns of; at most [`HAZARDS_MAX`].
    #[serde(default)]
    pub hazards: Vec<Hazard>,
    /// Duration of each step.
    #[serde(default)]
    pub ms: ForkTimes,
}

/// Body of `fork_failed`: no process, file or link is left of it, and the parent continues as before.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct ForkFailed {
    /// The `fork` that this answers.
    pub request: RequestId,
    /// One line.
    pub reason: String,
    /// Kind of the failure.
    #[serde(default)]
    pub code: ForkFailure,
    /// Hazards for which the kernel refused; at most [`HAZARDS_MAX`].
    #[serde(default)]
    pub hazards: Vec<Hazard>,
}

/// Kind of a failed fork.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkFailure {
    /// The kernel was still at work after `wait_ms`, or too many forks wait.
    Busy,
    /// Something in the kernel does not survive a fork.
    Hazard,
    /// The kernel cannot fork, or did not answer.
    Unsupported,
    /// The files are more than `max_copy_bytes`, too many, too deep, or more than the disk has room for.
    FilesTooLarge,
    /// The files could not be copied.
    CopyFailed,
    /// The branch did not start, or did not answer.
    ProbeFailed,
    /// The parent does not run, or ended meanwhile.
    NotRunning,
    /// The request itself is wrong, for example the name of the socket.
    BadRequest,
    /// Something else; also a code of a later version.
    #[default]
    #[serde(other)]
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_a_branch_is_a_plain_name() {
        for good in ["k2.sock", "k-16.sock", "a.sock"] {
            assert!(Fork::check_socket(good), "{good}");
        }
        let long = format!("{}.sock", "k".repeat(40));
        for bad in [
            "",
            ".sock",
            "gw.sock",
            "k2",
            "../k2.sock",
            "a/b.sock",
            "k2.sock/",
            "K2.sock",
            "k 2.sock",
            "k\0.sock",
            "key",
            &long,
        ] {
            assert!(!Fork::check_socket(bad), "{bad:?}");
        }
    }

    #[test]
    fn values_of_variables_are_not_in_debug_output() {
        let env = BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]);
        let bind = Bind {
            env: env.clone(),
            ..Bind::default()
        };
        let fork: Fork = serde_json::from_str(r#"{"socket":"k2.sock"}"#).unwrap();
        let fork = Fork { env, ..fork };
        for text in [format!("{bind:?}"), format!("{fork:?}")] {
            assert!(text.contains("TOKEN") && !text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn what_a_later_version_says_is_read_as_the_careful_value() {
        let hazard: Hazard = serde_json::from_str(r#"{"kind":"x","severity":"odd","more":1}"#).unwrap();
        assert_eq!(hazard.severity, Severity::Refuse);
        assert_eq!(
            serde_json::from_str::<ForkFailure>(r#""eclipse""#).unwrap(),
            ForkFailure::Failed
        );
    }
}
