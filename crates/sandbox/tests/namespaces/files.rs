//! Files that outlive their sandbox.

use std::time::Duration;

use himalia_provisioner::{Enforcement, Files, Limits, Provisioner as _, SandboxSpec};

use crate::fixture::{Fixture, spec, start};

fn named(name: &str) -> SandboxSpec {
    let mut wanted = spec();
    wanted.files = Files::Session(name.to_owned());
    wanted
}

#[tokio::test]
async fn kept_files_are_there_in_the_next_sandbox_and_gone_when_removed() {
    let fixture = Fixture::new(
        "cat /session/note 2>/dev/null; echo written >/session/note; ln -s /etc/passwd /session/link
         mkdir -p /session/closed/inner; chmod 0 /session/closed; echo ready
         trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done",
    );
    let provisioner = fixture.provisioner();
    let first = start(&provisioner, named("one")).await;
    fixture.printed(&first, "ready").await;
    assert!(!fixture.log(&first).contains("written"));
    let second = provisioner.start(named("one")).await.unwrap_err();
    assert!(second.to_string().contains("in use"), "{second}");
    let busy = provisioner.remove_files("one").await.unwrap_err();
    assert!(busy.to_string().contains("in use"), "{busy}");
    // Another sandbox in between, so that user ids would differ if they were not remembered.
    let other = start(&provisioner, spec()).await;
    provisioner.stop(first.id, Duration::ZERO).await.unwrap();

    // Another gateway process.
    let provisioner = fixture.provisioner();
    let again = start(&provisioner, named("one")).await;
    fixture.printed(&again, "ready").await;
    fixture.printed(&again, "written").await;
    provisioner.stop(again.id, Duration::ZERO).await.unwrap();
    provisioner.sweep(vec![]).await.unwrap();
    drop(other);

    let path = fixture.config.data_dir.join("files/one");
    assert!(path.is_dir());
    assert_eq!(provisioner.kept_files().await.unwrap(), ["one"]);
    provisioner.remove_files("one").await.unwrap();
    provisioner.remove_files("one").await.unwrap();
    assert!(!path.exists());
    for bad in ["", "..", "a/b", "A"] {
        assert!(provisioner.remove_files(bad).await.is_err());
        assert!(provisioner.start(named(bad)).await.is_err());
    }
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

#[tokio::test]
async fn space_for_kept_files_is_watched() {
    let fixture = Fixture::new(
        "echo ready; trap : USR1; while :; do [ -e /session/go ] && head -c 4000000 /dev/zero >/session/big && echo full; sleep 0.05; done",
    );
    let provisioner = fixture.provisioner();
    let mut wanted = named("two");
    wanted.limits = Limits {
        disk_bytes: Some(2 << 20),
        ..Limits::default()
    };
    let handle = start(&provisioner, wanted).await;
    assert_eq!(handle.limits.disk, Enforcement::Watched);
    fixture.printed(&handle, "ready").await;
    let before = provisioner.disk_use(handle.id).await.unwrap().unwrap();
    assert!(before.limit_bytes == 2 << 20 && !before.is_over(), "{before:?}");
    std::fs::write(fixture.config.data_dir.join("files/two/go"), "").unwrap();
    fixture.printed(&handle, "full").await;
    let after = provisioner.disk_use(handle.id).await.unwrap().unwrap();
    assert!(after.used_bytes >= 4_000_000 && after.is_over(), "{after:?}");
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    provisioner.remove_files("two").await.unwrap();
}
