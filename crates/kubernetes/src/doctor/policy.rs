//! Checks that a network policy denies by default; the probe tries if it is enforced.

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use kube::api::ListParams;
use kube::{Api, Client};

use super::{Check, Verdict};
use crate::config::KubernetesConfig;

const TOPIC: &str = "NetworkPolicy";

pub(super) async fn look(config: &KubernetesConfig, client: &Client) -> Check {
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), &config.namespace);
    let found = match policies.list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(error) => return Check::new(Verdict::Warn, TOPIC, format!("cannot be looked at: {error}")),
    };
    let denies = found
        .iter()
        .find(|policy| policy.spec.as_ref().is_some_and(denies_all));
    match denies.and_then(|policy| policy.metadata.name.as_deref()) {
        Some(name) => Check::new(
            Verdict::Good,
            TOPIC,
            format!("{name} denies by default, both ways"),
        ),
        None => Check::new(
            Verdict::Bad,
            TOPIC,
            format!(
                "none in namespace {} denies by default; see docker/kubernetes/base/networkpolicy.yaml",
                config.namespace
            ),
        ),
    }
}

/// It selects all pods, is about both directions, and allows nothing out.
fn denies_all(spec: &NetworkPolicySpec) -> bool {
    let all = spec.pod_selector.as_ref().is_none_or(|selector| {
        selector
            .match_labels
            .as_ref()
            .is_none_or(std::collections::BTreeMap::is_empty)
            && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
    });
    let types = spec.policy_types.clone().unwrap_or_default();
    all && ["Ingress", "Egress"]
        .iter()
        .all(|kind| types.iter().any(|one| one == kind))
        && spec.egress.as_ref().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_denies_both_ways_for_all_counts() {
        let spec = |value| -> NetworkPolicySpec { serde_json::from_value(value).unwrap() };
        assert!(denies_all(&spec(
            json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
        )));
        for weak in [
            json!({"podSelector": {}, "policyTypes": ["Ingress"]}),
            json!({"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress", "Egress"]}),
            json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{}]}),
        ] {
            assert!(!denies_all(&spec(weak.clone())), "{weak}");
        }
    }
}
