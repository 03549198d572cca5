//! Nodes that are to be emptied: nothing new is to begin in their pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use himalia_provisioner::{SandboxError, SandboxId};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;

use crate::error::{code, failed};
use crate::inner::Inner;

/// Taints that autoscalers set before they remove a node.
const REMOVED_SOON: &[&str] = &["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"];
/// Taints with this effect end pods.
const NO_EXECUTE: &str = "NoExecute";

/// True after a warning that the account may not read nodes.
#[derive(Debug, Default)]
pub(crate) struct NodesAreHidden(AtomicBool);

/// Sandboxes among these that another actor deletes, or whose node is cordoned or about to be removed. An account that may not read nodes gets the
/// former only.
pub(crate) async fn leaving(inner: &Arc<Inner>, ids: &[SandboxId]) -> Result<Vec<SandboxId>, SandboxError> {
    let last = |id: &SandboxId| Some((*id, inner.member(*id)?.last.lock().clone()?));
    let pods: Vec<(SandboxId, Pod)> = ids.iter().filter_map(last).collect();
    let names: BTreeSet<&str> = pods.iter().filter_map(|(_, pod)| node_of(pod)).collect();
    let mut emptied = BTreeSet::new();
    for name in names {
        if is_to_be_emptied(inner, name).await? {
            emptied.insert(name);
        }
    }
    let leaves = |pod: &Pod| {
        pod.metadata.deletion_timestamp.is_some() || node_of(pod).is_some_and(|node| emptied.contains(node))
    };
    let found = pods.iter().filter(|(_, pod)| leaves(pod));
    Ok(found.map(|(id, _)| *id).collect())
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// One attempt: it is asked again soon.
async fn is_to_be_emptied(inner: &Inner, name: &str) -> Result<bool, SandboxError> {
    let nodes: Api<Node> = Api::all(inner.client.clone());
    match nodes.get(name).await {
        Ok(node) => Ok(is_emptied(&node)),
        // It has been removed.
        Err(error) if code(&error) == Some(404) => Ok(true),
        Err(error) if code(&error) == Some(403) => {
            if !inner.nodes_are_hidden.0.swap(true, Ordering::AcqRel) {
                tracing::warn!("this account may not get nodes: pools keep pods on nodes that are cordoned");
            }
            Ok(false)
        }
        Err(error) => Err(failed("look at a node", &error)),
    }
}

fn is_emptied(node: &Node) -> bool {
    let Some(spec) = &node.spec else { return false };
    let taints = spec.taints.iter().flatten();
    spec.unschedulable == Some(true)
        || taints
            .into_iter()
            .any(|taint| taint.effect == NO_EXECUTE || REMOVED_SOON.contains(&taint.key.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_that_are_to_be_emptied_say_so() {
        let node = |spec: serde_json::Value| -> Node {
            serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node", "metadata": {}, "spec": spec}))
                .unwrap()
        };
        for spec in [
            json!({"unschedulable": true}),
            json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}),
            json!({"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}),
        ] {
            assert!(is_emptied(&node(spec.clone())), "{spec}");
        }
        for spec in [
            json!({}),
            json!({"unschedulable": false, "taints": [{"key": "gpu", "effect": "NoSchedule"}]}),
        ] {
            assert!(!is_emptied(&node(spec.clone())), "{spec}");
        }
    }
}
