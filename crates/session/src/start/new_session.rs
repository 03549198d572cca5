//! Starting a session, cold, from a zygote or from a pool. All or nothing: a start that fails or whose caller goes away leaves nothing.

use std::sync::Arc;

use himalia_kernel::Command;
use himalia_kernelspecs::Launch;
use himalia_model::{EngineError, KernelId, Principal, StartSession, ToolServerSession};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::counted::Source;
use super::kernel_limit::KernelPermit;
use super::keyed::start_key;
use super::plan::with_secrets;
use crate::registry::Reservation;
use crate::templates::Plan;
use crate::{SessionKernel, SessionManager, not_stored};

/// A start after everything that can be refused at once was checked.
pub(crate) struct AcceptedStart {
    pub(crate) principal: Principal,
    pub(crate) plan: Plan,
    pub(crate) launch: Launch,
    pub(crate) id: KernelId,
    pub(crate) begun: Instant,
    reservation: Reservation,
    permit: KernelPermit,
}

impl SessionManager {
    /// Starts a kernel. Returns when its first process runs; a caller that goes away before that leaves nothing.
    pub async fn start_kernel(
        self: &Arc<Self>,
        principal: &Principal,
        start: StartSession,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        if start.id.is_some() && !principal.is_operator() {
            // Whether an id is taken would tell of the kernels of others.
            return Err(EngineError::Forbidden {
                action: "choose the id of a kernel",
            });
        }
        self.start_chosen(principal, start).await
    }

    /// The same, with an id that the gateway has chosen.
    pub async fn start_chosen(
        self: &Arc<Self>,
        principal: &Principal,
        start: StartSession,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        self.start_for(principal, start, None).await
    }

    /// The same for the program of a server of tools, if it is for one: it is not ended for its age.
    pub(crate) async fn start_for(
        self: &Arc<Self>,
        principal: &Principal,
        start: StartSession,
        tool_server: Option<ToolServerSession>,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        self.check_open()?;
        let begun = Instant::now();
        // Before the first await, so that starts under way count.
        self.budget.start(principal)?;
        let permit = self
            .starts
            .limits
            .take_below(principal.owner(), start.starter.as_deref())?;
        let chosen = start.id.is_some();
        let id = start.id.unwrap_or_else(KernelId::random);
        let reservation = self.registry.reserve(id)?;
        self.check_quotas(principal, true).await?;
        let mut plan = self.plan(&start, Some(principal.owner())).await?;
        principal.caller().clone_into(&mut plan.session.started_by);
        if tool_server.is_some() {
            (plan.session.tool_server, plan.session.idle_timeout) = (tool_server, None);
            plan.lifetime = None;
        }
        self.credentials.check_start(&plan.session, &start).await?;
        plan.session.start_key = start_key(principal, &start)?;
        let launch = self.launch(&plan, with_secrets(&start.env, &start.secrets)?, start.cwd)?;
        let accepted = AcceptedStart {
            principal: principal.clone(),
            plan,
            launch,
            id,
            begun,
            reservation,
            permit,
        };
        let gone = CancellationToken::new();
        let _gone = gone.clone().drop_guard();
        let manager = Arc::clone(self);
        let work = async move {
            let begun = accepted.begun;
            let started = Box::pin(manager.obtain(accepted, gone.cancelled_owned())).await;
            let path = |handle: &Arc<SessionKernel>| handle.session().start_path.as_str();
            manager.count_start(Source::Session, begun, &started, path);
            started
        };
        self.detached(work, move |handle: Arc<SessionKernel>| async move {
            // Its id is known to no client, unless the caller had chosen it.
            if !chosen {
                tracing::info!(kernel = %handle.id(), "the caller of a start has gone, the kernel is ended");
                handle.order(Command::Stop("start_cancelled")).await;
            }
        })
        .await
    }

    /// A kernel from the pool, or a new one, unless the caller goes away before it is its turn.
    async fn obtain(
        self: &Arc<Self>,
        accepted: AcceptedStart,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let claimed = self.from_pool(&accepted).await;
        match &claimed {
            Ok(_) => self.metrics.starts().claimed(true),
            Err(Some(_)) => self.metrics.starts().claimed(false),
            // The template has no pool.
            Err(None) => {}
        }
        let reason = match claimed {
            Ok(handle) => {
                let AcceptedStart {
                    reservation, permit, ..
                } = accepted;
                *handle.permit.lock() = Some(permit);
                reservation.fill(Arc::clone(&handle));
                if !handle.is_over() {
                    return Ok(handle);
                }
                // It died in this moment, perhaps before it had a row to remove.
                handle.gone().await;
                self.registry.remove(&handle);
                let forgotten = self.store.delete_kernel(handle.id().0).await;
                forgotten.map_err(|error| not_stored("cannot forget a kernel", error))?;
                return Err(EngineError::unavailable("the kernel ended while it was claimed"));
            }
            Err(reason) => reason,
        };
        let turn = tokio::select! {
            biased;
            turn = self.turn_to_start(&accepted.principal) => turn?,
            () = unwanted => return Err(EngineError::unavailable("the caller of the start has gone")),
        };
        let handle = Box::pin(self.start_new(accepted, reason)).await?;
        self.until_up(&handle, turn);
        Ok(handle)
    }

    async fn start_new(
        self: &Arc<Self>,
        accepted: AcceptedStart,
        reason: Option<String>,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let id = (accepted.id, self.time().micros());
        let (mut prepared, shim_spec) = self.new_sandbox(&accepted.plan, &accepted.launch, id).await?;
        prepared.session.start_reason = reason;
        if let Err(error) = self.insert_row(&prepared).await {
            self.release(prepared).await;
            return Err(error);
        }
        let core = self.new_core(&prepared);
        let handle = self
            .start_actor(prepared, core, Some(accepted.permit), None)
            .await?;
        accepted.reservation.fill(Arc::clone(&handle));
        self.first_process(&handle, shim_spec).await?;
        handle.change(|session| session.start_ms = millis_since(accepted.begun));
        Ok(handle)
    }
}

pub(crate) fn millis_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
