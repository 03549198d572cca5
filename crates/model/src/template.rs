//! Templates: what the operator offers, and the bounds within which a caller may ask for something else.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_provisioner::{Isolation, Network, ProvisionerKind, SandboxError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::credential::{Intercept, TemplateCredential};
use crate::network::AllowList;
use crate::tool_policy::ToolPolicy;
use crate::tree::TreeLimits;
use crate::{LlmPolicy, MountTemplate};

/// Template of kernels: a kernelspec, the sandbox, its limits, and the size of the pool.
///
/// A kernelspec without a template of the same name is a template too, with [`EngineConfig::defaults`](crate::EngineConfig::defaults) or
/// else [`Template::default`].
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The kernelspec; `None` is the configured default, or the kernelspec itself for an implicit template.
    pub kernelspec: Option<String>,
    /// Provisioner of the sandbox.
    pub provisioner: ProvisionerChoice,
    /// Image of the root, for `docker`; `None` is the provisioner's own.
    pub image: Option<String>,
    /// Images that callers may name instead, all of them in [`EngineConfig::images`](crate::EngineConfig::images). Callers
    /// of a tenant need the tenant's grant too ([`TenantLimits::images`](crate::TenantLimits::images)).
    pub images: Vec<String>,
    /// Runtime of the container engine, for `docker`; `None` is the provisioner's own.
    pub runtime: Option<String>,
    /// The weakest isolation that will do. Callers may ask for more, never for less.
    pub isolation: Isolation,
    /// Network of the sandbox. `Allow` permits the hosts of [`Self::allow`]. `Open` needs `docker` and a name in
    /// [`EngineConfig::networks`](crate::EngineConfig::networks).
    pub network: Network,
    /// Hosts that kernels may reach through the gateway if `network` is [`Network::Allow`]. Callers may request fewer.
    pub allow: AllowList,
    /// Credentials that kernels may use, if `network` is [`Network::Allow`]. Callers may ask for less.
    pub credentials: Vec<TemplateCredential>,
    /// Hosts whose TLS the gateway reads, to put secrets in the place of placeholders and to check methods.
    pub intercept: Intercept,
    /// Tools that its sessions may use. Callers may ask for fewer.
    pub tools: ToolPolicy,
    /// True if code of the sessions may run skills.
    pub skills: bool,
    /// Bounds of the tree of sessions that code of the sessions may start.
    pub tree: TreeLimits,
    /// Models that its sessions may use.
    pub models: Box<LlmPolicy>,
    /// Networks that callers may ask for instead, in [`EngineConfig::networks`](crate::EngineConfig::networks); as
    /// [`Self::images`].
    pub networks: Vec<String>,
    /// Mounts of the sandboxes: names of [`EngineConfig::mounts`](crate::EngineConfig::mounts).
    pub mounts: Vec<String>,
    /// Limits of a session that asks for nothing.
    pub limits: SessionLimits,
    /// Sizes of `limits` that are defaults.
    pub usual_sizes: UsualSizes,
    /// The most that a session may ask for; a field that is `None` allows no more than `limits` gives.
    pub max: SessionLimits,
    /// A session idle for so long is ended; `None` never, beside what
    /// [`CullConfig`](crate::CullConfig) says. Callers may ask for less, and for anything where this is `None`.
    pub idle_timeout: Option<Duration>,
    /// A session older than this is ended; `None` never. Callers may ask for less, and for anything where this is
    /// `None`.
    pub lifetime: Option<Duration>,
    /// Variables of every kernel, over those of the kernelspec and under those of the caller.
    pub env: BTreeMap<String, String>,
    /// Modules that a zygote imports before its first fork.
    pub preload: Vec<String>,
    /// Lifetime of the files.
    pub files: FilesMode,
    /// Size of the pool.
    pub pool: PoolConfig,
    /// Trust domain: kernels in it may share a zygote, and thus memory pages. `None`: one for the gateway if there are no tenants, else one
    /// per tenant. Pooled kernels, which any tenant may get, are then not forked from a zygote.
    pub trust_domain: Option<String>,
}

impl Default for Template {
    fn default() -> Self {
        Self {
            kernelspec: None,
            provisioner: ProvisionerChoice::Auto,
            image: None,
            images: Vec::new(),
            runtime: None,
            isolation: Isolation::None,
            network: Network::None,
            allow: AllowList::default(),
            credentials: Vec::new(),
            intercept: Intercept::None,
            tools: ToolPolicy::default(),
            skills: false,
            tree: TreeLimits::default(),
            models: Box::default(),
            networks: Vec::new(),
            mounts: Vec::new(),
            limits: SessionLimits::default(),
            usual_sizes: UsualSizes::default(),
            max: SessionLimits::default(),
            idle_timeout: None,
            lifetime: None,
            env: BTreeMap::new(),
            preload: Vec::new(),
            files: FilesMode::Ephemeral,
            pool: PoolConfig::default(),
            trust_domain: None,
        }
    }
}

