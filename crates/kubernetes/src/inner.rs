//! State that all parts of the provisioner share.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use himalia_authority::Authority;
use himalia_link::{Endpoint, TlsEndpoint};
use himalia_provisioner::inside::{KERNEL_DIR, RUNTIME_DIR, WORK_DIR};
use himalia_provisioner::{Enforcement, LimitReport, SandboxError, SandboxExit, SandboxHandle, SandboxId};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::DeleteParams;
use kube::{Api, Client};
use parking_lot::Mutex;

use crate::authorities::{Authorities, certificates};
use crate::config::{KubernetesConfig, PORT};
use crate::error::{call, code, failed};
use crate::member::Member;
use crate::names::Names;
use crate::nodes::NodesAreHidden;
use crate::observe::PodPhase;
use crate::watch;

/// Shared by the provisioner and its tasks.
pub(crate) struct Inner {
    pub(crate) config: KubernetesConfig,
    pub(crate) names: Names,
    pub(crate) client: Client,
    pub(crate) authorities: Authorities,
    pub(crate) nodes_are_hidden: NodesAreHidden,
    members: Mutex<HashMap<SandboxId, Arc<Member>>>,
    watches: AtomicBool,
}

impl Inner {
    pub(crate) fn new(
        config: KubernetesConfig,
        client: Client,
        authorities: Vec<Authority>,
    ) -> Result<Self, SandboxError> {
        config.check()?;
        Ok(Self {
            names: Names {
                gateway: config.gateway.clone(),
                replica: config.replica.clone(),
            },
            authorities: Authorities::new(authorities)?,
            nodes_are_hidden: NodesAreHidden::default(),
            config,
            client,
            members: Mutex::default(),
            watches: AtomicBool::new(false),
        })
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.config.namespace)
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.config.namespace)
    }

    pub(crate) fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.config.namespace)
    }

    /// Watches the namespace from now on.
    pub(crate) fn follow(self: &Arc<Self>) {
        if !self.watches.swap(true, Ordering::AcqRel) {
            tokio::spawn(watch::run(Arc::downgrade(self)));
        }
    }

    pub(crate) fn insert(&self, member: Arc<Member>) -> Arc<Member> {
        let mut members = self.members.lock();
        Arc::clone(members.entry(member.id).or_insert(member))
    }

    pub(crate) fn member(&self, id: SandboxId) -> Option<Arc<Member>> {
        self.members.lock().get(&id).cloned()
    }

    pub(crate) fn forget(&self, id: SandboxId) {
        self.members.lock().remove(&id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.members.lock().values().cloned().collect()
    }

    /// Handle of a running sandbox for its owner.
    pub(crate) fn handle(&self, member: &Member) -> Result<SandboxHandle, SandboxError> {
        let PodPhase::Running(ip) = *member.observed.borrow() else {
            return Err(SandboxError::NotFound(member.id));
        };
        Ok(SandboxHandle {
            id: member.id,
            endpoint: self.endpoint(member, ip)?,
            runtime_dir: PathBuf::from(RUNTIME_DIR),
            work_dir: Some(PathBuf::from(WORK_DIR)),
            zygote: false,
            isolation: member.isolation,
            limits: LIMITS,
            base_env: BTreeMap::from(
                [("HOME", WORK_DIR), ("PYTHONPATH", KERNEL_DIR)]
                    .map(|(name, value)| (name.to_owned(), value.to_owned())),
            ),
            kernel_env: BTreeMap::new(),
            has_image_env: true,
            image_digest: image_digest(member),
            exit: member.exit.subscribe(),
        })
    }

    fn endpoint(&self, member: &Member, ip: IpAddr) -> Result<Endpoint, SandboxError> {
        let address = SocketAddr::new(ip, PORT);
        let tls = self.authorities.of(member.last.lock().as_ref())?.clone();
        let endpoint = TlsEndpoint::new(address, &Names::certified(member.id), tls);
        Ok(Endpoint::Tls(endpoint.map_err(|error| certificates(&error))?))
    }

    /// Deletes pod and secret of a sandbox; what is not there is no error. `grace` is what the pod gets, in seconds.
    pub(crate) async fn delete(&self, id: SandboxId, grace: u32) -> Result<(), SandboxError> {
        let name = Names::object(id);
        let (pods, params) = (self.pods(), DeleteParams::default().grace_period(grace));
        let pod = call("delete a pod", async || gone(pods.delete(&name, &params).await)).await;
        self.delete_secret(id).await?;
        pod.map_err(|error| failed("delete a pod", &error))
    }

    pub(crate) async fn delete_secret(&self, id: SandboxId) -> Result<(), SandboxError> {
        let name = Names::object(id);
        let (secrets, params) = (self.secrets(), DeleteParams::default());
        let deleted = call("delete a secret", async || {
            gone(secrets.delete(&name, &params).await)
        });
        deleted.await.map_err(|error| failed("delete a secret", &error))
    }

    /// Sees to the end of a member that was observed: its objects go, then its owner learns of it.
    pub(crate) fn see_to(self: &Arc<Self>, member: &Arc<Member>) {
        let Some(end) = member.end() else { return };
        if !member.begin_ending() {
            return;
        }
        let (inner, member) = (Arc::clone(self), Arc::clone(member));
        tokio::spawn(async move {
            if end.cause == himalia_provisioner::ExitCause::OutOfMemory {
                member.count_oom();
            }
            // The node of an abandoned pod does not confirm its end.
            let abandoned = member
                .last
                .lock()
                .as_ref()
                .is_some_and(crate::observe::is_abandoned);
            let grace = u32::from(!abandoned);
            if let Err(error) = inner.delete(member.id, grace).await {
                tracing::warn!(sandbox = %member.id, %error, "a pod that has ended stays until the next start");
            }
            inner.forget(member.id);
            member.exit.send_replace(Some(SandboxExit {
                cause: end.cause,
                requested: member.is_stopping(),
                leftovers: 0,
                log_tail: end.log,
            }));
        });
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Enforcement of the limits of a pod.
pub(crate) const LIMITS: LimitReport = LimitReport {
    memory: Enforcement::Cgroup,
    // The kubelet has one for all its pods, or none.
    pids: Enforcement::None,
    cpu: Enforcement::Cgroup,
    // The kubelet measures, and evicts.
    disk: Enforcement::Watched,
};

/// Treats a missing object as deleted.
fn gone<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(error) if code(&error) != Some(404) => Err(error),
        _ => Ok(()),
    }
}

fn image_digest(member: &Member) -> Option<String> {
    let last = member.last.lock();
    let status = last.as_ref()?.status.as_ref()?.container_statuses.as_ref()?;
    let image = status.iter().find(|one| one.name == crate::pod::CONTAINER)?;
    let (_, digest) = image.image_id.rsplit_once('@').unwrap_or(("", &image.image_id));
    (!digest.is_empty()).then(|| digest.to_owned())
}
