//! State that the provisioner shares with its tasks: the known sandboxes, the client of the engine and the layout.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::models::EventMessage;
use bollard::query_parameters::{EventsOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder};
use futures_util::StreamExt as _;
use himalia_link::Endpoint;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::client::{CallError, Client};
use super::config::DockerConfig;
use super::member::{Details, Member};
use super::names::{Labels, Names};
use super::uids::Uids;
use super::volume::{Volumes, remove_container};
use super::{body, ending, events, image};
use crate::host::blocking;
use crate::host::layout::Layout;
use crate::inside::{RUNTIME_DIR, WORK_DIR};
use crate::{Isolation, SandboxError, SandboxHandle, SandboxId, SandboxSpec};

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: DockerConfig,
    pub(super) client: Client,
    pub(super) names: Names,
    pub(super) layout: Layout,
    pub(super) volumes: Volumes,
    pub(super) uids: Uids,
    /// Networks, by their ids, whose containers were seen not to reach each other, with the runtime of these.
    pub(super) apart: Mutex<BTreeSet<(String, String)>>,
    /// Level of the default runtime.
    pub(super) level: Isolation,
    members: Mutex<HashMap<SandboxId, Arc<Member>>>,
    /// The events are followed; this closes when the provisioner is gone.
    following: AtomicBool,
    alive: watch::Sender<()>,
    /// When this process began, by the engine's clock.
    began: i64,
}

impl Inner {
    /// Checks the settings and the run directory.
    pub(super) fn new(config: DockerConfig) -> Result<Self, SandboxError> {
        config.check()?;
        let layout = Layout::open(&config.run_dir)?;
        let names = Names::new(&config.run_dir);
        let level = config.runtimes.get(&config.runtime).copied();
        Ok(Self {
            client: Client::new(config.socket.clone(), config.call_deadline),
            layout,
            volumes: Volumes::default(),
            apart: Mutex::default(),
            uids: Uids::new(&config, &names)?,
            names,
            level: level.unwrap_or(Isolation::Container),
            members: Mutex::default(),
            following: AtomicBool::new(false),
            alive: watch::Sender::new(()),
            began: ending::now_nanos(),
            config,
        })
    }

    /// The image of a spec, if the operator allows it.
    pub(super) fn image<'a>(&'a self, spec: &'a SandboxSpec) -> Result<&'a str, SandboxError> {
        let allowed = &self.config.images;
        let wanted = spec.image.as_ref().or(allowed.first());
        let found = wanted.filter(|image| allowed.contains(image));
        found.map(String::as_str).ok_or_else(|| SandboxError::BadSpec {
            field: "image",
            reason: format!(
                "{:?} is not in the operator's list",
                wanted.map_or("", String::as_str)
            ),
        })
    }

    /// Follows the engine's events from the first need on.
    pub(super) fn follow(self: &Arc<Self>) {
        if !self.following.swap(true, Ordering::AcqRel) {
            let weak = Arc::downgrade(self);
            tokio::spawn(events::follow(weak, self.alive.subscribe(), self.began));
        }
    }

    /// Enters a sandbox. If another call was faster, its member counts.
    pub(super) fn insert(&self, member: Arc<Member>) -> Arc<Member> {
        let mut members = self.members.lock();
        Arc::clone(members.entry(member.id).or_insert(member))
    }

    pub(super) fn forget(&self, id: SandboxId) {
        self.members.lock().remove(&id);
        self.uids.release(id);
    }

    /// A sandbox that this process knows, also one that is being started or removed.
    pub(super) fn any_member(&self, id: SandboxId) -> Option<Arc<Member>> {
        self.members.lock().get(&id).cloned()
    }

    pub(super) fn live_members(&self) -> Vec<Arc<Member>> {
        let members = self.members.lock();
        members
            .values()
            .filter(|member| member.is_live())
            .cloned()
            .collect()
    }

    /// `None` while it is being started.
    pub(super) fn handle(&self, member: &Member) -> Option<SandboxHandle> {
        let details = member.details()?;
        Some(SandboxHandle {
            id: member.id,
            endpoint: Endpoint::Unix(self.layout.gateway_dir(member.id)),
            runtime_dir: PathBuf::from(RUNTIME_DIR),
            work_dir: Some(PathBuf::from(WORK_DIR)),
            zygote: false,
            isolation: details.labels.isolation,
            limits: details.labels.limits,
            base_env: details.env.clone(),
            kernel_env: BTreeMap::new(),
            has_image_env: false,
            image_digest: details.image.clone(),
            exit: member.exit.subscribe(),
        })
    }

    /// The running container of a sandbox that this process does not know yet: its labels, and the environment of its
    /// kernels.
    pub(super) async fn find(&self, id: SandboxId, container: &str) -> Result<Option<Details>, SandboxError> {
        let found = self.client.call(async |docker| {
            let options = None::<InspectContainerOptions>;
            docker.inspect_container(container, options).await
        });
        let found = match found.await {
            Ok(found) => found,
            Err(CallError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(self.client.error("a container", error)),
        };
        let alive = found.state.is_some_and(|state| state.running == Some(true));
        let config = found.config.unwrap_or_default();
        let labels = config.labels.as_ref().and_then(Labels::read);
        let Some(labels) = labels.filter(|labels| alive && labels.id == id) else {
            return Ok(None);
        };
        let env = body::kernel_env(&image::variables(config.env.unwrap_or_default()));
        Ok(Some(Details {
            labels,
            env,
            image: found.image,
        }))
    }

    /// The number of out-of-memory kills up to a time. The engine remembers only its last few hundred events.
    pub(super) async fn kills_before(&self, container: &str, until: i64) -> u64 {
        let filter = HashMap::from([("container", vec![container]), ("event", vec!["oom"])]);
        let until = format!("{}.{:09}", until / 1_000_000_000, until % 1_000_000_000);
        let options = EventsOptionsBuilder::new()
            .since("1")
            .until(&until)
            .filters(&filter)
            .build();
        let events = self.client.call(async |docker| {
            let events: Vec<Result<EventMessage, _>> = docker.events(Some(options)).collect().await;
            Ok(events.into_iter().flatten().count())
        });
        let count = events.await.unwrap_or_else(|error| {
            tracing::debug!(?error, "the engine does not tell earlier events");
            0
        });
        u64::try_from(count).unwrap_or(0)
    }

    pub(super) async fn pid(&self, container: &str) -> Option<u32> {
        let found = self.client.call(async |docker| {
            let options = None::<InspectContainerOptions>;
            docker.inspect_container(container, options).await
        });
        let pid = found.await.ok()?.state?.pid?;
        u32::try_from(pid).ok().filter(|pid| *pid > 0)
    }

    pub(super) async fn signal(&self, member: &Member, signal: &str) -> Result<(), SandboxError> {
        let options = KillContainerOptionsBuilder::new().signal(signal).build();
        let sent = self
            .client
            .call(async |docker| docker.kill_container(&member.container, Some(options)).await);
        match sent.await {
            // It has ended already; the wait that follows will see it.
            Ok(()) | Err(CallError::NotFound(_) | CallError::Conflict(_)) => Ok(()),
            Err(error) => Err(self.client.error("cannot stop a container", error)),
        }
    }

    /// Removes all of a sandbox that is no member.
    pub(super) async fn clean(&self, id: SandboxId) -> Result<(), SandboxError> {
        for container in [self.names.helper(id), self.names.container(id)] {
            let removed = remove_container(&self.client, &container).await;
            removed.map_err(|error| self.client.error("cannot remove a container", error))?;
        }
        let layout = self.layout.clone();
        blocking(move || layout.remove(id)).await?
    }
}
