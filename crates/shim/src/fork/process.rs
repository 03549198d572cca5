//! The process of a branch: forked by its parent, connected, tried.

use std::rc::Rc;
use std::time::Duration;

use himalia_shim_protocol::{Fork, ForkFailure, ForkTimes, HAZARDS_MAX, Hazard, KernelSpec, KernelState};
use himalia_wire::{Channel, ConnectionFile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::parent_files::path_text;
use super::refusal::{Refusal, not_running, refusal};
use super::{AFTER_KILL, millis};
use crate::kernel::{self, Adoption, Kernel, Order, RequestFailure, error_of};
use crate::reaper::Death;
use crate::shim::Shim;
use crate::text;

/// Longest wait for a kernel, and longest probe, that is honoured, milliseconds.
const WAIT_MAX_MS: u64 = 600_000;
/// For the reply, beside the time that the kernel may wait. The kernel gives up after 14 s.
const REPLY: Duration = Duration::from_secs(15);
/// Code that a branch runs as a test: nothing, in any language where `#` begins a comment.
const PROBE: &str = "# himalia";

/// The steps that have a process in them.
pub(super) struct Attempt<'a> {
    pub(super) shim: &'a Rc<Shim>,
    pub(super) parent: &'a Rc<Kernel>,
    pub(super) kernel: &'a Rc<Kernel>,
    pub(super) order: &'a Fork,
    pub(super) spec: &'a Rc<KernelSpec>,
}

impl Attempt<'_> {
    /// Forks, connects and tries the branch. Whatever is left of it after an error belongs to its kernel.
    pub(super) async fn process(
        &self,
        cwd: Option<String>,
        ms: &mut ForkTimes,
    ) -> Result<(i32, Vec<Hazard>), Refusal> {
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
            "parent_pid": std::process::id(),
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
            RequestFailure::NotRunning => not_running(),
            RequestFailure::Silent => refusal(
                ForkFailure::Unsupported,
                format!("the kernel did not answer within {} ms", patience.as_millis()),
            ),
            RequestFailure::Full => {
                refusal(ForkFailure::Busy, "the kernel does not read its control channel")
            }
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
                "the kernel returned a process that is not its branch",
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
                    "its sockets were not ready in time",
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
            Err(RequestFailure::NotRunning) => "the branch ended before it answered".to_owned(),
            Err(RequestFailure::Full) => "the branch does not read".to_owned(),
            Err(RequestFailure::Silent) => "the branch did not answer a silent execution in time".to_owned(),
        };
        Err(refusal(ForkFailure::ProbeFailed, reason))
    }
}

/// Hazards that the kernel reports, cut to bounds.
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
