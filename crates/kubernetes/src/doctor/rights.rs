//! Checks the permissions of this account in the namespace: all that are needed, and none that an attacker could use.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::{Check, Verdict};
use crate::config::KubernetesConfig;

const TOPIC: &str = "permissions";

/// Verbs, resource and subresource that the provisioner uses.
const NEEDED: &[(&[&str], &str, &str)] = &[
    (&["create", "delete", "get", "list", "watch"], "pods", ""),
    (&["create", "delete", "list"], "secrets", ""),
    (&["create", "delete", "list"], "persistentvolumeclaims", ""),
];

/// Permissions that would help an attacker who controls the gateway.
const NEEDLESS: &[(&str, &str, &str)] = &[
    ("create", "pods", "exec"),
    ("create", "pods", "attach"),
    ("get", "secrets", ""),
    ("create", "rolebindings", ""),
    ("impersonate", "serviceaccounts", ""),
];

pub(super) async fn look(config: &KubernetesConfig, client: &Client) -> Vec<Check> {
    let mut missing = Vec::new();
    for (verbs, resource, subresource) in NEEDED {
        for verb in *verbs {
            match may(config, client, verb, resource, subresource).await {
                Ok(true) => {}
                Ok(false) => missing.push(format!("{verb} {resource}")),
                Err(error) => return vec![Check::new(Verdict::Bad, TOPIC, error.to_string())],
            }
        }
    }
    let mut checks = vec![if missing.is_empty() {
        Check::new(Verdict::Good, TOPIC, "all that the provisioner uses")
    } else {
        let text = format!(
            "missing: {}; see docker/kubernetes/base/rbac.yaml",
            missing.join(", ")
        );
        Check::new(Verdict::Bad, TOPIC, text)
    }];
    if !may(config, client, "get", "nodes", "").await.unwrap_or(true) {
        let text = "may not get nodes: pools keep pods on nodes that are cordoned; see docker/kubernetes/base/rbac.yaml";
        checks.push(Check::new(Verdict::Warn, TOPIC, text));
    }
    let mut more = Vec::new();
    for (verb, resource, subresource) in NEEDLESS {
        if may(config, client, verb, resource, subresource)
            .await
            .unwrap_or(false)
        {
            let slash = if subresource.is_empty() { "" } else { "/" };
            more.push(format!("{verb} {resource}{slash}{subresource}"));
        }
    }
    if !more.is_empty() {
        let text = format!("this account may also, and should not: {}", more.join(", "));
        checks.push(Check::new(Verdict::Warn, TOPIC, text));
    }
    checks
}

async fn may(
    config: &KubernetesConfig,
    client: &Client,
    verb: &str,
    resource: &str,
    subresource: &str,
) -> Result<bool, kube::Error> {
    let group = match resource {
        "rolebindings" => "rbac.authorization.k8s.io",
        _ => "",
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(config.namespace.clone()),
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: (!subresource.is_empty()).then(|| subresource.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
