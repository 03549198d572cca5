//! A cluster with a provisioner.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use himalia_authority::Authority;
use himalia_kubernetes::{KubernetesConfig, KubernetesProvisioner, connect};
use himalia_link::{Arrival, Endpoint, FIRST_LINK, Gate, UnprovenBudget};
use himalia_provisioner::{Provisioner, SandboxHandle, SandboxKey, SandboxSpec};
use himalia_testkit::cluster::{Cluster, Image};
use himalia_testkit::{binaries, patience};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const NAMESPACE: &str = "kernels";

/// A cluster, and what is needed for provisioners of it.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) data: tempfile::TempDir,
    /// Changes the settings of provisioners.
    pub(crate) change: fn(&mut KubernetesConfig),
}

/// The images that nodes have: one with the agent, one with kernels.
pub(crate) fn images() -> Vec<Image> {
    let root: PathBuf = concat!(env!("CARGO_MANIFEST_DIR"), "/../..").into();
    let shim = binaries::path("himalia-shim").unwrap();
    vec![
        Image {
            name: "agent:1".to_owned(),
            files: vec![
                (shim, "/himalia-shim".into()),
                (root.join("kernelspecs/python3"), "/kernel".into()),
            ],
        },
        Image {
            name: "kernel:1".to_owned(),
            files: Vec::new(),
        },
    ]
}

impl World {
    pub(crate) async fn new() -> Self {
        Self {
            cluster: Cluster::start(images(), 8 << 30).await.unwrap(),
            data: tempfile::tempdir().unwrap(),
            change: |_| {},
        }
    }

    pub(crate) async fn provisioner(&self) -> KubernetesProvisioner {
        let authority = Authority::open(&self.data.path().join("authority")).unwrap();
        self.provisioner_of(vec![authority]).await
    }

    /// One with these authorities.
    pub(crate) async fn provisioner_of(&self, authorities: Vec<Authority>) -> KubernetesProvisioner {
        self.replica(None, authorities).await
    }

    /// That of a replica.
    pub(crate) async fn replica(
        &self,
        name: Option<&str>,
        authorities: Vec<Authority>,
    ) -> KubernetesProvisioner {
        let kubeconfig = self.cluster.kubeconfig().unwrap();
        let client = connect(Some(&kubeconfig), None).await.unwrap();
        let mut config = KubernetesConfig::new(NAMESPACE, "g1", "kernel:1", "agent:1");
        config.replica = name.map(str::to_owned);
        (self.change)(&mut config);
        KubernetesProvisioner::new(config, client, authorities).unwrap()
    }

    pub(crate) fn pods(&self) -> Vec<String> {
        self.names("pods")
    }

    pub(crate) fn names(&self, resource: &str) -> Vec<String> {
        let all = self.cluster.objects(resource);
        let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().map(str::to_owned);
        all.iter().filter_map(name).collect()
    }
}

pub(crate) fn spec() -> SandboxSpec {
    SandboxSpec::new(SandboxKey::generate().unwrap())
}

/// The gateway's end of the first link of a sandbox.
pub(crate) struct Linked {
    pub(crate) arrivals: mpsc::Receiver<Arrival>,
    _stop: DropGuard,
}

pub(crate) fn listen(handle: &SandboxHandle, key: &SandboxKey, epoch: u64) -> Linked {
    assert!(matches!(handle.endpoint, Endpoint::Tls(_)));
    let gate = Gate {
        key_hash: Sha256::digest(key.expose()).into(),
        epoch,
        unproven: Arc::new(UnprovenBudget::default()),
    };
    let listener = handle.endpoint.listen(FIRST_LINK, gate).unwrap();
    let (arrivals_in, arrivals) = mpsc::channel(4);
    let stop = CancellationToken::new();
    tokio::spawn(listener.run(arrivals_in, Arc::default(), stop.clone()));
    Linked {
        arrivals,
        _stop: stop.drop_guard(),
    }
}

impl Linked {
    pub(crate) async fn arrival(&mut self) -> Arrival {
        within(self.arrivals.recv()).await.unwrap()
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    patience::within("the test", future).await.unwrap()
}

/// Ends a sandbox, and looks that nothing is left.
pub(crate) async fn end(world: &World, provisioner: &KubernetesProvisioner, handle: &SandboxHandle) {
    within(provisioner.stop(handle.id, Duration::ZERO)).await.unwrap();
    himalia_testkit::assert_eventually!(
        world.pods().is_empty() && world.names("secrets").is_empty(),
        "left: {:?} {:?}",
        world.pods(),
        world.names("secrets")
    );
}
