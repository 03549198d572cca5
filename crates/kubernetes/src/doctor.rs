//! Checks of a cluster's support for sandboxes, by trials.

mod policy;
mod probe;
mod rights;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::config::KubernetesConfig;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, and is worse than it could be.
    Warn,
    /// Sandboxes do not start, or are not isolated.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    pub verdict: Verdict,
    pub topic: &'static str,
    /// The finding, and how to fix it.
    pub text: String,
}

impl Check {
    pub(crate) fn new(verdict: Verdict, topic: &'static str, text: impl Into<String>) -> Self {
        Self {
            verdict,
            topic,
            text: text.into(),
        }
    }
}

/// Looks at permissions, quota and network policies, and starts two pods to see whether the policies are enforced. Both are
/// deleted before it returns.
pub async fn examine(config: &KubernetesConfig, client: &Client) -> Vec<Check> {
    let mut checks = Vec::new();
    match client.apiserver_version().await {
        Ok(version) => checks.push(Check::new(
            Verdict::Good,
            "API server",
            format!("{} answers", version.git_version),
        )),
        Err(error) => {
            checks.push(Check::new(Verdict::Bad, "API server", error.to_string()));
            return checks;
        }
    }
    checks.extend(rights::look(config, client).await);
    checks.push(quota(config, client).await);
    checks.push(policy::look(config, client).await);
    checks.extend(probe::try_out(config, client).await);
    checks
}

async fn quota(config: &KubernetesConfig, client: &Client) -> Check {
    let topic = "quota";
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), &config.namespace);
    match quotas.list(&ListParams::default()).await {
        Ok(found) if found.items.is_empty() => Check::new(
            Verdict::Warn,
            topic,
            format!(
                "namespace {} has no ResourceQuota: its pods can take all that the nodes have",
                config.namespace
            ),
        ),
        Ok(found) => {
            let hard = found.items.into_iter().filter_map(|quota| quota.spec?.hard);
            let all: Vec<String> = hard
                .flatten()
                .map(|(name, quantity)| format!("{name}={}", quantity.0))
                .collect();
            Check::new(Verdict::Good, topic, all.join(", "))
        }
        Err(error) => Check::new(Verdict::Warn, topic, format!("cannot be looked at: {error}")),
    }
}
