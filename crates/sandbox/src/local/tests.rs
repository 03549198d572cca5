use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use himalia_link::Endpoint;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{LocalConfig, LocalProvisioner};
use crate::host::proc::{Process, ProcessId};
use crate::{Provisioner as _, SandboxHandle, SandboxKey, SandboxSpec};

mod ending;
mod leaving;
mod starting;

/// A run directory and a script in place of the shim. The script sees the runtime directory as `$rt` and the
/// gateway directory as `$gw`.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new(script: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let shim = dir.path().join("shim");
        let text = format!("#!/bin/sh\ngw=$2\nrt=$4\n{script}\n");
        fs::write(&shim, text).unwrap();
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o700)).unwrap();
        Self { dir }
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn config(&self) -> LocalConfig {
        LocalConfig::new(self.run(), self.dir.path().join("shim"))
    }

    fn provisioner(&self) -> LocalProvisioner {
        LocalProvisioner::new(self.config()).unwrap()
    }

    /// Names in the run directory.
    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.run()).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn gateway_dir(handle: &SandboxHandle) -> &Path {
    let Endpoint::Unix(dir) = &handle.endpoint else {
        panic!("{:?}", handle.endpoint);
    };
    dir
}

fn spec() -> SandboxSpec {
    SandboxSpec::new(SandboxKey::generate().unwrap())
}

async fn start(provisioner: &LocalProvisioner) -> SandboxHandle {
    start_with(provisioner, spec()).await
}

/// Starts a sandbox. While another test forks, its child holds our script open for writing for a moment.
async fn start_with(provisioner: &LocalProvisioner, spec: SandboxSpec) -> SandboxHandle {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match provisioner.start(spec.clone()).await {
            Err(crate::SandboxError::Spawn { source, .. })
                if source.kind() == std::io::ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {}
            other => return other.unwrap(),
        }
    }
}

/// Waits until `condition` gives something.
async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The whole text of a file in the runtime directory, once it ends in a newline.
async fn text(handle: &SandboxHandle, name: &str) -> String {
    let path = handle.runtime_dir.join(name);
    eventually(name, || {
        fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
    })
    .await
}

async fn pid(handle: &SandboxHandle, name: &str) -> ProcessId {
    let pid = text(handle, name).await.trim().parse().unwrap();
    Process::read(pid).unwrap().id
}

fn lives(id: ProcessId) -> bool {
    id.find().is_some()
}
