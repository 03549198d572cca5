//! Starting a kernel. All or nothing: a start that fails or whose caller goes away leaves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_sandbox::{Isolation, SandboxError, SandboxHandle, SandboxId, SandboxKey, SandboxSpec};
use himalia_shim_protocol::{
    InterruptMode as ShimInterruptMode, KernelSpec as ShimKernelSpec, ResourceLimits,
};
use himalia_store::{KernelLife, KernelRecord, LaunchRecord};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::inner::{Inner, Member};
use crate::kernel::{Command, CommandError, Core, Facts, Handle, wall_micros};
use crate::kernelspecs::{Launch, LaunchRequest, launch};
use crate::model::{InterruptMode, KernelSpec};
use crate::registry::Reservation;
use crate::{EngineError, KernelId, KernelModel, Principal, StartKernel};

/// A start after everything that can be refused at once was checked.
struct Accepted {
    owner: String,
    spec: KernelSpec,
    launch: Launch,
    id: KernelId,
    created_micros: u64,
    reservation: Reservation,
    permit: OwnedSemaphorePermit,
}

impl Inner {
    pub(crate) async fn start_kernel(
        self: &Arc<Self>,
        principal: &Principal,
        start: StartKernel,
    ) -> Result<KernelModel, EngineError> {
        self.check_open()?;
        // Before the first await, so that starts under way count.
        let limit = self.config.max_kernels;
        let permit = Arc::clone(&self.places)
            .try_acquire_owned()
            .map_err(|_| EngineError::KernelLimit { limit })?;
        let chosen = start.id.is_some();
        let id = start.id.unwrap_or_else(KernelId::random);
        let reservation = self.registry.reserve(id)?;
        let spec = self.catalog.get_or_default(start.name.as_deref()).await?;
        let request = LaunchRequest {
            env: start.env,
            cwd: start.cwd,
            shares_files: self.provisioner.isolation() == Isolation::None,
            ..LaunchRequest::default()
        };
        let launch = launch(&spec, &request, self.catalog.host())?;
        let owner = principal.name().to_owned();
        let accepted = Accepted {
            owner,
            spec,
            launch,
            id,
            created_micros: wall_micros(),
            reservation,
            permit,
        };
        // In a task of its own: a caller that goes away must not stop it half-way.
        let (reply, answer) = oneshot::channel();
        let inner = Arc::clone(self);
        self.background.spawn(async move {
            let result = inner.start(accepted).await;
            let started = result.as_ref().ok().cloned();
            let unheard = reply.send(result.map(|handle| handle.model())).is_err();
            // Nobody knows its id, unless the caller had chosen it.
            if let (true, false, Some(handle)) = (unheard, chosen, started) {
                tracing::info!(kernel = %handle.facts.id, "the caller of a start has gone, the kernel is ended");
                handle.order(Command::Stop("start_cancelled")).await;
            }
        });
        answer
            .await
            .map_err(|_| EngineError::unavailable("the gateway is stopping"))?
    }

    async fn start(self: &Arc<Self>, accepted: Accepted) -> Result<Arc<Handle>, EngineError> {
        let key = SandboxKey::generate().map_err(|error| EngineError::internal("no randomness", error))?;
        let key_hash: [u8; 32] = Sha256::digest(key.expose().as_bytes()).into();
        let mut spec = SandboxSpec::new(key);
        spec.labels = BTreeMap::from([("kernel".to_owned(), accepted.id.to_string())]);
        let sandbox = self.provisioner.start(spec).await.map_err(|error| {
            tracing::error!(kernel = %accepted.id, %error, "cannot start a sandbox");
            EngineError::KernelStart {
                cause: "its sandbox could not be started".to_owned(),
                stderr_tail: String::new(),
            }
        })?;
        let (id, sandbox_id) = (accepted.id, sandbox.id);
        let log = Self::log_dir(id, accepted.created_micros);
        let shim_spec = shim_spec(&accepted, &sandbox);
        let handle = match self.settle_in(accepted, sandbox, key_hash).await {
            Ok(handle) => handle,
            Err(error) => {
                self.undo(id, sandbox_id, &log).await;
                return Err(error);
            }
        };
        self.first_process(&handle, shim_spec).await?;
        Ok(handle)
    }

