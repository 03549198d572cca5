//! Datagrams between the gateway and a zygote: JSON, with descriptors beside it.

use std::collections::BTreeMap;

use himalia_jail::{ProcRules, Rlimit, SANDBOX_ID};
use serde::{Deserialize, Serialize};

/// Bytes of a datagram.
pub(super) const MAX_MESSAGE: usize = 64 << 10;

/// The one request: a socket comes with it, from which the process that is to be the first of a sandbox hears the rest.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename = "spawn")]
pub(super) struct Spawn<'a> {
    pub(super) id: &'a str,
}

/// First on that socket: join the control groups whose `cgroup.procs` come with it.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename = "join")]
pub(super) struct Join {}

/// Then: enter this place and become the first process of a sandbox.
#[derive(Debug, Serialize)]
pub(super) struct Enter<'a> {
    op: &'static str,
    /// Names of the descriptors in their order: namespaces, `key`, `log`.
    fds: Vec<&'static str>,
    /// The filter of system calls, in base64.
    seccomp: &'a str,
    setgroups: bool,
    proc: &'a ProcRules,
    uid: u32,
    gid: u32,
    /// `RLIMIT_…` → soft and hard; null is no limit.
    rlimits: BTreeMap<String, [Option<u64>; 2]>,
    argv: &'a [String],
    env: &'a BTreeMap<String, String>,
}

impl<'a> Enter<'a> {
    pub(super) fn new(order: &'a super::Order) -> Self {
        let prepared = &order.sandbox.prepared;
        let namespaces = prepared.fds.iter().map(|kind| kind.name());
        Self {
            op: "enter",
            fds: namespaces.chain(["key", "log"]).collect(),
            seccomp: &prepared.seccomp,
            setgroups: prepared.setgroups,
            proc: &prepared.proc,
            uid: SANDBOX_ID,
            gid: SANDBOX_ID,
            rlimits: order.rlimits.iter().map(named).collect(),
            argv: &order.argv,
            env: &order.env,
        }
    }
}

/// The name of a limit as Python's `resource` module has it, and its values.
fn named(rlimit: &Rlimit) -> (String, [Option<u64>; 2]) {
    // The names in the plan's JSON are those of `setrlimit(2)` in lower case.
    let name = format!("{:?}", rlimit.resource).to_ascii_uppercase();
    (format!("RLIMIT_{name}"), [rlimit.soft, rlimit.hard])
}

/// First message of a zygote.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) ready: bool,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) python: String,
    /// Modules that could not be imported, with the error.
    #[serde(default)]
    pub(super) failed: BTreeMap<String, String>,
}

/// Later messages of a zygote.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Reply {
    /// The first process of a sandbox runs.
    Spawned {
        id: String,
        /// In the zygote's PID namespace, the gateway's.
        pid: i32,
    },
    /// There is none. Without an id the request itself was not understood.
    Failed {
        id: Option<String>,
        step: String,
        error: String,
    },
    /// The first process of a sandbox has ended; the status is that of `waitpid(2)`.
    Exited { pid: i32, status: i32 },
}
