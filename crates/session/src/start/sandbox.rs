//! The sandbox of a new kernel: made, given its log and its actor, its first process started. A failure undoes all of it.

use std::sync::Arc;

use himalia_executions::lock_hash;
use himalia_kernel::{Command, CommandError, Core, Link, Rules};
use himalia_kernelspecs::{HostEnvironment, Launch};
use himalia_link::{FIRST_LINK, Streams};
use himalia_model::{EngineError, InterruptMode, KernelId};
use himalia_sandbox::{RootFiles, SandboxHandle, SandboxKey};
use himalia_shim_protocol::{
    InterruptMode as ShimInterruptMode, KernelSpec as ShimKernelSpec, ResourceLimits,
};
use sha2::{Digest, Sha256};

use crate::facts::RuntimePaths;
use crate::manager::Member;
use crate::sandbox_error::not_started;
use crate::sandbox_lease::Share;
use crate::templates::{Plan, packages, sandbox_spec};
use crate::{Facts, Given, Lease, SandboxConfig, SessionKernel, SessionManager};

/// A sandbox that was made for a kernel, with the log that it will have.
pub(crate) struct Made {
    pub(crate) share: Share,
    pub(crate) place: RuntimePaths,
    pub(crate) around: SandboxConfig,
    pub(crate) cwd: String,
    /// What its shim is told to start.
    pub(crate) shim_spec: ShimKernelSpec,
    pub(crate) link: Link,
}

impl SessionManager {
    /// Makes a sandbox and listens for it, on the files that are kept under a name, if they are. A failure leaves nothing
    /// but those.
    pub(crate) async fn make_sandbox(
        &self,
        plan: &Plan,
        launch: &Launch,
        id: KernelId,
        created_micros: u64,
        kept_files: Option<String>,
    ) -> Result<Made, EngineError> {
        self.make_sandbox_on(plan, launch, (id, created_micros), kept_files, Arc::default())
            .await
    }

    /// The same on files that may be there already, for a session that has `streams`.
    pub(crate) async fn make_sandbox_on(
        &self,
        plan: &Plan,
        launch: &Launch,
        (id, created_micros): (KernelId, u64),
        kept_files: Option<String>,
        streams: Arc<Streams>,
    ) -> Result<Made, EngineError> {
        let key = SandboxKey::generate().map_err(|error| EngineError::internal("no randomness", error))?;
        let key_hash: [u8; 32] = Sha256::digest(key.expose().as_bytes()).into();
        let mut spec = sandbox_spec(plan, launch, self.catalog.host(), id, kept_files.as_deref(), key)?;
        spec.orphan_ttl = self.config.orphan_ttl;
        let sandbox = plan
            .provisioner
            .start(spec)
            .await
            .map_err(|error| not_started(id, error))?;
        let first = Lease::first(
            Arc::clone(&plan.provisioner),
            sandbox.id,
            Some(sandbox.clone()),
            key_hash,
            self.store.epoch(),
        );
        let share = self.lease(first);
        let link = match self.listen_with(share.lease(), FIRST_LINK, streams) {
            Ok(link) => link,
            Err(error) => {
                share.end().await;
                return Err(error);
            }
        };
        let on_host = plan.capabilities().root != RootFiles::Image;
        let work_dir = sandbox.work_dir.as_ref().and_then(|dir| dir.to_str());
        let cwd = work_dir.unwrap_or(&launch.cwd).to_owned();
        Ok(Made {
            place: RuntimePaths {
                log: Self::log_dir(id, created_micros),
                endpoint: sandbox.endpoint.to_string(),
                sandbox_id: sandbox.id.to_string(),
                key_hash,
                socket: FIRST_LINK.to_owned(),
                argv: launch.argv.clone(),
                interrupt_mode: interrupt_mode_name(launch.interrupt_mode).to_owned(),
            },
            around: SandboxConfig {
                isolation: sandbox.isolation,
                limits: plan.limits.clone(),
                enforcement: sandbox.limits,
                network: plan.network.clone(),
                image: plan.image.clone(),
                image_digest: sandbox.image_digest.clone(),
                lock_hash: launch
                    .argv
                    .first()
                    .filter(|_| on_host)
                    .and_then(|program| lock_hash(program)),
                files: plan.files,
                kept_files,
                given: Given::default(),
            },
            shim_spec: shim_spec(plan, launch, &sandbox, &cwd),
            cwd,
            share,
            link,
        })
    }

