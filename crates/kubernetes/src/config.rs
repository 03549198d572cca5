//! Settings of the provisioner.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_provisioner::{Isolation, SandboxError};

/// The port on which shims listen.
pub const PORT: u16 = 7007;
/// The name of the pod kind that is used where none is named.
pub const DEFAULT_KIND: &str = "default";

/// Settings of the provisioner.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// The namespace of the pods. Nothing outside of it is touched.
    pub namespace: String,
    /// The name of this gateway among those that use the namespace: a label of everything that it makes. At most 63 of
    /// `[a-z0-9-]`.
    pub gateway: String,
    /// The name of this replica, where several gateways share a store, and with it this namespace and the name above: each
    /// knows what another one has made, and leaves it alone while that one lives.
    pub replica: Option<String>,
    /// Images that sandboxes may have; the first is the default.
    pub images: Vec<String>,
    /// The image of the init container, with `/himalia-shim` and `/kernel`.
    pub agent_image: String,
    /// When nodes fetch images: `IfNotPresent`, `Always` or `Never`.
    pub pull_policy: String,
    /// Secrets of the namespace by which nodes fetch images.
    pub pull_secrets: Vec<String>,
    /// Kinds of pods by name. [`DEFAULT_KIND`] is that of sandboxes that name none.
    pub kinds: BTreeMap<String, PodKind>,
    /// User and group of everything in a pod.
    pub uid: i64,
    /// Limits of sandboxes that have none: every pod has some.
    pub memory_bytes: u64,
    /// Likewise, in thousandths of a processor.
    pub cpu_millis: u32,
    /// The class of the claims for kept files; `None` is the cluster's default.
    pub storage_class: Option<String>,
    /// Time for a pod to start running.
    pub start_deadline: Duration,
    /// Time for a pod to get a node. A cluster that grows needs minutes.
    pub schedule_deadline: Duration,
    /// Age from which a pod of this gateway that no session belongs to is removed.
    pub reap_after: Duration,
    /// Time for which the pods of a node that does not respond are kept.
    pub node_grace: Duration,
}

/// A kind of pod: what a template chooses as its `runtime`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodKind {
    /// The level that it gives.
    pub isolation: Isolation,
    /// The `RuntimeClass`, such as that of gVisor or Kata.
    pub runtime_class: Option<String>,
    /// `false` gives each pod user ids of its own; needs Kubernetes 1.33 or newer.
    pub host_users: Option<bool>,
    /// Labels that its nodes must have.
    pub node_selector: BTreeMap<String, String>,
    /// Resources beside memory and processors by name, such as `nvidia.com/gpu`.
    pub resources: BTreeMap<String, u64>,
    /// Longest life of a pod, whatever happens to the gateway.
    pub deadline: Option<Duration>,
}

impl Default for PodKind {
    fn default() -> Self {
        Self {
            isolation: Isolation::Container,
            runtime_class: None,
            host_users: None,
            node_selector: BTreeMap::new(),
            resources: BTreeMap::new(),
            deadline: None,
        }
    }
}

impl KubernetesConfig {
    /// With the defaults of everything else.
    pub fn new(namespace: &str, gateway: &str, image: &str, agent_image: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            gateway: gateway.to_owned(),
            replica: None,
            images: vec![image.to_owned()],
            agent_image: agent_image.to_owned(),
            pull_policy: "IfNotPresent".to_owned(),
            pull_secrets: Vec::new(),
            kinds: BTreeMap::from([(DEFAULT_KIND.to_owned(), PodKind::default())]),
            uid: 1000,
            memory_bytes: 1 << 30,
            cpu_millis: 1000,
            storage_class: None,
            start_deadline: Duration::from_mins(5),
            schedule_deadline: Duration::from_mins(1),
            reap_after: Duration::from_mins(1),
            node_grace: Duration::from_secs(30),
        }
    }

    /// Checks what would otherwise be refused at the first start.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] names the setting.
    pub fn check(&self) -> Result<(), SandboxError> {
        let bad = |field: &'static str, reason: String| Err(SandboxError::BadSpec { field, reason });
        for (field, text) in [
            ("kubernetes.namespace", &self.namespace),
            ("kubernetes.gateway", &self.gateway),
        ] {
            if !is_label(text) {
                return bad(
                    field,
                    format!("{text:?} is not a valid name: up to 63 of a-z 0-9 -"),
                );
            }
        }
        if self.images.is_empty() {
            return bad("kubernetes.image", "is missing".to_owned());
        }
        if !["IfNotPresent", "Always", "Never"].contains(&self.pull_policy.as_str()) {
            return bad(
                "kubernetes.pull_policy",
                format!(
                    "{:?} must be one of IfNotPresent, Always, Never",
                    self.pull_policy
                ),
            );
        }
        if self.uid <= 0 {
            return bad(
                "kubernetes.uid",
                "must be above 0: no pod runs as root".to_owned(),
            );
        }
        if !self.kinds.contains_key(DEFAULT_KIND) {
            return bad("kubernetes.runtimes", format!("{DEFAULT_KIND} is missing"));
        }
        for (name, kind) in &self.kinds {
            if kind.isolation < Isolation::Container {
                return bad(
                    "kubernetes.runtimes",
                    format!(
                        "{name}: the level of a pod must be container, gvisor or microvm, not {}",
                        kind.isolation
                    ),
                );
            }
        }
        Ok(())
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] for an unknown one.
    pub(crate) fn kind(&self, name: Option<&str>) -> Result<&PodKind, SandboxError> {
        let name = name.unwrap_or(DEFAULT_KIND);
        self.kinds.get(name).ok_or_else(|| SandboxError::BadSpec {
            field: "runtime",
            reason: format!("{name:?} is not among the kinds of pods that the operator allows"),
        })
    }

    /// The image of a spec.
    ///
    /// # Errors
    /// [`SandboxError::BadSpec`] for one that is not allowed.
    pub(crate) fn image<'a>(&'a self, wanted: Option<&'a str>) -> Result<&'a str, SandboxError> {
        match wanted {
            None => self.images.first().map(String::as_str),
            Some(image) => self.images.iter().map(String::as_str).find(|one| *one == image),
        }
        .ok_or_else(|| SandboxError::BadSpec {
            field: "image",
            reason: "is not in the operator's list".to_owned(),
        })
    }
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().copied().is_some_and(plain)
        && bytes.last().copied().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut KubernetesConfig);

    #[test]
    fn what_cannot_work_is_named() {
        let good = KubernetesConfig::new("kernels", "g1", "image", "agent");
        good.check().unwrap();
        let changes: [(&str, Change); 6] = [
            ("namespace", |config| config.namespace = "Kernels".to_owned()),
            ("gateway", |config| config.gateway = "-g".to_owned()),
            ("image", |config| config.images.clear()),
            ("pull_policy", |config| config.pull_policy = "never".to_owned()),
            ("uid", |config| config.uid = 0),
            ("runtimes", |config| config.kinds.clear()),
        ];
        for (word, change) in changes {
            let mut config = good.clone();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
