//! A branch of a running kernel: files, process, sockets, a probe, and then a link of its own.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use himalia_shim_protocol::{
    BranchFiles, Event, Fork, ForkFailed, ForkFailure, ForkTimes, Forked, HAZARDS_MAX, Hazard, KernelSpec,
    KernelState, RequestId,
};
use himalia_wire::{Channel, ConnectionFile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::kernel::{self, Adoption, Kernel, Order, Unanswered, error_of};
use crate::link::Link;
use crate::reaper::Death;
use crate::shim::Shim;
use crate::text;
use crate::work_dir::{self, BRANCHES, Copied, CopyError, WorkCopy};

/// Longest wait for a kernel, and longest probe, that is honoured, milliseconds.
const WAIT_MAX_MS: u64 = 600_000;
/// For the reply, beside the time that the kernel may wait.
const REPLY: Duration = Duration::from_secs(10);
/// What a branch is asked to run: nothing, in any language where `#` begins a comment.
const PROBE: &str = "# himalia";
/// Most bytes of a reason.
const REASON_BYTES: usize = 500;
/// A branch that does not work is killed, and gone by then.
const AFTER_KILL: Duration = Duration::from_secs(4);

/// Makes the branch and answers the request, on the parent's link.
pub(crate) async fn run(shim: Rc<Shim>, link: Rc<Link>, parent: Rc<Kernel>, request: RequestId, order: Fork) {
    let begin = Instant::now();
    let event = match attempt(&shim, &link, &parent, order).await {
        Ok(made) => {
            let ms = ForkTimes {
                total: millis(begin),
                ..made.ms
            };
            tracing::info!(socket = made.link.socket_name(), pid = made.pid, ?ms, "forked");
            let forked = Forked {
                request,
                pid: made.pid,
                cwd: made.cwd,
                copied_bytes: made.copied.bytes,
                skipped: made.copied.skipped,
                hazards: made.hazards,
                ms,
            };
            shim.open(&made.link);
            Event::Forked(forked)
        }
        Err(Refusal {
            code,
            reason,
            hazards,
        }) => {
            tracing::info!(?code, "not forked: {reason}");
            Event::ForkFailed(ForkFailed {
                request,
                reason: text::line(&reason, REASON_BYTES),
                code,
                hazards,
            })
        }
    };
    link.outlet.event(parent.number(), event);
}

/// A branch that works and has not dialled yet.
struct Made {
    link: Rc<Link>,
    pid: i32,
    cwd: String,
    copied: Copied,
    hazards: Vec<Hazard>,
    ms: ForkTimes,
}

/// Why there is none.
struct Refusal {
    code: ForkFailure,
    reason: String,
    hazards: Vec<Hazard>,
}

fn refusal(code: ForkFailure, reason: impl Into<String>) -> Refusal {
    Refusal {
        code,
        reason: reason.into(),
        hazards: Vec::new(),
    }
}

/// The name of a branch's socket, given back unless the branch comes to be.
struct SocketName<'a> {
    shim: &'a Rc<Shim>,
    name: Option<String>,
}

impl<'a> SocketName<'a> {
    fn reserve(shim: &'a Rc<Shim>, name: &str) -> Result<Self, Refusal> {
        if !Fork::check_socket(name) {
            return Err(refusal(
                ForkFailure::BadRequest,
                "socket is not the name of a branch's socket",
            ));
        }
        if shim.is_full() {
            return Err(refusal(ForkFailure::Busy, "the sandbox has too many links"));
        }
        if !shim.reserve_socket(name) {
            return Err(refusal(
                ForkFailure::BadRequest,
                format!("{name} belongs to another link"),
            ));
        }
        let name = Some(name.to_owned());
        Ok(Self { shim, name })
    }

    fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for SocketName<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.shim.release_socket(name);
        }
    }
}

