//! Translates the status of a pod.

use std::net::IpAddr;

use himalia_provisioner::ExitCause;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod, PodCondition, PodStatus};

use crate::pod::{AGENT, CONTAINER};

/// Most characters of a message that is passed on.
const MESSAGE_CHARS: usize = 500;

/// Phase in the life of a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PodPhase {
    /// It does not run yet; what is in the way, if anything is.
    Waiting(Option<Obstacle>),
    /// The shim runs and listens at this address.
    Running(IpAddr),
    /// It does not run any more.
    Ended(End),
}

/// Reason why a pod does not run yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Obstacle {
    /// Our name of it.
    pub(crate) code: &'static str,
    /// Message of the cluster.
    pub(crate) message: String,
    /// Waiting will not help.
    pub(crate) is_final: bool,
}

/// End of a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct End {
    pub(crate) cause: ExitCause,
    /// The end of the shim's log.
    pub(crate) log: String,
}

/// No node has room, or none matches.
pub(crate) const UNSCHEDULABLE: &str = "unschedulable";
/// The image cannot be had.
pub(crate) const IMAGE: &str = "image";
/// The container cannot be made.
pub(crate) const CONFIG: &str = "container_config";
/// The init container failed.
pub(crate) const AGENT_FAILED: &str = "agent_failed";
/// The cluster ended the pod for lack of a resource of the node, or for its own.
pub(crate) const EVICTED: &str = "evicted";
/// The node does not respond, or was shut down.
pub(crate) const NODE_LOST: &str = "node_lost";
/// The deadline of its kind has passed.
pub(crate) const DEADLINE: &str = "deadline";

/// Reads a pod as the API server has it.
pub(crate) fn observe(pod: &Pod) -> PodPhase {
    let empty = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&empty);
    let state = container(status, CONTAINER);
    if let Some(end) = ended(pod, status, state) {
        return PodPhase::Ended(end);
    }
    if state.is_some_and(|state| state.running.is_some())
        && let Some(ip) = status.pod_ip.as_ref().and_then(|ip| ip.parse().ok())
    {
        return PodPhase::Running(ip);
    }
    PodPhase::Waiting(obstacle(status, state))
}

/// End of a pod that the API server no longer has, from its last known state.
pub(crate) fn vanished(last: Option<&Pod>) -> End {
    let empty = PodStatus::default();
    let status = last.and_then(|pod| pod.status.as_ref()).unwrap_or(&empty);
    if let Some(pod) = last {
        if let Some(end) = ended(pod, status, container(status, CONTAINER)) {
            return end;
        }
        if is_silent(status) {
            return node_lost(pod);
        }
    }
    platform("deleted", "the pod was deleted from outside".to_owned())
}

/// True if the cluster gives up a pod whose node does not respond: it is to be deleted, and no component on the node does it.
pub(crate) fn is_abandoned(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    pod.metadata.deletion_timestamp.is_some() && status.is_some_and(is_silent)
}

fn ended(pod: &Pod, status: &PodStatus, state: Option<&ContainerState>) -> Option<End> {
    let reason = status.reason.as_deref().unwrap_or_default();
    let message = || shortened(status.message.as_deref().unwrap_or_default());
    match reason {
        "Evicted" => return Some(platform(EVICTED, message())),
        "DeadlineExceeded" => return Some(platform(DEADLINE, message())),
        "NodeLost" | "Shutdown" | "NodeShutdown" | "NodeAffinity" => {
            return Some(platform(NODE_LOST, message()));
        }
        "OutOfmemory" | "OutOfcpu" | "OutOfpods" | "OutOfephemeral-storage" | "Preempting" => {
            return Some(platform(EVICTED, format!("{reason}: {}", message())));
        }
        _ => {}
    }
    if let Some(terminated) = state.and_then(|state| state.terminated.as_ref()) {
        let disruption = condition(status, "DisruptionTarget");
        return Some(terminated_as(terminated, disruption));
    }
    if is_abandoned(pod) {
        return Some(node_lost(pod));
    }
    match status.phase.as_deref() {
        Some("Failed") => {
            let agent = container_init(status).and_then(|state| state.terminated.as_ref());
            Some(match agent.filter(|agent| agent.exit_code != 0) {
                Some(agent) => platform(
                    AGENT_FAILED,
                    format!("exit code {}: {}", agent.exit_code, said(agent)),
                ),
                None => platform("failed", format!("{reason} {}", message()).trim().to_owned()),
            })
        }
        Some("Succeeded") => Some(End {
            cause: ExitCause::Exited(0),
            log: String::new(),
        }),
        _ => None,
    }
}

