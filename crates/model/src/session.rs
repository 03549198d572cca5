//! Sessions: what a caller asks for, what a session is, and how one is shown and changed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use himalia_provisioner::{Isolation, LimitReport, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::credential::Intercept;
use crate::llm::LlmPolicy;
use crate::network::AllowList;
use crate::tool_policy::{ToolPattern, ToolPolicy};
use crate::{
    FilesMode, JupyterSessionId, KernelId, KernelModel, MAX_LOST_NAMES, SessionId, SessionLimits,
    SkillAccess, Starter, TreeLimits, TreePlace, from_micros,
};

/// Through which interface a kernel was made. It decides what follows a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `/api`: a crashed process is replaced at once, as `jupyter_server` does.
    #[default]
    Jupyter,
    /// `/v1`: a crashed process is replaced by the next execution or restart only.
    V1,
}

/// Origin of a session's first process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StartPath {
    /// It was waiting in the pool.
    Pool,
    /// Forked from a zygote for this session.
    Zygote,
    /// A new process.
    #[default]
    Cold,
    /// Forked from a living session.
    Fork,
}

impl StartPath {
    /// The spelling in the store and in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Zygote => "zygote",
            Self::Cold => "cold",
            Self::Fork => "fork",
        }
    }
}

impl fmt::Display for StartPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Request for a new session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartSession {
    /// Template, or else kernelspec; `None` = the configured default kernelspec.
    pub name: Option<String>,
    /// An id of the caller's choice, so that a repeated request cannot start a second kernel
    /// ([`EngineError::Conflict`](crate::EngineError::Conflict) if it exists).
    pub id: Option<KernelId>,
    /// Wanted working directory on the client's side; used if it exists and the sandbox shares the file system.
    pub cwd: Option<String>,
    /// Variables for this kernel alone, over those of its kernelspec. Nothing of the gateway's own environment is
    /// added.
    pub env: BTreeMap<String, String>,
    /// More variables, which are stored and shown nowhere. A name in both is refused.
    pub secrets: Secrets,
    /// Through which interface.
    pub origin: Origin,
    /// The weakest isolation that will do, if that is more than the template's.
    pub isolation: Option<Isolation>,
    /// Limits of this session; `None` fields are the template's.
    pub limits: SessionLimits,
    /// Another image, one of [`EngineConfig::images`](crate::EngineConfig::images).
    pub image: Option<String>,
    /// Another network than the template's. `None` is always allowed.
    pub network: Option<Network>,
    /// With [`Network::Allow`]: less than what the template allows.
    pub allow: Option<AllowList>,
    /// Names of credentials: fewer than those of the template.
    pub credentials: Option<Vec<String>>,
    /// Tools: fewer than those of the template.
    pub tools: Option<Vec<ToolPattern>>,
    /// Models: fewer than those of the template.
    pub models: Option<Vec<String>>,
    /// Skills: fewer than those of the template. `None`: all of them.
    pub skills: Option<SkillAccess>,
    /// Idle for so long, it is ended.
    pub idle_timeout: Option<Duration>,
    /// Ended after this time, whatever it does.
    pub lifetime: Option<Duration>,
    /// The caller's marks: at most 16, name and value at most 512 bytes together.
    pub labels: BTreeMap<String, String>,
    /// The caller's name for the session: 1 to 63 lower-case letters, digits, hyphens and underscores, with a letter or digit at both
    /// ends. [`EngineError::Conflict`](crate::EngineError::Conflict) if a session has it.
    pub session_name: Option<String>,
    /// A start with the same key is this session, as long as it lives, if it is the same start. Without a name, the session gets one that
    /// is made of the key.
    pub key: Option<String>,
    /// The key is good for one session, also when that has ended ([`EngineError::NameEnded`](crate::EngineError::NameEnded)). This text
    /// says what was asked for, in place of all other members.
    pub once: Option<String>,
    /// The session whose code starts it.
    pub starter: Option<Box<Starter>>,
}

/// Stored form of the idempotency key of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartKey {
    /// A hash of caller and key.
    pub key: String,
    /// A hash of all that was asked for.
    pub print: String,
}

/// Variables whose values are shown nowhere, not in a debug text either.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(pub BTreeMap<String, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Role of a kernel in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// First kernel. It has the id of the session and ends with it.
    #[default]
    Session,
    /// The same of a session that is a fork of another one, in the sandbox of that.
    Branch,
    /// An additional kernel.
    #[serde(rename = "kernel")]
    Additional,
}

