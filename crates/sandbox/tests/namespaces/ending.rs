//! Ends, and what is left after them: nothing.

use std::time::Duration;

use himalia_provisioner::{ExitCause, Limits, Provisioner as _, SandboxError};

use crate::fixture::{Fixture, QUIET, eventually, family, groups, lives, spec, start};

#[tokio::test]
async fn a_stop_asks_first_and_leaves_nothing() {
    let fixture = Fixture::new(&QUIET.replace("exit 0", "exit 3"));
    let provisioner = fixture.provisioner();
    let mut wanted = spec();
    wanted.labels.insert("session".into(), "s1".into());
    wanted.limits = Limits {
        memory_bytes: Some(256 << 20),
        pids: Some(50),
        cpu_millis: Some(500),
        ..Limits::default()
    };
    let handle = start(&provisioner, wanted).await;
    fixture.printed(&handle, "ready").await;
    let info = provisioner.inspect(handle.id).await.unwrap();
    assert!(info.alive);
    assert_eq!(info.labels["session"], "s1");
    let pid = info.pid.unwrap();
    let processes = eventually("its child", || Some(family(pid)).filter(|all| all.len() == 2)).await;
    let usage = provisioner.inspect(handle.id).await.unwrap().usage.unwrap();
    assert!(usage.processes == 2 && usage.rss_bytes > 0, "{usage:?}");
    let groups = groups(pid);
    assert!(groups.iter().all(|group| group.is_dir()), "{groups:?}");
    assert_eq!(
        groups.is_empty(),
        fixture.config.cgroups == himalia_sandbox::CgroupRoot::default()
    );
    assert_eq!(provisioner.list().await.unwrap().len(), 1);

    let exit = provisioner.stop(handle.id, Duration::from_mins(1)).await.unwrap();
    assert_eq!((&exit.cause, exit.requested), (&ExitCause::Exited(3), true));
    assert!(exit.log_tail.starts_with("ready\n"), "{exit:?}");
    assert!(!processes.into_iter().any(lives));
    assert!(
        groups
            .iter()
            .all(|group| !group.exists() && !group.parent().unwrap().exists())
    );
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
    assert!(provisioner.list().await.unwrap().is_empty());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(fixture.path().to_str().unwrap()));
    let again = provisioner.stop(handle.id, Duration::ZERO).await;
    assert!(matches!(again, Err(SandboxError::NotFound(_))));
}

#[tokio::test]
async fn nothing_survives_the_first_process() {
    let fixture = Fixture::new(
        "setsid sh -c 'setsid sleep 1000 & setsid nohup sleep 1000 & exec sleep 1000' &
         env -i /usr/bin/setsid /bin/sleep 1000 &
         trap '' TERM; echo ready; while :; do sleep 1000; done",
    );
    let provisioner = fixture.provisioner();
    let handle = start(&provisioner, spec()).await;
    let pid = provisioner.inspect(handle.id).await.unwrap().pid.unwrap();
    let processes = eventually("all of them", || Some(family(pid)).filter(|all| all.len() >= 6)).await;
    let (first, second) = tokio::join!(
        provisioner.stop(handle.id, Duration::from_hours(1)),
        provisioner.stop(handle.id, Duration::from_millis(1)),
    );
    assert_eq!(first.unwrap(), second.as_ref().unwrap().clone());
    assert_eq!(second.unwrap().cause, ExitCause::Signaled(9));
    assert!(!processes.into_iter().any(lives));
    assert!(fixture.left().is_empty());
}

#[tokio::test]
async fn an_end_by_itself_is_told_with_its_code_and_the_log() {
    let fixture = Fixture::new("echo no such luck >&2; exit 7");
    let provisioner = fixture.provisioner();
    let handle = start(&provisioner, spec()).await;
    let exit = handle.ended().await.unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(7));
    assert_eq!(exit.log_tail, "no such luck\n");
    assert!(!exit.requested);
    assert!(fixture.left().is_empty());
}

#[tokio::test]
async fn a_start_whose_caller_is_dropped_leaves_nothing() {
    let fixture = Fixture::new(QUIET);
    let provisioner = fixture.provisioner();
    let mut starting = provisioner.start(spec());
    std::future::poll_fn(|context| {
        let _ = starting.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
    drop(starting);
    eventually("an empty run directory", || {
        fixture.left().is_empty().then_some(())
    })
    .await;
    let mark = fixture.path().to_str().unwrap().to_owned();
    eventually("the end of all processes", || {
        let all = std::fs::read_dir("/proc").unwrap();
        let ours = all
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("mountinfo")).ok())
            .any(|mounts| mounts.contains(&mark));
        (!ours).then_some(())
    })
    .await;
}
