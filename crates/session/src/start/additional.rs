//! Further kernels of a session: in its sandbox, on its files and under its limits, each with a link, a log and a row of its
//! own, as a branch has them. They are started like the first one, and end with it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Command, CommandError, Phase};
use himalia_kernelspecs::{Launch, check_variables};
use himalia_model::{EngineError, KernelId, NewKernel, Origin, Principal, StartPath};
use himalia_sandbox::Isolation;
use himalia_store::KernelLife;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::kernel_limit::KernelPermit;
use super::new_session::{millis_since, with_secrets};
use super::sandbox::{Made, interrupt_mode_name, shim_spec};
use crate::end::SESSION_ENDED;
use crate::facts::RuntimePaths;
use crate::registry::Reservation;
use crate::templates::{Plan, trust_domain, zygote_spec};
use crate::{Facts, Role, SessionKernel, SessionManager};

/// Most kernels of a session, its first one included.
pub const MAX_SESSION_KERNELS: u32 = 8;
/// Bytes of a working directory.
const CWD_BYTES: usize = 4096;
/// How long the sandbox may take to open a link, the wait for its connections included.
const LINK_TIME: Duration = Duration::from_secs(30);

/// What a further kernel gets before there is one.
struct Place {
    made: Made,
    facts: Facts,
    reservation: Reservation,
    permit: KernelPermit,
}

impl SessionManager {
    /// Starts a further kernel of a session; returns when its process is up. A failed start leaves nothing behind.
    pub async fn start_further(
        self: &Arc<Self>,
        session: Arc<SessionKernel>,
        wanted: NewKernel,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        self.check_open()?;
        // In a task of its own: a caller that goes away must not stop it half-way.
        let (reply, answer) = oneshot::channel();
        let inner = Arc::clone(self);
        self.background.spawn(async move {
            let result = inner.further(&session, &wanted).await;
            if let Err(Ok(unheard)) = reply.send(result) {
                tracing::info!(kernel = %unheard.id(), "the caller of a start has gone, the kernel is ended");
                unheard.order(Command::Stop("start_cancelled")).await;
            }
        });
        answer
            .await
            .map_err(|_| EngineError::unavailable("the gateway is stopping"))?
    }

    async fn further(
        self: &Arc<Self>,
        session: &Arc<SessionKernel>,
        wanted: &NewKernel,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let begun = Instant::now();
        let id = session.id();
        if session.is_lost() && session.facts().outlives_sandbox() {
            self.resume(session, None).await?;
        }
        // One start at a time in a session, so that they can be counted.
        let _turn = self.gate.enter(&format!("kernels/{id}")).await;
        self.check_open()?;
        if self.registry.further(id).len() + 1 >= MAX_SESSION_KERNELS as usize {
            return Err(EngineError::KernelLimit {
                limit: MAX_SESSION_KERNELS,
                tenant: None,
            });
        }
        let owner = Principal::operator().in_place_of(&session.facts().owner);
        let turn = self.turn_to_start(&owner).await?;
        let Place {
            made,
            facts,
            reservation,
            permit,
        } = self.further_place(session, wanted).await?;
        if let Err(error) = self.open_further(session, &made.place.socket).await {
            self.leave_place(
                made.share,
                made.link,
                &made.place.socket,
                (facts.id, &facts.around),
            )
            .await;
            return Err(error);
        }
        let rules = self.rules(facts.origin, &facts.around.limits, facts.around.enforcement.disk);
        let (kernel, log) = (facts.id, made.place.log.clone());
        let spec = made.shim_spec.clone();
        let handle = match self.settle_in(made, facts, rules).await {
            Ok(handle) => handle,
            Err(error) => {
                // Its link finds nobody and is given up by the sandbox in time.
                self.undo(kernel, &log).await;
                return Err(error);
            }
        };
        *handle.permit.lock() = Some(permit);
        reservation.fill(Arc::clone(&handle));
        self.first_process(&handle, spec)
            .await
            .map_err(|error| of_sandbox(session, wanted, error))?;
        self.until_up(&handle, turn);
        handle.change_facts(|facts| facts.start_ms = millis_since(begun));
        // From here on the end of the session finds it.
        if ends(session) {
            handle.order(Command::Stop(SESSION_ENDED)).await;
            handle.gone().await;
            return Err(EngineError::no_kernel(id));
        }
        Ok(handle)
    }