/// A session: what it was started as, within which limits it runs, and when it ends. All that is known of it except its id, and
/// except the state of its kernels ([`KernelModel`]).
///
/// The one description of a session: it is planned, runs, is stored as JSON (unknown members of later versions are ignored) and
/// is shown as this. An additional kernel has one too: that of its session, with a kernelspec, a directory and a start of its own,
/// and without a name, labels and times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// The tenant that it belongs to, or `operator`.
    pub owner: String,
    /// The name of the caller who started it, without that of the tenant; `operator`, or nothing if that is not known.
    pub started_by: String,
    /// Through which interface it was started.
    pub origin: Origin,
    /// Name that the owner gave the session; unique among the owner's living sessions.
    pub name: Option<String>,
    /// When its start was requested, microseconds since 1970.
    pub created_micros: u64,
    /// The template, or the kernelspec where it was an implicit one.
    pub template: String,
    /// The kernelspec of its first kernel.
    pub kernelspec: String,
    /// Kind of the provisioner: `local`, `docker`.
    pub provisioner: String,
    /// Configuration of the sandbox.
    pub sandbox: SandboxConfig,
    /// The working directory, as the kernel sees it.
    pub cwd: String,
    /// Origin of the first process.
    pub start_path: StartPath,
    /// Reason why the pool was not used, one line; `None`: there is no pool, or it was used.
    pub start_reason: Option<String>,
    /// From the request to the running process, milliseconds; 0 for one that an earlier gateway had started.
    pub start_ms: u64,
    /// Role: a session, a fork or an additional kernel.
    pub role: Role,
    /// For a fork: the session that was forked, which may have ended. Both share the sandbox: limits, network and end. For an additional
    /// kernel: its session.
    pub parent: Option<SessionId>,
    /// Idle for so long, it is ended.
    pub idle_timeout: Option<Duration>,
    /// When it is ended whatever it does, microseconds since 1970.
    pub expires_micros: Option<u64>,
    /// Labels that the owner gave the session.
    pub labels: BTreeMap<String, String>,
    /// The key of its start, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_key: Option<StartKey>,
    /// Position in a tree of sessions, if code of another session started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreePlace>,
    /// Bounds of the tree of sessions that its code may start.
    pub tree_limits: TreeLimits,
    /// The server of tools whose program runs in it, if a gateway has started it for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_server: Option<ToolServerSession>,
}

/// For what a session was started whose program is a server of tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServerSession {
    /// The name of the server.
    pub server: String,
    /// The process of the gateway that has started it, and with which it ends.
    pub gateway: Uuid,
}

impl Session {
    /// When its start was requested, UTC.
    pub fn created(&self) -> OffsetDateTime {
        from_micros(self.created_micros)
    }

    /// Sessions above it in its tree; 0: a client has started it.
    pub fn depth(&self) -> u32 {
        self.tree.map_or(0, |place| place.depth)
    }

    /// When it is ended whatever it does, UTC.
    pub fn expires(&self) -> Option<OffsetDateTime> {
        self.expires_micros.map(from_micros)
    }

    /// Returns true for sessions that continue in a new sandbox when their sandbox ends: sessions of `/v1` that are not forks.
    pub fn outlives_sandbox(&self) -> bool {
        self.origin == Origin::V1 && self.role == Role::Session
    }

    /// Returns true for an additional kernel of that session.
    pub fn is_additional_of(&self, session: SessionId) -> bool {
        self.role == Role::Additional && self.parent == Some(session)
    }

    /// Upper bound of the sandbox's memory on the host, in bytes ([`SessionLimits::memory_total`]).
    pub fn memory_total(&self) -> Option<u64> {
        let sandbox = &self.sandbox;
        sandbox
            .limits
            .memory_total(sandbox.files, sandbox.isolation != Isolation::None)
    }

    /// The members in which it differs from what it was, as they are stored.
    pub fn changes_since(&self, before: &Self) -> Map<String, Value> {
        let members = |session: &Self| match serde_json::to_value(session) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        };
        let before = members(before);
        let mut changed = members(self);
        changed.retain(|name, value| before.get(name) != Some(value));
        changed
    }
}

