//! A cluster as small as tests need it: the part of the Kubernetes API that the product calls, and a node that runs pods as
//! processes of this host.
//!
//! It keeps the contract where clients depend on it: versions of resources, watches with bookmarks that end with 410 when they
//! ask for what is forgotten, JSON patches whose `test` fails with 422, 409 for what is there, 429 on request, and watches
//! that break. Objects are kept as they come; nothing is validated.

mod api;
mod kubelet;
mod process;
mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use kubelet::Image;
pub use store::Refusals;

use store::Store;

/// A cluster that runs. Dropping it ends its pods.
#[derive(Debug)]
pub struct Cluster {
    address: SocketAddr,
    store: Arc<Store>,
    dir: tempfile::TempDir,
    kubelet: Arc<kubelet::Kubelet>,
    _stop: DropGuard,
}

impl Cluster {
    /// Starts one whose node has these images and this much memory for pods, bytes.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(images: Vec<Image>, memory: u64) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let dir = tempfile::Builder::new().prefix("hmk8s").tempdir_in("/tmp")?;
        let store = Arc::new(Store::default());
        let stop = CancellationToken::new();
        let router = api::router(Arc::clone(&store), stop.clone());
        let ended = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                served = axum::serve(listener, router) => drop(served),
                () = ended.cancelled() => {}
            }
        });
        let kubelet = Arc::new(kubelet::Kubelet::new(
            Arc::clone(&store),
            dir.path().to_owned(),
            images,
            memory,
        ));
        tokio::spawn(kubelet::run(Arc::clone(&kubelet), stop.clone()));
        Ok(Self {
            address,
            store,
            dir,
            kubelet,
            _stop: stop.drop_guard(),
        })
    }

    /// Where the API is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let path = self.dir.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters: [{{name: test, cluster: {{server: \"{}\"}}}}]\nusers: [{{name: test, user: {{}}}}]\ncontexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n",
            self.url()
        );
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// All objects of a resource, such as `pods`.
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        self.store.all(resource)
    }

    /// Puts an object there, as another client would.
    pub fn put(&self, resource: &str, object: Value) {
        self.store.put(resource, object);
    }

    /// Pods have the address `::1` from now on, so that there can be one at a time.
    pub fn give_ipv6(&self) {
        self.kubelet.give_ipv6();
    }

    /// How the API refuses from now on.
    pub fn refuse(&self, refusals: Refusals) {
        self.store.refuse(refusals);
    }

    /// Requests so far whose line contains this.
    pub fn requests(&self, part: &str) -> usize {
        self.store.requests(part)
    }

    /// Changes of objects so far.
    pub fn changes(&self) -> u64 {
        self.store.version()
    }

    /// Ends all watches, in the middle of a line.
    pub fn break_watches(&self) {
        self.store.break_watches();
    }

    /// Forgets all changes so far: watches that ask for them get 410.
    pub fn compact(&self) {
        self.store.compact();
    }

    /// Ends a pod for lack of a resource of the node.
    pub fn evict(&self, pod: &str, message: &str) {
        self.kubelet.evict(pod, message);
    }

    /// Ends a pod because its container used more memory than it may.
    pub fn out_of_memory(&self, pod: &str) {
        self.kubelet.out_of_memory(pod);
    }

    /// Kills the container of a pod.
    pub fn kill(&self, pod: &str) {
        self.kubelet.kill_pod(pod);
    }

    /// Deletes a pod with force, as another client would.
    pub fn delete(&self, namespace: &str, pod: &str) {
        let _ = self.store.remove("pods", namespace, pod);
    }

    /// Marks the node as one that takes no more pods, or as one that does again.
    pub fn cordon(&self, is_cordoned: bool) {
        self.kubelet.cordon(is_cordoned);
    }

    /// Cuts the power of the node: its processes end, and it says nothing more. Its pods are marked as the cluster's controllers
    /// do.
    pub fn lose_node(&self) {
        self.kubelet.lose();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kubelet.kill_all();
    }
}
