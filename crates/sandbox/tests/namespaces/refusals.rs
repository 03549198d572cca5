//! What is not possible is refused with its reason, and leaves nothing.

use himalia_provisioner::{Enforcement, Isolation, Network, Provisioner as _, SandboxError};
use himalia_sandbox::{CgroupRoot, NamespacesProvisioner, try_out};

use crate::fixture::{Fixture, QUIET, binary, spec};

#[tokio::test]
async fn options_of_other_provisioners() {
    let fixture = Fixture::new(QUIET);
    let provisioner = fixture.provisioner();
    let mut wanted = spec();
    wanted.network = Network::Open("web".to_owned());
    let error = provisioner.start(wanted).await.unwrap_err();
    assert!(
        matches!(error, SandboxError::NetworkUnsupported { .. }),
        "{error}"
    );
    let mut wanted = spec();
    wanted.image = Some("debian".to_owned());
    assert!(provisioner.start(wanted).await.is_err());
    let mut wanted = spec();
    wanted.minimum = Isolation::Container;
    assert!(matches!(
        provisioner.start(wanted).await,
        Err(SandboxError::Isolation { .. })
    ));
    assert!(fixture.left().is_empty());
}

#[tokio::test]
async fn a_jail_that_fails() {
    let mut fixture = Fixture::new(QUIET);
    fixture.config.kernel_package_dir = fixture.path().join("missing");
    let error = fixture.provisioner().start(spec()).await.unwrap_err();
    assert!(
        matches!(error, SandboxError::Jail(_)) && error.to_string().contains("missing"),
        "{error}"
    );
    assert!(fixture.left().is_empty());
    for jail in ["/missing", "/bin/false"] {
        fixture.config.jail = jail.into();
        let error = fixture.provisioner().start(spec()).await.unwrap_err();
        assert!(matches!(error, SandboxError::Spawn { .. }), "{error}");
        assert!(fixture.left().is_empty());
    }
}

#[tokio::test]
async fn a_gateway_whose_secrets_every_sandbox_would_see() {
    let mut fixture = Fixture::new(QUIET);
    fixture.config.private_dirs.push("/usr/share".into());
    let error = NamespacesProvisioner::new(fixture.config.clone()).unwrap_err();
    assert!(error.to_string().contains("every sandbox sees /usr"), "{error}");
}

#[tokio::test]
async fn it_is_tried_out_for_real() {
    let mut fixture = Fixture::new("");
    fixture.config.shim = binary("himalia-shim");
    let tried = try_out(&fixture.config).await;
    assert_eq!(tried.failure, None);
    assert!(tried.start.is_some() && !tried.linux.is_empty());
    assert_eq!(tried.limits.disk, Enforcement::Hard);
    if fixture.config.cgroups == CgroupRoot::default() {
        assert_eq!(tried.limits.memory, Enforcement::Watched);
        assert_eq!(tried.limits.pids, Enforcement::Rlimit);
    }
    assert!(fixture.left().is_empty());

    fixture.config.shim = "/bin/false".into();
    let failure = try_out(&fixture.config).await.failure.unwrap();
    assert_eq!(failure.step, "sandbox");
    fixture.config.jail = "/bin/false".into();
    let failure = try_out(&fixture.config).await.failure.unwrap();
    assert_eq!(failure.step, "himalia-jail");
    assert!(fixture.left().is_empty());
}
