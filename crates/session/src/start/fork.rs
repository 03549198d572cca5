//! Branches of a living session: kernels in their parent's sandbox, each with a link, a log and a row of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Answer, Command, CommandError, Core, Link};
use himalia_kernelspecs::check_variables;
use himalia_model::{
    Branch, EngineError, ForkError, ForkFiles, ForkKernel, ForkPolicy, Hazard, KernelId, MAX_BRANCHES,
    SessionInfo, StartPath,
};
use himalia_shim_protocol::{
    BranchFiles, Fork, ForkFailed, ForkFailure, ForkPolicy as ShimForkPolicy, Forked, Hazard as ShimHazard,
    Severity,
};
use himalia_store::KernelLife;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::kernel_limit::KernelPermit;
use super::new_session::millis_since;
use crate::end::forget_kept_files;
use crate::facts::RuntimePaths;
use crate::manager::Member;
use crate::registry::Reservation;
use crate::sandbox_lease::Share;
use crate::templates::check_labels;
use crate::{Facts, Role, SandboxConfig, SessionKernel, SessionManager};

/// How long the parent may take to become idle.
const WAIT_MS: u64 = 2_000;
/// How long the branch may take to answer its first, silent execution.
const PROBE_MS: u64 = 10_000;
/// How long all of it may take, a copy of the files included.
const FORK_TIME: Duration = Duration::from_mins(2);
/// How long the answer waits for the branch to be ready; it is there without that too.
const READY_TIME: Duration = Duration::from_secs(5);

/// What a branch gets before there is one.
struct Place {
    share: Share,
    link: Link,
    reservation: Reservation,
    permit: KernelPermit,
    facts: Facts,
    paths: RuntimePaths,
}

impl SessionManager {
    /// Makes branches, one after another. After a failure no further one is tried.
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
        // In a task of its own: a caller that goes away must not stop it half-way.
        let (reply, answer) = oneshot::channel();
        let inner = Arc::clone(self);
        self.background.spawn(async move {
            let result = inner.branches(&parent, &fork).await;
            if let Err(Ok(unheard)) = reply.send(result) {
                tracing::info!(kernel = %parent.id(), "the caller of a fork has gone, the branches are ended");
                inner.end_branches(&unheard).await;
            }
        });
        answer
            .await
            .map_err(|_| EngineError::unavailable("the gateway is stopping"))?
    }

    async fn branches(
        self: &Arc<Self>,
        parent: &Arc<SessionKernel>,
        fork: &ForkKernel,
    ) -> Result<Vec<Result<Branch, EngineError>>, EngineError> {
        let mut made = Vec::new();
        for _ in 0..fork.count {
            let branch = self.branch(parent, fork).await;
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
        let place = self.branch_place(parent, fork).await?;
        let (id, socket) = (place.facts.id, place.paths.socket.clone());
        let order = Command::Fork(Box::new(order(fork, &socket)));
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
                let handle = self.take_branch(place, &forked).await?;
                handle.change_facts(|facts| facts.start_ms = millis_since(begun));
                let mut snapshot = handle.snapshot.clone();
                // Late or over: the caller will see for itself.
                let _ = timeout(READY_TIME, snapshot.wait_for(|now| now.ready)).await;
                Ok(shown(handle.info(), forked))
            }
            Err(error) => {
                self.leave_place(place.share, place.link, &socket, (id, &place.facts.around))
                    .await;
                Err(error)
            }
        }
    }

    /// Everything that must be there before the branch is: a place, a socket that is listened on, a row by which a later
    /// gateway finds it.
    async fn branch_place(
        &self,
        parent: &Arc<SessionKernel>,
        fork: &ForkKernel,
    ) -> Result<Place, EngineError> {
        let of_parent = parent.facts();
        let permit = self.kernel_limits.take(&of_parent.owner)?;
        let id = KernelId::random();
        let reservation = self.registry.reserve(id)?;
        let lease = &parent.lease();
        let share = lease.join().ok_or_else(|| EngineError::no_kernel(parent.id()))?;
        let socket = lease.branch_socket();
        let link = self.listen(lease, &socket)?;
        let created_micros = self.time().micros();
        let facts = Facts {
            id,
            created_micros,
            start_path: StartPath::Fork,
            start_reason: None,
            start_ms: 0,
            role: Role::Branch,
            parent: Some(of_parent.id),
            labels: fork.labels.clone().unwrap_or_else(|| of_parent.labels.clone()),
            session_name: None,
            ..of_parent.as_ref().clone()
        };
        let paths = RuntimePaths {
            log: Self::log_dir(id, created_micros),
            endpoint: lease
                .sandbox()
                .map_or_else(String::new, |sandbox| sandbox.endpoint.to_string()),
            sandbox_id: lease.id().to_string(),
            key_hash: lease.key_hash(),
            socket,
            argv: Vec::new(),
            interrupt_mode: String::new(),
        };
        let record = facts.record(&paths, KernelLife::Starting, 0);
        let stored = self.store.insert_kernel(record).await;
        stored.map_err(|error| EngineError::internal("cannot note a branch", error))?;
        Ok(Place {
            share,
            link,
            reservation,
            permit,
            facts,
            paths,
        })
    }

    /// The branch runs: it gets its log and its actor.
    async fn take_branch(
        self: &Arc<Self>,
        place: Place,
        forked: &Forked,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let Place {
            share,
            link,
            reservation,
            permit,
            mut facts,
            paths,
        } = place;
        facts.cwd.clone_from(&forked.cwd);
        let id = facts.id;
        let record = facts.record(&paths, KernelLife::Live, 1);
        let updated = self.store.update_kernel(record).await;
        let (inner, log, limits) = (Arc::clone(self), paths.log.clone(), facts.around.limits.clone());
        let opened = tokio::task::spawn_blocking(move || inner.open_log(&log, &limits)).await;
        let journal = match (updated, opened) {
            (Ok(_), Ok(Ok((journal, _)))) => journal,
            (updated, opened) => {
                // Its link finds nobody and is given up by the sandbox in time.
                tracing::error!(kernel = %id, ?updated, failed = opened.is_err(), "cannot take up a branch");
                self.leave_place(share, link, &paths.socket, (id, &facts.around))
                    .await;
                return Err(failed(ForkError::Failed, "its log could not be opened"));
            }
        };
        let mut core = Core::branch(self.settings(), self.now());
        core.set_rules(self.rules(facts.origin, &facts.around.limits, facts.around.enforcement.disk));
        let handle = self.spawn(Member {
            facts,
            core,
            journal,
            share,
            socket: paths.socket,
            link: Some(link),
            permit: Some(permit),
            adoption_deadline: Some(Instant::now() + self.config.adoption_grace),
        });
        reservation.fill(Arc::clone(&handle));
        Ok(handle)
    }

    /// A kernel beside others in its sandbox was not made: nothing of it stays behind.
    pub(crate) async fn leave_place(
        &self,
        share: Share,
        link: Link,
        socket: &str,
        (id, around): (KernelId, &SandboxConfig),
    ) {
        drop(link);
        if let Some(sandbox) = share.lease().sandbox() {
            sandbox.endpoint.remove_link(socket);
        }
        if let Err(error) = self.store.delete_kernel(id.0).await {
            tracing::error!(kernel = %id, %error, "cannot forget a kernel that was not made");
        }
        let lease = Arc::clone(share.lease());
        share.end().await;
        // Its session may have ended meanwhile.
        forget_kept_files(&self.registry, &lease, around).await;
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

fn shown(session: SessionInfo, forked: Forked) -> Branch {
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