/// The sandbox of a session: what it was started with, and what the provisioner made of that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxConfig {
    /// The level of the sandbox; before it is started, the weakest one that will do.
    pub isolation: Isolation,
    /// The limits of the session.
    pub limits: SessionLimits,
    /// Mechanisms that enforce the limits.
    pub enforcement: LimitReport,
    /// Network of the sandbox.
    pub network: Network,
    /// With [`Network::Allow`]: what it may reach.
    pub allow: AllowList,
    /// Names of the credentials that it may use.
    pub credentials: Vec<String>,
    /// Hosts whose TLS the gateway reads.
    pub intercept: Intercept,
    /// Tools that it may use.
    pub tools: ToolPolicy,
    /// Skills that its code may run.
    pub skills: SkillAccess,
    /// Models that it may use.
    pub models: Box<LlmPolicy>,
    /// True if programs reach the sandbox API although the sandbox has no network.
    pub door: bool,
    /// Image, if one was named.
    pub image: Option<String>,
    /// Digest of the image from which the sandbox was started.
    pub image_digest: Option<String>,
    /// Hash of the lock file of the kernel's environment, if a gateway built it.
    pub lock_hash: Option<String>,
    /// Lifetime of the files.
    pub files: FilesMode,
    /// The name under which the provisioner keeps its files, that of the session that they were created for: branches have
    /// their parent's.
    pub kept_files: Option<String>,
    /// Variables that the caller gave for the first process, needed to start another sandbox.
    pub given: GivenVariables,
}

/// The variables that a caller gives for the processes of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GivenVariables {
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// Names of secrets. Their values are stored nowhere.
    pub secrets: Vec<String>,
}

impl SandboxConfig {
    /// Returns true if the shim is the proxy of the sandbox's programs.
    pub fn has_proxy(&self) -> bool {
        self.network == Network::Allow || self.door
    }
}

impl GivenVariables {
    /// Variables of a start, with the names of its secrets but without their values.
    pub fn of(env: &BTreeMap<String, String>, secrets: &Secrets) -> Self {
        Self {
            env: env.clone(),
            secrets: secrets.0.keys().take(MAX_LOST_NAMES).cloned().collect(),
        }
    }
}

/// A session as commands show it: what it is, the state of its first kernel, and its end.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// The session as it is stored.
    pub session: Session,
    /// First kernel, whose id is the id of the session.
    pub kernel: KernelModel,
    /// End of the session; `None` while it lives. The cause is the kernel's `reason`.
    pub end: Option<SessionEnd>,
}

impl SessionInfo {
    /// The session's id.
    pub fn id(&self) -> SessionId {
        SessionId::of_first_kernel(self.kernel.id)
    }
}

/// Something that is at one replica of the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResourceRef {
    /// The kernel with this id, also an additional one, or one whose log alone is kept.
    Kernel(KernelId),
    /// The session with this id or name.
    Session(String),
    /// The session with this name, or the latest one that had it: that of a run with an idempotency key.
    Run(String),
    /// The Jupyter session with this id.
    JupyterSession(JupyterSessionId),
    /// The Jupyter session of this document.
    JupyterPath(String),
}

/// Replica of the gateway that owns a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOwner {
    /// This one.
    Here,
    /// Another one, which lives.
    Replica {
        /// Name of the replica.
        name: String,
        /// Address for other replicas, `host:port`; `None`: the replica accepts no requests.
        address: Option<String>,
    },
    /// One whose lease has ended, and whose sessions no other one has yet.
    Gone {
        /// Name of the replica.
        name: String,
    },
}

/// The end of a session whose log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    /// When, UTC.
    pub at: OffsetDateTime,
    /// When its log is removed at the latest, UTC.
    pub kept_until: OffsetDateTime,
}

/// Change of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// Marks that are set, and (`None`) those that are taken away.
    pub labels: BTreeMap<String, Option<String>>,
    /// Idle for so long, it is ended.
    pub idle_timeout: TimeChange,
    /// So long from now, it is ended.
    pub lifetime: TimeChange,
    /// From now on it may reach this alone, which is a part of what it may reach.
    pub allow: Option<AllowList>,
}

/// Change of a session's time limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeChange {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is that of the template, which may be none.
    Reset,
    /// It is this one.
    Set(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_a_change() {
        let before = Session {
            owner: "operator".into(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..Session::default()
        };
        assert!(before.changes_since(&before).is_empty());
        let after = Session {
            labels: BTreeMap::new(),
            idle_timeout: Some(Duration::from_secs(3)),
            ..before.clone()
        };
        let changes = Value::Object(after.changes_since(&before));
        let expected = serde_json::json!({ "labels": {}, "idle_timeout": { "secs": 3, "nanos": 0 } });
        assert_eq!(changes, expected);
    }

    #[test]
    fn a_role_is_spelt_as_before_and_an_unknown_one_is_refused() {
        let read = |role: &str| serde_json::from_value::<Role>(Value::String(role.to_owned())).ok();
        assert_eq!(read("session"), Some(Role::Session));
        assert_eq!(read("branch"), Some(Role::Branch));
        assert_eq!(read("kernel"), Some(Role::Additional));
        assert_eq!(read("guest"), None);
    }
}
