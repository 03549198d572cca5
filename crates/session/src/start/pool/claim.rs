//! A claim: a kernel that waited becomes somebody's.

use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Claim, Command};
use himalia_model::StartPath;
use himalia_sandbox::{LimitReport, SandboxError};
use himalia_store::KernelLife;
use tokio::time::timeout;

use super::late_binding::binding;
use super::member::Pooled;
use crate::start::new_session::{Accepted, millis_since};
use crate::templates::Plan;
use crate::{Facts, SessionKernel, SessionManager};

/// Members that a claim tries, should they die in its hands.
const TRIES: usize = 3;
/// How long a kernel may take to be told what it was claimed with; the shim itself waits 5 s.
const BIND_TIME: Duration = Duration::from_secs(10);
/// How long a sandbox may take to get other limits.
const CHANGE_TIME: Duration = Duration::from_secs(10);

impl SessionManager {
    /// A kernel of the template's pool, bound and with its row, not yet in the registry.
    ///
    /// # Errors
    /// Why it has to be a new one, one line; `None` when the template has no pool.
    pub(crate) async fn from_pool(
        self: &Arc<Self>,
        accepted: &Accepted,
    ) -> Result<Arc<SessionKernel>, Option<String>> {
        let (plan, launch) = (&accepted.plan, &accepted.launch);
        let pools = self.pools.get();
        let pool = pools.and_then(|pools| pools.get(&plan.template)).ok_or(None)?;
        if let Some(why) = &plan.unlike_pool {
            return Err(Some(why.clone()));
        }
        let bind = binding(&plan.spec, launch, plan.shares_files(), accepted.id).map_err(Some)?;
        for _ in 0..TRIES {
            let pooled = pool.claim().await;
            let pooled = pooled.ok_or_else(|| Some("none was ready".to_owned()))?;
            if pooled.argv != launch.argv || pooled.env != launch.base_env {
                self.background.spawn(pooled.end());
                pool.stale().await;
                return Err(Some("its kernelspec has changed".to_owned()));
            }
            if !pooled.is_fit() {
                self.background.spawn(pooled.end());
                continue;
            }
            let enforcement = match change_limits(&pooled, plan).await {
                Ok(enforcement) => enforcement,
                Err(why) => {
                    self.background.spawn(pooled.end());
                    return Err(Some(why));
                }
            };
            pooled.handle.journal.set_quota(self.log_quota(&plan.limits));
            let claim = Claim {
                bind,
                rules: self.rules(accepted.origin, &plan.limits, enforcement.disk),
            };
            return self
                .bind(accepted, pooled, claim, enforcement)
                .await
                .map_err(Some);
        }
        Err(Some("those that were ready had died".to_owned()))
    }

    async fn bind(
        self: &Arc<Self>,
        accepted: &Accepted,
        pooled: Pooled,
        claim: Claim,
        enforcement: LimitReport,
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
            self.background.spawn(pooled.end());
            return Err(format!("the one that was ready could not be bound: {failure}"));
        }
        let before = handle.facts();
        let now = self.time().micros();
        handle.change_facts(|facts| {
            claimed(facts, accepted, now);
            facts.around.enforcement = enforcement;
        });
        let record = handle.facts().record(&pooled.place, KernelLife::Live, 1);
        if let Err(error) = self.store.insert_kernel(record).await {
            tracing::error!(kernel = %accepted.id, %error, "cannot note a claimed kernel");
            handle.change_facts(|facts| facts.clone_from(&before));
            // The next one has the same id: this one has to be gone before.
            pooled.end().await;
            return Err("the one that was ready could not be noted".to_owned());
        }
        Ok(handle)
    }
}

/// Gives the sandbox the limits of a plan, as far as they are other ones. Tells who enforces them.
///
/// # Errors
/// Why that cannot be done, one line; the sandbox is of no use then.
async fn change_limits(pooled: &Pooled, plan: &Plan) -> Result<LimitReport, String> {
    let facts = pooled.handle.facts();
    let change = plan.change_from(&facts.around.limits);
    if change.is_nothing() {
        return Ok(facts.around.enforcement);
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

/// What changes with a claim.
fn claimed(facts: &mut Facts, accepted: &Accepted, created_micros: u64) {
    let plan = &accepted.plan;
    let lifetime = plan
        .lifetime
        .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    facts.id = accepted.id;
    accepted.principal.owner().clone_into(&mut facts.owner);
    facts.created_micros = created_micros;
    facts.origin = accepted.origin;
    facts.around.limits = plan.limits.clone();
    facts.idle_timeout = plan.idle_timeout;
    facts.expires_micros = lifetime.map(|time| created_micros.saturating_add(time));
    facts.labels.clone_from(&plan.labels);
    facts.session_name.clone_from(&accepted.session_name);
    facts.around.given.clone_from(&accepted.given);
    facts.start_path = StartPath::Pool;
    facts.start_ms = millis_since(accepted.begun);
    if accepted.launch.cwd != accepted.launch.base_cwd && plan.shares_files() {
        facts.cwd.clone_from(&accepted.launch.cwd);
    }
}
