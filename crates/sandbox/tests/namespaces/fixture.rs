//! Directories for sandboxes, and programs that replace the shim.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use himalia_provisioner::{Enforcement, Provisioner as _, SandboxHandle, SandboxKey, SandboxSpec};
use himalia_sandbox::{CgroupRoot, NamespacesConfig, NamespacesProvisioner};
use tempfile::TempDir;

/// How long a condition may take on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A shell script that waits for `TERM`. As PID 1 a shell gets only signals that it has a trap for.
pub(crate) const QUIET: &str = "trap 'exit 0' TERM; echo ready; while :; do sleep 1000 & wait $!; done";

/// A shell script that becomes the program in the kernel's directory.
const PYTHON: &str = "exec /usr/bin/python3 -u /himalia/kernel/main.py \"$@\"";

/// The binary of this workspace beside the test.
pub(crate) fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    places
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not built: cargo build --workspace --bins"))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Set where control groups have to enforce all limits.
pub(crate) const EXPECTS_GROUPS: &str = "HIMALIA_TEST_CGROUPS";

/// Has this process enter the group that version 2 asks for, before it has a child in its present one and before
/// another test asks as well.
pub(crate) fn settle() {
    static SETTLED: Once = Once::new();
    SETTLED.call_once(|| {
        let run_dir = TempDir::new().unwrap();
        CgroupRoot::detect(run_dir.path());
    });
}

/// Directories and configuration of one gateway.
pub(crate) struct Fixture {
    dir: TempDir,
    pub(crate) config: NamespacesConfig,
}

impl Fixture {
    /// A gateway whose shim is this shell script. It may use control groups.
    pub(crate) fn new(script: &str) -> Self {
        let mut fixture = Self::without_groups(script);
        fixture.config.cgroups = CgroupRoot::detect(&fixture.config.run_dir);
        if std::env::var_os(EXPECTS_GROUPS).is_some() {
            let can = fixture.provisioner().limits();
            let enforced = [can.memory, can.pids, can.cpu];
            assert_eq!(enforced, [Enforcement::Cgroup; 3], "memory, processes, processor");
        }
        fixture
    }

    /// The same without control groups.
    pub(crate) fn without_groups(script: &str) -> Self {
        settle();
        let dir = TempDir::new().unwrap();
        let shim = dir.path().join("shim");
        fs::write(&shim, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
        let package = dir.path().join("package");
        fs::create_dir(&package).unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        let config = NamespacesConfig::new(
            dir.path().join("run"),
            dir.path().join("data"),
            shim,
            binary("himalia-jail"),
            package,
        );
        Self { dir, config }
    }

    /// A gateway with a Python program as the first process.
    pub(crate) fn python(code: &str) -> Self {
        Self::new(PYTHON).with_program(code)
    }

    /// The same without control groups.
    pub(crate) fn python_without_groups(code: &str) -> Self {
        Self::without_groups(PYTHON).with_program(code)
    }

    fn with_program(self, code: &str) -> Self {
        fs::write(self.config.kernel_package_dir.join("main.py"), code).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn provisioner(&self) -> NamespacesProvisioner {
        NamespacesProvisioner::new(self.config.clone()).unwrap()
    }

    /// What is in the run directory, without the common log and the homes of zygotes.
    pub(crate) fn left(&self) -> Vec<String> {
        let names = fs::read_dir(&self.config.run_dir).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| !["zygotes.log", "zygotes"].contains(&name.as_str()))
            .collect()
    }

    pub(crate) fn log(&self, handle: &SandboxHandle) -> String {
        let path = self.config.run_dir.join(format!("{}.log", handle.id));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Waits until the first process has printed this line.
    pub(crate) async fn printed(&self, handle: &SandboxHandle, line: &str) {
        eventually(line, || {
            let log = self.log(handle);
            if let Some(exit) = handle.exit.borrow().as_ref() {
                panic!("it has ended: {exit:?}");
            }
            log.lines().any(|has| has == line).then_some(())
        })
        .await;
    }
}

pub(crate) fn spec() -> SandboxSpec {
    SandboxSpec::new(SandboxKey::generate().unwrap())
}

pub(crate) async fn start(provisioner: &NamespacesProvisioner, spec: SandboxSpec) -> SandboxHandle {
    provisioner.start(spec).await.unwrap()
}

/// Waits until `condition` gives something.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Processes of the host below this one, itself included.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        if let Some(parent) = rest.split_ascii_whitespace().nth(1) {
            parents.push((pid, parent.parse::<u32>().unwrap()));
        }
    }
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let below = parents.iter().filter(|(_, parent)| *parent == found[next]);
        let below: Vec<u32> = below.map(|(pid, _)| *pid).collect();
        found.extend(below);
        next += 1;
    }
    found
}

/// Whether the process lives: one that waits for its parent does not.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Directories of the control groups of a process that are ours.
pub(crate) fn groups(pid: u32) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap(), fields.next().unwrap());
        if path.contains("/himalia-") && !path.ends_with("/himalia-gateway") {
            let mount = Path::new("/sys/fs/cgroup").join(controllers);
            found.push(mount.join(path.trim_start_matches('/')));
        }
    }
    found
}

/// Body of a loop over `path` in Python: fills the file system there, and prints the error that stops it and the MiB
/// that it took.
pub(crate) const FILL: &str = "
    written = 0
    try:
        with open(path + '/full', 'wb', buffering=0) as file:
            while written < 200 << 20:
                written += file.write(bytes(1 << 20))
    except OSError as error:
        print(path, error.errno, written >> 20)";
