//! Starting a kernel. All or nothing: a start that fails or whose caller goes away leaves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::Command;
use himalia_kernelspecs::{Launch, LaunchRequest, launch};
use himalia_model::{EngineError, KernelId, KernelSpec, Origin, Principal, Secrets, StartKernel, StartPath};
use himalia_shim_protocol::KernelSpec as ShimKernelSpec;
use himalia_store::KernelLife;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::sandbox::Made;
use crate::end::{new_name, remove_kept_files};
use crate::registry::Reservation;
use crate::start::KernelPermit;
use crate::templates::{Offer, Plan, plan, zygote_spec};
use crate::{Facts, Given, Role, SessionKernel, SessionManager};

/// How long a start that is in no hurry waits for a zygote.
const ZYGOTE_PATIENCE: Duration = Duration::from_mins(1);

/// A start after everything that can be refused at once was checked.
pub(crate) struct Accepted {
    pub(crate) principal: Principal,
    pub(crate) origin: Origin,
    pub(crate) plan: Plan,
    pub(crate) launch: Launch,
    pub(crate) id: KernelId,
    pub(crate) begun: Instant,
    pub(crate) session_name: Option<String>,
    pub(crate) given: Given,
    reservation: Reservation,
    permit: KernelPermit,
}

impl SessionManager {
    /// Starts a kernel. Returns when its first process runs; a caller that goes away before that leaves nothing.
    pub async fn start_kernel(
        self: &Arc<Self>,
        principal: &Principal,
        start: StartKernel,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        self.check_open()?;
        let begun = Instant::now();
        if start.id.is_some() && !principal.is_operator() {
            // Whether an id is taken would tell of the kernels of others.
            return Err(EngineError::Forbidden {
                action: "choose the id of a kernel",
            });
        }
        // Before the first await, so that starts under way count.
        self.budget.start(principal)?;
        let permit = self.kernel_limits.take(principal.owner())?;
        let chosen = start.id.is_some();
        let id = start.id.unwrap_or_else(KernelId::random);
        let reservation = self.registry.reserve(id)?;
        self.check_disk(principal).await?;
        let plan = self.plan(&start, Some(principal.owner())).await?;
        let launch = self.launch(&plan, with_secrets(&start.env, &start.secrets)?, start.cwd)?;
        // A kernel of `/api` is never started from its row.
        let given = match start.origin {
            Origin::V1 => Given::of(&start.env, &start.secrets),
            Origin::Jupyter => Given::default(),
        };
        let accepted = Accepted {
            principal: principal.clone(),
            origin: start.origin,
            plan,
            launch,
            id,
            begun,
            session_name: start.session_name,
            given,
            reservation,
            permit,
        };
        // In a task of its own: a caller that goes away must not stop it half-way.
        let (mut reply, answer) = oneshot::channel();
        let inner = Arc::clone(self);
        self.background.spawn(async move {
            let result = inner.obtain(accepted, reply.closed()).await;
            let started = result.as_ref().ok().cloned();
            let unheard = reply.send(result).is_err();
            // Nobody knows its id, unless the caller had chosen it.
            if let (true, false, Some(handle)) = (unheard, chosen, started) {
                tracing::info!(kernel = %handle.id(), "the caller of a start has gone, the kernel is ended");
                handle.order(Command::Stop("start_cancelled")).await;
            }
        });
        answer
            .await
            .map_err(|_| EngineError::unavailable("the gateway is stopping"))?
    }

    /// Settles what a start asks for; without an owner it is for nobody in particular.
    pub(crate) async fn plan(&self, start: &StartKernel, owner: Option<&str>) -> Result<Plan, EngineError> {
        let chosen = self
            .templates
            .choose(&self.catalog, start.name.as_deref(), start.origin)
            .await?;
        let offer = Offer {
            provisioners: &self.provisioners,
            config: &self.config,
        };
        plan(offer, chosen, start, owner)
    }

    pub(crate) fn launch(
        &self,
        plan: &Plan,
        env: BTreeMap<String, String>,
        cwd: Option<String>,
    ) -> Result<Launch, EngineError> {
        let request = LaunchRequest {
            env,
            cwd,
            template_env: plan.env.clone(),
            shares_files: plan.shares_files(),
            in_container: plan.in_container(),
            ..LaunchRequest::default()
        };
        launch(&plan.spec, &request, self.catalog.host())
    }

