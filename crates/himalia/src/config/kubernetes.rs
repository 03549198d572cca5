//! Settings of the cluster whose pods are the sandboxes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use himalia_kubernetes::{DEFAULT_KIND, KubernetesConfig, PodKind};
use himalia_provisioner::{Isolation, SandboxError};

use super::ConfigError;
use super::sandboxes::Docker;
use crate::settings::{KubernetesTable, PodTable, Seconds};

/// The default image of sandboxes.
const IMAGE: &str = "himalia-kernel";
/// The default image of the init container.
const AGENT_IMAGE: &str = "himalia-agent";
/// The default namespace.
const NAMESPACE: &str = "himalia-kernels";
/// The default name of a gateway.
const GATEWAY: &str = "himalia";

/// The cluster, and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Kubernetes {
    pub(crate) config: KubernetesConfig,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    /// Files with the keys of the authority of the sandboxes' certificates, the one that signs first. Without them the
    /// authority is in the data directory.
    pub(crate) authority_keys: Vec<PathBuf>,
}

impl Kubernetes {
    pub(super) fn check(table: KubernetesTable) -> Result<Self, ConfigError> {
        let or = |said: Option<String>, usual: &str| said.unwrap_or_else(|| usual.to_owned());
        let mut config = KubernetesConfig::new(
            &or(table.namespace, NAMESPACE),
            &or(table.gateway, GATEWAY),
            &or(table.image, IMAGE),
            &or(table.agent_image, AGENT_IMAGE),
        );
        for image in table.images {
            if !config.images.contains(&image) {
                config.images.push(image);
            }
        }
        config.pull_secrets = table.pull_secrets;
        config.storage_class = table.storage_class;
        if let Some(policy) = table.pull_policy {
            config.pull_policy = policy;
        }
        if let Some(uid) = table.uid {
            config.uid = uid.into();
        }
        for (time, said) in [
            (&mut config.start_deadline, table.start_deadline),
            (&mut config.schedule_deadline, table.schedule_deadline),
            (&mut config.node_grace, table.node_grace),
        ] {
            if let Some(said) = said {
                *time = said.duration();
            }
        }
        for (name, table) in table.runtimes {
            config.kinds.insert(name, kind(table));
        }
        config.check().map_err(|error| match error {
            SandboxError::BadSpec { field, reason } => ConfigError::new(field, reason),
            other => ConfigError::new("kubernetes", other.to_string()),
        })?;
        Ok(Self {
            config,
            kubeconfig: table.kubeconfig,
            context: table.context,
            authority_keys: table.authority_keys,
        })
    }

    /// Checks that gateways which share a store also share the authority: any of them may come to dial any sandbox.
    pub(super) fn check_shared(&self, shares: bool) -> Result<(), ConfigError> {
        if shares && self.authority_keys.is_empty() {
            let reason =
                "is missing: gateways that share a store need an authority for their sandboxes that all have";
            return Err(ConfigError::new("kubernetes.authority_keys", reason));
        }
        Ok(())
    }

    /// Settings against which templates and grants are checked.
    pub(super) fn offer(&self) -> Docker {
        let kinds = self.config.kinds.iter();
        let runtimes: BTreeMap<String, Isolation> =
            kinds.map(|(name, kind)| (name.clone(), kind.isolation)).collect();
        Docker {
            table: "kubernetes",
            socket: PathBuf::new(),
            images: self.config.images.clone(),
            networks: Vec::new(),
            runtimes,
            runtime: DEFAULT_KIND.to_owned(),
        }
    }
}

fn kind(table: PodTable) -> PodKind {
    PodKind {
        isolation: table.isolation.unwrap_or(Isolation::Container),
        runtime_class: table.runtime_class,
        host_users: table.host_users,
        node_selector: table.node_selector,
        resources: table.resources,
        deadline: table.deadline.map(Seconds::duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Kubernetes, ConfigError> {
        Kubernetes::check(toml::from_str(text).unwrap())
    }

    #[test]
    fn a_table_is_complete_without_a_word() {
        let kubernetes = check("").unwrap();
        assert_eq!(kubernetes.config.namespace, NAMESPACE);
        assert_eq!(kubernetes.offer().runtimes.len(), 1);
    }

    #[test]
    fn kinds_of_pods_are_runtimes() {
        let text = r#"
            images = ["other", "himalia-kernel"]
            [runtimes.gpu]
            isolation = "microvm"
            runtime_class = "kata"
            resources = {"nvidia.com/gpu" = 1}
            deadline = "1h"
        "#;
        let kubernetes = check(text).unwrap();
        assert_eq!(kubernetes.config.images, ["himalia-kernel", "other"]);
        assert_eq!(kubernetes.offer().runtimes["gpu"], Isolation::Microvm);
        assert_eq!(kubernetes.config.kinds["gpu"].resources["nvidia.com/gpu"], 1);
    }

    #[test]
    fn gateways_that_share_a_store_share_the_authority() {
        check("").unwrap().check_shared(false).unwrap();
        let error = check("").unwrap().check_shared(true).unwrap_err();
        assert!(
            error.to_string().starts_with("kubernetes.authority_keys"),
            "{error}"
        );
        let keyed = check(r#"authority_keys = ["/keys/new.pem", "/keys/old.pem"]"#).unwrap();
        keyed.check_shared(true).unwrap();
    }

    #[test]
    fn what_cannot_work_names_its_key() {
        for (text, key) in [
            ("namespace = \"A B\"", "kubernetes.namespace"),
            ("pull_policy = \"always\"", "kubernetes.pull_policy"),
            ("uid = 0", "kubernetes.uid"),
            ("[runtimes.x]\nisolation = \"none\"", "kubernetes.runtimes"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
