//! The gateway goes away and another one comes.

use std::time::Duration;

use himalia_provisioner::{ExitCause, Limits, Provisioner as _, SandboxError, SandboxHandle};

use crate::fixture::{Fixture, QUIET, eventually, groups, lives, spec, start};

/// Starts a sandbox in a runtime that is ended at once, as a gateway is that was killed.
fn abandoned(fixture: &Fixture) -> (SandboxHandle, u32) {
    let gateway = tokio::runtime::Runtime::new().unwrap();
    gateway.block_on(async {
        let provisioner = fixture.provisioner();
        let mut wanted = spec();
        wanted.limits = Limits {
            pids: Some(20),
            ..Limits::default()
        };
        let handle = start(&provisioner, wanted).await;
        fixture.printed(&handle, "ready").await;
        let pid = provisioner.inspect(handle.id).await.unwrap().pid.unwrap();
        (handle, pid)
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

#[test]
fn a_sandbox_outlives_its_gateway_and_is_adopted() {
    let fixture = Fixture::new(QUIET);
    let (old, pid) = abandoned(&fixture);
    block_on(async {
        assert!(lives(pid));
        let provisioner = fixture.provisioner();
        assert!(provisioner.list().await.unwrap()[0].alive);
        let (handle, again) = tokio::join!(provisioner.adopt(old.id), provisioner.adopt(old.id));
        let (handle, again) = (handle.unwrap(), again.unwrap());
        assert_eq!(handle.endpoint, old.endpoint);
        assert_eq!(handle.limits, old.limits);
        assert!(provisioner.sweep(vec![]).await.unwrap().is_empty());
        let groups = groups(pid);
        let exit = provisioner.stop(handle.id, Duration::from_mins(1)).await.unwrap();
        // The same process as before, so it is its parent here.
        assert_eq!(exit.cause, ExitCause::Exited(0));
        assert_eq!(again.ended().await.unwrap(), exit);
        assert!(!lives(pid));
        assert!(groups.iter().all(|group| !group.exists()));
        assert!(fixture.left().is_empty());
    });
}

#[test]
fn one_that_died_meanwhile_is_cleared_away() {
    let fixture = Fixture::new(QUIET);
    let (old, pid) = abandoned(&fixture);
    let groups = groups(pid);
    block_on(async {
        let id = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        eventually("its end", || (!lives(pid)).then_some(())).await;
        let provisioner = fixture.provisioner();
        assert!(matches!(
            provisioner.adopt(old.id).await,
            Err(SandboxError::NotFound(_))
        ));
        assert!(groups.iter().all(|group| !group.exists()));
        assert!(fixture.left().is_empty());
    });
}

#[test]
fn a_sweep_removes_unknown_sandboxes_and_nothing_else() {
    let fixture = Fixture::new(QUIET);
    let (kept, unknown, unfinished) = (abandoned(&fixture), abandoned(&fixture), abandoned(&fixture));
    // The gateway died between the start of this one and the second writing of its record.
    let record = fixture.config.run_dir.join(format!("{}.json", unfinished.0.id));
    let mut text: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    text["shim"] = serde_json::Value::Null;
    std::fs::write(&record, text.to_string()).unwrap();
    let all_groups: Vec<_> = [unknown.1, unfinished.1].into_iter().flat_map(groups).collect();
    block_on(async {
        let provisioner = fixture.provisioner();
        let live = start(&provisioner, spec()).await;
        let mut removed = provisioner.sweep(vec![kept.0.id]).await.unwrap();
        removed.sort();
        let mut expected = vec![unknown.0.id, unfinished.0.id];
        expected.sort();
        assert_eq!(removed, expected);
        assert!(lives(kept.1) && !lives(unknown.1) && !lives(unfinished.1));
        assert!(all_groups.iter().all(|group| !group.exists()));
        provisioner.stop(live.id, Duration::ZERO).await.unwrap();
        provisioner.adopt(kept.0.id).await.unwrap();
        provisioner.stop(kept.0.id, Duration::ZERO).await.unwrap();
        assert!(fixture.left().is_empty());
    });
}
