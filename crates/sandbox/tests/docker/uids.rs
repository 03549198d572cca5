use himalia_provisioner::{Files, Provisioner as _, SandboxHandle, SandboxSpec};
use himalia_sandbox::{DEFAULT_HOST_UIDS, host_uid_parts};

use crate::fixture::{Fixture, spec};

fn kept(name: &str) -> SandboxSpec {
    let mut spec = spec();
    spec.files = Files::Session(name.to_owned());
    spec
}

/// Whether containers get such an id: the upper half of each part is theirs.
pub(crate) fn of_containers(uid: u32) -> bool {
    let parts = host_uid_parts(&DEFAULT_HOST_UIDS);
    parts
        .iter()
        .any(|part| part.contains(&uid) && uid - part.start() > (part.end() - part.start()) / 2)
}

/// The user of the first process as the host sees it, which must be the one inside, that of the files too.
async fn uid(fixture: &Fixture, handle: &SandboxHandle) -> u32 {
    let pid = fixture.inspect(handle.id).await.state.unwrap().pid.unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    let uid: u32 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let code = "import os\n\
                for d in ('/session', '/tmp', '/dev/shm'): open(d + '/x', 'w').write('x')\n\
                print(os.getuid(), os.getgid(), *(os.stat(f).st_uid for f in ('.', '/himalia/run', '/tmp/x', 'x')))";
    let (_, text) = fixture.python(handle.id, code).await;
    let seen: Vec<u32> = text.split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert_eq!(seen, [uid; 6], "{text}");
    uid
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn each_container_has_a_user_of_its_own_on_the_host() {
    let mut fixture = Fixture::new();
    let first = fixture.start(spec()).await;
    let uid_of_first = uid(&fixture, &first).await;
    // The next gateway process knows the ids by what the engine says.
    fixture.again();
    let first = fixture.provisioner.adopt(first.id).await.unwrap();
    let (second, third) = tokio::join!(fixture.start(spec()), fixture.start(kept("own")));
    let mut seen = vec![
        uid_of_first,
        uid(&fixture, &second).await,
        uid(&fixture, &third).await,
    ];
    for handle in [first, second, third] {
        fixture.stop(handle.id).await;
    }
    seen.sort_unstable();
    assert!(seen.iter().all(|uid| of_containers(*uid)), "{seen:?}");
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
    fixture.provisioner.remove_files("own").await.unwrap();
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn kept_files_keep_their_user() {
    let mut fixture = Fixture::new();
    let first = fixture.start(kept("same")).await;
    let before = uid(&fixture, &first).await;
    fixture.stop(first.id).await;
    fixture.again();
    // The id stays assigned to the files while no sandbox uses them.
    let other = fixture.start(spec()).await;
    assert_ne!(uid(&fixture, &other).await, before);
    fixture.stop(other.id).await;
    let second = fixture.start(kept("same")).await;
    assert_eq!(uid(&fixture, &second).await, before);
    fixture.stop(second.id).await;
    fixture.provisioner.remove_files("same").await.unwrap();
    fixture.nothing_left().await;
}
