//! The tables of the configuration file: too much for flags.

use std::collections::BTreeMap;
use std::path::PathBuf;

use himalia_cli::values::Seconds;
use himalia_engine::{AllowList, FilesMode, Intercept, ProvisionerChoice, TemplateCredential, ToolPattern};
use himalia_sandbox::Isolation;
use serde::Deserialize;

use super::values::{ByteSize, DockerHost, Processors};

/// `[docker]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DockerTable {
    /// Socket of the engine.
    pub(crate) host: Option<DockerHost>,
    /// Image of sandboxes that name none.
    pub(crate) image: Option<String>,
    /// Further images that templates may name and grant.
    pub(crate) images: Vec<String>,
    /// Networks of the engine that templates may name and grant.
    pub(crate) networks: Vec<String>,
    /// The engine's runtimes, each with the level that it gives.
    pub(crate) runtimes: Option<BTreeMap<String, Isolation>>,
}

/// `[kubernetes]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KubernetesTable {
    /// The namespace of the pods.
    pub(crate) namespace: Option<String>,
    /// The name of this gateway in the namespace.
    pub(crate) gateway: Option<String>,
    /// Kubeconfig for the API; the pod's own account if it is missing.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    pub(crate) context: Option<String>,
    /// Image of sandboxes that name none.
    pub(crate) image: Option<String>,
    /// Further images that templates may name and grant.
    pub(crate) images: Vec<String>,
    /// Image of the init container.
    pub(crate) agent_image: Option<String>,
    pub(crate) pull_policy: Option<String>,
    pub(crate) pull_secrets: Vec<String>,
    /// User id in pods.
    pub(crate) uid: Option<u32>,
    /// Class of claims for kept files.
    pub(crate) storage_class: Option<String>,
    /// Files with the keys of the authority of the sandboxes' certificates; the first signs.
    pub(crate) authority_keys: Vec<PathBuf>,
    pub(crate) start_deadline: Option<Seconds>,
    pub(crate) schedule_deadline: Option<Seconds>,
    pub(crate) node_grace: Option<Seconds>,
    /// Kinds of pods, which templates name as their runtime.
    pub(crate) runtimes: BTreeMap<String, PodTable>,
}

/// `[kubernetes.runtimes.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PodTable {
    pub(crate) isolation: Option<Isolation>,
    pub(crate) runtime_class: Option<String>,
    pub(crate) host_users: Option<bool>,
    pub(crate) node_selector: BTreeMap<String, String>,
    /// Resources such as GPUs, by name.
    pub(crate) resources: BTreeMap<String, u64>,
    pub(crate) deadline: Option<Seconds>,
}

/// `[mounts.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MountTable {
    /// A directory of the host.
    pub(crate) directory: Option<PathBuf>,
    /// A volume of the Docker engine.
    pub(crate) volume: Option<String>,
    /// A claim of the cluster's namespace.
    pub(crate) claim: Option<String>,
    /// The part of it that is mounted.
    pub(crate) subdirectory: Option<PathBuf>,
    /// Path in sandboxes.
    pub(crate) path: Option<PathBuf>,
    /// True if sessions may write.
    pub(crate) writable: bool,
    /// The owner of the files.
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

/// `[templates.NAME]` and `[defaults]`; what is `None` was not said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TemplateTable {
    pub(crate) kernelspec: Option<String>,
    pub(crate) provisioner: Option<ProvisionerChoice>,
    pub(crate) image: Option<String>,
    /// Images that callers may ask for instead.
    pub(crate) images: Option<Vec<String>>,
    pub(crate) runtime: Option<String>,
    /// `none`, `allow`, or a name of `[docker] networks`.
    pub(crate) network: Option<String>,
    /// Hosts that `allow` permits.
    pub(crate) allow: Option<AllowList>,
    /// Credentials that its sessions may use.
    pub(crate) credentials: Option<Vec<TemplateCredential>>,
    /// Hosts whose TLS the gateway reads.
    pub(crate) intercept: Option<Intercept>,
    /// Tools that its sessions may use.
    pub(crate) tools: Option<Vec<ToolPattern>>,
    /// Tools that may be called although they change something.
    pub(crate) tools_write: Option<Vec<ToolPattern>>,
    /// True if a person is asked to approve calls of other tools that change something.
    pub(crate) tools_approval: Option<bool>,
    /// Calls of tools while one request runs.
    pub(crate) tool_calls_per_execution: Option<u32>,
    /// Calls of tools of a session.
    pub(crate) tool_calls: Option<u64>,
    /// True if code of the sessions may run skills.
    pub(crate) skills: Option<bool>,
    /// Sessions below each other that code starts.
    pub(crate) tree_depth: Option<u32>,
    /// Sessions of such a tree that live at once.
    pub(crate) tree_sessions: Option<u32>,
    /// Models that its sessions may use.
    pub(crate) models: Option<Vec<String>>,
    /// Caps on calls of models, of one execution.
    pub(crate) model_calls: Option<u64>,
    pub(crate) model_tokens: Option<u64>,
    pub(crate) model_spend: Option<f64>,
    pub(crate) model_parallel: Option<u32>,
    /// Networks that callers may ask for instead.
    pub(crate) networks: Option<Vec<String>>,
    /// At least.
    pub(crate) isolation: Option<Isolation>,
    pub(crate) memory: Option<ByteSize>,
    pub(crate) cpu: Option<Processors>,
    pub(crate) pids: Option<u32>,
    pub(crate) disk: Option<ByteSize>,
    pub(crate) tmp: Option<ByteSize>,
    pub(crate) shm: Option<ByteSize>,
    pub(crate) open_files: Option<u64>,
    pub(crate) output: Option<ByteSize>,
    pub(crate) execution_time: Option<Seconds>,
    /// The most that callers may ask for.
    pub(crate) max: Option<LimitsTable>,
    pub(crate) idle_timeout: Option<Seconds>,
    pub(crate) lifetime: Option<Seconds>,
    pub(crate) files: Option<FilesMode>,
    /// Names of `[mounts]`.
    pub(crate) mounts: Option<Vec<String>>,
    pub(crate) preload: Option<Vec<String>>,
    pub(crate) trust_domain: Option<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) pool: Option<PoolTable>,
}

impl TemplateTable {
    /// The limits in it.
    pub(crate) fn limits(&self) -> LimitsTable {
        LimitsTable {
            memory: self.memory,
            cpu: self.cpu,
            pids: self.pids,
            disk: self.disk,
            tmp: self.tmp,
            shm: self.shm,
            open_files: self.open_files,
            output: self.output,
            execution_time: self.execution_time,
        }
    }
}

/// `[templates.NAME.max]`, and the limits of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsTable {
    pub(crate) memory: Option<ByteSize>,
    pub(crate) cpu: Option<Processors>,
    pub(crate) pids: Option<u32>,
    pub(crate) disk: Option<ByteSize>,
    pub(crate) tmp: Option<ByteSize>,
    pub(crate) shm: Option<ByteSize>,
    pub(crate) open_files: Option<u64>,
    pub(crate) output: Option<ByteSize>,
    pub(crate) execution_time: Option<Seconds>,
}

/// `[templates.NAME.pool]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PoolTable {
    /// Kernels kept ready.
    pub(crate) size: Option<u32>,
    /// The most while claims come fast.
    pub(crate) max: Option<u32>,
    /// One that waited for so long is replaced.
    pub(crate) max_age: Option<Seconds>,
}