    /// Gives a new sandbox its row, its log and its actor.
    async fn settle_in(
        self: &Arc<Self>,
        accepted: Accepted,
        sandbox: SandboxHandle,
        key_hash: [u8; 32],
    ) -> Result<Arc<Handle>, EngineError> {
        let Accepted {
            owner,
            spec,
            launch,
            id,
            created_micros,
            reservation,
            permit,
        } = accepted;
        let log = Self::log_dir(id, created_micros);
        let record = KernelRecord {
            id: id.0,
            owner,
            kernelspec: spec.name.clone(),
            session_dir: log.clone(),
            run_dir: sandbox.gateway_dir.to_string_lossy().into_owned(),
            sandbox_id: sandbox.id.to_string(),
            sandbox_key_hash: key_hash,
            isolation: sandbox.isolation.to_string(),
            incarnation: 0,
            created_micros: i64::try_from(created_micros).unwrap_or(i64::MAX),
            launch: LaunchRecord {
                argv: launch.argv,
                cwd: launch.cwd,
                interrupt_mode: interrupt_mode_name(launch.interrupt_mode).to_owned(),
            },
            life: KernelLife::Starting,
            dead_cause: None,
        };
        let stored = self.store.insert_kernel(record).await;
        stored.map_err(|error| EngineError::internal("cannot note a new kernel", error))?;
        let inner = Arc::clone(self);
        let opened = tokio::task::spawn_blocking(move || inner.open_log(&log)).await;
        let (journal, _) = opened.map_err(|error| EngineError::internal("opening a log", error))??;
        let handle = self.spawn(Member {
            facts: Facts {
                id,
                name: spec.name.clone(),
                created_micros,
                cull_timeout: cull_timeout(&spec),
            },
            core: Core::new(self.settings(), self.now()),
            journal,
            sandbox_id: sandbox.id,
            sandbox: Some(sandbox),
            key_hash,
            permit: Some(permit),
            adoption_deadline: None,
        })?;
        reservation.fill(Arc::clone(&handle));
        Ok(handle)
    }

    /// Starts the kernel's first process. If that fails, the kernel is gone when this returns.
    async fn first_process(&self, handle: &Arc<Handle>, spec: ShimKernelSpec) -> Result<(), EngineError> {
        let limit = self.config.start_timeout;
        let ordered = tokio::time::timeout(limit, handle.order(Command::Start(Box::new(spec)))).await;
        let failure = match ordered {
            Ok(Some(Ok(()))) => return Ok(()),
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

    /// Removes what a failed start has left.
    async fn undo(&self, id: KernelId, sandbox: SandboxId, log: &str) {
        match self.provisioner.stop(sandbox, Duration::ZERO).await {
            Ok(_) | Err(SandboxError::NotFound(_)) => {}
            Err(error) => tracing::error!(kernel = %id, %error, "cannot end the sandbox of a failed start"),
        }
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

fn shim_spec(accepted: &Accepted, sandbox: &SandboxHandle) -> ShimKernelSpec {
    let launch = &accepted.launch;
    let mut env = launch.env.clone();
    env.extend(sandbox.kernel_env.clone());
    ShimKernelSpec {
        argv: launch.argv.clone(),
        env,
        cwd: launch.cwd.clone(),
        interrupt_mode: match launch.interrupt_mode {
            InterruptMode::Signal => ShimInterruptMode::Signal,
            InterruptMode::Message => ShimInterruptMode::Message,
        },
        kernel_name: accepted.spec.name.clone(),
        limits: ResourceLimits::default(),
        connect_ms: 60_000,
    }
}

fn interrupt_mode_name(mode: InterruptMode) -> &'static str {
    match mode {
        InterruptMode::Signal => "signal",
        InterruptMode::Message => "message",
    }
}

/// `metadata.cull_idle_timeout` of a kernelspec, seconds.
pub(crate) fn cull_timeout(spec: &KernelSpec) -> Option<f64> {
    spec.spec
        .metadata
        .get("cull_idle_timeout")
        .and_then(serde_json::Value::as_f64)
}
