//! The node: it takes pods, runs their containers as processes, and says how they are.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::api::now;
use super::process::{Ended, Process};
use super::store::Store;

/// How long a process may take after it was asked to end, at most.
const GRACE_MAX: u64 = 10;

/// The name of the node.
const NODE: &str = "node-1";

/// An image: what a container has of it at its own places, beside the host's system.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its name.
    pub name: String,
    /// Files and directories of the host, by where the container sees them.
    pub files: Vec<(PathBuf, PathBuf)>,
}

#[derive(Debug)]
pub(super) struct Kubelet {
    store: Arc<Store>,
    dir: PathBuf,
    images: Vec<Image>,
    memory: u64,
    addresses: AtomicU32,
    pods: Mutex<HashMap<String, Arc<Running>>>,
    is_lost: AtomicBool,
    /// Pods have an IPv6 address.
    has_ipv6: AtomicBool,
}

/// A pod that was taken.
#[derive(Debug, Default)]
struct Running {
    process: Mutex<Option<Arc<Process>>>,
    stopping: AtomicBool,
    /// The reason of its end, where a test gives one.
    verdict: Mutex<Option<Value>>,
}

impl Kubelet {
    pub(super) fn new(store: Arc<Store>, dir: PathBuf, images: Vec<Image>, memory: u64) -> Self {
        let kubelet = Self {
            store,
            dir,
            images,
            memory,
            // Clusters of tests that run at the same time share the addresses of loopback.
            addresses: AtomicU32::new(std::process::id() << 8),
            pods: Mutex::default(),
            is_lost: AtomicBool::new(false),
            has_ipv6: AtomicBool::new(false),
        };
        kubelet.cordon(false);
        kubelet
    }

    pub(super) fn give_ipv6(&self) {
        self.has_ipv6.store(true, Ordering::Release);
    }

    fn kill(&self, pod: &str, verdict: Value) {
        if let Some(running) = self.pods.lock().get(pod) {
            *running.verdict.lock() = Some(verdict);
            if let Some(process) = &*running.process.lock() {
                process.kill();
            }
        }
    }

    pub(super) fn kill_pod(&self, pod: &str) {
        if let Some(running) = self.pods.lock().get(pod)
            && let Some(process) = &*running.process.lock()
        {
            process.kill();
        }
    }

    pub(super) fn evict(&self, pod: &str, message: &str) {
        self.kill(
            pod,
            json!({"phase": "Failed", "reason": "Evicted", "message": message}),
        );
    }

    pub(super) fn out_of_memory(&self, pod: &str) {
        let terminated = json!({"exitCode": 137, "reason": "OOMKilled"});
        self.kill(
            pod,
            json!({"phase": "Failed", "containerStatuses": [container(&json!({"terminated": terminated}))]}),
        );
    }