async fn attempt(
    shim: &Rc<Shim>,
    link: &Rc<Link>,
    parent: &Rc<Kernel>,
    order: Fork,
) -> Result<Made, Refusal> {
    let name = SocketName::reserve(shim, &order.socket)?;
    if order.cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/')) {
        return Err(refusal(ForkFailure::BadRequest, "cwd is not absolute"));
    }
    let _turn = parent.forking.lock().await;
    let parent_spec = running_spec(shim, parent)?;
    let number = shim.next_branch();
    let mut ms = ForkTimes::default();

    let begin = Instant::now();
    let place = Place::of(shim, link, parent, &parent_spec);
    let (files, copied) = match order.files {
        BranchFiles::Share => (link.files().cloned(), Copied::default()),
        BranchFiles::Copy => {
            let (copy, copied) = place.copy(shim, number, order.max_copy_bytes).await?;
            (Some(Rc::new(copy)), copied)
        }
    };
    ms.copy = millis(begin);

    let copy = files.as_deref().filter(|_| order.files == BranchFiles::Copy);
    let wanted = order.cwd.clone().or_else(|| copy.map(|copy| place.inside(copy)));
    let mut spec = (*parent_spec).clone();
    spec.env.extend(order.env.clone());
    spec.cwd = wanted.clone().unwrap_or_else(|| path_text(&place.cwd));
    let spec = Rc::new(spec);

    let branch = Link::new(Rc::clone(shim), order.socket.clone(), Some(number), files.clone());
    let kernel = match branch.add_kernel(1) {
        Ok(kernel) => kernel,
        Err(error) => {
            drop(branch);
            remove(files).await;
            return Err(refusal(ForkFailure::Failed, error.to_string()));
        }
    };
    kernel.mute(true);
    let attempt = Attempt {
        shim,
        parent,
        kernel: &kernel,
        order: &order,
        spec: &spec,
    };
    match attempt.process(wanted, &mut ms).await {
        Ok((pid, hazards)) if !shim.is_ending() && !link.is_closing() => {
            kernel.mute(false);
            name.keep();
            Ok(Made {
                pid,
                cwd: spec.cwd.clone(),
                link: branch,
                copied,
                hazards,
                ms,
            })
        }
        result => {
            end(&kernel).await;
            branch.forget_kernels();
            drop(branch);
            remove(files).await;
            Err(result.err().unwrap_or_else(not_running))
        }
    }
}

fn running_spec(shim: &Shim, parent: &Kernel) -> Result<Rc<KernelSpec>, Refusal> {
    match parent.spec() {
        Some(spec) if parent.state() == KernelState::Running && !shim.is_ending() => Ok(spec),
        _ => Err(not_running()),
    }
}

fn not_running() -> Refusal {
    refusal(ForkFailure::NotRunning, "the kernel is not running")
}

/// Where the parent works.
struct Place {
    /// What is copied.
    root: PathBuf,
    /// The directory of all copies.
    base: PathBuf,
    /// The parent's working directory at this moment.
    cwd: PathBuf,
}

