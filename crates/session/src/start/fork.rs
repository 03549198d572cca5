//! Branches of a living session: kernels in their parent's sandbox, each with a link, a log and a row of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Answer, Command, CommandError, Core};
use himalia_kernelspecs::check_variables;
use himalia_model::{
    Branch, EngineError, ForkError, ForkFiles, ForkKernel, ForkPolicy, Hazard, KernelId, MAX_BRANCHES, Role,
    Session, SessionId, SessionInfo, StartPath,
};
use himalia_shim_protocol::{
    BranchFiles, Fork, ForkFailed, ForkFailure, ForkPolicy as ShimForkPolicy, Hazard as ShimHazard,
    KernelForked, Severity,
};
use himalia_store::KernelLife;
use tokio::time::{Instant, timeout};

use super::actor::PreparedKernel;
use super::counted::Source;
use super::kernel_limit::KernelPermit;
use super::new_session::millis_since;
use crate::record::record;
use crate::templates::check_labels;
use crate::{SessionKernel, SessionManager, not_stored};

/// Time for the parent to become idle.
const WAIT_MS: u64 = 2_000;
/// Time for the branch to answer its first, silent execution.
const PROBE_MS: u64 = 10_000;
/// Time for the whole fork, a copy of the files included.
const FORK_TIME: Duration = Duration::from_mins(2);
/// Time that the answer waits for the branch to be ready; it is there without that too.
const READY_TIME: Duration = Duration::from_secs(5);

impl SessionManager {
    /// Makes branches, one after another. After a failure no other one is tried.
    pub async fn fork_kernel(
        self: &Arc<Self>,
        parent: Arc<SessionKernel>,
        fork: ForkKernel,
    ) -> Result<Vec<Result<Branch, EngineError>>, EngineError> {
        self.check_open()?;
        if fork.count == 0 || fork.count > MAX_BRANCHES {
            return Err(EngineError::bad_request(
                "count",
                format!("must be 1 to {MAX_BRANCHES}"),
            ));
        }
        check_variables(&fork.env)?;
        if let Some(labels) = &fork.labels {
            check_labels(labels)?;
        }
        let (manager, ending) = (Arc::clone(self), Arc::clone(self));
        let work = async move { Box::pin(manager.branches(&parent, &fork)).await };
        self.detached(
            work,
            move |branches: Vec<Result<Branch, EngineError>>| async move {
                tracing::info!("the caller of a fork has gone, the branches are ended");
                ending.end_branches(&branches).await;
            },
        )
        .await
    }

    async fn branches(
        self: &Arc<Self>,
        parent: &Arc<SessionKernel>,
        fork: &ForkKernel,
    ) -> Result<Vec<Result<Branch, EngineError>>, EngineError> {
        let mut made = Vec::new();
        for _ in 0..fork.count {
            let begun = Instant::now();
            let branch = Box::pin(self.branch(parent, fork)).await;
            self.count_start(Source::Fork, begun, &branch, |_| "fork");
            let failed = branch.as_ref().err().cloned();
            made.push(branch);
            if let Some(error) = failed {
                if fork.atomic {
                    self.end_branches(&made).await;
                    return Err(error);
                }
                break;
            }
        }
        Ok(made)
    }

    async fn end_branches(&self, branches: &[Result<Branch, EngineError>]) {
        for branch in branches.iter().flatten() {
            if let Some(handle) = self.registry.get(branch.session.kernel.id) {
                handle.order(Command::Stop("killed_by_user")).await;
                handle.gone().await;
            }
        }
    }

    async fn branch(
        self: &Arc<Self>,
        parent: &Arc<SessionKernel>,
        fork: &ForkKernel,
    ) -> Result<Branch, EngineError> {
        let begun = Instant::now();
        let permit = self.starts.limits.take(&parent.session().owner)?;
        let id = KernelId::random();
        let reservation = self.registry.reserve(id)?;
        let prepared = self.prepare_branch(parent, id, fork).await?;
        let order = Command::Fork(Box::new(order(fork, &prepared.paths.socket)));
        let forked = match timeout(FORK_TIME, parent.order(order)).await {
            Ok(Some(Ok(Answer::Forked(forked)))) => Ok(*forked),
            Ok(Some(Err(error))) => Err(failure(error)),
            Ok(Some(Ok(_)) | None) => Err(failed(ForkError::Failed, "its kernel has ended")),
            Err(_) => Err(EngineError::Timeout {
                what: "the fork",
                seconds: FORK_TIME.as_secs(),
            }),
        };
        match forked {
            Ok(forked) => {
                let handle = Box::pin(self.start_branch(prepared, permit, &forked)).await?;
                reservation.fill(Arc::clone(&handle));
                handle.change(|session| session.start_ms = millis_since(begun));
                let mut snapshot = handle.snapshot.clone();
                // Late or over: the caller will see for itself.
                let _ = timeout(READY_TIME, snapshot.wait_for(|now| now.ready)).await;
                Ok(shown(handle.info(), forked))
            }
            Err(error) => {
                self.discard(prepared).await;
                Err(error)
            }
        }
    }

