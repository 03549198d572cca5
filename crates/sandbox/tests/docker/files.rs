use himalia_provisioner::{Files, Provisioner as _, SandboxError};

use crate::fixture::{Fixture, spec};

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn kept_files_are_there_again_until_they_are_removed() {
    let fixture = Fixture::new();
    let kept = || {
        let mut spec = spec();
        spec.files = Files::Session("notebook-1".to_owned());
        spec
    };
    let first = fixture.start(kept()).await;
    let (status, text) = fixture
        .python(
            first.id,
            "import os; open('data', 'w').write('42'); print(oct(os.stat('.').st_mode), os.getcwd())",
        )
        .await;
    assert_eq!((status, text.trim()), (0, "0o40700 /session"));
    let early = fixture.provisioner.remove_files("notebook-1").await;
    assert!(matches!(early, Err(SandboxError::Engine { .. })), "{early:?}");
    fixture.stop(first.id).await;
    assert_eq!(fixture.volumes().await.len(), 1);
    assert_eq!(fixture.containers().await, 0);

    // Whatever the first one did to the directory, the next one can work.
    let second = fixture.start(kept()).await;
    let (status, text) = fixture.python(second.id, "print(open('data').read())").await;
    assert_eq!((status, text.trim()), (0, "42"));
    let mut other = spec();
    other.files = Files::Session("notebook-2".to_owned());
    let third = fixture.start(other).await;
    let (_, text) = fixture.python(third.id, "import os; print(os.listdir())").await;
    assert_eq!(text.trim(), "[]");
    fixture.stop(second.id).await;
    fixture.stop(third.id).await;
    let mut kept = fixture.provisioner.kept_files().await.unwrap();
    kept.sort();
    assert_eq!(kept, ["notebook-1", "notebook-2"]);
    for name in ["notebook-1", "notebook-2", "never-made"] {
        fixture.provisioner.remove_files(name).await.unwrap();
    }
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn ephemeral_files_are_gone_with_their_sandbox() {
    let fixture = Fixture::new();
    let first = fixture.start(spec()).await;
    let code = "import os\nfor d in ('/session', '/tmp', '/dev/shm'): open(d + '/x', 'w').write('x')\nprint(os.listdir('/session'))";
    let (_, text) = fixture.python(first.id, code).await;
    assert_eq!(text.trim(), "['x']");
    fixture.stop(first.id).await;
    let second = fixture.start(spec()).await;
    let code = "import os; print([os.path.exists(d + '/x') for d in ('/session', '/tmp', '/dev/shm')])";
    let (_, text) = fixture.python(second.id, code).await;
    assert_eq!(text.trim(), "[False, False, False]");
    fixture.stop(second.id).await;
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_name_that_could_lead_elsewhere_is_refused() {
    let fixture = Fixture::new();
    let mut wanted = spec();
    wanted.files = Files::Session("../etc".to_owned());
    let refused = fixture.provisioner.start(wanted).await;
    assert!(
        matches!(refused, Err(SandboxError::BadSpec { field: "files", .. })),
        "{refused:?}"
    );
    fixture.nothing_left().await;
}
