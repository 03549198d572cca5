use std::time::Duration;

use himalia_provisioner::{ExitCause, Isolation, Provisioner as _, SandboxError};

use crate::fixture::{Fixture, LONG, dialled, spec, until};

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_sandbox_starts_is_seen_and_stops() {
    let fixture = Fixture::new();
    let mut wanted = spec();
    wanted.labels.insert("session".to_owned(), "s 1".to_owned());
    let handle = fixture.start(wanted).await;
    dialled(&handle).await;
    assert_eq!(handle.isolation, Isolation::Container);
    assert_eq!(handle.limits, fixture.provisioner.limits());
    assert_eq!(handle.work_dir.as_deref().unwrap().to_str(), Some("/session"));
    assert_eq!(handle.base_env["HOME"], "/session");
    assert!(
        handle.base_env["PATH"].starts_with("/opt/himalia/bin:"),
        "{:?}",
        handle.base_env
    );

    let listed = fixture.provisioner.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, handle.id);
    assert!(listed[0].alive);
    assert_eq!(listed[0].labels["session"], "s 1");
    assert_eq!(listed[0].labels.len(), 1);
    let info = fixture.provisioner.inspect(handle.id).await.unwrap();
    let usage = info.usage.unwrap();
    assert!(
        info.pid.is_some() && usage.processes >= 1 && usage.rss_bytes > 0,
        "{usage:?}"
    );
    assert_eq!(info.isolation, Isolation::Container);

    let exit = fixture.provisioner.stop(handle.id, LONG).await.unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(0), "{}", exit.log_tail);
    assert!(exit.requested);
    assert_eq!(handle.ended().await, Some(exit));
    let again = fixture.provisioner.stop(handle.id, LONG).await;
    assert!(matches!(again, Err(SandboxError::NotFound(_))), "{again:?}");
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_kernel_s_environment_is_there() {
    let fixture = Fixture::new();
    let mut wanted = spec();
    wanted.limits.memory_bytes = Some(512 << 20);
    let handle = fixture.start(wanted).await;
    let code = "import sys, numpy, pandas; sys.path.insert(0, '/himalia/kernel'); \
                import himalia_kernel, ipykernel; \
                print(sys.prefix, pandas.DataFrame({'a': numpy.arange(4)}).a.sum())";
    let (status, text) = fixture.python(handle.id, code).await;
    assert_eq!((status, text.trim()), (0, "/opt/himalia 6"));
    fixture.stop(handle.id).await;
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn the_next_gateway_adopts_and_sweeps() {
    let mut fixture = Fixture::new();
    let (kept, left) = tokio::join!(fixture.start(spec()), fixture.start(spec()));
    let other = Fixture::new();
    let foreign = other.start(spec()).await;
    fixture.again();

    assert_eq!(fixture.provisioner.list().await.unwrap().len(), 2);
    let swept = fixture.provisioner.sweep(vec![kept.id]).await.unwrap();
    assert_eq!(swept, [left.id]);
    let gone = fixture.provisioner.adopt(left.id).await;
    assert!(matches!(gone, Err(SandboxError::NotFound(_))), "{gone:?}");
    let adopted = fixture.provisioner.adopt(kept.id).await.unwrap();
    assert_eq!(adopted.endpoint, kept.endpoint);
    assert_eq!(adopted.base_env, kept.base_env);
    assert_eq!((adopted.isolation, adopted.limits), (kept.isolation, kept.limits));
    dialled(&adopted).await;
    assert!(
        fixture.provisioner.sweep(vec![]).await.unwrap().is_empty(),
        "an adopted one stays"
    );

    let exit = fixture.stop(kept.id).await;
    assert_eq!(exit.cause, ExitCause::Signaled(9));
    fixture.nothing_left().await;
    assert!(other.provisioner.list().await.unwrap()[0].alive);
    other.stop(foreign.id).await;
    other.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn an_end_is_told_with_its_cause_and_log() {
    let fixture = Fixture::with_shim("#!/bin/sh\necho about to end >&2\nexit 7\n");
    let handle = fixture.start(spec()).await;
    let exit = handle.ended().await.unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(7));
    assert!(!exit.requested);
    assert_eq!(exit.log_tail, "about to end\n");
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn one_that_ignores_the_request_is_killed_after_the_grace() {
    // The first process of a container does not get signals that it does not handle.
    let fixture = Fixture::with_shim("#!/bin/sh\nexec sleep 1000\n");
    let handle = fixture.start(spec()).await;
    let exit = fixture
        .provisioner
        .stop(handle.id, Duration::from_millis(200))
        .await
        .unwrap();
    assert_eq!(exit.cause, ExitCause::Signaled(9));
    assert!(exit.requested);
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn one_that_an_operator_removes_ends_too() {
    let fixture = Fixture::new();
    let handle = fixture.start(spec()).await;
    let container = fixture.container(handle.id).await;
    let options = bollard::query_parameters::RemoveContainerOptionsBuilder::new()
        .force(true)
        .build();
    fixture
        .docker
        .remove_container(&container, Some(options))
        .await
        .unwrap();
    let exit = handle.ended().await.unwrap();
    assert!(
        matches!(exit.cause, ExitCause::Signaled(9) | ExitCause::Lost),
        "{exit:?}"
    );
    assert!(!exit.requested);
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_start_whose_caller_is_dropped_leaves_nothing() {
    let fixture = Fixture::new();
    let provisioner = fixture.provisioner.clone();
    let start = tokio::spawn(async move { provisioner.start(spec()).await.map(|handle| handle.id) });
    until("a container", async || {
        (fixture.containers().await > 0).then_some(())
    })
    .await;
    start.abort();
    let finished = start.await.is_ok();
    if !finished {
        until("the end of the container", async || {
            (fixture.containers().await == 0).then_some(())
        })
        .await;
        let run = fixture.config.run_dir.clone();
        until("the end of the files", async || {
            std::fs::read_dir(&run).unwrap().next().is_none().then_some(())
        })
        .await;
    }
    for info in fixture.provisioner.list().await.unwrap() {
        fixture.stop(info.id).await;
    }
    fixture.nothing_left().await;
}
