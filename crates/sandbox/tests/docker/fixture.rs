//! One provisioner with a run directory of its own, and what every test checks at its end.

use std::collections::HashMap;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::Docker;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerInspectResponse, ContainerSummary};
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptionsBuilder, ListVolumesOptionsBuilder,
};
use futures_util::StreamExt as _;
use himalia_link::{Endpoint, FIRST_LINK};
use himalia_provisioner::{
    Limits, Provisioner as _, SandboxExit, SandboxHandle, SandboxId, SandboxKey, SandboxSpec,
};
use himalia_sandbox::{DockerConfig, DockerProvisioner};

/// Generous: the machine may be busy.
pub(crate) const LONG: Duration = Duration::from_mins(1);
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) struct Fixture {
    dir: tempfile::TempDir,
    pub(crate) config: DockerConfig,
    pub(crate) provisioner: DockerProvisioner,
    pub(crate) docker: Docker,
}

/// The path of the engine's socket.
pub(crate) fn engine() -> PathBuf {
    let host = std::env::var("HIMALIA_TEST_DOCKER_HOST").expect(
        "HIMALIA_TEST_DOCKER_HOST is not set: these tests need a Docker engine, `make test-docker` starts one",
    );
    let path = host.strip_prefix("unix://").expect("an address with unix://");
    PathBuf::from(path)
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut DockerConfig)) -> Self {
        let dir = tempfile::Builder::new().prefix("hd").tempdir_in("/tmp").unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .unwrap();
        let shim = std::env::var_os("HIMALIA_TEST_SHIM")
            .map_or_else(|| repository.join("target/release/himalia-shim"), PathBuf::from);
        assert!(shim.is_file(), "{} is not there: make build", shim.display());
        let package = repository.join("kernelspecs/python3");
        let mut config = DockerConfig::new(dir.path().join("run"), shim, package);
        config.socket = engine();
        config.call_deadline = LONG;
        config.start_deadline = LONG;
        change(&mut config);
        let docker = Docker::connect_with_unix(
            &engine().to_string_lossy(),
            LONG.as_secs(),
            bollard::API_DEFAULT_VERSION,
        );
        Self {
            provisioner: DockerProvisioner::new(config.clone()).unwrap(),
            docker: docker.unwrap(),
            config,
            dir,
        }
    }

    /// A file that the container can see at the shim's place and execute instead of it.
    pub(crate) fn with_shim(script: &str) -> Self {
        let mut fixture = Self::new();
        let path = fixture.dir.path().join("shim");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        fixture.config.shim = path;
        fixture.again();
        fixture
    }

    /// A new gateway process, as far as the provisioner can tell.
    pub(crate) fn again(&mut self) {
        self.provisioner = DockerProvisioner::new(self.config.clone()).unwrap();
    }

    pub(crate) async fn start(&self, spec: SandboxSpec) -> SandboxHandle {
        self.provisioner.start(spec).await.unwrap()
    }

    pub(crate) async fn stop(&self, id: SandboxId) -> SandboxExit {
        self.provisioner.stop(id, Duration::ZERO).await.unwrap()
    }

    /// Runs a program in a sandbox as its own processes run; its exit code and output.
    pub(crate) async fn run(&self, id: SandboxId, command: &[&str]) -> (i64, String) {
        let options = CreateExecOptions {
            cmd: Some(command.to_vec()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..CreateExecOptions::default()
        };
        let container = self.container(id).await;
        let exec = self.docker.create_exec(&container, options).await.unwrap().id;
        let mut text = String::new();
        if let StartExecResults::Attached { mut output, .. } =
            self.docker.start_exec(&exec, None).await.unwrap()
        {
            while let Some(Ok(part)) = output.next().await {
                text.push_str(&part.to_string());
            }
        }
        let state = until("the command's exit code", async || {
            let state = self.docker.inspect_exec(&exec).await.unwrap();
            (state.running == Some(false)).then_some(state)
        });
        (state.await.exit_code.unwrap_or(-1), text)
    }

    pub(crate) async fn python(&self, id: SandboxId, code: &str) -> (i64, String) {
        self.run(id, &["python3", "-c", code]).await
    }

    /// The container's name in the engine.
    pub(crate) async fn container(&self, id: SandboxId) -> String {
        let found = self.all("himalia.sandbox", &id.to_string()).await;
        found.into_iter().next().expect("a container").id.unwrap()
    }

    /// SIGTERM to the first process of a container, past the provisioner.
    pub(crate) async fn signal(&self, container: &str, signal: &str) {
        let options = bollard::query_parameters::KillContainerOptionsBuilder::new()
            .signal(signal)
            .build();
        self.docker
            .kill_container(container, Some(options))
            .await
            .unwrap();
    }

    pub(crate) async fn inspect(&self, id: SandboxId) -> ContainerInspectResponse {
        let container = self.container(id).await;
        let options = None::<InspectContainerOptions>;
        self.docker.inspect_container(&container, options).await.unwrap()
    }

    async fn all(&self, label: &str, value: &str) -> Vec<ContainerSummary> {
        let filter = HashMap::from([("label", vec![format!("{label}={value}")])]);
        let options = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&filter)
            .build();
        self.docker.list_containers(Some(options)).await.unwrap()
    }

    /// Checks that nothing is left: no container, no volume, no file.
    pub(crate) async fn nothing_left(&self) {
        let instance = self.instance();
        let containers = self.all("himalia.instance", &instance).await;
        assert!(containers.is_empty(), "{containers:?}");
        let volumes = self.volumes().await;
        assert!(volumes.is_empty(), "{volumes:?}");
        let run = &self.config.run_dir;
        let files: Vec<_> = std::fs::read_dir(run)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        assert!(files.is_empty(), "{files:?}");
    }

    pub(crate) async fn volumes(&self) -> Vec<String> {
        let filter = HashMap::from([("label", vec![format!("himalia.instance={}", self.instance())])]);
        let options = ListVolumesOptionsBuilder::new().filters(&filter).build();
        let volumes = self.docker.list_volumes(Some(options)).await.unwrap().volumes;
        volumes
            .unwrap_or_default()
            .into_iter()
            .map(|volume| volume.name)
            .collect()
    }

    /// Containers of this gateway, whatever their state.
    pub(crate) async fn containers(&self) -> usize {
        self.all("himalia.instance", &self.instance()).await.len()
    }

    pub(crate) fn instance(&self) -> String {
        use sha2::Digest as _;
        use std::fmt::Write as _;
        let digest = sha2::Sha256::digest(self.config.run_dir.to_str().unwrap());
        digest[..8].iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    }
}

