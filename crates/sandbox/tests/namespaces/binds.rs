//! What of the host is in a sandbox.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use himalia_provisioner::Provisioner as _;

use crate::fixture::{Fixture, spec, start};

#[tokio::test]
async fn what_is_bound_is_at_its_own_place_and_cannot_be_written() {
    let fixture = Fixture::new("");
    // As the installation of an interpreter in a user's home directory.
    let home = fixture.path().join("home");
    let tool = home.join("versions/1/bin/tool");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "#!/bin/sh\necho it runs\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(home.join("secret"), "x").unwrap();
    symlink("versions", home.join("current")).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let base = fs::canonicalize(&home).unwrap();
    let script = format!(
        "#!/bin/sh\n{0}/versions/1/bin/tool\n{0}/current/1/bin/tool | sed s/it/also/\nls {0}\n\
         touch {0}/versions/1/x || echo read-only\necho ready\nexec sleep 1000\n",
        base.display()
    );
    fs::write(&fixture.config.shim, script).unwrap();
    let provisioner = fixture.provisioner();
    let mut wanted = spec();
    wanted.binds = vec![
        base.join("current/1"),
        "/usr/share".into(),
        base.join("versions/1/bin"),
    ];
    let handle = start(&provisioner, wanted).await;
    fixture.printed(&handle, "ready").await;
    let log = fixture.log(&handle);
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("touch")).collect();
    assert_eq!(
        lines,
        [
            "it runs",
            "also runs",
            "current",
            "versions",
            "read-only",
            "ready"
        ]
    );
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();

    let mut wanted = spec();
    wanted.binds = vec![fixture.config.data_dir.clone()];
    let error = provisioner.start(wanted).await.unwrap_err();
    assert!(error.to_string().contains("gateway's own"), "{error}");
    assert!(fixture.left().is_empty());
}