impl Place {
    fn of(shim: &Shim, link: &Link, parent: &Kernel, spec: &KernelSpec) -> Self {
        let started_in = PathBuf::from(&spec.cwd);
        let now = parent
            .pid()
            .and_then(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).ok());
        let cwd = now
            .filter(|cwd| cwd.is_dir())
            .unwrap_or_else(|| started_in.clone());
        if let Some(files) = link.files() {
            let (root, base) = (files.path().to_owned(), files.base().to_owned());
            return Self { root, base, cwd };
        }
        // In a sandbox the spill files are in the work directory. Elsewhere it is where the kernel was started.
        let root = match &shim.options.spill_dir {
            Some(dir) if started_in.starts_with(dir) => dir.clone(),
            _ => started_in,
        };
        let base = root.join(BRANCHES);
        Self { root, base, cwd }
    }

    /// The counterpart of the parent's working directory in a copy.
    fn inside(&self, copy: &WorkCopy) -> String {
        let inside = self
            .cwd
            .strip_prefix(&self.root)
            .map(|rest| copy.path().join(rest));
        let inside = inside.ok().filter(|dir| dir.is_dir());
        path_text(inside.as_deref().unwrap_or(copy.path()).components().as_path())
    }

    async fn copy(&self, shim: &Shim, number: u32, max_bytes: u64) -> Result<(WorkCopy, Copied), Refusal> {
        let _turn = shim.copying.acquire().await;
        let copy = WorkCopy::new(self.base.clone(), &number.to_string());
        let (from, to) = (self.root.clone(), copy.path().to_owned());
        let cancel = std::sync::Arc::clone(&shim.cancel);
        let copied = tokio::task::spawn_blocking(move || work_dir::copy(&from, &to, max_bytes, &cancel))
            .await
            .map_err(|error| refusal(ForkFailure::CopyFailed, error.to_string()))?;
        let error = match copied {
            Ok(copied) => return Ok((copy, copied)),
            Err(error) => error,
        };
        copy.remove().await;
        let code = match error {
            CopyError::TooLarge(_) => ForkFailure::FilesTooLarge,
            CopyError::Failed { .. } | CopyError::Cancelled => ForkFailure::CopyFailed,
        };
        Err(refusal(code, error.to_string()))
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The steps that have a process in them.
struct Attempt<'a> {
    shim: &'a Rc<Shim>,
    parent: &'a Rc<Kernel>,
    kernel: &'a Rc<Kernel>,
    order: &'a Fork,
    spec: &'a Rc<KernelSpec>,
}

