//! The place of a kernel: a new sandbox, or a part of one that runs; and the link on which its shim calls.

use std::sync::Arc;

use himalia_executions::lock_hash;
use himalia_kernel::Link;
use himalia_kernelspecs::{HostEnvironment, Launch, SANDBOX_WORK_DIR};
use himalia_link::{FIRST_LINK, Streams};
use himalia_model::{EngineError, InterruptMode, KernelId, PackageIndex, SandboxConfig, Session};
use himalia_provisioner::{RootFiles, SandboxHandle, SandboxKey};
use himalia_shim_protocol::{
    InterruptMode as ShimInterruptMode, KernelSpec as ShimKernelSpec, ResourceLimits,
};
use himalia_store::RuntimePaths;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::actor::PreparedKernel;
use super::plan::cull_timeout;
use crate::credentials::certificates;
use crate::end::{new_name, remove_kept_files};
use crate::logs::SessionLogs;
use crate::sandbox_error::not_started;
use crate::templates::{Plan, binds, java, packages, programs, sandbox_spec};
use crate::{Lease, SessionKernel, SessionManager};

/// The variable for the most processes that joblib starts. It would look for the limit in `/sys`, which sandboxes do not have.
const MAX_WORKERS: &str = "LOKY_MAX_CPU_COUNT";
/// Connections of a shim that wait for the actor.
const ARRIVALS: usize = 4;

impl SessionManager {
    /// Starts a new sandbox for a kernel, and listens for it. Gives also what its shim is to start. A failure leaves nothing.
    pub(super) async fn new_sandbox(
        &self,
        plan: &Plan,
        launch: &Launch,
        (id, created_micros): (KernelId, u64),
    ) -> Result<(PreparedKernel, ShimKernelSpec), EngineError> {
        let kept_files = new_name(plan);
        let streams = Arc::default();
        let made = self
            .new_sandbox_on(plan, launch, (id, created_micros), kept_files.clone(), streams)
            .await;
        if let (Err(_), Some(name)) = (&made, kept_files) {
            remove_kept_files(plan.provisioner.as_ref(), &name).await;
        }
        made
    }

    /// The same on files that may be there already, for a session that has `streams`. A failure leaves nothing but the files.
    pub(super) async fn new_sandbox_on(
        &self,
        plan: &Plan,
        launch: &Launch,
        (id, created_micros): (KernelId, u64),
        kept_files: Option<String>,
        streams: Arc<Streams>,
    ) -> Result<(PreparedKernel, ShimKernelSpec), EngineError> {
        let key = SandboxKey::generate()
            .map_err(|error| EngineError::internal("the random number generator failed", error))?;
        let key_hash: [u8; 32] = Sha256::digest(key.expose().as_bytes()).into();
        let mut spec = sandbox_spec(plan, launch, self.catalog.host(), id, kept_files.as_deref(), key)?;
        let env_dir = spec.names.get(binds::ENV).cloned();
        spec.orphan_ttl = self.config.orphan_ttl;
        spec.show_data = self.config.show_data;
        let sandbox = plan
            .provisioner
            .start(spec)
            .await
            .map_err(|error| not_started(id, error))?;
        let share = Lease::first(
            Arc::clone(&plan.provisioner),
            sandbox.id,
            Some(sandbox.clone()),
            key_hash,
            self.replica.link_epoch(),
            self.place(),
        );
        self.registry.add_sandbox(share.lease());
        let link = match self.listen_with(share.lease(), FIRST_LINK, streams) {
            Ok(link) => link,
            Err(error) => {
                share.end().await;
                return Err(error);
            }
        };
        let on_host = plan.capabilities().root != RootFiles::Image;
        let program = launch.argv.first().filter(|_| on_host);
        let work_dir = sandbox.work_dir.as_ref().and_then(|dir| dir.to_str());
        let cwd = work_dir.unwrap_or(&launch.cwd).to_owned();
        let mut shim_spec = shim_spec(plan, launch, &sandbox, &cwd, self.config.packages.as_ref());
        programs::by_name(&mut shim_spec, env_dir.as_deref());
        let session = Session {
            created_micros,
            expires_micros: plan.expires_micros(created_micros),
            sandbox: SandboxConfig {
                isolation: sandbox.isolation,
                enforcement: sandbox.limits,
                image_digest: sandbox.image_digest.clone(),
                lock_hash: program.and_then(|program| lock_hash(program)),
                kept_files,
                ..plan.session.sandbox.clone()
            },
            cwd,
            ..plan.session.clone()
        };
        let prepared = PreparedKernel {
            id,
            session,
            cull_timeout: cull_timeout(&plan.spec),
            link,
            paths: RuntimePaths {
                session_dir: SessionLogs::dir(id, created_micros),
                sandbox_id: sandbox.id.to_string(),
                sandbox_key_hash: key_hash,
                socket: FIRST_LINK.to_owned(),
            },
            share,
        };
        Ok((prepared, shim_spec))
    }