    /// Everything that must be there before the kernel is: a place, a socket that is listened on, a row by which a later
    /// gateway finds it.
    async fn further_place(
        &self,
        session: &Arc<SessionKernel>,
        wanted: &NewKernel,
    ) -> Result<Place, EngineError> {
        let of_session = session.facts();
        let permit = self.kernel_limits.take(&of_session.owner)?;
        let id = KernelId::random();
        let reservation = self.registry.reserve(id)?;
        let (plan, launch) = self.further_plan(session, wanted).await?;
        let cwd = working_directory(&of_session.cwd, wanted.cwd.as_deref())?;
        let lease = &session.lease();
        let sandbox = lease.sandbox().ok_or_else(|| EngineError::KernelDead {
            cause: "its sandbox is gone".to_owned(),
        })?;
        let mut spec = shim_spec(&plan, &launch, sandbox, &cwd);
        // The sandbox's zygote has the interpreter of the first kernel.
        spec.via_zygote &= plan.spec.name == of_session.name && zygote_spec(&plan, &launch).is_some();
        let share = lease.join().ok_or_else(|| EngineError::no_kernel(session.id()))?;
        let socket = lease.branch_socket();
        let link = match self.listen(lease, &socket) {
            Ok(link) => link,
            Err(error) => {
                share.end().await;
                return Err(error);
            }
        };
        let created_micros = self.time().micros();
        let facts = Facts {
            id,
            owner: of_session.owner.clone(),
            name: plan.spec.name.clone(),
            created_micros,
            cull_timeout: None,
            origin: Origin::V1,
            template: of_session.template.clone(),
            provisioner: of_session.provisioner.clone(),
            around: of_session.around.clone(),
            cwd: cwd.clone(),
            start_path: StartPath::Cold,
            start_reason: None,
            start_ms: 0,
            role: Role::Kernel,
            parent: Some(of_session.id),
            idle_timeout: None,
            expires_micros: None,
            labels: std::collections::BTreeMap::new(),
            session_name: None,
        };
        let place = RuntimePaths {
            log: Self::log_dir(id, created_micros),
            endpoint: sandbox.endpoint.to_string(),
            sandbox_id: lease.id().to_string(),
            key_hash: lease.key_hash(),
            socket,
            argv: launch.argv.clone(),
            interrupt_mode: interrupt_mode_name(launch.interrupt_mode).to_owned(),
        };
        let record = facts.record(&place, KernelLife::Starting, 0);
        if let Err(error) = self.store.insert_kernel(record).await {
            self.leave_place(share, link, &place.socket, (id, &facts.around))
                .await;
            return Err(EngineError::internal("cannot note a further kernel", error));
        }
        let made = Made {
            share,
            place,
            around: facts.around.clone(),
            cwd,
            shim_spec: spec,
            link,
        };
        Ok(Place {
            made,
            facts,
            reservation,
            permit,
        })
    }

    /// The kernelspec that is wanted, in the session's place and with its template's variables.
    async fn further_plan(
        &self,
        session: &Arc<SessionKernel>,
        wanted: &NewKernel,
    ) -> Result<(Plan, Launch), EngineError> {
        let facts = session.facts();
        let env = with_secrets(&wanted.env, &wanted.secrets)?;
        check_variables(&env)?;
        let spec = self
            .catalog
            .get(wanted.kernelspec.as_deref().unwrap_or(&facts.name))
            .await?;
        // A template that is not configured any more has no variables.
        let chosen = self
            .templates
            .choose(&self.catalog, Some(facts.template.as_str()), facts.origin)
            .await;
        let template = chosen.map(|chosen| chosen.template).unwrap_or_default();
        let trust_domain = trust_domain(&self.config, &template, Some(facts.owner.as_str()));
        let plan = Plan {
            template: facts.template.clone(),
            spec,
            provisioner: Arc::clone(session.lease().provisioner()),
            isolation: facts.around.isolation,
            network: facts.around.network.clone(),
            image: facts.around.image.clone(),
            runtime: None,
            limits: facts.around.limits.clone(),
            files: facts.around.files,
            idle_timeout: None,
            lifetime: None,
            env: template.env,
            preload: template.preload,
            trust_domain,
            labels: std::collections::BTreeMap::new(),
            unlike_pool: None,
        };
        let launch = self.launch(&plan, env, None)?;
        Ok((plan, launch))
    }

