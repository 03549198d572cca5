//! Sandboxes from their start to their end.

use std::time::Duration;

use himalia_authority::Authority;
use himalia_provisioner::{ExitCause, Files, Network, OrphanSandbox, Provisioner, SandboxError};
use himalia_testkit::assert_eventually;

use crate::common::{World, end, listen, spec, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_starts_its_shim_proves_itself_and_nothing_is_left() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let mut wanted = spec();
    wanted.labels.insert("kernel".to_owned(), "one".to_owned());
    let key = wanted.key.clone();
    let handle = within(provisioner.start(wanted)).await.unwrap();
    assert_eq!(world.pods(), [format!("himalia-{}", handle.id)]);
    assert!(world.names("secrets").is_empty(), "it goes when the shim runs");
    let mut linked = listen(&handle, &key, 1);
    linked.arrival().await;
    linked.arrival().await;
    let listed = provisioner.list().await.unwrap();
    assert_eq!((listed.len(), listed[0].alive), (1, true));
    assert_eq!(listed[0].labels["kernel"], "one");
    end(&world, &provisioner, &handle).await;
    let exit = within(handle.ended()).await.unwrap();
    assert!(exit.requested, "{exit:?}");
    let again = provisioner.stop(handle.id, Duration::ZERO).await;
    assert!(matches!(again, Err(SandboxError::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_an_ipv6_address_is_reached() {
    let world = World::new().await;
    world.cluster.give_ipv6();
    let provisioner = world.provisioner().await;
    let wanted = spec();
    let key = wanted.key.clone();
    let handle = within(provisioner.start(wanted)).await.unwrap();
    assert_eq!(world.cluster.objects("pods")[0]["status"]["podIP"], "::1");
    let mut linked = listen(&handle, &key, 1);
    linked.arrival().await;
    linked.arrival().await;
    end(&world, &provisioner, &handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_gateway_finds_it_again_and_an_older_one_does_not_get_in() {
    let world = World::new().await;
    let first = world.provisioner().await;
    let wanted = spec();
    let key = wanted.key.clone();
    let handle = within(first.start(wanted)).await.unwrap();
    let mut linked = listen(&handle, &key, 5);
    linked.arrival().await;
    drop((linked, first));

    let second = world.provisioner().await;
    let adopted = within(second.adopt(handle.id)).await.unwrap();
    let mut linked = listen(&adopted, &key, 6);
    assert_eq!(linked.arrival().await.hello.key, key.expose());
    // Another gateway, with another authority.
    let mut other = World {
        data: tempfile::tempdir().unwrap(),
        ..world
    };
    let stranger = other.provisioner().await;
    let refused = within(stranger.adopt(handle.id)).await.unwrap_err().to_string();
    assert!(refused.contains("authority_keys"), "{refused}");
    // Even if the pod says that it is its own.
    let theirs = Authority::open(&other.data.path().join("authority")).unwrap();
    let mut pod = other.cluster.objects("pods")[0].clone();
    pod["metadata"]["annotations"]["himalia.internal/authority"] = theirs.fingerprint().into();
    other.cluster.put("pods", pod);
    let stranger = other.provisioner().await;
    let theirs = within(stranger.adopt(handle.id)).await.unwrap();
    let mut refused = listen(&theirs, &key, 7);
    let nothing = tokio::time::timeout(Duration::from_millis(300), refused.arrivals.recv()).await;
    assert!(nothing.is_err(), "a certificate of another authority");
    other.change = |_| {};
    end(&other, &second, &adopted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shared_and_replaced_while_pods_run() {
    let world = World::new().await;
    let key_of = |name: &str| {
        let dir = world.data.path().join(name);
        drop(Authority::open(&dir).unwrap());
        std::fs::read_to_string(dir.join(himalia_authority::KEY_FILE)).unwrap()
    };
    let (old, new) = (key_of("old"), key_of("new"));
    let authorities = |keys: &[&String]| keys.iter().map(|key| Authority::from_key(key).unwrap()).collect();
    let first = world.provisioner_of(authorities(&[&old])).await;
    let wanted = spec();
    let key = wanted.key.clone();
    let handle = within(first.start(wanted)).await.unwrap();
    drop(first);
    // Another replica has the key. Then it is replaced, and the earlier one is kept for pods that run.
    for (epoch, keys) in [(5, vec![&old]), (6, vec![&new, &old])] {
        let next = world.provisioner_of(authorities(&keys)).await;
        let adopted = within(next.adopt(handle.id)).await.unwrap();
        let mut linked = listen(&adopted, &key, epoch);
        assert_eq!(linked.arrival().await.hello.key, key.expose());
        let started = within(next.start(spec())).await.unwrap();
        within(next.stop(started.id, Duration::ZERO)).await.unwrap();
    }
    let without = world.provisioner_of(authorities(&[&new])).await;
    let error = within(without.adopt(handle.id)).await.unwrap_err().to_string();
    assert!(error.contains("authority_keys"), "{error}");
    let last = world.provisioner_of(authorities(&[&new, &old])).await;
    let adopted = within(last.adopt(handle.id)).await.unwrap();
    end(&world, &last, &adopted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_pods_are_removed_when_they_are_old_enough() {
    let mut world = World::new().await;
    world.change = |config| config.reap_after = Duration::from_millis(1500);
    let first = world.provisioner().await;
    let kept = within(first.start(spec())).await.unwrap();
    let unknown = within(first.start(spec())).await.unwrap();
    drop(first);
    let second = world.provisioner().await;
    within(second.adopt(kept.id)).await.unwrap();
    second.sweep(vec![kept.id]).await.unwrap();
    assert_eventually!(
        world.pods() == [format!("himalia-{}", kept.id)],
        "{:?} stays, {} is unknown",
        world.pods(),
        unknown.id
    );
    end(&world, &second, &kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_sees_what_others_have_made_and_can_remove_it() {
    let world = World::new().await;
    let authority = || vec![Authority::open(&world.data.path().join("authority")).unwrap()];
    let a = world.replica(Some("a"), authority()).await;
    let b = world.replica(Some("b"), authority()).await;
    let mut wanted = spec();
    wanted.files = Files::Session("files_of_a".to_owned());
    let session = within(a.start(wanted)).await.unwrap();
    let waits = within(a.start(spec())).await.unwrap();
    let mut makers: Vec<_> = b.strays().await.unwrap().unwrap();
    makers.sort_by_key(|stray| stray.id != session.id);
    let of_a = |id| OrphanSandbox {
        id,
        maker: Some("a".to_owned()),
    };
    assert_eq!(makers, [of_a(session.id), of_a(waits.id)]);
    assert_eq!(b.sweep(vec![]).await.unwrap(), []);
    assert_eq!(a.strays().await.unwrap(), Some(vec![]));
    assert!(b.kept_files().await.unwrap().is_empty(), "they are too young");
    assert_eq!(a.kept_files().await.unwrap(), ["files_of_a"]);
    // It has ended: its session has a row, which another one may take, and what waited in its pool belongs to none.
    drop(a);
    assert_eq!(b.remove_strays(vec![waits.id]).await, 1);
    let adopted = within(b.adopt(session.id)).await.unwrap();
    assert_eventually!(world.pods() == [format!("himalia-{}", session.id)]);
    end(&world, &b, &adopted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_a_node_that_is_to_be_emptied_is_told() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let handle = within(provisioner.start(spec())).await.unwrap();
    let leaving = || provisioner.leaving(vec![handle.id]);
    assert_eq!(leaving().await.unwrap(), []);
    world.cluster.cordon(true);
    assert_eq!(leaving().await.unwrap(), [handle.id]);
    world.cluster.cordon(false);
    assert_eq!(leaving().await.unwrap(), []);
    end(&world, &provisioner, &handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_no_caller_waits_for_leaves_nothing() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let mut wanted = spec();
    // No node has that much, so that the start waits.
    wanted.limits.memory_bytes = Some(1 << 40);
    tokio::select! {
        started = provisioner.start(wanted) => panic!("{started:?}"),
        () = async { assert_eventually!(!world.pods().is_empty()) } => {}
    }
    assert_eventually!(world.pods().is_empty() && world.names("secrets").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_files_are_claims_with_names() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let mut wanted = spec();
    wanted.files = Files::Session("some_files".to_owned());
    let handle = within(provisioner.start(wanted)).await.unwrap();
    assert_eq!(provisioner.kept_files().await.unwrap(), ["some_files"]);
    end(&world, &provisioner, &handle).await;
    provisioner.remove_files("some_files").await.unwrap();
    provisioner.remove_files("some_files").await.unwrap();
    assert!(provisioner.kept_files().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_cannot_have_is_refused_before_a_call() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let mut networked = spec();
    networked.network = Network::Open("lan".to_owned());
    let mut imaged = spec();
    imaged.image = Some("other:1".to_owned());
    let mut unknown = spec();
    unknown.runtime = Some("gpu".to_owned());
    let mut strict = spec();
    strict.minimum = himalia_provisioner::Isolation::Microvm;
    for (spec, words) in [
        (networked, "network"),
        (imaged, "image"),
        (unknown, "runtime"),
        (strict, "isolation"),
    ] {
        let error = provisioner.start(spec).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(world.cluster.requests("POST"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_ends_is_told_with_its_signal() {
    let world = World::new().await;
    let provisioner = world.provisioner().await;
    let handle = within(provisioner.start(spec())).await.unwrap();
    world.cluster.kill(&format!("himalia-{}", handle.id));
    let exit = within(handle.ended()).await.unwrap();
    assert_eq!(exit.cause, ExitCause::Signaled(9));
    assert!(!exit.requested);
    assert_eventually!(world.pods().is_empty());
}
