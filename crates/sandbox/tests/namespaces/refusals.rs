//! What is not possible is refused with its reason, and leaves nothing.

use himalia_sandbox::{
    CgroupRoot, Enforcement, Isolation, NamespacesProvisioner, Network, Provisioner as _, SandboxError,
    try_out,
};

use crate::fixture::{Place, QUIET, binary, spec};

#[tokio::test]
async fn wishes_that_others_fulfil() {
    let place = Place::new(QUIET);
    let provisioner = place.provisioner();
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
    assert!(place.left().is_empty());
}

#[tokio::test]
async fn a_jail_that_fails() {
    let mut place = Place::new(QUIET);
    place.config.kernel_package_dir = place.path().join("missing");
    let error = place.provisioner().start(spec()).await.unwrap_err();
    assert!(
        matches!(error, SandboxError::Jail(_)) && error.to_string().contains("missing"),
        "{error}"
    );
    assert!(place.left().is_empty());
    for jail in ["/missing", "/bin/false"] {
        place.config.jail = jail.into();
        let error = place.provisioner().start(spec()).await.unwrap_err();
        assert!(matches!(error, SandboxError::Spawn { .. }), "{error}");
        assert!(place.left().is_empty());
    }
}

#[tokio::test]
async fn a_gateway_whose_secrets_every_sandbox_would_see() {
    let mut place = Place::new(QUIET);
    place.config.private_dirs.push("/usr/share".into());
    let error = NamespacesProvisioner::new(place.config.clone()).unwrap_err();
    assert!(error.to_string().contains("every sandbox sees /usr"), "{error}");
}

#[tokio::test]
async fn it_is_tried_out_for_real() {
    let mut place = Place::new("");
    place.config.shim = binary("himalia-shim");
    let tried = try_out(&place.config).await;
    assert_eq!(tried.failure, None);
    assert!(tried.start.is_some() && !tried.linux.is_empty());
    assert_eq!(tried.limits.disk, Enforcement::Hard);
    if place.config.cgroups == CgroupRoot::default() {
        assert_eq!(tried.limits.memory, Enforcement::Watched);
        assert_eq!(tried.limits.pids, Enforcement::Rlimit);
    }
    assert!(place.left().is_empty());

    place.config.shim = "/bin/false".into();
    let failure = try_out(&place.config).await.failure.unwrap();
    assert_eq!(failure.step, "sandbox");
    place.config.jail = "/bin/false".into();
    let failure = try_out(&place.config).await.failure.unwrap();
    assert_eq!(failure.step, "himalia-jail");
    assert!(place.left().is_empty());
}