    /// Says whether the node takes pods. Those that it does not take wait.
    pub(super) fn cordon(&self, is_cordoned: bool) {
        let spec = if is_cordoned {
            json!({"unschedulable": true})
        } else {
            json!({})
        };
        let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}, "spec": spec});
        self.store.put("nodes", node);
    }

    fn is_cordoned(&self) -> bool {
        let node = self.store.get("nodes", "", NODE);
        node.is_ok_and(|node| node["spec"]["unschedulable"] == true)
    }

    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.kill_all();
        for pod in self.store.all("pods") {
            self.set(&pod, |pod| {
                pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
                pod["metadata"]["deletionTimestamp"] = json!(now());
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
            });
        }
    }

    pub(super) fn kill_all(&self) {
        for running in self.pods.lock().values() {
            if let Some(process) = &*running.process.lock() {
                process.kill();
            }
        }
    }

    fn set(&self, pod: &Value, change: impl FnOnce(&mut Value)) {
        let (namespace, name) = names(pod);
        let _ = self.store.update("pods", namespace, name, |mut pod| {
            let before = pod.clone();
            change(&mut pod);
            Ok((pod != before).then_some(pod))
        });
    }

    /// Looks at every pod once.
    fn look(self: &Arc<Self>) {
        if self.is_lost.load(Ordering::Acquire) {
            return;
        }
        for pod in self.store.all("pods") {
            let (_, name) = names(&pod);
            let running = self.pods.lock().get(name).cloned();
            let deleted = pod["metadata"].get("deletionTimestamp").is_some();
            match running {
                None if deleted => {
                    let (namespace, name) = names(&pod);
                    let _ = self.store.remove("pods", namespace, name);
                }
                None if pod["status"]["phase"] == "Pending" && !self.is_cordoned() => self.take(&pod),
                Some(running) if deleted && !running.stopping.swap(true, Ordering::AcqRel) => {
                    let grace = pod["metadata"]["deletionGracePeriodSeconds"]
                        .as_u64()
                        .unwrap_or(1);
                    if let Some(process) = running.process.lock().clone() {
                        process.end(Duration::from_secs(grace.min(GRACE_MAX)));
                    }
                }
                _ => {}
            }
        }
        // Pods that were deleted with force.
        let known: Vec<String> = self
            .store
            .all("pods")
            .iter()
            .map(|pod| names(pod).1.to_owned())
            .collect();
        self.pods.lock().retain(|name, running| {
            let is_known = known.contains(name);
            if !is_known && let Some(process) = &*running.process.lock() {
                process.kill();
            }
            is_known
        });
    }

    /// Takes a pod, or says why not.
    fn take(self: &Arc<Self>, pod: &Value) {
        let wanted = pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
            .as_str()
            .and_then(|text| text.parse::<u64>().ok());
        if wanted.is_some_and(|bytes| bytes > self.memory) {
            return self.set(pod, |pod| {
                pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
                    "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient memory."}]);
            });
        }
        let has = |container: &Value| {
            let name = container["image"].as_str().unwrap_or_default();
            self.images.iter().any(|image| image.name == name)
        };
        let init = &pod["spec"]["initContainers"][0];
        if !has(&pod["spec"]["containers"][0]) || !(init.is_null() || has(init)) {
            return self.set(pod, |pod| {
                let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image"});
                pod["status"]["containerStatuses"] = json!([container(&json!({"waiting": waiting}))]);
            });
        }
        let running = Arc::new(Running::default());
        self.pods
            .lock()
            .insert(names(pod).1.to_owned(), Arc::clone(&running));
        tokio::spawn(Arc::clone(self).carry_out(pod.clone(), running));
    }

    /// Runs the init container of a pod, if it has one, and then its container.
    async fn carry_out(self: Arc<Self>, pod: Value, running: Arc<Running>) {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed);
        let mut ip = format!(
            "127.{}.{}.{}",
            64 + (number >> 16) % 64,
            (number >> 8) % 256,
            1 + number % 254
        );
        if self.has_ipv6.load(Ordering::Acquire) {
            "::1".clone_into(&mut ip);
        }
        self.set(&pod, |pod| {
            pod["spec"]["nodeName"] = json!(NODE);
            pod["status"]["podIP"] = json!(ip);
        });
        let root = self.dir.join(names(&pod).1);
        let init = &pod["spec"]["initContainers"][0];
        let ended = match (!init.is_null()).then(|| self.start(&pod, init, &root, &ip)) {
            None => None,
            Some(Ok(agent)) => {
                let agent = Arc::new(agent);
                *running.process.lock() = Some(Arc::clone(&agent));
                Some(agent.ended().await)
            }
            Some(Err(error)) => Some(Ended {
                code: 1,
                log: error.to_string(),
            }),
        };
        if let Some(ended) = ended.filter(|ended| ended.code != 0) {
            return self.set(&pod, |pod| {
                pod["status"]["phase"] = json!("Failed");
                let terminated = json!({"exitCode": ended.code, "reason": "Error", "message": ended.log});
                pod["status"]["initContainerStatuses"] = json!([{"name": "agent", "image": "", "imageID": "",
                    "ready": false, "restartCount": 0, "state": {"terminated": terminated}}]);
            });
        }
        let process = match self.start(&pod, &pod["spec"]["containers"][0], &root, &ip) {
            Ok(process) => Arc::new(process),
            Err(error) => {
                return self.set(&pod, |pod| {
                    let waiting = json!({"reason": "CreateContainerError", "message": error.to_string()});
                    pod["status"]["containerStatuses"] = json!([container(&json!({"waiting": waiting}))]);
                });
            }
        };
        *running.process.lock() = Some(Arc::clone(&process));
        if running.stopping.load(Ordering::Acquire) {
            process.kill();
        }
        self.set(&pod, |pod| {
            pod["status"]["phase"] = json!("Running");
            pod["status"]["containerStatuses"] =
                json!([container(&json!({"running": {"startedAt": now()}}))]);
        });
        let ended = process.ended().await;
        if self.is_lost.load(Ordering::Acquire) {
            return;
        }
        let verdict = running.verdict.lock().take();
        let _ = std::fs::remove_dir_all(&root);
        // First, since the next change is the last one that is looked at.
        self.pods.lock().remove(names(&pod).1);
        self.set(&pod, |pod| {
            let terminated = json!({"exitCode": ended.code, "reason": "Error", "message": ended.log});
            let mut status = verdict.unwrap_or_else(|| {
                json!({"phase": "Failed", "containerStatuses": [container(&json!({"terminated": terminated}))]})
            });
            status["podIP"] = json!(ip);
            pod["status"] = status;
        });
    }

    /// Starts a container: its volumes and the files of its image at their places.
    fn start(
        &self,
        pod: &Value,
        container: &Value,
        root: &std::path::Path,
        ip: &str,
    ) -> anyhow::Result<Process> {
        let mut binds: Vec<(PathBuf, PathBuf)> = Vec::new();
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let name = mount["name"].as_str().unwrap_or_default();
            let dir = root.join("volumes").join(name);
            std::fs::create_dir_all(&dir)?;
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            if let Some(secret) = volumes
                .filter(|volume| volume["name"].as_str() == Some(name))
                .find_map(|volume| volume["secret"]["secretName"].as_str())
            {
                self.write_secret(names(pod).0, secret, &dir)?;
            }
            binds.push((dir, mount["mountPath"].as_str().unwrap_or_default().into()));
        }
        let image = container["image"].as_str().unwrap_or_default();
        let image = self.images.iter().find(|one| one.name == image);
        binds.extend(image.into_iter().flat_map(|image| image.files.clone()));
        let words = ["command", "args"].map(|field| container[field].as_array().cloned().unwrap_or_default());
        // All pods share the network of this host, and each has an address of its own.
        let words = words.concat().into_iter().filter_map(|word| {
            let word = word.as_str()?.to_owned();
            Some(match word.strip_prefix("[::]:") {
                Some(port) if ip.contains(':') => format!("[{ip}]:{port}"),
                Some(port) => format!("{ip}:{port}"),
                None => word,
            })
        });
        let words: Vec<String> = words.collect();
        Process::start(root, &binds, &words)
    }

    fn write_secret(&self, namespace: &str, name: &str, dir: &std::path::Path) -> anyhow::Result<()> {
        let secret = self.store.get("secrets", namespace, name);
        let secret = secret.map_err(|refused| anyhow::anyhow!("secret {name}: {}", refused.2))?;
        for (file, data) in secret["data"].as_object().into_iter().flatten() {
            use base64::Engine as _;
            let data = base64::engine::general_purpose::STANDARD.decode(data.as_str().unwrap_or_default())?;
            std::fs::write(dir.join(file), data)?;
        }
        Ok(())
    }
}

/// Looks at the pods at each change.
pub(super) async fn run(kubelet: Arc<Kubelet>, stop: CancellationToken) {
    let mut changed = kubelet.store.changed.subscribe();
    loop {
        kubelet.look();
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changed.changed() => if changed.is_err() { return },
        }
    }
}

fn names(pod: &Value) -> (&str, &str) {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

fn container(state: &Value) -> Value {
    let is_running = state.get("running").is_some();
    json!({"name": "kernel", "image": "", "imageID": "test@sha256:0000", "ready": is_running, "restartCount": 0,
        "state": state})
}