    /// Gives a new sandbox its log and its actor. A failure ends the sandbox.
    pub(crate) async fn settle_in(
        self: &Arc<Self>,
        made: Made,
        facts: Facts,
        rules: Rules,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let (inner, log, limits) = (Arc::clone(self), made.place.log, facts.around.limits.clone());
        let opened = tokio::task::spawn_blocking(move || inner.open_log(&log, &limits)).await;
        let opened = opened
            .map_err(|error| EngineError::internal("opening a log", error))
            .and_then(|opened| opened);
        let journal = match opened {
            Ok((journal, _)) => journal,
            Err(error) => {
                made.share.end().await;
                return Err(error);
            }
        };
        let mut core = Core::new(self.settings(), self.now());
        core.set_rules(rules);
        Ok(self.spawn(Member {
            facts,
            core,
            journal,
            share: made.share,
            socket: made.place.socket,
            link: Some(made.link),
            permit: None,
            adoption_deadline: None,
        }))
    }

    /// Starts the kernel's first process. If that fails, the kernel is gone when this returns.
    pub(crate) async fn first_process(
        &self,
        handle: &Arc<SessionKernel>,
        spec: ShimKernelSpec,
    ) -> Result<(), EngineError> {
        let limit = self.config.start_timeout;
        let ordered = tokio::time::timeout(limit, handle.order(Command::Start(Box::new(spec)))).await;
        let failure = match ordered {
            Ok(Some(Ok(_))) => return Ok(()),
            Ok(Some(Err(CommandError::StartFailed { reason, stderr }))) => EngineError::KernelStart {
                cause: reason,
                stderr_tail: stderr,
            },
            Ok(Some(Err(other))) => EngineError::KernelStart {
                cause: other.to_string(),
                stderr_tail: String::new(),
            },
            Ok(None) => EngineError::unavailable("the kernel ended while it was started"),
            Err(_) => EngineError::Timeout {
                what: "the start of the kernel",
                seconds: limit.as_secs(),
            },
        };
        handle.order(Command::Stop("start_failed")).await;
        handle.gone().await;
        Err(failure)
    }

    /// Removes the row and the log that a failed start has left.
    pub(crate) async fn undo(&self, id: KernelId, log: &str) {
        if let Err(error) = self.store.delete_kernel(id.0).await {
            tracing::error!(kernel = %id, %error, "cannot forget a failed start");
        }
        match std::fs::remove_dir_all(self.config.data_dir.join(log)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::error!(kernel = %id, %error, "cannot remove the log of a failed start");
            }
            _ => {}
        }
    }
}

pub(crate) fn shim_spec(plan: &Plan, launch: &Launch, sandbox: &SandboxHandle, cwd: &str) -> ShimKernelSpec {
    let mut env = sandbox.base_env.clone();
    env.extend(launch.env.clone());
    if plan.in_container() {
        for (name, value) in HostEnvironment::container_defaults() {
            env.entry(name).or_insert(value);
        }
    }
    if let Some(work_dir) = &sandbox.work_dir {
        for (name, value) in packages::variables(work_dir, &plan.network) {
            env.entry(name.to_owned()).or_insert(value);
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
            open_files: plan.limits.open_files,
            ..ResourceLimits::default()
        },
        connect_ms: 60_000,
        via_zygote: sandbox.zygote,
    }
}

pub(crate) fn interrupt_mode_name(mode: InterruptMode) -> &'static str {
    match mode {
        InterruptMode::Signal => "signal",
        InterruptMode::Message => "message",
    }
}