impl Drop for Fixture {
    /// After a failed assertion containers and volumes would stay for ever.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let script = "docker ps -aq --filter label=$1 | xargs -r docker rm -f; \
                      docker volume ls -q --filter label=$1 | xargs -r docker volume rm";
        let label = format!("himalia.instance={}", self.instance());
        let _ = std::process::Command::new("sh")
            .args(["-c", script, "sh", &label])
            .env("DOCKER_HOST", format!("unix://{}", engine().display()))
            .output();
    }
}

/// A small sandbox.
pub(crate) fn spec() -> SandboxSpec {
    let mut spec = SandboxSpec::new(SandboxKey::generate().unwrap());
    spec.limits = Limits {
        memory_bytes: Some(96 * MIB),
        pids: Some(64),
        cpu_millis: Some(1000),
        disk_bytes: Some(8 * MIB),
        tmp_bytes: Some(8 * MIB),
        shm_bytes: Some(8 * MIB),
        open_files: Some(256),
    };
    spec
}

/// Waits for a condition.
pub(crate) async fn until<T, F, R>(what: &str, mut look: F) -> T
where
    F: FnMut() -> R,
    R: Future<Output = Option<T>>,
{
    let found = tokio::time::timeout(LONG, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{what} did not come"))
}

/// Listens where the shim of a sandbox dials, and waits until it does.
pub(crate) async fn dialled(handle: &SandboxHandle) {
    let Endpoint::Unix(dir) = &handle.endpoint else {
        panic!("{:?}", handle.endpoint);
    };
    let path = dir.join(FIRST_LINK);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let accepted = tokio::time::timeout(LONG, listener.accept()).await;
    accepted.expect("the shim dials").unwrap();
}
