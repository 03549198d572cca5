//! What the cluster does to pods, as causes that an operator can act on.

use std::time::Duration;

use himalia_provisioner::{ExitCause, Provisioner, SandboxError};
use himalia_testkit::assert_eventually;

use crate::common::{World, spec, within};

fn pod(handle: &himalia_provisioner::SandboxHandle) -> String {
    format!("himalia-{}", handle.id)
}

/// The code of what the cluster did.
fn platform(cause: &ExitCause) -> (&'static str, &str) {
    match cause {
        ExitCause::Platform { code, message } => (code, message),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_memory_eviction_and_the_loss_of_a_node_are_told_apart() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let starved = within(provisioner.start(spec())).await.unwrap();
    let evicted = within(provisioner.start(spec())).await.unwrap();
    let lost = within(provisioner.start(spec())).await.unwrap();

    world.cluster.out_of_memory(&pod(&starved));
    let exit = within(starved.ended()).await.unwrap();
    assert_eq!((exit.cause, exit.requested), (ExitCause::OutOfMemory, false));

    world
        .cluster
        .evict(&pod(&evicted), "The node was low on resource: ephemeral-storage.");
    let exit = within(evicted.ended()).await.unwrap();
    let (code, message) = platform(&exit.cause);
    assert_eq!(code, "evicted");
    assert!(message.contains("ephemeral-storage"), "{message}");

    world.cluster.lose_node();
    let exit = within(lost.ended()).await.unwrap();
    let (code, message) = platform(&exit.cause);
    assert_eq!((code, message), ("node_lost", "node node-1 does not respond"));
    // Nothing on the node confirms the end: the API server is made to forget the pod.
    assert_eventually!(world.pods().is_empty(), "{:?}", world.pods());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_from_outside_is_told() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let handle = within(provisioner.start(spec())).await.unwrap();
    world.cluster.delete(crate::common::NAMESPACE, &pod(&handle));
    let exit = within(handle.ended()).await.unwrap();
    assert!(exit.cause.to_string().starts_with("deleted"), "{}", exit.cause);
}

async fn refused(
    world: &World,
    change: impl FnOnce(&mut himalia_provisioner::SandboxSpec),
) -> (String, String) {
    let provisioner = world.provisioner().await;
    let mut wanted = spec();
    change(&mut wanted);
    let refused = within(provisioner.start(wanted)).await;
    let Err(SandboxError::NotPlaced { code, reason }) = refused else {
        panic!("{refused:?}");
    };
    assert_eventually!(world.pods().is_empty() && world.names("secrets").is_empty());
    (code.to_owned(), reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_node_takes_is_given_up_with_the_schedulers_words() {
    let mut world = World::new().await;
    world.change = |config| config.schedule_deadline = Duration::from_millis(500);
    let (code, reason) = refused(&world, |spec| spec.limits.memory_bytes = Some(1 << 40)).await;
    assert_eq!(code, "unschedulable");
    assert!(reason.contains("Insufficient memory"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_is_given_up_at_once() {
    let mut world = World::new().await;
    world.change = |config| config.images.insert(0, "missing:1".to_owned());
    let (code, reason) = refused(&world, |_| {}).await;
    assert_eq!(code, "image");
    assert!(reason.contains("ImagePullBackOff"), "{reason}");
}