    /// Has the session's sandbox call the socket.
    async fn open_further(&self, session: &Arc<SessionKernel>, socket: &str) -> Result<(), EngineError> {
        let order = session.order(Command::AddLink(socket.to_owned()));
        let ordered = timeout(LINK_TIME, order)
            .await
            .map_err(|_| EngineError::Timeout {
                what: "the session's sandbox",
                seconds: LINK_TIME.as_secs(),
            })?;
        match ordered {
            Some(Ok(_)) => Ok(()),
            None => Err(EngineError::no_kernel(session.id())),
            Some(Err(CommandError::NotRunning)) => Err(EngineError::KernelDead {
                cause: session.snapshot.borrow().reason.clone().unwrap_or_default(),
            }),
            Some(Err(CommandError::Unsupported(reason))) => Err(EngineError::Unsupported {
                reason: format!(
                    "the sandbox of this session was started by an earlier version, which has one kernel in a session: {reason}"
                ),
            }),
            Some(Err(other)) => Err(EngineError::unavailable(other.to_string())),
        }
    }

    /// Ends further kernels whose session an earlier gateway was ending when it was killed.
    pub(crate) async fn end_without_session(&self) {
        for handle in self.registry.all_unordered() {
            let facts = handle.facts();
            let session = facts.parent.and_then(|session| self.registry.get(session));
            if facts.role == Role::Kernel && session.is_none_or(|session| session.is_over()) {
                tracing::info!(kernel = %facts.id, "the session of a kernel is over");
                handle.order(Command::Stop(SESSION_ENDED)).await;
            }
        }
    }
}

/// Whether a session is over, or on its way to its end.
fn ends(session: &SessionKernel) -> bool {
    session.is_over() || session.snapshot.borrow().phase == Phase::Stopping
}

/// Where a further kernel works.
fn working_directory(of_session: &str, wanted: Option<&str>) -> Result<String, EngineError> {
    let Some(wanted) = wanted else {
        return Ok(of_session.to_owned());
    };
    if wanted.is_empty() || wanted.len() > CWD_BYTES || wanted.contains('\0') {
        let reason = format!("must have 1 to {CWD_BYTES} bytes, none of them 0");
        return Err(EngineError::bad_request("cwd", reason));
    }
    // As text: a sandbox's paths are not those of this host.
    let joined = Path::new(of_session).join(wanted);
    Ok(joined.to_string_lossy().into_owned())
}

/// How a shim begins to say that a working directory is of no use.
const BAD_CWD: &str = "working directory ";

/// Why a start failed: only the sandbox knows whether a directory is there. One with files of its own may lack the program.
fn of_sandbox(session: &SessionKernel, wanted: &NewKernel, error: EngineError) -> EngineError {
    let EngineError::KernelStart { cause, stderr_tail } = error else {
        return error;
    };
    if wanted.cwd.is_some() && cause.starts_with(BAD_CWD) {
        return EngineError::bad_request("cwd", cause);
    }
    let cause = match session.facts().around.isolation {
        Isolation::None => cause,
        _ => format!("{cause} (its program and files must be in the session's sandbox)"),
    };
    EngineError::KernelStart { cause, stderr_tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_the_sessions_or_below_it_or_absolute() {
        let of = |wanted| working_directory("/session", wanted).unwrap();
        assert_eq!(of(None), "/session");
        assert_eq!(of(Some("data")), "/session/data");
        assert_eq!(of(Some("/tmp")), "/tmp");
        for bad in ["", "a\0b", &"x".repeat(CWD_BYTES + 1)] {
            let error = working_directory("/session", Some(bad)).unwrap_err();
            assert!(matches!(error, EngineError::BadRequest { field: "cwd", .. }));
        }
    }
}