fn terminated_as(terminated: &ContainerStateTerminated, disruption: Option<&PodCondition>) -> End {
    if let Some(disruption) = disruption {
        let reason = disruption.reason.as_deref().unwrap_or_default();
        let code = match reason {
            "DeletionByTaintManager" | "DeletionByPodGC" => NODE_LOST,
            _ => EVICTED,
        };
        let message = disruption.message.as_deref().unwrap_or_default();
        return platform(code, shortened(&format!("{reason}: {message}")));
    }
    let cause = match (
        terminated.reason.as_deref(),
        terminated.signal,
        terminated.exit_code,
    ) {
        (Some("OOMKilled"), _, _) => ExitCause::OutOfMemory,
        (Some("ContainerStatusUnknown"), _, _) => {
            return platform(NODE_LOST, said(terminated));
        }
        (_, Some(signal), _) if signal > 0 => ExitCause::Signaled(signal),
        // As the shell and the runtimes have it.
        (_, _, code) if (129..160).contains(&code) => ExitCause::Signaled(code - 128),
        (_, _, code) => ExitCause::Exited(code),
    };
    End {
        cause,
        log: said(terminated),
    }
}

fn obstacle(status: &PodStatus, state: Option<&ContainerState>) -> Option<Obstacle> {
    let scheduled = condition(status, "PodScheduled").filter(|condition| condition.status == "False");
    if let Some(scheduled) = scheduled {
        return Some(Obstacle {
            code: UNSCHEDULABLE,
            message: shortened(scheduled.message.as_deref().unwrap_or("no node takes it")),
            is_final: false,
        });
    }
    let waiting = [container_init(status), state]
        .into_iter()
        .flatten()
        .find_map(|state| state.waiting.as_ref())?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let (code, is_final) = match reason {
        // The first failure may be the registry's; the second is followed by this.
        "ErrImagePull" | "RegistryUnavailable" => (IMAGE, false),
        "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" | "ImageInspectError" => (IMAGE, true),
        "CreateContainerConfigError" => (CONFIG, false),
        "CreateContainerError" | "RunContainerError" | "CrashLoopBackOff" | "StartError" => (CONFIG, true),
        _ => return None,
    };
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(Obstacle {
        code,
        message: shortened(format!("{reason}: {message}").trim_end_matches(": ")),
        is_final,
    })
}

/// The node says nothing of a pod that ran: its controller marks it as not ready, and no container as ended.
fn is_silent(status: &PodStatus) -> bool {
    let ran = container(status, CONTAINER).is_some_and(|state| state.running.is_some());
    let condition = condition(status, "Ready").filter(|ready| ready.status == "False");
    let disrupted = self::condition(status, "DisruptionTarget")
        .is_some_and(|target| target.reason.as_deref() == Some("DeletionByTaintManager"));
    // A node that responds says the reason of the container.
    let by_controller = condition.is_some_and(|ready| ready.reason.is_none());
    ran && (disrupted || by_controller)
}

fn node_lost(pod: &Pod) -> End {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    platform(
        NODE_LOST,
        format!("node {} does not respond", node.unwrap_or("unknown")),
    )
}

fn platform(code: &'static str, message: String) -> End {
    End {
        cause: ExitCause::Platform { code, message },
        log: String::new(),
    }
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    let conditions = status.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn container<'a>(status: &'a PodStatus, name: &str) -> Option<&'a ContainerState> {
    let all = status.container_statuses.as_ref()?;
    all.iter().find(|one| one.name == name)?.state.as_ref()
}

fn container_init(status: &PodStatus) -> Option<&ContainerState> {
    let all = status.init_container_statuses.as_ref()?;
    all.iter().find(|one| one.name == AGENT)?.state.as_ref()
}

fn said(terminated: &ContainerStateTerminated) -> String {
    shortened(terminated.message.as_deref().unwrap_or_default())
}

/// The end of a text of the cluster on one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let skip = line.chars().count().saturating_sub(MESSAGE_CHARS);
    line.chars().skip(skip).collect()
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
