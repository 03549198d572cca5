//! Two pods like those of sandboxes: one listens, the other must not get through to it, nor to the API server.
//!
//! A policy that exists is not one that is enforced: that depends on the network of the cluster.

use std::net::IpAddr;
use std::time::Duration;

use himalia_sandbox::{Isolation, SandboxError, SandboxId, SandboxKey, SandboxSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use super::{Check, Verdict};
use crate::config::{KubernetesConfig, PORT};
use crate::names::Names;
use crate::observe::{Observed, observe};
use crate::pod::{self, CONTAINER, Parts};

const TOPIC: &str = "isolation";
/// How long each of the pods may take.
const POD_TIME: Duration = Duration::from_mins(2);
/// How often they are looked at.
const LOOK: Duration = Duration::from_millis(500);

pub(super) async fn try_out(config: &KubernetesConfig, client: &Client) -> Vec<Check> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &config.namespace);
    let mut names = Vec::new();
    let result = run(config, &pods, &mut names).await;
    for name in names {
        let params = DeleteParams::default().grace_period(0);
        if let Err(error) = pods.delete(&name, &params).await {
            tracing::warn!(%error, name, "a probe stays");
        }
    }
    match result {
        Ok(reached) if reached.is_empty() => vec![Check::new(
            Verdict::Good,
            TOPIC,
            "a pod reaches neither another pod nor the API server",
        )],
        Ok(reached) => vec![Check::new(
            Verdict::Bad,
            TOPIC,
            format!(
                "NOT isolated: a pod got through to {}. The cluster's network does not enforce NetworkPolicy: \
                 install one that does (such as Calico or Cilium), and look again",
                reached.join(" and ")
            ),
        )],
        Err(error) => vec![Check::new(
            Verdict::Bad,
            TOPIC,
            format!("not known, so not isolated: the probe failed: {error}"),
        )],
    }
}

/// What the second pod reached.
async fn run(
    config: &KubernetesConfig,
    pods: &Api<Pod>,
    names: &mut Vec<String>,
) -> Result<Vec<String>, SandboxError> {
    let listen = probe(config, &["listen", &format!("0.0.0.0:{PORT}")])?;
    let listening = create(pods, &listen, names).await?;
    let ip = until(pods, &listening, |pod| match observe(pod) {
        Observed::Running(ip) => Some(Ok(ip)),
        Observed::Ended(end) => Some(Err(format!("{}: {}", end.cause, end.log))),
        Observed::Waiting(Some(obstacle)) if obstacle.is_final => Some(Err(obstacle.message)),
        Observed::Waiting(_) => None,
    })
    .await?;
    let target = match ip {
        IpAddr::V4(ip) => format!("{ip}:{PORT}"),
        IpAddr::V6(ip) => format!("[{ip}]:{PORT}"),
    };
    let call = probe(config, &["connect", &target])?;
    let calling = create(pods, &call, names).await?;
    let said = until(pods, &calling, |pod| match observe(pod) {
        Observed::Ended(_) => Some(message(pod).ok_or_else(|| "the probe said nothing".to_owned())),
        Observed::Waiting(Some(obstacle)) if obstacle.is_final => Some(Err(obstacle.message)),
        _ => None,
    })
    .await?;
    let reached = said.lines().filter_map(|line| line.strip_prefix("open "));
    let name = |address: &str| {
        if address == target {
            "another pod".to_owned()
        } else {
            format!("the API server ({address})")
        }
    };
    Ok(reached.map(name).collect())
}

async fn create(pods: &Api<Pod>, pod: &Pod, names: &mut Vec<String>) -> Result<String, SandboxError> {
    let made = pods.create(&PostParams::default(), pod).await;
    let made = made.map_err(|error| crate::error::failed("create a probe", &error))?;
    let name = made.metadata.name.unwrap_or_default();
    names.push(name.clone());
    Ok(name)
}

/// Looks at a pod until `found` has something to say of it.
async fn until<T>(
    pods: &Api<Pod>,
    name: &str,
    found: impl Fn(&Pod) -> Option<Result<T, String>>,
) -> Result<T, SandboxError> {
    let failed = |reason: String| SandboxError::NotPlaced {
        code: "probe",
        reason,
    };
    let end = Instant::now() + POD_TIME;
    loop {
        let pod = pods.get(name).await;
        let pod = pod.map_err(|error| crate::error::failed("look at a probe", &error))?;
        if let Some(found) = found(&pod) {
            return found.map_err(failed);
        }
        if Instant::now() > end {
            return Err(failed(format!("nothing after {} s", POD_TIME.as_secs())));
        }
        sleep(LOOK).await;
    }
}

/// A pod as sandboxes have, that runs a probe.
fn probe(config: &KubernetesConfig, words: &[&str]) -> Result<Pod, SandboxError> {
    let names = Names {
        gateway: config.gateway.clone(),
        replica: config.replica.clone(),
    };
    let spec = SandboxSpec::new(SandboxKey::generate()?);
    let parts = Parts {
        id: SandboxId::generate()?,
        names: &names,
        // It has no certificate.
        authority: "",
        config,
        kind: config.kind(None)?,
        image: &config.agent_image,
        claim: None,
    };
    let mut pod = pod::pod(&parts, &spec, Isolation::Container);
    if let Some(spec) = &mut pod.spec {
        spec.init_containers = None;
        spec.volumes = None;
        for container in &mut spec.containers {
            container.command = Some(vec!["/himalia-shim".to_owned(), "probe".to_owned()]);
            container.args = Some(words.iter().map(|word| (*word).to_owned()).collect());
            container.working_dir = None;
            container.volume_mounts = None;
        }
    }
    Ok(pod)
}

/// What the container said at its end.
fn message(pod: &Pod) -> Option<String> {
    let all = pod.status.as_ref()?.container_statuses.as_ref()?;
    let state = all.iter().find(|one| one.name == CONTAINER)?.state.as_ref()?;
    state.terminated.as_ref()?.message.clone()
}
