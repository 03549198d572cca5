//! A session whose sandbox is gone goes on in a new one: the same id, name, log and kept files, the next process.
//!
//! The order of writes makes a kill of the gateway harmless. First the old sandbox is ended for good, so that nobody else has the
//! files; then the new one is made, which a later gateway would sweep, since no row names it; then the move is in the log; then
//! in the row, from where on a later gateway adopts the new sandbox; and only then it is told to start something.

use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Command, CommandError, Move, SandboxLoss};
use himalia_model::{
    EngineError, FilesMode, KernelId, MAX_LOST_NAMES, Principal, Secrets, StartKernel, StartPath,
};
use himalia_sandbox::SandboxError;
use himalia_shim_protocol::KernelSpec as ShimKernelSpec;
use himalia_store::KernelLife;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::new_session::{millis_since, with_secrets};
use super::sandbox::Made;
use crate::end::forget_kept_files;
use crate::facts::RuntimePaths;
use crate::templates::Plan;
use crate::{Facts, Given, Lease, Role, SessionKernel, SessionManager, not_done};

/// Sessions that wait to be asked for; a request that finds no room asks again with the next one.
pub(crate) const WANTS: usize = 256;
/// Why an additional kernel ended whose session has another sandbox.
const SANDBOX_LOST: &str = "sandbox_lost";

impl SessionManager {
    /// Makes sure that a session which is dead has a process again: in its sandbox if that lives, else in a new one. Callers take
    /// turns. `given` are variables in place of those that the session was started with.
    ///
    /// # Errors
    /// [`EngineError::KernelDead`] for a kernel that cannot go on, and what a start may answer.
    pub(crate) async fn revive(
        self: &Arc<Self>,
        handle: &Arc<SessionKernel>,
        given: Option<StartKernel>,
    ) -> Result<(), EngineError> {
        let limit = self.config.start_timeout;
        let ordered = timeout(limit, handle.order(Command::Revive)).await;
        let ordered = ordered.map_err(|_| EngineError::Timeout {
            what: "the start of the kernel",
            seconds: limit.as_secs(),
        })?;
        match ordered {
            Some(Ok(_)) => Ok(()),
            Some(Err(CommandError::SandboxLost(_))) => self.resume(handle, given).await,
            Some(Err(error)) => Err(self.not_revived(handle, error)),
            None => Err(self.over(handle)),
        }
    }

    fn not_revived(&self, handle: &SessionKernel, error: CommandError) -> EngineError {
        match error {
            CommandError::KernelDead(cause) => EngineError::KernelDead { cause },
            CommandError::StartFailed { reason, stderr } => EngineError::KernelStart {
                cause: reason,
                stderr_tail: stderr,
            },
            CommandError::NotRunning => self.over(handle),
            other => EngineError::unavailable(other.to_string()),
        }
    }

    /// Gives a session whose sandbox is gone a new one, with a process in it. Nothing to do if it has one meanwhile. It counts as a
    /// start of the session's owner.
    pub async fn resume(
        self: &Arc<Self>,
        handle: &Arc<SessionKernel>,
        given: Option<StartKernel>,
    ) -> Result<(), EngineError> {
        // In a task of its own: a caller that goes away must not stop it half-way.
        let (reply, answer) = oneshot::channel();
        let (inner, handle) = (Arc::clone(self), Arc::clone(handle));
        self.background.spawn(async move {
            let turn = inner.gate.enter(&format!("sandbox/{}", handle.id())).await;
            let result = inner.resume_in_turn(&handle, given).await;
            drop(turn);
            // The caller may have gone; the session is there all the same.
            let _ = reply.send(result);
        });
        answer
            .await
            .map_err(|_| EngineError::unavailable("the gateway is stopping"))?
    }

