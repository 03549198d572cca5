//! Additional kernels of a session: in its sandbox, on its files and under its limits, each with a link, a log and a row of its
//! own, as a branch has them. They are started like the first one, and end with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Command, CommandError};
use himalia_kernelspecs::{Launch, check_variables};
use himalia_model::{EngineError, KernelId, NewKernel, Origin, Principal, Role, Session, StartPath};
use himalia_provisioner::Isolation;
use himalia_shim_protocol::KernelSpec as ShimKernelSpec;
use tokio::time::{Instant, timeout};

use super::actor::PreparedKernel;
use super::counted::Source;
use super::new_session::millis_since;
use super::plan::with_secrets;
use super::sandbox::shim_spec;
use crate::end::SESSION_ENDED;
use crate::templates::{Plan, env_dir, programs, trust_domain, with_placeholders, zygote_spec};
use crate::{SessionKernel, SessionManager};

/// Most kernels of a session, its first one included.
pub const MAX_SESSION_KERNELS: u32 = 8;
/// Bytes of a working directory.
const CWD_BYTES: usize = 4096;
/// Time for the sandbox to open a link, the wait for its connections included.
const LINK_TIME: Duration = Duration::from_secs(30);

impl SessionManager {
    /// Starts an additional kernel of a session; returns when its process is up. A failed start leaves nothing behind.
    pub async fn start_additional(
        self: &Arc<Self>,
        session: Arc<SessionKernel>,
        wanted: NewKernel,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        self.check_open()?;
        let manager = Arc::clone(self);
        let work = async move {
            let begun = Instant::now();
            let started = manager.start_beside(&session, &wanted).await;
            manager.count_start(Source::Additional, begun, &started, |_| "additional");
            started
        };
        self.detached(work, |kernel: Arc<SessionKernel>| async move {
            tracing::info!(kernel = %kernel.id(), "the caller of a start has gone, the kernel is ended");
            kernel.order(Command::Stop("start_cancelled")).await;
        })
        .await
    }

    async fn start_beside(
        self: &Arc<Self>,
        session: &Arc<SessionKernel>,
        wanted: &NewKernel,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let begun = Instant::now();
        let id = session.id();
        if session.is_lost() && session.session().outlives_sandbox() {
            self.resume(session, None).await?;
        }
        // One start at a time in a session, so that they can be counted.
        let _turn = self.starts.gate.enter(&format!("kernels/{id}")).await;
        self.check_open()?;
        if self.registry.additional(session.session_id()).len() + 1 >= MAX_SESSION_KERNELS as usize {
            return Err(EngineError::KernelLimit {
                limit: MAX_SESSION_KERNELS,
                tenant: None,
            });
        }
        let owner = Principal::operator().in_place_of(&session.session().owner);
        let turn = self.turn_to_start(&owner).await?;
        let permit = self.starts.limits.take(&session.session().owner)?;
        let kernel = KernelId::random();
        let reservation = self.registry.reserve(kernel)?;
        let (prepared, spec) = self.prepare_additional(session, kernel, wanted).await?;
        if let Err(error) = self.open_link(session, &prepared.paths.socket).await {
            self.discard(prepared).await;
            return Err(error);
        }
        let core = self.new_core(&prepared);
        let handle = self.start_actor(prepared, core, Some(permit), None).await?;
        reservation.fill(Arc::clone(&handle));
        self.first_process(&handle, spec)
            .await
            .map_err(|error| of_sandbox(session, wanted, error))?;
        self.until_up(&handle, turn);
        handle.change(|session| session.start_ms = millis_since(begun));
        // From here on the end of the session finds it.
        if session.ends() {
            handle.order(Command::Stop(SESSION_ENDED)).await;
            handle.gone().await;
            return Err(EngineError::no_kernel(id));
        }
        Ok(handle)
    }

