//! The tables of the configuration file: too much for flags.

use std::collections::BTreeMap;
use std::path::PathBuf;

use himalia_cli::values::Seconds;
use himalia_provisioner::Isolation;
use serde::Deserialize;

use super::values::DockerHost;

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