    /// Gives sandboxes to sessions that Jupyter clients use, until the engine stops.
    pub(crate) async fn keep_resumed(self: Arc<Self>, mut wanted: mpsc::Receiver<KernelId>) {
        loop {
            let id = tokio::select! {
                () = self.draining.cancelled() => return,
                id = wanted.recv() => id,
            };
            let Some(id) = id else { return };
            if let Some(handle) = self.registry.get(id) {
                let inner = Arc::clone(&self);
                self.background.spawn(async move {
                    if let Err(error) = inner.resume(&handle, None).await {
                        tracing::warn!(kernel = %id, %error, "a session gets no new sandbox");
                    }
                });
            }
        }
    }

    async fn resume_in_turn(
        self: &Arc<Self>,
        handle: &Arc<SessionKernel>,
        given: Option<StartKernel>,
    ) -> Result<(), EngineError> {
        let begun = Instant::now();
        self.check_open()?;
        // Its actor answers when it has buried the sandbox before.
        if handle.order(Command::ListExecutions).await.is_none() {
            return Err(self.over(handle));
        }
        if !handle.is_lost() {
            return Ok(());
        }
        let before = handle.facts();
        if !before.outlives_sandbox() {
            return Err(EngineError::KernelDead {
                cause: handle.snapshot.borrow().reason.clone().unwrap_or_default(),
            });
        }
        // A start like any other, of the session's owner, whoever uses it.
        let owner = Principal::operator().in_place_of(&before.owner);
        self.budget.start(&owner)?;
        self.check_disk(&owner).await?;
        let (wish, plan) = self.plan_again(&before, given).await?;
        let cwd = plan.shares_files().then(|| before.cwd.clone());
        let launch = self.launch(&plan, with_secrets(&wish.env, &wish.secrets)?, cwd)?;
        let turn = self.turn_to_start(&owner).await?;
        end_for_good(&handle.lease()).await?;
        let lost = self.losses(handle, &before, &wish.secrets);
        self.end_additional(handle).await;
        let mut made = self
            .make_sandbox_on(
                &plan,
                &launch,
                (before.id, before.created_micros),
                before.around.kept_files.clone(),
                Arc::clone(&handle.streams),
            )
            .await?;
        made.around.given = Given::of(&wish.env, &wish.secrets);
        let lease = Arc::clone(made.share.lease());
        let moved = self.move_in(handle, made, lost).await;
        if moved.is_err() {
            if let Err(error) = end_for_good(&lease).await {
                tracing::error!(kernel = %before.id, %error, "cannot end a sandbox that is not used");
            }
            if handle.is_over() {
                // It was ended meanwhile, and its files could not go.
                forget_kept_files(&self.registry, &lease, &before.around).await;
            }
        }
        moved?;
        self.until_up(handle, turn);
        handle.change_facts(|facts| facts.start_ms = millis_since(begun));
        Ok(())
    }

    /// What the session was started with, settled anew. Its isolation, limits, network and image stay.
    async fn plan_again(
        &self,
        before: &Facts,
        given: Option<StartKernel>,
    ) -> Result<(StartKernel, Plan), EngineError> {
        let given = given.unwrap_or_default();
        let around = &before.around;
        let wish = StartKernel {
            name: Some(before.template.clone()),
            origin: before.origin,
            env: if given.env.is_empty() {
                around.given.env.clone()
            } else {
                given.env
            },
            secrets: given.secrets,
            isolation: Some(around.isolation),
            limits: around.limits.clone(),
            image: around.image.clone(),
            network: Some(around.network.clone()),
            ..StartKernel::default()
        };
        let mut plan = self.plan(&wish, Some(before.owner.as_str())).await?;
        if plan.provisioner.kind().as_str() != before.provisioner {
            return Err(EngineError::unavailable(format!(
                "the provisioner {} of this session is not there any more",
                before.provisioner
            )));
        }
        // A template that says otherwise since does not take them away, nor brings them.
        plan.files = around.files;
        Ok((wish, plan))
    }

