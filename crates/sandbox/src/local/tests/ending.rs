use super::*;
use crate::{ExitCause, SandboxError};

#[tokio::test]
async fn an_exit_is_told_with_its_code_and_the_log() {
    let fixture = Fixture::new("echo no such luck >&2; exit 7");
    let provisioner = fixture.provisioner();
    let handle = start(&provisioner).await;
    let exit = handle.ended().await.unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(7));
    assert_eq!(exit.log_tail, "no such luck\n");
    assert!(!exit.requested);
    assert!(fixture.files().is_empty());
    assert!(provisioner.list().await.unwrap().is_empty());
    let again = provisioner.stop(handle.id, Duration::ZERO).await;
    assert!(matches!(again, Err(SandboxError::NotFound(_))));
}

#[tokio::test]
async fn a_killed_shim_takes_its_processes_with_it() {
    // One child stays in the shim's session, one has its own, one is the grandchild of a parent that is gone.
    let fixture = Fixture::new(
        "sleep 1000 & echo $! >$rt/same
         setsid sh -c 'echo $$ >$0/own; sleep 1000 & echo $! >$0/grandchild; exec sleep 1000' $rt &
         sh -c 'setsid sleep 1000 & echo $! >$0/lost' $rt
         echo $$ >$rt/shim; exec sleep 1000",
    );
    let provisioner = fixture.provisioner();
    let handle = start(&provisioner).await;
    let shim = pid(&handle, "shim").await;
    let mut all = Vec::new();
    for name in ["same", "own", "grandchild", "lost"] {
        all.push(pid(&handle, name).await);
    }
    shim.signal(Signal::KILL).unwrap();
    let exit = handle.ended().await.unwrap();
    assert_eq!(exit.cause, ExitCause::Signaled(9));
    assert_eq!(exit.leftovers, 4);
    assert!(!all.into_iter().any(lives));
    assert!(fixture.files().is_empty());
}

#[tokio::test]
async fn a_noted_kernel_without_the_mark_is_found_by_its_session() {
    let fixture = Fixture::new(
        "env -i /usr/bin/setsid sh -c 'echo $$ >$0/kernel; /bin/sleep 1000 & echo $! >$0/child; wait' $rt &
         echo $$ >$rt/shim; exec sleep 1000",
    );
    let provisioner = fixture.provisioner();
    let handle = start(&provisioner).await;
    let kernel = pid(&handle, "kernel").await;
    let child = pid(&handle, "child").await;
    let own = std::process::id();
    assert!(
        provisioner
            .note_process(handle.id, u32::try_from(kernel.pid).unwrap())
            .await
            .unwrap()
    );
    // A shim that lies cannot have others killed.
    assert!(!provisioner.note_process(handle.id, own).await.unwrap());
    assert!(!provisioner.note_process(handle.id, 1).await.unwrap());
    assert!(!provisioner.note_process(handle.id, u32::MAX).await.unwrap());
    pid(&handle, "shim").await.signal(Signal::KILL).unwrap();
    let exit = handle.ended().await.unwrap();
    assert_eq!(exit.leftovers, 2);
    assert!(!lives(kernel) && !lives(child));
}

#[tokio::test]
async fn a_stop_asks_first() {
    let fixture =
        Fixture::new("trap 'exit 3' TERM; sleep 1000 & echo $! >$rt/child; echo $$ >$rt/shim; wait");
    let provisioner = fixture.provisioner();
    let handle = start(&provisioner).await;
    let child = pid(&handle, "child").await;
    pid(&handle, "shim").await;
    let exit = provisioner
        .stop(handle.id, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(3));
    assert!(exit.requested);
    assert_eq!(exit.leftovers, 1);
    assert!(!lives(child));
    assert!(fixture.files().is_empty());
    assert_eq!(handle.ended().await.unwrap(), exit);
}

#[tokio::test]
async fn a_shim_that_does_not_listen_is_killed() {
    let fixture = Fixture::new("trap '' TERM INT HUP; echo $$ >$rt/shim; while :; do sleep 1000; done");
    let provisioner = fixture.provisioner();
    let handle = start(&provisioner).await;
    let shim = pid(&handle, "shim").await;
    let (first, second) = tokio::join!(
        provisioner.stop(handle.id, Duration::from_hours(1)),
        provisioner.stop(handle.id, Duration::from_millis(1)),
    );
    assert_eq!(first.unwrap(), second.as_ref().unwrap().clone());
    assert_eq!(second.unwrap().cause, ExitCause::Signaled(9));
    assert!(!lives(shim));
    assert!(fixture.files().is_empty());
}

#[tokio::test]
async fn it_is_inspected_from_outside() {
    let fixture = Fixture::new("sleep 1000 & echo $! >$rt/child; echo $$ >$rt/shim; wait");
    let provisioner = fixture.provisioner();
    let mut wanted = spec();
    wanted.labels.insert("session".into(), "s1".into());
    let handle = start_with(&provisioner, wanted.clone()).await;
    let shim = pid(&handle, "shim").await;
    let info = provisioner.inspect(handle.id).await.unwrap();
    assert!(info.alive);
    assert_eq!(info.pid, u32::try_from(shim.pid).ok());
    assert_eq!(info.labels, wanted.labels);
    let usage = info.usage.unwrap();
    assert_eq!(usage.processes, 2);
    assert!(usage.rss_bytes > 0);
    assert_eq!(provisioner.list().await.unwrap().len(), 1);
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    assert!(matches!(
        provisioner.inspect(handle.id).await,
        Err(SandboxError::NotFound(_))
    ));
}