    /// A kernel from the pool, or a new one, unless the caller goes away before it is its turn.
    async fn obtain(
        self: &Arc<Self>,
        accepted: Accepted,
        unwanted: impl Future<Output = ()>,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let reason = match self.from_pool(&accepted).await {
            Ok(handle) => {
                let Accepted {
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
                forgotten.map_err(|error| EngineError::internal("cannot forget a kernel", error))?;
                return Err(EngineError::unavailable("the kernel ended while it was claimed"));
            }
            Err(reason) => reason,
        };
        let turn = tokio::select! {
            biased;
            turn = self.turn_to_start(&accepted.principal) => turn?,
            () = unwanted => return Err(EngineError::unavailable("the caller of the start has gone")),
        };
        let handle = self.start_new(accepted, reason).await?;
        self.until_up(&handle, turn);
        Ok(handle)
    }

    async fn start_new(
        self: &Arc<Self>,
        accepted: Accepted,
        reason: Option<String>,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let kept_files = new_name(&accepted.plan);
        let (handle, shim_spec) = match self.settle_new(&accepted, reason, kept_files.clone()).await {
            Ok(settled) => settled,
            Err(error) => {
                if let Some(name) = kept_files {
                    remove_kept_files(accepted.plan.provisioner.as_ref(), &name).await;
                }
                return Err(error);
            }
        };
        *handle.permit.lock() = Some(accepted.permit);
        accepted.reservation.fill(Arc::clone(&handle));
        self.first_process(&handle, shim_spec).await?;
        handle.change_facts(|facts| facts.start_ms = millis_since(accepted.begun));
        Ok(handle)
    }

    /// Makes the sandbox, the row and the actor, and says what the first process is. A failure leaves only kept files.
    async fn settle_new(
        self: &Arc<Self>,
        accepted: &Accepted,
        reason: Option<String>,
        kept_files: Option<String>,
    ) -> Result<(Arc<SessionKernel>, ShimKernelSpec), EngineError> {
        let (id, created_micros) = (accepted.id, self.time().micros());
        let made = self
            .make_sandbox(&accepted.plan, &accepted.launch, id, created_micros, kept_files)
            .await?;
        let mut facts = facts(&accepted.plan, &made, id, created_micros);
        accepted.principal.owner().clone_into(&mut facts.owner);
        facts.origin = accepted.origin;
        facts.start_reason = reason;
        facts.session_name.clone_from(&accepted.session_name);
        facts.around.given.clone_from(&accepted.given);
        let record = facts.record(&made.place, KernelLife::Starting, 0);
        if let Err(error) = self.store.insert_kernel(record).await {
            made.share.end().await;
            return Err(EngineError::internal("cannot note a new kernel", error));
        }
        let rules = self.rules(facts.origin, &facts.around.limits, facts.around.enforcement.disk);
        let log = made.place.log.clone();
        let shim_spec = made.shim_spec.clone();
        match self.settle_in(made, facts, rules).await {
            Ok(handle) => Ok((handle, shim_spec)),
            Err(error) => {
                self.undo(id, &log).await;
                Err(error)
            }
        }
    }

    /// What a template alone starts, for nobody in particular.
    pub(crate) async fn for_nobody(&self, template: &str) -> Result<(Plan, Launch), EngineError> {
        let wish = StartKernel {
            name: Some(template.to_owned()),
            ..StartKernel::default()
        };
        let plan = self.plan(&wish, None).await?;
        let launch = self.launch(&plan, BTreeMap::new(), None)?;
        Ok((plan, launch))
    }

    /// Gets the zygote of a template ready, so that its first session need not start cold.
    pub(crate) async fn warm_template(self: Arc<Self>, template: String) {
        match self.for_nobody(&template).await {
            Ok((plan, launch)) => warm_zygote(&plan, &launch).await,
            Err(error) => tracing::warn!(template, %error, "cannot load the modules of a template early"),
        }
    }
}

/// Waits for the zygote of a start that is in no hurry, if it has one. Without it the sandbox starts cold.
pub(crate) async fn warm_zygote(plan: &Plan, launch: &Launch) {
    let Some(zygote) = zygote_spec(plan, launch) else {
        return;
    };
    let ready = tokio::time::timeout(ZYGOTE_PATIENCE, plan.provisioner.warm(&zygote)).await;
    let problem = match ready {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it is not ready after {} s", ZYGOTE_PATIENCE.as_secs()),
    };
    tracing::warn!(kernelspec = %plan.spec.name, problem, "no zygote: kernels start cold");
}

/// Facts of a kernel that is made now, of an owner that is still to be filled in.
pub(crate) fn facts(plan: &Plan, made: &Made, id: KernelId, created_micros: u64) -> Facts {
    let lifetime = plan
        .lifetime
        .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    Facts {
        id,
        owner: String::new(),
        name: plan.spec.name.clone(),
        created_micros,
        cull_timeout: cull_timeout(&plan.spec),
        origin: Origin::default(),
        template: plan.template.clone(),
        provisioner: plan.provisioner.kind().to_string(),
        around: made.around.clone(),
        cwd: made.cwd.clone(),
        start_path: StartPath::Cold,
        start_reason: None,
        start_ms: 0,
        role: Role::Session,
        parent: None,
        idle_timeout: plan.idle_timeout,
        expires_micros: lifetime.map(|time| created_micros.saturating_add(time)),
        labels: plan.labels.clone(),
        session_name: None,
    }
}

/// The variables of a start, secret ones included.
pub(crate) fn with_secrets(
    env: &BTreeMap<String, String>,
    secrets: &Secrets,
) -> Result<BTreeMap<String, String>, EngineError> {
    let mut env = env.clone();
    for (name, value) in &secrets.0 {
        if env.insert(name.clone(), value.clone()).is_some() {
            let shown: String = name.chars().take(64).collect();
            return Err(EngineError::bad_request(
                "secrets",
                format!("{shown:?} is in env too"),
            ));
        }
    }
    Ok(env)
}

/// `metadata.cull_idle_timeout` of a kernelspec, seconds.
pub(crate) fn cull_timeout(spec: &KernelSpec) -> Option<f64> {
    spec.spec
        .metadata
        .get("cull_idle_timeout")
        .and_then(serde_json::Value::as_f64)
}

pub(crate) fn millis_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
