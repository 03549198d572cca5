//! The work directory at `/home/user`, for clients of E2B.

use std::path::Path;
use std::time::Duration;

use himalia_provisioner::{LimitChange, Limits, MountSource, Provisioner as _, SandboxSpec, SharedMount};
use serde_json::{Value, json};

use crate::fixture::{Fixture, eventually, spec, start};

const SIZE: u64 = 16 << 20;
const PROBE: &str = r"
import json, os, pwd, signal, sys, time
def link(path):
    return os.readlink(path) if os.path.islink(path) else None
def size():
    found = os.statvfs('.')
    return found.f_blocks * found.f_frsize
print(json.dumps({
    'cwd': os.getcwd(), 'home': pwd.getpwuid(os.getuid()).pw_dir, 'spill': sys.argv[sys.argv.index('--spill-dir') + 1],
    'links': [link(path) for path in ('/session', '/home/user', '/workspace')],
    'writes': [os.access(path, os.W_OK) for path in ('.', '/session', '/home')],
    'flags': os.statvfs('.').f_flag & (os.ST_NOSUID | os.ST_NODEV) == os.ST_NOSUID | os.ST_NODEV,
}))
before = size()
while size() == before:
    time.sleep(0.01)
print('size', size() >> 20)
signal.sigwait([signal.SIGTERM])
";

/// The report of a sandbox whose work directory grows, and the path of that in its handle.
async fn seen(in_user_home: bool, spec: SandboxSpec) -> (Value, String) {
    let mut fixture = Fixture::python(PROBE);
    fixture.config.in_user_home = in_user_home;
    let provisioner = fixture.provisioner();
    let from = Limits {
        disk_bytes: Some(SIZE),
        ..Limits::default()
    };
    let handle = start(
        &provisioner,
        SandboxSpec {
            limits: from.clone(),
            ..spec
        },
    )
    .await;
    let told = eventually("the report", || {
        let log = fixture.log(&handle);
        log.lines().find_map(|line| serde_json::from_str(line).ok())
    })
    .await;
    let to = Limits {
        disk_bytes: Some(2 * SIZE),
        ..Limits::default()
    };
    let change = LimitChange {
        from,
        to,
        runtime: None,
    };
    provisioner.change_limits(handle.id, change).await.unwrap();
    fixture.printed(&handle, "size 32").await;
    let work_dir = handle.work_dir.unwrap().to_str().unwrap().to_owned();
    assert_eq!(handle.base_env["HOME"], work_dir);
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    (told, work_dir)
}

#[tokio::test]
async fn clients_of_e2b_find_it_where_they_expect_it() {
    let (told, work_dir) = seen(true, spec()).await;
    assert_eq!(work_dir, "/home/user");
    assert_eq!(
        told,
        json!({
            "cwd": "/home/user", "home": "/home/user", "spill": "/home/user", "links": ["/home/user", null, "/home/user"],
            "writes": [true, true, false], "flags": true,
        })
    );
}

#[tokio::test]
async fn others_have_only_links() {
    let (told, work_dir) = seen(false, spec()).await;
    assert_eq!(work_dir, "/session");
    assert_eq!(
        (&told["cwd"], &told["home"], &told["links"]),
        (
            &json!("/session"),
            &json!("/session"),
            &json!([null, "/session", "/session"])
        )
    );
}

#[tokio::test]
async fn a_mount_of_the_operator_keeps_its_place() {
    let shared = tempfile::tempdir_in("/var/tmp").unwrap();
    for target in ["/home/user", "/home/user/data"] {
        let mut wanted = spec();
        wanted.mounts.push(SharedMount {
            name: "data".to_owned(),
            source: MountSource::Directory {
                base: shared.path().to_owned(),
                subdirectory: Path::new("").to_owned(),
            },
            target: target.into(),
            read_only: true,
            owner: None,
        });
        let (told, work_dir) = seen(true, wanted).await;
        assert_eq!(
            (work_dir.as_str(), &told["links"]),
            ("/session", &json!([null, null, "/session"])),
            "{target}"
        );
    }
}
