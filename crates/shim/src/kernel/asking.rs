//! Requests of the shim itself to a kernel: late binding, a fork, a silent execution.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use himalia_shim_protocol::{Bind, Bound, Event, KernelSpec, RequestId};
use himalia_wire::{Channel, build};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Kernel;
use super::sending::NOT_RUNNING;
use crate::text;

/// For a kernel to be bound.
const BIND: Duration = Duration::from_secs(5);
/// Most bytes of a reason.
const REASON_BYTES: usize = 500;

/// Reason why a request was not answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestFailure {
    /// There is no process, or it ended.
    NotRunning,
    /// There was no reply in time.
    Silent,
    /// Too much waits for it.
    Full,
}

impl Kernel {
    /// Binds it in a task of its own and answers with `bound`. Orders that come meanwhile see the new specification.
    pub(crate) fn bind(self: &Rc<Self>, request: RequestId, bind: Bind) {
        let kernel = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let result = kernel.try_bind(bind).await;
            let bound = Bound {
                request,
                ok: result.is_ok(),
                reason: result.err().unwrap_or_default(),
            };
            kernel.outlet.event(kernel.number, Event::Bound(bound));
        });
    }

    async fn try_bind(&self, bind: Bind) -> Result<(), String> {
        let Some(before) = self.spec() else {
            return Err(NOT_RUNNING.into());
        };
        let Bind {
            env,
            unset,
            cwd,
            kernel_id,
        } = bind;
        if cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/')) {
            return Err("cwd is not absolute".into());
        }
        let content = json!({ "env": env, "unset": unset, "cwd": cwd, "kernel_id": kernel_id });
        let after = Rc::new(bound_spec(&before, env, &unset, cwd));
        self.set_spec(Rc::clone(&after));
        let result = match self
            .ask(Channel::Control, "himalia_bind_request", &content, false, BIND)
            .await
        {
            Ok(reply) if reply.get("status").and_then(Value::as_str) == Some("ok") => Ok(()),
            Ok(reply) => Err(error_of(&reply)),
            Err(RequestFailure::NotRunning) => Err(NOT_RUNNING.into()),
            Err(RequestFailure::Full) => Err("the kernel does not read its control channel".into()),
            Err(RequestFailure::Silent) => Err(format!(
                "unsupported: the kernel did not answer within {} s",
                BIND.as_secs()
            )),
        };
        // Unless something newer has come meanwhile.
        if result.is_err() && self.spec().is_some_and(|now| Rc::ptr_eq(&now, &after)) {
            self.set_spec(before);
        }
        result
    }

    /// Sends a request of our own and waits for the content of its reply, with `idle` also for the kernel to be done.
    pub(crate) async fn ask(
        &self,
        channel: Channel,
        msg_type: &str,
        content: &Value,
        idle: bool,
        patience: Duration,
    ) -> Result<Value, RequestFailure> {
        let request = build::message(self.private.session(), msg_type, None, content);
        let answer = {
            let mut outlets = self.outlets.borrow_mut();
            let outlets = outlets.as_mut().ok_or(RequestFailure::NotRunning)?;
            let answer = self.private.expect(&request, idle).ok_or(RequestFailure::Full)?;
            outlets
                .send(channel, None, &request)
                .map_err(|_| RequestFailure::Full)?;
            answer
        };
        match timeout(patience, answer).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(RequestFailure::NotRunning),
            Err(_) => Err(RequestFailure::Silent),
        }
    }

    /// A reply came after we had given up. A branch that was made all the same is ended, if it is our child.
    pub(super) fn too_late(&self, reply: &Value) {
        let pid = reply.get("pid").and_then(Value::as_i64);
        let pid = pid
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        let Some(pid) = pid else { return };
        let children = Rc::clone(&self.children);
        tracing::warn!(kernel = self.number, "a branch that came too late is ended");
        tokio::task::spawn_local(async move {
            if let Some(death) = children.reaper.adopt(pid).await {
                let _ = kill_process(pid, Signal::KILL);
                let _ = death.await;
            }
        });
    }
}

/// Text of an error reply, in one line.
pub(crate) fn error_of(reply: &Value) -> String {
    let field = |name: &str| reply.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = match (field("ename"), field("evalue")) {
        ("", "") => "the kernel's reply makes no sense".to_owned(),
        ("", value) => value.to_owned(),
        (name, value) => format!("{name}: {value}"),
    };
    text::line(&said, REASON_BYTES)
}

fn bound_spec(
    before: &KernelSpec,
    env: BTreeMap<String, String>,
    unset: &[String],
    cwd: Option<String>,
) -> KernelSpec {
    let mut spec = before.clone();
    spec.env.retain(|name, _| !unset.contains(name));
    spec.env.extend(env);
    spec.cwd = cwd.unwrap_or(spec.cwd);
    spec
}
