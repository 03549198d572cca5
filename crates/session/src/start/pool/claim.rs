//! A claim: a kernel that waited gets an owner.

use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Claim, Command};
use himalia_model::{SandboxConfig, Session, StartPath};
use himalia_provisioner::{LimitReport, SandboxError};
use himalia_store::KernelLife;
use tokio::time::timeout;

use super::late_binding::binding;
use super::member::PooledKernel;
use crate::record::record;
use crate::start::new_session::{AcceptedStart, millis_since};
use crate::templates::Plan;
use crate::{SessionKernel, SessionManager};

/// Members that a claim tries, should they die in its hands.
const TRIES: usize = 3;
/// Time for a kernel to receive the data of its claim; the shim itself waits 5 s.
const BIND_TIME: Duration = Duration::from_secs(10);
/// Time for a sandbox to get other limits.
const CHANGE_TIME: Duration = Duration::from_secs(10);

impl SessionManager {
    /// A kernel of the template's pool, bound and with its row, not yet in the registry.
    ///
    /// # Errors
    /// Why it has to be a new one, one line; `None` when the template has no pool.
    pub(crate) async fn from_pool(
        self: &Arc<Self>,
        accepted: &AcceptedStart,
    ) -> Result<Arc<SessionKernel>, Option<String>> {
        let (plan, launch) = (&accepted.plan, &accepted.launch);
        let pools = self.pools();
        let pool = pools
            .and_then(|pools| pools.get(&plan.session.template))
            .ok_or(None)?;
        if let Some(why) = &plan.unlike_pool {
            return Err(Some(why.clone()));
        }
        let bind = binding(&plan.spec, launch, plan.shares_files(), accepted.id).map_err(Some)?;
        let held = accepted.principal.held();
        let mut held = held.filter(|held| held.template == plan.session.template);
        for _ in 0..TRIES {
            let pooled = pool.claim(held.take().map(|held| held.member)).await;
            let pooled = pooled.ok_or_else(|| Some("none was ready".to_owned()))?;
            if pooled.argv != launch.argv || pooled.env != launch.base_env {
                self.starts.tasks.spawn(pooled.end());
                pool.stale().await;
                return Err(Some("its kernelspec has changed".to_owned()));
            }
            if !pooled.is_fit() {
                self.starts.tasks.spawn(pooled.end());
                continue;
            }
            let enforcement = match change_limits(&pooled, plan).await {
                Ok(enforcement) => enforcement,
                Err(why) => {
                    self.starts.tasks.spawn(pooled.end());
                    return Err(Some(why));
                }
            };
            pooled
                .handle
                .journal
                .set_quota(self.logs.quota(&plan.session.sandbox.limits));
            let session = claimed(
                &pooled.handle.session(),
                accepted,
                enforcement,
                self.time().micros(),
            );
            let claim = Claim {
                bind,
                rules: self.rules(session.origin, &session.sandbox),
            };
            return self.bind(accepted, pooled, claim, session).await.map_err(Some);
        }
        Err(Some("those that were ready had died".to_owned()))
    }

    async fn bind(
        self: &Arc<Self>,
        accepted: &AcceptedStart,
        pooled: PooledKernel,
        claim: Claim,
        session: Session,
    ) -> Result<Arc<SessionKernel>, String> {
        let handle = Arc::clone(&pooled.handle);
        let ordered = timeout(BIND_TIME, handle.order(Command::Claim(Box::new(claim)))).await;
        let failure = match ordered {
            Ok(Some(Ok(_))) => None,
            Ok(Some(Err(error))) => Some(error.to_string()),
            Ok(None) => Some("it died".to_owned()),
            Err(_) => Some("it did not answer".to_owned()),
        };
        if let Some(failure) = failure {
            self.starts.tasks.spawn(pooled.end());
            return Err(format!("the one that was ready could not be bound: {failure}"));
        }
        let before = (handle.id(), Session::clone(&handle.session()));
        let row = record(
            accepted.id,
            &session,
            &pooled.paths,
            handle.lease().place(),
            (KernelLife::Live, 1),
        );
        handle.assign(accepted.id, session);
        if let Err(error) = self.store.insert_kernel(row).await {
            tracing::error!(kernel = %accepted.id, %error, "cannot note a claimed kernel");
            handle.assign(before.0, before.1);
            // The next one has the same id: this one has to be gone before.
            pooled.end().await;
            return Err("the one that was ready could not be noted".to_owned());
        }
        self.set_account(&handle);
        Ok(handle)
    }
}

/// Gives the sandbox the limits of a plan, as far as they are other ones. Tells who enforces them.
///
/// # Errors
/// Why that cannot be done, one line; the sandbox is of no use then.
async fn change_limits(pooled: &PooledKernel, plan: &Plan) -> Result<LimitReport, String> {
    let waiting = pooled.handle.session();
    let change = plan.change_from(&waiting.sandbox.limits);
    if change.is_nothing() {
        return Ok(waiting.sandbox.enforcement);
    }
    let id = pooled.handle.lease().id();
    match timeout(CHANGE_TIME, plan.provisioner.change_limits(id, change)).await {
        Ok(Ok(enforcement)) => Ok(enforcement),
        Ok(Err(SandboxError::BadSpec { field, reason })) => Err(format!("limits.{field} {reason}")),
        Ok(Err(error)) => {
            // The text may name paths of the host.
            tracing::warn!(sandbox = %id, %error, "cannot change the limits of a pooled kernel");
            Err("this host did not let its limits be changed".to_owned())
        }
        Err(_) => Err("its limits were not changed in time".to_owned()),
    }
}

/// The session that a kernel that waited becomes: as planned, in the sandbox and the directory that it has.
fn claimed(
    waiting: &Session,
    accepted: &AcceptedStart,
    enforcement: LimitReport,
    created_micros: u64,
) -> Session {
    let (plan, launch) = (&accepted.plan, &accepted.launch);
    let planned = plan.session.clone();
    let has_directory = launch.cwd != launch.base_cwd && plan.shares_files();
    let cwd = if has_directory { &launch.cwd } else { &waiting.cwd };
    Session {
        created_micros,
        expires_micros: plan.expires_micros(created_micros),
        kernelspec: waiting.kernelspec.clone(),
        provisioner: waiting.provisioner.clone(),
        sandbox: SandboxConfig {
            limits: planned.sandbox.limits,
            allow: planned.sandbox.allow,
            given: planned.sandbox.given,
            tools: planned.sandbox.tools,
            skills: planned.sandbox.skills,
            models: planned.sandbox.models,
            enforcement,
            ..waiting.sandbox.clone()
        },
        cwd: cwd.clone(),
        start_path: StartPath::Pool,
        start_ms: millis_since(accepted.begun),
        ..planned
    }
}
