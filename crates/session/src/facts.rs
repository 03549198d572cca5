//! What is known of a kernel and does not change while it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_executions::Provenance;
use himalia_model::{
    FilesMode, KernelId, KernelModel, MAX_LOST_NAMES, Origin, Secrets, SessionInfo, SessionLimits, StartPath,
    from_micros,
};
use himalia_sandbox::{Isolation, LimitReport, Network};
use himalia_store::{KernelLife, KernelRecord, LaunchRecord};
use serde::{Deserialize, Serialize};

/// What a kernel is to its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its first kernel, which has the session's id, and ends with it.
    #[default]
    Session,
    /// The same of a session that is a fork of another one, in the sandbox of that.
    Branch,
    /// A further one; its `parent` is the session.
    Kernel,
}

impl Role {
    /// The spelling in the store.
    fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Branch => "branch",
            Self::Kernel => "kernel",
        }
    }

    fn parse(text: &str) -> Self {
        let all = [Self::Branch, Self::Kernel];
        all.into_iter()
            .find(|role| role.as_str() == text)
            .unwrap_or_default()
    }
}

/// Facts of one kernel. Those of one that waits in a pool are replaced when it is claimed.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its identifier.
    pub id: KernelId,
    /// The tenant that it belongs to, or `operator`.
    pub owner: String,
    /// The kernelspec.
    pub name: String,
    /// When it was made, microseconds since 1970.
    pub created_micros: u64,
    /// `metadata.cull_idle_timeout` of its kernelspec, seconds.
    pub cull_timeout: Option<f64>,
    /// Through which interface it was made.
    pub origin: Origin,
    /// The template, or the kernelspec in place of one.
    pub template: String,
    /// Kind of the provisioner.
    pub provisioner: String,
    /// What is around it.
    pub around: SandboxConfig,
    /// Its working directory, as it sees it.
    pub cwd: String,
    /// How its first process came to be.
    pub start_path: StartPath,
    /// Why it did not come from the pool, or another way.
    pub start_reason: Option<String>,
    /// Milliseconds that the start took.
    pub start_ms: u64,
    /// What it is to its session.
    pub role: Role,
    /// Of a branch: the session that was forked. Of an additional kernel: its session.
    pub parent: Option<KernelId>,
    /// Idle time after which it ends.
    pub idle_timeout: Option<Duration>,
    /// Microseconds since 1970.
    pub expires_micros: Option<u64>,
    /// Its owner's labels.
    pub labels: BTreeMap<String, String>,
    /// Its owner's name for the session.
    pub session_name: Option<String>,
}

/// What is around a kernel. Stored as JSON; unknown fields of later versions are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxConfig {
    /// The level of the sandbox.
    pub isolation: Isolation,
    /// Those of the session.
    pub limits: SessionLimits,
    /// Who enforces them.
    pub enforcement: LimitReport,
    /// What it can reach.
    pub network: Network,
    /// The name of the image, in containers.
    pub image: Option<String>,
    /// Of the image that the sandbox was started from.
    pub image_digest: Option<String>,
    /// Of the environment that its kernel's program is in, if a gateway built that.
    pub lock_hash: Option<String>,
    /// What becomes of its files.
    pub files: FilesMode,
    /// The name under which the provisioner keeps its files, that of the session that they were made for: branches have
    /// their parent's.
    pub kept_files: Option<String>,
    /// What its caller had given for its first process, for a start in another sandbox.
    pub given: Given,
}

/// What a caller gives for a session's processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Given {
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// Names of secrets. Their values are stored nowhere.
    pub secrets: Vec<String>,
}

impl Given {
    /// What is kept of the variables of a start.
    pub(crate) fn of(env: &BTreeMap<String, String>, secrets: &Secrets) -> Self {
        Self {
            env: env.clone(),
            secrets: secrets.0.keys().take(MAX_LOST_NAMES).cloned().collect(),
        }
    }
}

/// Where a kernel's sandbox, link and log are.
#[derive(Clone, Debug)]
pub(crate) struct RuntimePaths {
    /// Directory of its log, relative to the data directory.
    pub(crate) log: String,
    pub(crate) endpoint: String,
    pub(crate) sandbox_id: String,
    pub(crate) key_hash: [u8; 32],
    pub(crate) socket: String,
    pub(crate) argv: Vec<String>,
    pub(crate) interrupt_mode: String,
}

impl SandboxConfig {
    /// What an execution in here ran in.
    pub fn provenance(&self, kernelspec: &str, template: &str) -> Provenance {
        Provenance {
            kernelspec: kernelspec.to_owned(),
            template: template.to_owned(),
            isolation: self.isolation,
            image: self.image.clone(),
            image_digest: self.image_digest.clone(),
            lock_hash: self.lock_hash.clone(),
            packages_hash: None,
            limits: self.limits.clone(),
        }
    }
}

impl Facts {
    /// Whether it goes on in another sandbox when its own is gone: a session of `/v1`, unless it is a fork of another one.
    pub fn outlives_sandbox(&self) -> bool {
        self.origin == Origin::V1 && self.role == Role::Session
    }

    /// Whether it is a further kernel of that session.
    pub fn is_further_of(&self, session: KernelId) -> bool {
        self.role == Role::Kernel && self.parent == Some(session)
    }