    /// Prepares a kernel: a part of the sandbox, a socket with a listener, a row by which a later gateway finds it. Returns also the kernel that the
    /// shim has to start.
    async fn prepare_additional(
        &self,
        session: &Arc<SessionKernel>,
        id: KernelId,
        wanted: &NewKernel,
    ) -> Result<(PreparedKernel, ShimKernelSpec), EngineError> {
        let of_session = session.session();
        let (plan, launch) = self.plan_additional(session, wanted).await?;
        let cwd = working_directory(&of_session.cwd, wanted.cwd.as_deref())?;
        let lease = &session.lease();
        let sandbox = lease.sandbox().ok_or_else(|| EngineError::KernelDead {
            cause: "its sandbox is gone".to_owned(),
        })?;
        let mut spec = shim_spec(&plan, &launch, sandbox, &cwd, self.config.packages.as_ref());
        // The sandbox's zygote has the interpreter of the first kernel, and so has the name of its environment.
        let is_like_first = plan.spec.name == of_session.kernelspec;
        spec.via_zygote &= is_like_first && zygote_spec(&plan, &launch, self.catalog.host()).is_some();
        if is_like_first {
            let env_dir = env_dir(&plan, &launch, self.catalog.host())?;
            programs::by_name(&mut spec, env_dir.as_deref());
        }
        let described = Session {
            created_micros: self.time().micros(),
            cwd,
            ..plan.session
        };
        let prepared = self.beside(session, id, described).await?;
        if let Err(error) = self.insert_row(&prepared).await {
            self.release(prepared).await;
            return Err(error);
        }
        Ok((prepared, spec))
    }

    /// The kernelspec that is wanted, in the session's sandbox and with its template's variables.
    async fn plan_additional(
        &self,
        session: &Arc<SessionKernel>,
        wanted: &NewKernel,
    ) -> Result<(Plan, Launch), EngineError> {
        let of_session = session.session();
        let env = with_secrets(&wanted.env, &wanted.secrets)?;
        check_variables(&env)?;
        let spec = self
            .catalog
            .get(wanted.kernelspec.as_deref().unwrap_or(&of_session.kernelspec))
            .await?;
        // A template that is not configured any more has no variables.
        let chosen = self
            .templates
            .choose(
                &self.catalog,
                Some(of_session.template.as_str()),
                of_session.origin,
            )
            .await;
        let template = chosen.map(|chosen| chosen.template).unwrap_or_default();
        let trust_domain = trust_domain(&self.config, &template, Some(of_session.owner.as_str()));
        let plan = Plan {
            session: Session {
                kernelspec: spec.name.clone(),
                origin: Origin::V1,
                start_path: StartPath::Cold,
                start_reason: None,
                start_ms: 0,
                role: Role::Additional,
                parent: Some(session.session_id()),
                name: None,
                labels: BTreeMap::new(),
                idle_timeout: None,
                expires_micros: None,
                ..Session::clone(&of_session)
            },
            spec,
            provisioner: Arc::clone(session.lease().provisioner()),
            runtime: None,
            lifetime: None,
            // It is in the sandbox of its session.
            mounts: Vec::new(),
            env: with_placeholders(&template, &of_session.sandbox.credentials),
            preload: template.preload,
            trust_domain,
            unlike_pool: None,
        };
        let launch = self.launch(&plan, env, None)?;
        Ok((plan, launch))
    }

    /// Has the session's sandbox call the socket.
    async fn open_link(&self, session: &Arc<SessionKernel>, socket: &str) -> Result<(), EngineError> {
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
            Some(Err(CommandError::Unsupported(reason))) => Err(EngineError::Unsupported { reason }),
            Some(Err(other)) => Err(EngineError::unavailable(other.to_string())),
        }
    }

    /// Ends additional kernels whose session an earlier gateway was ending when it was killed.
    pub(crate) async fn end_without_session(&self) {
        for handle in self.registry.all_unordered() {
            if handle.session().role != Role::Additional {
                continue;
            }
            let session = self.registry.get(handle.session_id().first_kernel());
            if session.is_none_or(|session| session.is_over()) {
                tracing::info!(kernel = %handle.id(), "the session of a kernel has ended");
                handle.order(Command::Stop(SESSION_ENDED)).await;
            }
        }
    }
}

/// Working directory of an additional kernel.
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

/// First words of a shim's error about an unusable working directory.
const BAD_CWD: &str = "working directory ";

/// Translates the error of a start: only the sandbox knows if a directory exists. A sandbox with files of its own may lack the program.
fn of_sandbox(session: &SessionKernel, wanted: &NewKernel, error: EngineError) -> EngineError {
    let EngineError::KernelStart { cause, stderr_tail } = error else {
        return error;
    };
    if wanted.cwd.is_some() && cause.starts_with(BAD_CWD) {
        return EngineError::bad_request("cwd", cause);
    }
    let cause = match session.session().sandbox.isolation {
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