    /// Prepares a branch: a part of the sandbox, a socket with a listener, a row by which a later gateway finds it.
    async fn prepare_branch(
        &self,
        parent: &Arc<SessionKernel>,
        id: KernelId,
        fork: &ForkKernel,
    ) -> Result<PreparedKernel, EngineError> {
        let of_parent = parent.session();
        let session = Session {
            created_micros: self.time().micros(),
            start_path: StartPath::Fork,
            start_reason: None,
            start_ms: 0,
            role: Role::Branch,
            parent: Some(SessionId::of_first_kernel(parent.id())),
            labels: fork.labels.clone().unwrap_or_else(|| of_parent.labels.clone()),
            name: None,
            start_key: None,
            ..Session::clone(&of_parent)
        };
        let mut prepared = self.beside(parent, id, session).await?;
        prepared.cull_timeout = parent.cull_timeout;
        if let Err(error) = self.insert_row(&prepared).await {
            self.release(prepared).await;
            return Err(error);
        }
        Ok(prepared)
    }

    /// The branch runs: it gets its log and its actor.
    async fn start_branch(
        self: &Arc<Self>,
        mut prepared: PreparedKernel,
        permit: KernelPermit,
        forked: &KernelForked,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let id = prepared.id;
        prepared.session.cwd.clone_from(&forked.cwd);
        let row = record(
            id,
            &prepared.session,
            &prepared.paths,
            prepared.share.lease().place(),
            (KernelLife::Live, 1),
        );
        let mut core = Core::branch(self.settings(prepared.share.lease().epoch()), self.now());
        core.set_rules(self.rules(prepared.session.origin, &prepared.session.sandbox));
        let deadline = Instant::now() + self.config.adoption_grace;
        let started = match self.store.update_kernel(row).await {
            Ok(_) => {
                self.start_actor(prepared, core, Some(permit), Some(deadline))
                    .await
            }
            Err(error) => {
                self.discard(prepared).await;
                Err(not_stored("cannot note a branch", error))
            }
        };
        // Of a failure the branch's link finds no gateway, and is given up by the sandbox in time.
        started.map_err(|error| {
            tracing::error!(kernel = %id, %error, "cannot take up a branch");
            failed(ForkError::Failed, "its log could not be opened")
        })
    }
}

fn order(fork: &ForkKernel, socket: &str) -> Fork {
    let (files, max_copy_bytes) = match fork.files {
        ForkFiles::Copy { max_bytes } => (BranchFiles::Copy, max_bytes),
        ForkFiles::Share => (BranchFiles::Share, 0),
    };
    Fork {
        socket: socket.to_owned(),
        cwd: None,
        files,
        max_copy_bytes,
        env: fork.env.clone(),
        policy: match fork.policy {
            ForkPolicy::Strict => ShimForkPolicy::Strict,
            ForkPolicy::Report => ShimForkPolicy::Report,
        },
        wait_ms: WAIT_MS,
        probe_ms: PROBE_MS,
    }
}

fn failed(code: ForkError, reason: impl Into<String>) -> EngineError {
    EngineError::Fork {
        code,
        reason: reason.into(),
        hazards: Vec::new(),
    }
}

fn failure(error: CommandError) -> EngineError {
    match error {
        CommandError::ForkFailed(failure) => {
            let ForkFailed {
                reason,
                code,
                hazards,
                ..
            } = *failure;
            let code = match code {
                ForkFailure::Busy => ForkError::Busy,
                ForkFailure::Hazard => ForkError::Hazard,
                ForkFailure::Unsupported => ForkError::Unsupported,
                ForkFailure::FilesTooLarge => ForkError::FilesTooLarge,
                ForkFailure::ProbeFailed => ForkError::ProbeFailed,
                _ => ForkError::Failed,
            };
            EngineError::Fork {
                code,
                reason,
                hazards: hazards.into_iter().map(hazard).collect(),
            }
        }
        CommandError::Unsupported(reason) => failed(ForkError::Unsupported, reason),
        CommandError::NotRunning => EngineError::Conflict {
            reason: "the kernel has no process".into(),
        },
        other => EngineError::unavailable(other.to_string()),
    }
}

fn hazard(hazard: ShimHazard) -> Hazard {
    Hazard {
        kind: hazard.kind,
        name: hazard.name,
        detail: hazard.detail,
        refuses: hazard.severity == Severity::Refuse,
    }
}

fn shown(session: SessionInfo, forked: KernelForked) -> Branch {
    let ms = forked.ms;
    let times = [
        ("copy", ms.copy),
        ("fork", ms.fork),
        ("connect", ms.connect),
        ("probe", ms.probe),
        ("total", ms.total),
    ];
    Branch {
        session,
        copied_bytes: forked.copied_bytes,
        hazards: forked.hazards.into_iter().map(hazard).collect(),
        ms: times
            .into_iter()
            .map(|(name, ms)| (name.to_owned(), ms))
            .collect::<BTreeMap<_, _>>(),
    }
}