    /// The row of a kernel.
    pub(crate) fn record(&self, place: &RuntimePaths, life: KernelLife, incarnation: u32) -> KernelRecord {
        KernelRecord {
            id: self.id.0,
            owner: self.owner.clone(),
            kernelspec: self.name.clone(),
            session_dir: place.log.clone(),
            run_dir: place.endpoint.clone(),
            sandbox_id: place.sandbox_id.clone(),
            sandbox_key_hash: place.key_hash,
            isolation: self.around.isolation.to_string(),
            incarnation,
            created_micros: i64::try_from(self.created_micros).unwrap_or(i64::MAX),
            launch: LaunchRecord {
                argv: place.argv.clone(),
                cwd: self.cwd.clone(),
                interrupt_mode: place.interrupt_mode.clone(),
            },
            life,
            dead_cause: None,
            provisioner: self.provisioner.clone(),
            socket: place.socket.clone(),
            role: self.role.as_str().to_owned(),
            parent: self.parent.map(|parent| parent.0),
            template: self.template.clone(),
            start_path: self.start_path.as_str().to_owned(),
            start_reason: self.start_reason.clone(),
            sandbox: serde_json::to_value(&self.around).unwrap_or_default(),
            labels: self.labels.clone(),
            idle_timeout_ms: self
                .idle_timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            expires_micros: self
                .expires_micros
                .map(|at| i64::try_from(at).unwrap_or(i64::MAX)),
            origin: self.origin.as_str().to_owned(),
            name: self.session_name.clone(),
        }
    }

    /// From the row of a kernel.
    pub(crate) fn of_record(row: &KernelRecord, cull_timeout: Option<f64>) -> Self {
        let mut around: SandboxConfig = serde_json::from_value(row.sandbox.clone()).unwrap_or_default();
        around.isolation = row.isolation.parse().unwrap_or_default();
        let start_path = [StartPath::Pool, StartPath::Zygote, StartPath::Fork]
            .into_iter()
            .find(|path| path.as_str() == row.start_path);
        Self {
            id: KernelId(row.id),
            owner: row.owner.clone(),
            name: row.kernelspec.clone(),
            created_micros: u64::try_from(row.created_micros).unwrap_or(0),
            cull_timeout,
            origin: if row.origin == Origin::V1.as_str() {
                Origin::V1
            } else {
                Origin::Jupyter
            },
            template: row.template.clone(),
            provisioner: row.provisioner.clone(),
            around,
            cwd: row.launch.cwd.clone(),
            start_path: start_path.unwrap_or_default(),
            start_reason: row.start_reason.clone(),
            start_ms: 0,
            role: Role::parse(&row.role),
            parent: row.parent.map(KernelId),
            idle_timeout: row.idle_timeout_ms.map(Duration::from_millis),
            expires_micros: row.expires_micros.and_then(|at| u64::try_from(at).ok()),
            labels: row.labels.clone(),
            session_name: row.name.clone(),
        }
    }

    /// The session as commands show it.
    pub(crate) fn info(&self, kernel: KernelModel) -> SessionInfo {
        let around = self.around.clone();
        SessionInfo {
            kernel,
            owner: self.owner.clone(),
            origin: self.origin,
            created: from_micros(self.created_micros),
            template: self.template.clone(),
            provisioner: self.provisioner.clone(),
            isolation: around.isolation,
            limits: around.limits,
            enforcement: around.enforcement,
            network: around.network,
            image: around.image,
            files: around.files,
            cwd: self.cwd.clone(),
            start_path: self.start_path,
            start_reason: self.start_reason.clone(),
            start_ms: self.start_ms,
            parent: self.parent,
            idle_timeout: self.idle_timeout,
            expires: self.expires_micros.map(from_micros),
            labels: self.labels.clone(),
            name: self.session_name.clone(),
            end: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_from_their_row() {
        let facts = Facts {
            id: KernelId::random(),
            owner: "operator".into(),
            name: "python3".into(),
            created_micros: 5,
            cull_timeout: None,
            origin: Origin::V1,
            template: "analysis".into(),
            provisioner: "docker".into(),
            around: SandboxConfig {
                isolation: Isolation::Gvisor,
                limits: SessionLimits {
                    memory_bytes: Some(7),
                    ..SessionLimits::default()
                },
                network: Network::Open("net".into()),
                kept_files: Some("f".into()),
                ..SandboxConfig::default()
            },
            cwd: "/session".into(),
            start_path: StartPath::Pool,
            start_reason: None,
            start_ms: 9,
            role: Role::Kernel,
            parent: Some(KernelId::random()),
            idle_timeout: Some(Duration::from_secs(3)),
            expires_micros: Some(11),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            session_name: Some("eda".into()),
        };
        let place = RuntimePaths {
            log: "kernels/a".into(),
            endpoint: "/run/x".into(),
            sandbox_id: "s".into(),
            key_hash: [1; 32],
            socket: "k2.sock".into(),
            argv: vec!["python3".into()],
            interrupt_mode: "signal".into(),
        };
        let row = facts.record(&place, KernelLife::Live, 1);
        let back = Facts::of_record(&row, None);
        let expected = Facts { start_ms: 0, ..facts };
        assert_eq!(format!("{back:?}"), format!("{expected:?}"));
    }
}