    /// Takes a part of the sandbox that another kernel is in, and listens on a socket that no other kernel in it has had.
    pub(super) async fn beside(
        &self,
        other: &SessionKernel,
        id: KernelId,
        session: Session,
    ) -> Result<PreparedKernel, EngineError> {
        let lease = &other.lease();
        let share = lease.join().ok_or_else(|| EngineError::no_kernel(other.id()))?;
        let socket = lease.branch_socket();
        let link = match self.listen(lease, &socket) {
            Ok(link) => link,
            Err(error) => {
                share.end().await;
                return Err(error);
            }
        };
        Ok(PreparedKernel {
            id,
            cull_timeout: None,
            share,
            link,
            paths: RuntimePaths {
                session_dir: SessionLogs::dir(id, session.created_micros),
                sandbox_id: lease.id().to_string(),
                sandbox_key_hash: lease.key_hash(),
                socket,
            },
            session,
        })
    }

    /// Listens where a sandbox's shim calls. [`EngineError::Unavailable`] for one that is gone.
    pub(super) fn listen(&self, lease: &Lease, socket: &str) -> Result<Link, EngineError> {
        self.listen_with(lease, socket, Arc::default())
    }

    /// The same for a kernel that has `streams` already.
    fn listen_with(&self, lease: &Lease, socket: &str, streams: Arc<Streams>) -> Result<Link, EngineError> {
        let sandbox = lease.sandbox();
        let sandbox = sandbox.ok_or_else(|| EngineError::unavailable("the sandbox has ended"))?;
        let gate = himalia_link::Gate {
            key_hash: lease.key_hash(),
            epoch: lease.epoch(),
            unproven: Arc::clone(&self.starts.unproven),
        };
        let listener = sandbox.endpoint.listen(socket, gate);
        let listener =
            listener.map_err(|error| EngineError::internal("cannot listen for a sandbox", error))?;
        let (arrivals_in, arrivals) = mpsc::channel(ARRIVALS);
        let done = CancellationToken::new();
        let arrived = Arc::clone(&streams);
        self.background
            .spawn(listener.run(arrivals_in, arrived, done.clone()));
        Ok(Link {
            arrivals,
            streams,
            done: done.drop_guard(),
            socket: socket.to_owned(),
        })
    }
}

/// Command line, variables and directory for the shim of a sandbox.
pub(super) fn shim_spec(
    plan: &Plan,
    launch: &Launch,
    sandbox: &SandboxHandle,
    cwd: &str,
    index: Option<&PackageIndex>,
) -> ShimKernelSpec {
    let config = &plan.session.sandbox;
    let mut env = sandbox.base_env.clone();
    env.extend(launch.env.clone());
    if plan.in_container() && !sandbox.has_image_env {
        for (name, value) in HostEnvironment::container_defaults() {
            env.entry(name).or_insert(value);
        }
    }
    if let Some(work_dir) = &sandbox.work_dir {
        // The home of a sandbox is its work directory, which is not everywhere at the same path.
        if let Some(home) = env.get_mut("HOME").filter(|home| *home == SANDBOX_WORK_DIR) {
            *home = work_dir.to_string_lossy().into_owned();
        }
        let index = index.is_some_and(|index| index.is_permitted(&config.allow));
        for (name, value) in packages::variables(work_dir, &config.network, config.has_proxy(), index) {
            env.entry(name.to_owned()).or_insert(value);
        }
        if let Some(millis) = config.limits.cpu_millis {
            env.entry(MAX_WORKERS.to_owned())
                .or_insert(millis.div_ceil(1000).to_string());
        }
        if launch.env.get("PATH") == launch.base_env.get("PATH") {
            packages::find_programs(work_dir, &mut env);
        }
        for (name, value) in certificates::variables(work_dir, &plan.session) {
            env.entry(name.to_owned()).or_insert(value);
        }
        if let Some(options) = java::options(work_dir, &plan.session) {
            env.entry(java::VARIABLE.to_owned()).or_insert(options);
        }
    }
    env.extend(sandbox.kernel_env.clone());
    ShimKernelSpec {
        argv: launch.argv.clone(),
        env,
        cwd: cwd.to_owned(),
        interrupt_mode: match launch.interrupt_mode {
            InterruptMode::Signal => ShimInterruptMode::Signal,
            InterruptMode::Message => ShimInterruptMode::Message,
        },
        kernel_name: plan.spec.name.clone(),
        limits: ResourceLimits {
            open_files: config.limits.open_files,
            ..ResourceLimits::default()
        },
        connect_ms: 60_000,
        via_zygote: sandbox.zygote,
    }
}
