//! Statuses as API servers send them.

use serde_json::{Value, json};

use super::*;

fn pod(status: &Value) -> Pod {
    serde_json::from_value(
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": []},
        "status": status}),
    )
    .unwrap()
}

fn running() -> Value {
    json!([{"name": "kernel", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}}}])
}

fn terminated(state: &Value) -> Value {
    json!([{"name": "kernel", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": state}}])
}

fn waiting(reason: &str) -> Value {
    json!([{"name": "kernel", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": "a  long\nstory"}}}])
}

fn cause(status: &Value) -> String {
    match observe(&pod(status)) {
        PodPhase::Ended(end) => end.cause.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_runs_when_its_container_does_and_it_has_an_address() {
    let mut status = json!({"phase": "Running", "containerStatuses": running()});
    assert_eq!(observe(&pod(&status)), PodPhase::Waiting(None));
    status["podIP"] = json!("10.0.0.7");
    assert_eq!(observe(&pod(&status)), PodPhase::Running([10, 0, 0, 7].into()));
}

#[test]
fn what_is_in_the_way_has_a_name() {
    let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient memory."}]});
    for (status, code, is_final) in [
        (unschedulable, UNSCHEDULABLE, false),
        (
            json!({"containerStatuses": waiting("ErrImagePull")}),
            IMAGE,
            false,
        ),
        (
            json!({"containerStatuses": waiting("ImagePullBackOff")}),
            IMAGE,
            true,
        ),
        (
            json!({"containerStatuses": waiting("ErrImageNeverPull")}),
            IMAGE,
            true,
        ),
        (
            json!({"containerStatuses": waiting("CreateContainerConfigError")}),
            CONFIG,
            false,
        ),
        (
            json!({"containerStatuses": waiting("CreateContainerError")}),
            CONFIG,
            true,
        ),
    ] {
        match observe(&pod(&status)) {
            PodPhase::Waiting(Some(obstacle)) => {
                assert_eq!((obstacle.code, obstacle.is_final), (code, is_final));
                assert!(!obstacle.message.contains('\n') && !obstacle.message.is_empty());
            }
            other => panic!("{status}: {other:?}"),
        }
    }
    let creating = json!({"containerStatuses": waiting("ContainerCreating")});
    assert_eq!(observe(&pod(&creating)), PodPhase::Waiting(None));
}

#[test]
fn ends_have_causes() {
    let oom = json!({"phase": "Failed", "containerStatuses": terminated(&json!({"exitCode": 137, "reason": "OOMKilled"}))});
    assert_eq!(cause(&oom), "oom");
    let killed = json!({"containerStatuses": terminated(&json!({"exitCode": 137, "reason": "Error"}))});
    assert_eq!(cause(&killed), "signal(9)");
    let failed = json!({"containerStatuses": terminated(&json!({"exitCode": 1, "reason": "Error", "message": "no key"}))});
    assert_eq!(cause(&failed), "exit(1)");
    let evicted =
        json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "});
    assert_eq!(cause(&evicted), "evicted: The node was low on resource: memory.");
    let deadline = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active"});
    assert_eq!(cause(&deadline), "deadline: Pod was active");
    let preempted = json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler", "message": "a pod with more priority"}],
        "containerStatuses": terminated(&json!({"exitCode": 143}))});
    assert_eq!(
        cause(&preempted),
        "evicted: PreemptionByScheduler: a pod with more priority"
    );
    let agent = json!({"phase": "Failed", "initContainerStatuses": [{"name": "agent", "image": "", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 2, "message": "no secret"}}}]});
    assert_eq!(cause(&agent), "agent_failed: exit code 2: no secret");
}

#[test]
fn the_loss_of_a_node_is_told_from_a_deletion() {
    let ready = |reason: Option<&str>| {
        json!({"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": running(),
            "conditions": [{"type": "Ready", "status": "False", "reason": reason}]})
    };
    let mut lost = pod(&ready(None));
    assert_eq!(
        observe(&lost),
        PodPhase::Running([10, 0, 0, 7].into()),
        "it may come back"
    );
    lost.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(is_abandoned(&lost));
    let PodPhase::Ended(end) = observe(&lost) else {
        panic!("it is given up");
    };
    assert_eq!(end.cause.to_string(), "node_lost: node n1 does not respond");
    assert_eq!(vanished(Some(&lost)), end);
    let mut deleted = pod(&ready(Some("ContainersNotReady")));
    deleted.metadata.deletion_timestamp = lost.metadata.deletion_timestamp.clone();
    assert!(!is_abandoned(&deleted));
    assert!(vanished(Some(&deleted)).cause.to_string().starts_with("deleted"));
    assert!(vanished(None).cause.to_string().starts_with("deleted"));
}
