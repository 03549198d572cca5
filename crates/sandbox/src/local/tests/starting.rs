use super::*;
use crate::{Isolation, SandboxError};

#[tokio::test]
async fn a_sandbox_has_its_directories_and_nothing_of_our_environment() {
    let fixture =
        Fixture::new("env >$rt/env.new; mv $rt/env.new $rt/env; cat $gw/key >$rt/key; exec sleep 1000");
    let provisioner = fixture.provisioner();
    let spec = spec();
    let handle = start_with(&provisioner, spec.clone()).await;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&fixture.run()), 0o700);
    assert_eq!(mode(gateway_dir(&handle)), 0o711);
    assert_eq!(mode(&handle.runtime_dir), 0o700);
    assert_eq!(mode(&gateway_dir(&handle).join("key")), 0o600);
    assert_eq!(
        fs::read_to_string(gateway_dir(&handle).join("key")).unwrap(),
        spec.key.expose()
    );

    let environment = text(&handle, "env").await;
    let mut names: Vec<_> = environment
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    // PWD, SHLVL and _ are the shell's own.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["HIMALIA_SANDBOX_MARK", "LANG", "PATH"]);
    assert!(environment.contains(&handle.kernel_env["HIMALIA_SANDBOX_MARK"]));

    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    assert!(fixture.files().is_empty());
}

#[tokio::test]
async fn the_shim_is_told_what_was_configured_and_stands_apart() {
    let fixture = Fixture::new("echo $$ >$rt/shim; echo \"$@\" >$rt/arguments; exec sleep 1000");
    let mut config = fixture.config();
    config.spill_dir = Some(fixture.dir.path().join("spill"));
    let provisioner = LocalProvisioner::new(config).unwrap();
    let mut wanted = spec();
    wanted.orphan_ttl = Some(Duration::from_mins(10));
    let handle = start_with(&provisioner, wanted).await;
    let arguments = text(&handle, "arguments").await;
    let spill = fixture.dir.path().join("spill");
    let expected = format!(
        "--gateway-dir {} --runtime-dir {} --orphan-ttl 600 --spill-dir {} --memory-limit 1610612736\n",
        gateway_dir(&handle).display(),
        handle.runtime_dir.display(),
        spill.display(),
    );
    assert_eq!(arguments, expected);
    assert!(spill.is_dir());
    let shim = pid(&handle, "shim").await;
    // Not in the group that a terminal's interrupt goes to.
    assert_eq!(shim.find().unwrap().group, shim.pid);
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_shim_that_does_not_exist_leaves_nothing() {
    let fixture = Fixture::new("");
    let mut config = fixture.config();
    config.shim = fixture.dir.path().join("missing");
    let provisioner = LocalProvisioner::new(config).unwrap();
    let error = provisioner.start(spec()).await.unwrap_err();
    assert!(matches!(error, SandboxError::Spawn { .. }), "{error}");
    assert!(fixture.files().is_empty());
    assert!(provisioner.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_start_whose_caller_is_dropped_leaves_nothing() {
    let fixture = Fixture::new("echo $$ >>${gw%/*}/../pids; exec sleep 1000");
    let provisioner = fixture.provisioner();
    let mut start = provisioner.start(spec());
    std::future::poll_fn(|context| {
        let _ = start.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
    drop(start);
    // Whether it got as far as a process or not, it is undone.
    eventually("an empty run directory", || {
        fixture.files().is_empty().then_some(())
    })
    .await;
    eventually("an empty list", || provisioner.is_empty().then_some(())).await;
    for line in fs::read_to_string(fixture.dir.path().join("pids"))
        .unwrap_or_default()
        .lines()
    {
        assert!(Process::read(line.parse().unwrap()).is_none_or(|process| process.ended));
    }
}

#[tokio::test]
async fn more_isolation_than_there_is_and_bad_labels_are_refused() {
    let fixture = Fixture::new("");
    let provisioner = fixture.provisioner();
    let mut wanted = spec();
    wanted.minimum = Isolation::Container;
    let error = provisioner.start(wanted).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "isolation container is wanted, this provisioner gives none"
    );
    let mut wanted = spec();
    wanted.labels = (0..17).map(|n| (n.to_string(), String::new())).collect();
    assert!(
        provisioner
            .start(wanted)
            .await
            .unwrap_err()
            .to_string()
            .starts_with("labels")
    );
    let mut wanted = spec();
    wanted.labels.insert("a".into(), "b".repeat(512));
    assert!(provisioner.start(wanted).await.is_err());
    assert!(fixture.files().is_empty());
}

#[test]
fn a_run_directory_that_others_can_use_or_that_is_too_long_is_refused() {
    let refusal = |config| LocalProvisioner::new(config).unwrap_err().to_string();
    let fixture = Fixture::new("");
    fs::create_dir(fixture.run()).unwrap();
    fs::set_permissions(fixture.run(), fs::Permissions::from_mode(0o750)).unwrap();
    assert!(refusal(fixture.config()).contains("chmod 700"));

    let link = fixture.dir.path().join("link");
    fs::set_permissions(fixture.run(), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(fixture.run(), &link).unwrap();
    assert!(refusal(LocalConfig::new(link, "/bin/true")).contains("symbolic link"));
    assert!(refusal(LocalConfig::new("relative", "/bin/true")).contains("absolute"));
    let long = fixture.dir.path().join("x".repeat(60));
    assert!(refusal(LocalConfig::new(&long, "/bin/true")).contains("at most"));
    assert!(!long.exists());
    let file = fixture.dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(LocalProvisioner::new(LocalConfig::new(file, "/bin/true")).is_err());
}
