//! Commands of the gateway for a link and its kernels.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use himalia_shim_protocol::shim_link::Accept;
use himalia_shim_protocol::{
    AddLink, Command, Event, Lane, LinkAdded, Open, ProtocolError, RefusalKind, RequestId, StartFailed,
    StreamFailure, StreamTask, ToShim,
};

use super::{Link, own_pid};
use crate::kernel::{Kernel, Order};
use crate::{files, fork, process, work_dir};

/// Longest grace that is honoured, milliseconds.
const GRACE_MAX_MS: u64 = 3_600_000;

impl Link {
    /// Does what a frame asks for. True when it was a request.
    pub(crate) fn receive(self: &Rc<Self>, lane: Lane, packet: ToShim) -> Result<bool, ProtocolError> {
        match packet {
            ToShim::Ack {
                kernel,
                lane,
                link: last,
            } => {
                self.outlet.link(|link| link.acknowledge(kernel, lane, last))?;
                self.outlet.wake(lane);
                Ok(false)
            }
            ToShim::Command {
                kernel,
                number,
                command,
            } => {
                if lane != Lane::Now {
                    return Err(ProtocolError::State("a command on the data lane".into()));
                }
                self.command(kernel, number, command)?;
                Ok(true)
            }
            ToShim::Message {
                kernel,
                number,
                frame,
            } => {
                if let Accept::New(request) = self.accept(lane, kernel, number)?
                    && let Some(kernel) = self.kernel(kernel)
                {
                    kernel.send(lane, request, frame);
                }
                Ok(true)
            }
            ToShim::Denied(denied) => Err(ProtocolError::State(format!("denied: {}", denied.reason))),
            ToShim::Welcome(_) => Err(ProtocolError::State("a second welcome".into())),
        }
    }

    fn accept(&self, lane: Lane, kernel: u16, number: u64) -> Result<Accept, ProtocolError> {
        let accept = self.outlet.link(|link| link.accept(lane, kernel, number))?;
        if matches!(accept, Accept::NoKernel(_)) {
            tracing::warn!(kernel, number, "a request for a kernel that does not exist");
        }
        Ok(accept)
    }

    fn kernel(&self, kernel: u16) -> Option<Rc<Kernel>> {
        self.kernels.borrow().get(&kernel).cloned()
    }

    fn command(self: &Rc<Self>, kernel: u16, number: u64, command: Command) -> Result<(), ProtocolError> {
        if matches!(command, Command::Start(_)) && kernel != 0 && self.kernel(kernel).is_none() {
            self.add_kernel(kernel)?;
        }
        let Accept::New(request) = self.accept(Lane::Now, kernel, number)? else {
            return Ok(());
        };
        let refuse = |reason: &str| {
            self.outlet
                .refuse(kernel, Lane::Now, request, RefusalKind::Never, reason);
            Ok(())
        };
        match (&command, self.kernel(kernel)) {
            (Command::Shutdown(stop), _) => {
                self.shim.begin_end("asked by the gateway", grace(stop.grace_ms));
            }
            (Command::Close(stop), _) if kernel == 0 => {
                self.close("asked by the gateway", grace(stop.grace_ms));
            }
            (Command::Close(_), _) => return refuse("close is for kernel 0"),
            (_, None) => return refuse("kernel 0 is the shim itself"),
            (_, Some(target)) => self.order(&target, request, command),
        }
        Ok(())
    }

    fn order(self: &Rc<Self>, target: &Rc<Kernel>, request: RequestId, command: Command) {
        match command {
            Command::Start(_) | Command::Restart(_) if self.closing.get() || self.shim.is_ending() => {
                self.start_failed(target.number(), request, "the shim is ending");
            }
            Command::Start(mut start) => {
                for (name, value) in self.shim.options.base_env() {
                    start.spec.env.entry(name).or_insert(value);
                }
                target.order(Order::Start {
                    request,
                    spec: Rc::new(start.spec),
                });
            }
            Command::Restart(stop) => target.order(Order::Restart {
                request,
                grace: grace(stop.grace_ms),
            }),
            Command::Stop(stop) => {
                target.order(Order::Stop {
                    request: Some(request),
                    grace: grace(stop.grace_ms),
                    done: None,
                });
            }
            Command::Interrupt => target.interrupt(),
            Command::Bind(bind) => target.bind(request, *bind),
            Command::Fork(order) => {
                let (shim, link, parent) = (Rc::clone(&self.shim), Rc::clone(self), Rc::clone(target));
                tokio::task::spawn_local(fork::run(shim, link, parent, request, *order));
            }
            Command::Open(open) => self.open_stream(target, *open),
            Command::AddLink(order) => self.add_link(target.number(), request, &order),
            Command::Shutdown(_) | Command::Close(_) => {}
        }
    }

    /// Opens a link for an additional kernel, beside this one.
    fn add_link(self: &Rc<Self>, kernel: u16, request: RequestId, order: &AddLink) {
        match fork::add_link(&self.shim, self, order) {
            Ok(link) => {
                self.shim.open(&link);
                self.outlet.event(kernel, Event::LinkAdded(LinkAdded { request }));
            }
            Err(reason) => self
                .outlet
                .refuse(kernel, Lane::Now, request, RefusalKind::Never, &reason),
        }
    }

    /// Opens a stream. Whatever comes of it is said there.
    fn open_stream(self: &Rc<Self>, target: &Kernel, open: Open) {
        let hello = self.outlet.link(|link| {
            link.stream_hello(&open.stream, &self.shim.key, env!("CARGO_PKG_VERSION"), own_pid())
        });
        let refuse = |code, reason: String| {
            let (link, hello) = (Rc::clone(self), hello.clone());
            tokio::task::spawn_local(async move { files::refuse(link.connect(), hello, code, reason).await });
        };
        let Some(spec) = target.spec() else {
            return refuse(StreamFailure::Failed, "the kernel was never started".to_owned());
        };
        let work_dir = work_dir::root(&self.shim.options, self.files.as_deref(), Path::new(&spec.cwd));
        let task = match open.task {
            StreamTask::File(task) => task,
            StreamTask::Run(task) => {
                let Ok(permit) = Arc::clone(&self.shim.commands).try_acquire_owned() else {
                    return refuse(StreamFailure::Busy, "as many commands as may be run".to_owned());
                };
                let stream = process::Target {
                    gateway: self.shim.gateway.clone(),
                    link: self.name.clone(),
                    hello: hello.clone(),
                };
                let reaper = &self.shim.children.reaper;
                if let Err((code, reason)) = process::start(reaper, &spec, &work_dir, *task, stream, permit) {
                    refuse(code, reason);
                }
                return;
            }
        };
        let Ok(permit) = Arc::clone(&self.shim.streams).try_acquire_owned() else {
            return refuse(
                StreamFailure::Busy,
                "as many transfers as may be are open".to_owned(),
            );
        };
        let stream = files::Stream {
            gateway: self.shim.gateway.clone(),
            link: self.name.clone(),
            hello: hello.clone(),
            work_dir,
            task,
            absolute: open.absolute,
        };
        if let Err(error) = stream.spawn(permit) {
            refuse(
                StreamFailure::Busy,
                format!("the sandbox has no thread for it: {error}"),
            );
        }
    }

    fn start_failed(&self, kernel: u16, request: RequestId, reason: &str) {
        let failed = StartFailed {
            reason: reason.to_owned(),
            stderr: String::new(),
            request,
        };
        self.outlet.event(kernel, Event::StartFailed(failed));
    }
}

fn grace(ms: u64) -> Duration {
    Duration::from_millis(ms.min(GRACE_MAX_MS))
}
