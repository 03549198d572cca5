//! What an API server may do to its clients.

use himalia_provisioner::{Provisioner, SandboxError};
use himalia_testkit::assert_eventually;
use himalia_testkit::cluster::Refusals;

use crate::common::{World, end, spec, within};

#[tokio::test(flavor = "multi_thread")]
async fn too_many_requests_and_a_server_that_restarts_are_waited_for() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    world.cluster.refuse(Refusals {
        too_many: 3,
        unavailable: 2,
        ..Refusals::default()
    });
    let handle = within(provisioner.start(spec())).await.unwrap();
    end(&world, &provisioner, &handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_seen_whatever_becomes_of_the_watch() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    for round in 0..3 {
        let handle = within(provisioner.start(spec())).await.unwrap();
        let pod = format!("himalia-{}", handle.id);
        match round {
            // In the middle of a line.
            0 => world.cluster.break_watches(),
            // The next watch is too old: 410.
            1 => {
                world.cluster.compact();
                world.cluster.break_watches();
            }
            // The pod is gone while nothing watches.
            _ => {
                world.cluster.break_watches();
                world.cluster.compact();
            }
        }
        world.cluster.evict(&pod, "low on memory");
        within(handle.ended()).await.unwrap();
        assert_eventually!(world.pods().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_watch_for_all_sandboxes_and_it_asks_for_bookmarks() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(within(provisioner.start(spec())).await.unwrap());
    }
    assert_eq!(world.cluster.requests("watch=true"), 1);
    assert_eq!(world.cluster.requests("allowWatchBookmarks=true"), 1);
    for handle in &handles {
        within(provisioner.stop(handle.id, std::time::Duration::ZERO))
            .await
            .unwrap();
    }
    assert_eventually!(world.pods().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_said_to_be() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    world.cluster.refuse(Refusals {
        unavailable: usize::MAX,
        ..Refusals::default()
    });
    let error = within(provisioner.list()).await.unwrap_err();
    assert!(
        matches!(error, SandboxError::Cluster { away: true, .. }),
        "{error}"
    );
}
