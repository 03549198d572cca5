use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::fixture::{EXPECTS_GROUPS, binary, is_root, settle};

/// A user that has nothing.
const USER: &str = "54321";

#[test]
fn everything_once_more_as_an_ordinary_user() {
    if !is_root() {
        return;
    }
    settle();
    // The build's directory may be closed to others.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let test = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    for name in ["himalia-jail", "himalia-shim"] {
        fs::copy(binary(name), dir.path().join(name)).unwrap();
    }
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    std::os::unix::fs::chown(
        &temporary,
        Some(USER.parse().unwrap()),
        Some(USER.parse().unwrap()),
    )
    .unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"])
        .arg(&test)
        .args(["--skip", "again::"])
        .env("TMPDIR", &temporary)
        .env_remove(EXPECTS_GROUPS)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(
        said.contains("test result: ok") && !said.contains(" 0 passed"),
        "{said}"
    );
}
