//! Two pods like those of sandboxes: one listens, the other must not get through to it, nor to the API server. The other also finds out
//! how many processes a pod may have.
//!
//! A policy that exists is not one that is enforced: that depends on the network of the cluster.

use std::net::SocketAddr;
use std::time::Duration;

use himalia_provisioner::{Isolation, SandboxError, SandboxId, SandboxKey, SandboxSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use super::{Check, Verdict};
use crate::config::{KubernetesConfig, PORT};
use crate::names::Names;
use crate::observe::{Obstacle, PodPhase, observe};
use crate::pod::{self, CONTAINER, LEAST_CPU_MILLIS, LEAST_MEMORY, Parts};

const TOPIC: &str = "isolation";
const PROCESSES: &str = "processes";
const POD_TIME: Duration = Duration::from_mins(2);
/// Interval of polls.
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
        Ok((said, target)) => vec![isolation(&said, &target), processes(&said)],
        Err(error) => vec![Check::new(
            Verdict::Bad,
            TOPIC,
            format!("not known, so not isolated: the probe failed: {error}"),
        )],
    }
}

/// Checks the isolation by the report of the second pod.
fn isolation(said: &str, target: &str) -> Check {
    let reached = said.lines().filter_map(|line| line.strip_prefix("open "));
    let reached: Vec<String> = reached
        .map(|address| {
            if address == target {
                "another pod".to_owned()
            } else {
                format!("the API server ({address})")
            }
        })
        .collect();
    if reached.is_empty() {
        let text = "a pod reaches neither another pod nor the API server";
        return Check::new(Verdict::Good, TOPIC, text);
    }
    let text = format!(
        "NOT isolated: a pod got through to {}. The cluster's network does not enforce NetworkPolicy: \
         install one that does (such as Calico or Cilium), and look again",
        reached.join(" and ")
    );
    Check::new(Verdict::Bad, TOPIC, text)
}

/// Checks the limit of processes by the report of the second pod.
fn processes(said: &str) -> Check {
    let found = said.lines().find_map(|line| line.strip_prefix("processes "));
    match found.map(str::parse::<u64>) {
        Some(Ok(limit)) => Check::new(
            Verdict::Good,
            PROCESSES,
            format!("a pod has at most about {limit} processes and threads"),
        ),
        Some(Err(_)) => Check::new(
            Verdict::Warn,
            PROCESSES,
            "a pod has no limit of processes: one sandbox can use up the process ids of its node. Set podPidsLimit in the \
             configuration of the kubelets, such as 1024",
        ),
        None => Check::new(
            Verdict::Warn,
            PROCESSES,
            "it is not known whether the processes of a pod are limited: the probe ended before it could tell",
        ),
    }
}

/// Report of the second pod, and the address of the first.
async fn run(
    config: &KubernetesConfig,
    pods: &Api<Pod>,
    names: &mut Vec<String>,
) -> Result<(String, String), SandboxError> {
    let listen = probe(config, &["listen", &format!("[::]:{PORT}")])?;
    let listening = create(pods, &listen, names).await?;
    let ip = until(pods, &listening, |pod| match observe(pod) {
        PodPhase::Running(ip) => Some(Ok(ip)),
        PodPhase::Ended(end) => Some(Err(format!("{}: {}", end.cause, end.log))),
        PodPhase::Waiting(Some(obstacle)) if obstacle.is_final => Some(Err(obstacle.message)),
        PodPhase::Waiting(_) => None,
    })
    .await?;
    let target = SocketAddr::new(ip, PORT).to_string();
    let call = probe(config, &["connect", &target])?;
    let calling = create(pods, &call, names).await?;
    let said = until(pods, &calling, |pod| match observe(pod) {
        PodPhase::Ended(_) => Some(message(pod).ok_or_else(|| "the probe said nothing".to_owned())),
        PodPhase::Waiting(Some(obstacle)) if obstacle.is_final => Some(Err(obstacle.message)),
        _ => None,
    })
    .await?;
    Ok((said, target))
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
    let mut last = None;
    loop {
        let pod = pods.get(name).await;
        let pod = pod.map_err(|error| crate::error::failed("look at a probe", &error))?;
        if let Some(found) = found(&pod) {
            return found.map_err(failed);
        }
        if let PodPhase::Waiting(Some(obstacle)) = observe(&pod) {
            last = Some(obstacle);
        }
        if Instant::now() > end {
            let time = POD_TIME.as_secs();
            return Err(match last {
                Some(Obstacle { code, message, .. }) => SandboxError::NotPlaced {
                    code,
                    reason: format!("{message} (waited {time} s)"),
                },
                None => failed(format!("nothing after {time} s")),
            });
        }
        sleep(LOOK).await;
    }
}

/// A pod as sandboxes have, that runs a probe. It asks for next to nothing: a cluster that is full can be examined too.
fn probe(config: &KubernetesConfig, words: &[&str]) -> Result<Pod, SandboxError> {
    let names = Names {
        gateway: config.gateway.clone(),
        replica: config.replica.clone(),
    };
    let mut spec = SandboxSpec::new(SandboxKey::generate()?);
    // It keeps no files.
    spec.limits.memory_bytes = Some(LEAST_MEMORY);
    spec.limits.cpu_millis = Some(LEAST_CPU_MILLIS);
    spec.limits.disk_bytes = Some(1);
    spec.limits.tmp_bytes = Some(1);
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

/// Termination message of the container.
fn message(pod: &Pod) -> Option<String> {
    let all = pod.status.as_ref()?.container_statuses.as_ref()?;
    let state = all.iter().find(|one| one.name == CONTAINER)?.state.as_ref()?;
    state.terminated.as_ref()?.message.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pod_said_is_understood() {
        let closed = "closed [fd00::7]:7007\nclosed 10.0.0.1:443\nprocesses 1024\n";
        assert_eq!(isolation(closed, "[fd00::7]:7007").verdict, Verdict::Good);
        let limit = processes(closed);
        assert_eq!(limit.verdict, Verdict::Good);
        assert!(limit.text.contains("1024"), "{limit:?}");

        let open = "open [fd00::7]:7007\nopen 10.0.0.1:443\nprocesses max\n";
        let bad = isolation(open, "[fd00::7]:7007");
        assert_eq!(bad.verdict, Verdict::Bad);
        assert!(
            bad.text.contains("another pod and the API server (10.0.0.1:443)"),
            "{bad:?}"
        );
        let none = processes(open);
        assert_eq!(none.verdict, Verdict::Warn);
        assert!(none.text.contains("podPidsLimit"), "{none:?}");

        // It was ended for lack of memory.
        assert_eq!(processes("closed 10.0.0.7:7007\n").verdict, Verdict::Warn);
    }
}