/// Provisioner that creates a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ProvisionerChoice {
    /// The preferred one that runs images where an image, a runtime, an open network or a level above `namespaces` is
    /// wanted, else the preferred one that runs none.
    #[default]
    Auto,
    /// This one.
    Named(ProvisionerKind),
}

impl TryFrom<String> for ProvisionerChoice {
    type Error = SandboxError;

    fn try_from(text: String) -> Result<Self, SandboxError> {
        match text.as_str() {
            "auto" => Ok(Self::Auto),
            other => other.parse().map(Self::Named),
        }
    }
}

/// Lifetime of the files in a work directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilesMode {
    /// Files end with the sandbox.
    #[default]
    Ephemeral,
    /// Files survive the sandbox and end with the session.
    Session,
}

/// Limits of a session. Null: no limit. In a request, null is the limit of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionLimits {
    /// Memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Processors, in thousandths of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// Files in the work directory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Size of `/tmp`, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp_bytes: Option<u64>,
    /// Size of `/dev/shm`, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_bytes: Option<u64>,
    /// Open files of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Output that is kept in the session's log, in bytes; older output becomes a marked gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Wall time of one execution, in milliseconds. Over it the execution is interrupted, then interrupted again, then
    /// the kernel's process is replaced (or ended, for `/v1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_ms: Option<u64>,
}

/// Sizes of a template that are defaults. They are those of file systems in memory, so they
/// shrink where all such file systems together would be more than half of the session's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsualSizes {
    /// [`SessionLimits::disk_bytes`], of files that are not kept.
    pub disk: bool,
    /// [`SessionLimits::tmp_bytes`].
    pub tmp: bool,
    /// [`SessionLimits::shm_bytes`].
    pub shm: bool,
}

/// Size of `/dev/shm` where neither template nor caller says one, in bytes: a part of the memory, whose processes share it.
pub fn usual_shm(memory: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    (memory / 8 / MIB * MIB).max(MIB)
}

impl SessionLimits {
    /// Upper bound of a sandbox's memory on the host, in bytes: the memory limit, plus the sizes of its file systems in memory if it has a
    /// root of its own. `None`: no limit.
    pub fn memory_total(&self, files: FilesMode, has_root: bool) -> Option<u64> {
        let in_memory = if has_root {
            let disk = self.disk_bytes.filter(|_| files == FilesMode::Ephemeral);
            [disk, self.tmp_bytes, self.shm_bytes]
        } else {
            [None; 3]
        };
        self.memory_bytes
            .map(|memory| in_memory.into_iter().flatten().fold(memory, u64::saturating_add))
    }
}

/// Size of the pool of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of idle kernels; 0: no pool.
    pub size: u32,
    /// Upper bound while claims are frequent, with starting kernels; at least `size`. Pooled kernels are not counted in `max_kernels`,
    /// claimed ones are.
    pub max: u32,
    /// One that waited for so long is replaced.
    pub max_age: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            size: 0,
            max: 0,
            max_age: Duration::from_hours(1),
        }
    }
}

/// A template as a caller sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateInfo {
    /// Name of the template.
    pub name: String,
    /// True for the implicit template of a kernelspec.
    pub implicit: bool,
    /// Mounts that [`Template::mounts`] names.
    pub mounts: Vec<MountTemplate>,
    /// Settings of the template.
    pub template: Template,
}

impl TemplateInfo {
    /// The most that a session of it may ask for; `None`: as much as it wants.
    pub fn max_limits(&self) -> SessionLimits {
        let (has, max) = (&self.template.limits, &self.template.max);
        SessionLimits {
            memory_bytes: max.memory_bytes.max(has.memory_bytes),
            pids: max.pids.max(has.pids),
            cpu_millis: max.cpu_millis.max(has.cpu_millis),
            disk_bytes: max.disk_bytes.max(has.disk_bytes),
            tmp_bytes: max.tmp_bytes.max(has.tmp_bytes),
            shm_bytes: max.shm_bytes.max(has.shm_bytes),
            open_files: max.open_files.max(has.open_files),
            output_bytes: max.output_bytes.max(has.output_bytes),
            execution_ms: max.execution_ms.max(has.execution_ms),
        }
    }
}