    /// What was lost with the sandbox beside the variables.
    fn losses(&self, handle: &Arc<SessionKernel>, before: &Facts, secrets: &Secrets) -> SandboxLoss {
        let lease = handle.lease();
        let ids = |role: Role| {
            let all = self.registry.all();
            let inside = |other: &&Arc<SessionKernel>| {
                other.facts().role == role && Arc::ptr_eq(&other.lease(), &lease)
            };
            let ids = all.iter().filter(inside).map(|other| other.id().to_string());
            ids.take(MAX_LOST_NAMES).collect()
        };
        let names = before.around.given.secrets.iter();
        SandboxLoss {
            files: before.around.files == FilesMode::Ephemeral && lease_has_files(before),
            secrets: names
                .filter(|name| !secrets.0.contains_key(*name))
                .cloned()
                .collect(),
            kernels: ids(Role::Kernel),
            branches: ids(Role::Branch),
        }
    }

    /// Additional kernels were in the sandbox that is gone.
    async fn end_additional(&self, handle: &SessionKernel) {
        for kernel in self.registry.further(handle.id()) {
            kernel.order(Command::Stop(SANDBOX_LOST)).await;
            kernel.gone().await;
        }
    }

    /// The move: in the log, in the row, and a process.
    async fn move_in(
        &self,
        handle: &Arc<SessionKernel>,
        made: Made,
        lost: SandboxLoss,
    ) -> Result<(), EngineError> {
        let Made {
            share,
            place,
            around,
            cwd,
            shim_spec,
            link,
        } = made;
        let before = handle.facts();
        let Some(sandbox) = share.lease().sandbox().cloned() else {
            return Err(EngineError::unavailable("the new sandbox has ended"));
        };
        let sandbox_exit = self.watch_sandbox(before.id, sandbox, &link.done);
        let rules = self.rules(before.origin, &around.limits, around.enforcement.disk);
        let host = self.host(handle, share, link.socket.clone());
        let moved = handle
            .move_to(|reply| Move {
                host: Box::new(host),
                link,
                sandbox_exit,
                rules,
                lost,
                reply,
            })
            .await;
        match moved {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(EngineError::unavailable(error.to_string())),
            None => return Err(self.over(handle)),
        }
        handle.change_facts(|facts| {
            facts.around = around;
            facts.cwd = cwd;
            facts.start_path = StartPath::Cold;
            facts.start_reason = Some("its sandbox before is gone".to_owned());
        });
        let started = match self.note_move(handle, &place).await {
            Ok(()) => self.start_moved(handle, shim_spec).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &started {
            // Unless that has happened already.
            let cause = format!("sandbox_lost: {error}");
            handle.order(Command::GiveUpSandbox(cause)).await;
        }
        started
    }

    async fn note_move(&self, handle: &SessionKernel, place: &RuntimePaths) -> Result<(), EngineError> {
        let facts = handle.facts();
        let incarnation = handle.snapshot.borrow().incarnation;
        let record = facts.record(place, KernelLife::Starting, incarnation);
        match self.store.move_kernel(record).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.over(handle)),
            Err(error) => Err(EngineError::internal(
                "cannot note a session's new sandbox",
                error,
            )),
        }
    }

    async fn start_moved(
        &self,
        handle: &Arc<SessionKernel>,
        spec: ShimKernelSpec,
    ) -> Result<(), EngineError> {
        let limit = self.config.start_timeout;
        let ordered = timeout(limit, handle.order(Command::Start(Box::new(spec)))).await;
        match ordered {
            Ok(Some(Ok(_))) => Ok(()),
            Ok(Some(Err(error))) => Err(self.not_revived(handle, error)),
            Ok(None) => Err(self.over(handle)),
            Err(_) => Err(EngineError::Timeout {
                what: "the start of the kernel",
                seconds: limit.as_secs(),
            }),
        }
    }
}

/// Whether the sandbox had files of its own.
fn lease_has_files(facts: &Facts) -> bool {
    facts.around.isolation > himalia_sandbox::Isolation::None
}

/// Ends a sandbox, whoever is in it. When this returns nothing in it runs.
async fn end_for_good(lease: &Lease) -> Result<(), EngineError> {
    match lease.provisioner().stop(lease.id(), Duration::ZERO).await {
        Ok(_) | Err(SandboxError::NotFound(_)) => Ok(()),
        Err(error) => Err(not_done(lease.id(), "cannot end a sandbox that is lost", &error)),
    }
}
