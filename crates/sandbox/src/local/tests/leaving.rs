//! A gateway ends, and the next one starts.

use super::*;
use crate::{ExitCause, SandboxError, SandboxId};

const QUIET: &str = "sleep 1000 & echo $! >$rt/child; echo $$ >$rt/shim; wait";

/// Starts a sandbox in a runtime that is ended at once, as a gateway is that was killed.
fn abandoned(fixture: &Fixture) -> SandboxHandle {
    let gateway = tokio::runtime::Runtime::new().unwrap();
    let handle = gateway.block_on(async {
        let handle = start(&fixture.provisioner()).await;
        text(&handle, "shim").await;
        handle
    });
    drop(gateway);
    handle
}

#[test]
fn a_sandbox_outlives_its_gateway_and_is_adopted() {
    let fixture = Fixture::new(QUIET);
    let old = abandoned(&fixture);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let shim = pid(&old, "shim").await;
        let child = pid(&old, "child").await;
        assert!(lives(shim) && lives(child));
        let provisioner = fixture.provisioner();
        assert!(provisioner.list().await.unwrap()[0].alive);
        let (handle, again) = tokio::join!(provisioner.adopt(old.id), provisioner.adopt(old.id));
        let (handle, again) = (handle.unwrap(), again.unwrap());
        assert_eq!(handle.endpoint, old.endpoint);
        assert_eq!(handle.kernel_env, old.kernel_env);
        assert!(provisioner.sweep(vec![]).await.unwrap().is_empty());
        shim.signal(Signal::KILL).unwrap();
        let exit = handle.ended().await.unwrap();
        assert_eq!((&exit.cause, exit.leftovers), (&ExitCause::Lost, 1));
        assert_eq!(again.ended().await.unwrap(), exit);
        assert!(!lives(child));
        assert!(fixture.files().is_empty());
    });
}

#[test]
fn one_that_died_meanwhile_is_cleared_away() {
    let fixture = Fixture::new(QUIET);
    let old = abandoned(&fixture);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let child = pid(&old, "child").await;
        pid(&old, "shim").await.signal(Signal::KILL).unwrap();
        let provisioner = fixture.provisioner();
        eventually("the end of the shim", || {
            let shim =
                super::super::noted::Record::read(&fixture.run().join(format!("{}.json", old.id)), old.id);
            shim.unwrap().living_shim().is_none().then_some(())
        })
        .await;
        assert!(matches!(
            provisioner.adopt(old.id).await,
            Err(SandboxError::NotFound(_))
        ));
        assert!(!lives(child));
        assert!(fixture.files().is_empty());
    });
}

#[test]
fn a_sweep_removes_unknown_sandboxes_and_nothing_else() {
    let fixture = Fixture::new(QUIET);
    let (kept, unknown, unfinished) = (abandoned(&fixture), abandoned(&fixture), abandoned(&fixture));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (kept_shim, unknown_shim) = (pid(&kept, "shim").await, pid(&unknown, "shim").await);
        let unfinished_shim = pid(&unfinished, "shim").await;
        // The gateway died between the start of this one and the second writing of its record.
        fs::remove_file(fixture.run().join(format!("{}.json", unfinished.id))).unwrap();
        // Files without processes, and files that are not ours.
        let empty = SandboxId::generate().unwrap();
        fs::create_dir(fixture.run().join(empty.to_string())).unwrap();
        fs::write(fixture.run().join("notes.txt"), "mine").unwrap();

        let provisioner = fixture.provisioner();
        let live = start(&provisioner).await;
        let mut removed = provisioner.sweep(vec![kept.id]).await.unwrap();
        removed.sort();
        let mut expected = vec![unknown.id, unfinished.id, empty];
        expected.sort();
        assert_eq!(removed, expected);
        assert!(lives(kept_shim) && !lives(unknown_shim) && !lives(unfinished_shim));
        assert!(gateway_dir(&live).exists() && gateway_dir(&kept).exists());

        provisioner.stop(live.id, Duration::ZERO).await.unwrap();
        provisioner.adopt(kept.id).await.unwrap();
        provisioner.stop(kept.id, Duration::ZERO).await.unwrap();
        assert_eq!(fixture.files(), ["notes.txt"]);
    });
}

#[test]
fn a_record_of_an_earlier_boot_names_no_process() {
    let fixture = Fixture::new(QUIET);
    let old = abandoned(&fixture);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let path = fixture.run().join(format!("{}.json", old.id));
        let mut record = super::super::noted::Record::read(&path, old.id).unwrap();
        let shim = record.shim.unwrap();
        let child = pid(&old, "child").await;
        record.boot = "earlier".into();
        record.write(&path).unwrap();
        let provisioner = fixture.provisioner();
        assert!(matches!(
            provisioner.adopt(old.id).await,
            Err(SandboxError::NotFound(_))
        ));
        assert!(fixture.files().is_empty());
        assert!(lives(shim));
        child.signal(Signal::KILL).unwrap();
        shim.signal(Signal::KILL).unwrap();
    });
}
