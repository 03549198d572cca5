use std::process::Command;
use std::time::Duration;

use himalia_provisioner::{ExitCause, Isolation, Network, Provisioner as _, SandboxError, SandboxSpec};
use himalia_sandbox::DockerProvisioner;

use crate::fixture::{Fixture, engine, spec, until};
use crate::proxy::Proxy;

async fn refused(provisioner: &DockerProvisioner, change: impl FnOnce(&mut SandboxSpec)) -> String {
    let mut wanted = spec();
    change(&mut wanted);
    provisioner.start(wanted).await.unwrap_err().to_string()
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn what_is_missing_or_not_allowed_is_named() {
    let fixture = Fixture::with(|config| {
        config.images.push("himalia-not-there:1".to_owned());
        config.runtimes.insert("kata".to_owned(), Isolation::Microvm);
        config.networks.push("himalia-not-there".to_owned());
    });
    let provisioner = &fixture.provisioner;
    let text = refused(provisioner, |spec| {
        spec.image = Some("himalia-not-there:1".to_owned());
    })
    .await;
    assert!(
        text.contains("himalia-not-there:1") && text.contains("himalia env image"),
        "{text}"
    );
    let text = refused(provisioner, |spec| spec.image = Some("alpine".to_owned())).await;
    assert!(text.starts_with("image ") && text.contains("operator"), "{text}");
    let text = refused(provisioner, |spec| spec.runtime = Some("kata".to_owned())).await;
    assert!(
        text.contains("kata is unknown") && text.contains("runc"),
        "{text}"
    );
    let text = refused(provisioner, |spec| spec.runtime = Some("crun".to_owned())).await;
    assert!(text.contains("operator"), "{text}");
    let text = refused(provisioner, |spec| spec.minimum = Isolation::Gvisor).await;
    assert!(text.contains("gvisor is wanted"), "{text}");
    let text = refused(provisioner, |spec| {
        spec.network = Network::Open("other".to_owned());
    })
    .await;
    assert!(text.contains("operator"), "{text}");
    let text = refused(provisioner, |spec| {
        spec.network = Network::Open("himalia-not-there".to_owned());
    })
    .await;
    assert!(
        text.contains("does not exist") && text.contains("docker network create"),
        "{text}"
    );
    fixture.nothing_left().await;

    let report = provisioner.report().await.unwrap();
    assert_eq!(report.images["himalia-kernel"], None);
    assert!(report.images["himalia-not-there:1"].is_some());
    assert_eq!(report.runtimes["kata"], (Isolation::Microvm, false));
    assert_eq!(report.runtimes["runc"], (Isolation::Container, true));
    assert!(
        report
            .warnings
            .iter()
            .any(|text| text.contains("himalia-not-there")),
        "{report:?}"
    );
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_shim_that_cannot_start_leaves_nothing() {
    let mut fixture = Fixture::with_shim("#!/bin/sh\n");
    let not_executable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&fixture.config.shim, not_executable).unwrap();
    let text = refused(&fixture.provisioner, |_| {}).await;
    assert!(text.contains("himalia-shim"), "{text}");
    fixture.nothing_left().await;
    fixture.config.shim = "/not/there".into();
    fixture.again();
    let text = refused(&fixture.provisioner, |_| {}).await;
    assert!(text.contains("/not/there"), "{text}");
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn an_image_with_volumes_is_refused() {
    let fixture = Fixture::with(|config| config.images.push("himalia-test-volume".to_owned()));
    let script = "tar -cf - -T /dev/null | docker import --change 'VOLUME /data' - himalia-test-volume";
    let docker = |script: &str| {
        let host = format!("unix://{}", engine().display());
        let made = Command::new("sh")
            .args(["-c", script])
            .env("DOCKER_HOST", host)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    docker(script);
    let text = refused(&fixture.provisioner, |spec| {
        spec.image = Some("himalia-test-volume".to_owned());
    })
    .await;
    docker("docker rmi himalia-test-volume");
    assert!(text.contains("/data"), "{text}");
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_network_is_joined_only_if_it_keeps_sandboxes_apart() {
    let tag = std::process::id();
    let (apart, open) = (format!("himalia-apart-{tag}"), format!("himalia-open-{tag}"));
    let fixture = Fixture::with(|config| config.networks.extend([apart.clone(), open.clone()]));
    for (name, between) in [(&apart, "false"), (&open, "true")] {
        let request = bollard::models::NetworkCreateRequest {
            name: name.clone(),
            driver: Some("bridge".to_owned()),
            internal: Some(true),
            options: Some(
                [(
                    "com.docker.network.bridge.enable_icc".to_owned(),
                    between.to_owned(),
                )]
                .into(),
            ),
            ..Default::default()
        };
        fixture.docker.create_network(request).await.unwrap();
    }
    let text = refused(&fixture.provisioner, |spec| {
        spec.network = Network::Open(open.clone());
    })
    .await;
    let mut wanted = spec();
    wanted.network = Network::Open(apart.clone());
    let started = fixture.provisioner.start(wanted).await;
    let devices = match &started {
        Ok(handle) => fixture.run(handle.id, &["ls", "/sys/class/net"]).await.1,
        Err(error) => error.to_string(),
    };
    if let Ok(handle) = started {
        fixture.stop(handle.id).await;
    }
    for name in [&apart, &open] {
        fixture.docker.remove_network(name).await.unwrap();
    }
    assert!(text.contains("reach each other"), "{text}");
    // The tests' own engine sets packet filters only in a network namespace of its own.
    let own = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if own("HIMALIA_TEST_OWN_ENGINE", "1") && !own("HIMALIA_ENGINE_NETWORK", "own") {
        assert!(
            devices.contains("although") && devices.contains("iptables"),
            "{devices}"
        );
    } else {
        assert_eq!(devices.split_whitespace().collect::<Vec<_>>(), ["eth0", "lo"]);
    }
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn no_engine_is_an_error_and_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture::with(|config| config.socket = dir.path().join("none.sock"));
    let text = refused(&fixture.provisioner, |_| {}).await;
    assert!(text.contains("does the engine run"), "{text}");
    assert!(fixture.provisioner.list().await.is_err());
    assert!(fixture.provisioner.sweep(vec![]).await.is_err());
    assert!(
        std::fs::read_dir(&fixture.config.run_dir)
            .unwrap()
            .next()
            .is_none()
    );
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn an_engine_that_comes_back_is_caught_up_with() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = Proxy::new(dir.path());
    let fixture = Fixture::with(|config| config.socket.clone_from(&proxy.socket));
    let (ends, stays) = tokio::join!(fixture.start(spec()), fixture.start(spec()));
    let container = fixture.container(ends.id).await;
    proxy.cut();
    fixture.signal(&container, "SIGTERM").await;
    let stopped = fixture.provisioner.stop(stays.id, Duration::ZERO).await;
    assert!(matches!(stopped, Err(SandboxError::Engine { .. })), "{stopped:?}");
    assert!(ends.exit.borrow().is_none());
    proxy.restore();
    assert_eq!(ends.ended().await.unwrap().cause, ExitCause::Exited(0));
    assert!(stays.exit.borrow().is_none());
    fixture.stop(stays.id).await;
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn an_engine_that_hangs_in_a_start_is_given_up_and_tidied_later() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = Proxy::new(dir.path());
    let fixture = Fixture::with(|config| {
        config.socket.clone_from(&proxy.socket);
        config.call_deadline = Duration::from_secs(2);
    });
    let works = fixture.start(spec()).await;
    // The image is looked up, the container is not made.
    proxy.mute_after(1);
    let text = refused(&fixture.provisioner, |_| {}).await;
    assert!(text.contains("no answer"), "{text}");
    proxy.restore();
    until("the end of the files", async || {
        let left = std::fs::read_dir(&fixture.config.run_dir).unwrap().count();
        (left == 1).then_some(())
    })
    .await;
    // With a loaded engine two seconds may not be enough for one call.
    until("the stop", async || {
        fixture.provisioner.stop(works.id, Duration::ZERO).await.ok()
    })
    .await;
    fixture.nothing_left().await;
}
