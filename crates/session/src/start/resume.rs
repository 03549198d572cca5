//! A session whose sandbox is gone continues in a new one: the same id, name, log and kept files, the next process.
//!
//! The order of writes makes a kill of the gateway harmless. First the old sandbox is ended, so that nothing else uses the
//! files; then the new one is made, which a later gateway would sweep, since no row names it; then the move is in the log; then
//! in the row, from where on a later gateway adopts the new sandbox; and only then a process is started in it.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Command, CommandError, Move, SandboxLoss};
use himalia_model::{
    EngineError, FilesMode, KernelId, MAX_LOST_NAMES, Principal, Role, Secrets, Session, StartPath,
    StartSession,
};
use himalia_provisioner::SandboxError;
use himalia_shim_protocol::KernelSpec as ShimKernelSpec;
use himalia_store::{PLACE, RuntimePaths};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::actor::PreparedKernel;
use super::counted::Source;
use super::new_session::millis_since;
use super::plan::with_secrets;
use crate::end::forget_kept_files;
use crate::templates::Plan;
use crate::{Lease, SessionKernel, SessionManager, not_done, not_stored};

/// Reason of an additional kernel whose session has another sandbox.
const SANDBOX_LOST: &str = "sandbox_lost";

impl SessionManager {
    /// Makes sure that a session which is dead has a process again: in its sandbox if that lives, else in a new one. Callers take
    /// turns. `given` are variables in place of those that the session was started with.
    ///
    /// # Errors
    /// [`EngineError::KernelDead`] for a kernel that cannot continue, and what a start may answer.
    pub(crate) async fn revive(
        self: &Arc<Self>,
        handle: &Arc<SessionKernel>,
        given: Option<StartSession>,
    ) -> Result<(), EngineError> {
        match self.order_process(handle, Command::Revive).await? {
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
        given: Option<StartSession>,
    ) -> Result<(), EngineError> {
        let (manager, handle) = (Arc::clone(self), Arc::clone(handle));
        let work = async move {
            let _turn = manager
                .starts
                .gate
                .enter(&format!("sandbox/{}", handle.id()))
                .await;
            let begun = Instant::now();
            if !handle.is_lost() {
                // Another caller has resumed it meanwhile; a kernel that is not lost is not started either.
                return manager.resume_in_turn(&handle, given).await;
            }
            let resumed = manager.resume_in_turn(&handle, given).await;
            manager.count_start(Source::Resume, begun, &resumed, |()| "resumed");
            resumed
        };
        // The session is there all the same.
        self.detached(work, |()| ready(())).await
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
        given: Option<StartSession>,
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
        let before = handle.session();
        if !before.outlives_sandbox() {
            return Err(EngineError::KernelDead {
                cause: handle.snapshot.borrow().reason.clone().unwrap_or_default(),
            });
        }
        // A start like any other, of the session's owner, also if another principal uses it.
        let owner = Principal::operator().in_place_of(&before.owner);
        self.budget.start(&owner)?;
        self.check_quotas(&owner, false).await?;
        let (start, plan) = self.plan_again(&before, given).await?;
        let cwd = plan.shares_files().then(|| before.cwd.clone());
        let launch = self.launch(&plan, with_secrets(&start.env, &start.secrets)?, cwd)?;
        let turn = self.turn_to_start(&owner).await?;
        end_for_good(&handle.lease()).await?;
        let lost = self.losses(handle, &before, &start.secrets);
        self.end_additional(handle).await;
        let (prepared, shim_spec) = self
            .new_sandbox_on(
                &plan,
                &launch,
                (handle.id(), before.created_micros),
                before.sandbox.kept_files.clone(),
                Arc::clone(&handle.streams),
            )
            .await?;
        let lease = Arc::clone(prepared.share.lease());
        let moved = self.move_in(handle, prepared, shim_spec, lost).await;
        if moved.is_err() {
            if let Err(error) = end_for_good(&lease).await {
                tracing::error!(kernel = %handle.id(), %error, "cannot end a sandbox that is not used");
            }
            if handle.is_over() {
                // It was ended meanwhile, and its files could not go.
                forget_kept_files(&self.registry, &lease, &before.sandbox).await;
            }
        }
        moved?;
        self.until_up(handle, turn);
        handle.change(|session| session.start_ms = millis_since(begun));
        Ok(())
    }

    /// Plans the session again. Its isolation, limits, network and image stay.
    async fn plan_again(
        &self,
        before: &Session,
        given: Option<StartSession>,
    ) -> Result<(StartSession, Plan), EngineError> {
        let given = given.unwrap_or_default();
        let sandbox = &before.sandbox;
        let start = StartSession {
            name: Some(before.template.clone()),
            origin: before.origin,
            env: if given.env.is_empty() {
                sandbox.given.env.clone()
            } else {
                given.env
            },
            secrets: given.secrets,
            isolation: Some(sandbox.isolation),
            limits: sandbox.limits.clone(),
            image: sandbox.image.clone(),
            network: Some(sandbox.network.clone()),
            ..StartSession::default()
        };
        let mut plan = self.plan(&start, Some(before.owner.as_str())).await?;
        // Never more than it had, nor than the template allows by now.
        plan.session.sandbox.allow = sandbox.allow.within(&plan.session.sandbox.allow);
        plan.session.started_by.clone_from(&before.started_by);
        let names = &mut plan.session.sandbox.credentials;
        names.retain(|name| sandbox.credentials.contains(name));
        plan.session.sandbox.tools = plan.session.sandbox.tools.within(&sandbox.tools);
        if !plan.session.sandbox.skills.is_none() {
            plan.session.sandbox.skills = sandbox.skills.clone();
        }
        let models = &mut plan.session.sandbox.models.models;
        models.retain(|model| sandbox.models.models.contains(model));
        if plan.provisioner.kind().as_str() != before.provisioner {
            return Err(EngineError::unavailable(format!(
                "the provisioner {} of this session is not there any more",
                before.provisioner
            )));
        }
        // A template that says otherwise since does not take them away, nor brings them.
        plan.session.sandbox.files = sandbox.files;
        Ok((start, plan))
    }

    /// Losses with the sandbox, in addition to the variables.
    fn losses(&self, handle: &Arc<SessionKernel>, before: &Session, secrets: &Secrets) -> SandboxLoss {
        let lease = handle.lease();
        let ids = |role: Role| {
            let all = self.registry.all();
            let inside = |other: &&Arc<SessionKernel>| {
                other.session().role == role && Arc::ptr_eq(&other.lease(), &lease)
            };
            let ids = all.iter().filter(inside).map(|other| other.id().to_string());
            ids.take(MAX_LOST_NAMES).collect()
        };
        let names = before.sandbox.given.secrets.iter();
        SandboxLoss {
            files: before.sandbox.files == FilesMode::Ephemeral && sandbox_has_files(before),
            secrets: names
                .filter(|name| !secrets.0.contains_key(*name))
                .cloned()
                .collect(),
            kernels: ids(Role::Additional),
            branches: ids(Role::Branch),
        }
    }

    /// Additional kernels were in the sandbox that is gone.
    async fn end_additional(&self, handle: &SessionKernel) {
        for kernel in self.registry.additional(handle.session_id()) {
            kernel.order(Command::Stop(SANDBOX_LOST)).await;
            kernel.gone().await;
        }
    }

    /// The move: in the log, in the row, and a process.
    async fn move_in(
        &self,
        handle: &Arc<SessionKernel>,
        prepared: PreparedKernel,
        shim_spec: ShimKernelSpec,
        lost: SandboxLoss,
    ) -> Result<(), EngineError> {
        let PreparedKernel {
            session,
            share,
            link,
            paths,
            ..
        } = prepared;
        let before = handle.session();
        let Some(sandbox) = share.lease().sandbox().cloned() else {
            return Err(EngineError::unavailable("the new sandbox has ended"));
        };
        let sandbox_exit = self.watch_sandbox(handle.id(), sandbox, &link.done);
        let rules = self.rules(before.origin, &session.sandbox);
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
        let after = Session {
            sandbox: session.sandbox,
            cwd: session.cwd,
            start_path: StartPath::Cold,
            start_reason: Some("its sandbox before is gone".to_owned()),
            ..Session::clone(&before)
        };
        let mut changes = after.changes_since(&before);
        changes.insert(PLACE.to_owned(), handle.lease().place().into());
        handle.change(|now| {
            now.sandbox = after.sandbox;
            now.cwd = after.cwd;
            now.start_path = after.start_path;
            now.start_reason = after.start_reason;
        });
        let started = match self.note_move(handle, paths, changes).await {
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

    async fn note_move(
        &self,
        handle: &SessionKernel,
        paths: RuntimePaths,
        changes: Map<String, Value>,
    ) -> Result<(), EngineError> {
        let incarnation = handle.snapshot.borrow().incarnation;
        let moved = self.store.move_kernel(handle.id().0, paths, incarnation, changes);
        match moved.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.over(handle)),
            Err(error) => Err(not_stored("cannot note a session's new sandbox", error)),
        }
    }

    async fn start_moved(
        &self,
        handle: &Arc<SessionKernel>,
        spec: ShimKernelSpec,
    ) -> Result<(), EngineError> {
        let start = Command::Start(Box::new(spec));
        match self.order_process(handle, start).await? {
            Some(Ok(_)) => Box::pin(self.put_certificates(handle)).await,
            Some(Err(error)) => Err(self.not_revived(handle, error)),
            None => Err(self.over(handle)),
        }
    }
}

/// True if the sandbox had files of its own.
fn sandbox_has_files(session: &Session) -> bool {
    session.sandbox.isolation > himalia_provisioner::Isolation::None
}

/// Ends a sandbox, with every kernel in it. When this returns nothing in it runs.
async fn end_for_good(lease: &Lease) -> Result<(), EngineError> {
    match lease.provisioner().stop(lease.id(), Duration::ZERO).await {
        Ok(_) | Err(SandboxError::NotFound(_)) => Ok(()),
        Err(error) => Err(not_done(lease.id(), "cannot end a sandbox that is lost", &error)),
    }
}