impl Attempt<'_> {
    /// Forks, connects and tries the branch. Whatever is left of it after an error belongs to its kernel.
    async fn process(&self, cwd: Option<String>, ms: &mut ForkTimes) -> Result<(i32, Vec<Hazard>), Refusal> {
        let file = kernel::prepare(self.kernel.dir(), self.spec, None)
            .map_err(|reason| refusal(ForkFailure::Failed, reason))?;
        let begin = Instant::now();
        let (pid, death, hazards) = self.fork(cwd).await?;
        ms.fork = millis(begin);

        let end = Instant::now() + Duration::from_millis(self.order.probe_ms.min(WAIT_MAX_MS));
        let begin = Instant::now();
        self.connect(file, pid, death, end).await?;
        ms.connect = millis(begin);

        let begin = Instant::now();
        self.probe(end).await?;
        ms.probe = millis(begin);
        Ok((pid.as_raw_nonzero().get(), hazards))
    }

    async fn fork(
        &self,
        cwd: Option<String>,
    ) -> Result<(Pid, oneshot::Receiver<Death>, Vec<Hazard>), Refusal> {
        let wait_ms = self.order.wait_ms.min(WAIT_MAX_MS);
        let content = json!({
            "connection_file": path_text(&self.kernel.dir().join("connection.json")),
            "cwd": cwd,
            "env": self.order.env,
            "policy": self.order.policy,
            "wait_ms": wait_ms,
        });
        let patience = Duration::from_millis(wait_ms) + REPLY;
        let asked = self.parent.ask(
            Channel::Control,
            "himalia_fork_request",
            &content,
            false,
            patience,
        );
        let reply = asked.await.map_err(|error| match error {
            Unanswered::NotRunning => not_running(),
            Unanswered::Silent => refusal(
                ForkFailure::Unsupported,
                format!("the kernel did not answer within {} ms", patience.as_millis()),
            ),
            Unanswered::Full => refusal(ForkFailure::Busy, "the kernel does not read its control channel"),
        })?;
        let hazards = hazards_of(&reply);
        if reply.get("status").and_then(Value::as_str) != Some("ok") {
            let code = match reply.get("ename").and_then(Value::as_str) {
                Some("KernelBusy") => ForkFailure::Busy,
                Some("ForkHazard") => ForkFailure::Hazard,
                Some("Unsupported" | "NotImplementedError") => ForkFailure::Unsupported,
                _ => ForkFailure::Failed,
            };
            let reason = error_of(&reply);
            return Err(Refusal {
                code,
                reason,
                hazards,
            });
        }
        let pid = reply.get("pid").and_then(Value::as_i64);
        let pid = pid
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        let death = match pid {
            Some(pid) => self
                .shim
                .children
                .reaper
                .adopt(pid)
                .await
                .map(|death| (pid, death)),
            None => None,
        };
        // Whatever it is, it is not ours to kill.
        let (pid, death) = death.ok_or_else(|| {
            refusal(
                ForkFailure::Failed,
                "the kernel names a process that is no branch of it",
            )
        })?;
        Ok((pid, death, hazards))
    }

    async fn connect(
        &self,
        file: ConnectionFile,
        pid: Pid,
        death: oneshot::Receiver<Death>,
        end: Instant,
    ) -> Result<(), Refusal> {
        self.kernel.order(Order::Adopt(Box::new(Adoption {
            spec: Rc::clone(self.spec),
            file,
            pid,
            death,
            parent: Rc::clone(self.parent),
            patience: end.saturating_duration_since(Instant::now()),
        })));
        loop {
            match self.kernel.state() {
                KernelState::Running => return Ok(()),
                KernelState::Exited | KernelState::Stopping => {
                    return Err(refusal(
                        ForkFailure::ProbeFailed,
                        "the branch ended before it answered",
                    ));
                }
                _ => {}
            }
            // Not after the kernel's own patience: that kills the process and says so.
            if timeout_at(end + AFTER_KILL, self.kernel.state_changed())
                .await
                .is_err()
            {
                if let Some(pid) = self.kernel.pid().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                return Err(refusal(
                    ForkFailure::ProbeFailed,
                    "its sockets did not come up in time",
                ));
            }
        }
    }

    async fn probe(&self, end: Instant) -> Result<(), Refusal> {
        let content = json!({
            "code": PROBE,
            "silent": true,
            "store_history": false,
            "user_expressions": {},
            "allow_stdin": false,
            "stop_on_error": false,
        });
        let patience = end.saturating_duration_since(Instant::now());
        let asked = self
            .kernel
            .ask(Channel::Shell, "execute_request", &content, true, patience);
        let reason = match asked.await {
            Ok(reply) if reply.get("status").and_then(Value::as_str) == Some("ok") => return Ok(()),
            Ok(reply) => error_of(&reply),
            Err(Unanswered::NotRunning) => "the branch ended before it answered".to_owned(),
            Err(Unanswered::Full) => "the branch does not read".to_owned(),
            Err(Unanswered::Silent) => "the branch did not answer a silent execution in time".to_owned(),
        };
        Err(refusal(ForkFailure::ProbeFailed, reason))
    }
}

/// Removes a copy of files that nobody else uses.
async fn remove(files: Option<Rc<WorkCopy>>) {
    if let Some(files) = files.and_then(Rc::into_inner) {
        files.remove().await;
    }
}

/// Ends what there is of a branch, directories included.
async fn end(kernel: &Rc<Kernel>) {
    let (done, stopped) = oneshot::channel();
    kernel.order(Order::Stop {
        request: None,
        grace: Duration::ZERO,
        done: Some(done),
    });
    let _ = timeout(AFTER_KILL, stopped).await;
}

/// What the kernel says of hazards, cut to bounds.
fn hazards_of(reply: &Value) -> Vec<Hazard> {
    let said = reply.get("hazards").and_then(Value::as_array);
    let read = said.into_iter().flatten().take(HAZARDS_MAX).filter_map(|hazard| {
        let hazard: Hazard = serde_json::from_value(hazard.clone()).ok()?;
        Some(Hazard {
            kind: text::line(&hazard.kind, 64),
            name: text::line(&hazard.name, 200),
            detail: text::line(&hazard.detail, 500),
            severity: hazard.severity,
        })
    });
    read.collect()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
