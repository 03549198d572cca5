use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use himalia_shim_protocol::shim_link::ProcessView;
use himalia_shim_protocol::{
    Cause, Event, KernelExited, KernelSpec, KernelStarted, KernelState, RequestId, StartFailed, StartPath,
    Usage,
};
use himalia_wire::ConnectionFile;
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::output::Tail;
use super::private::Private;
use super::session::{self, Flow};
use super::{Adoption, Kernel, Order, process};
use crate::children::Children;
use crate::linger::Linger;
use crate::outlet::Outlet;
use crate::reaper::Death;
use crate::shared_memory;

/// Orders that wait for a kernel's actor.
const ORDERS_MAX: usize = 256;
/// A killed process is gone by then, unless the host is in trouble.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// Does a kernel's orders one after the other and notices its death.
pub(super) struct Actor {
    pub(super) kernel: Rc<Kernel>,
    pub(super) inbox: mpsc::Receiver<Order>,
    /// Orders that came while another one was under way.
    pub(super) backlog: VecDeque<Order>,
    pub(super) running: Option<RunningProcess>,
    file: Option<ConnectionFile>,
    incarnation: u32,
    /// Process, group and session of the present or last incarnation.
    pub(super) last_pid: i32,
}

/// One incarnation.
pub(super) struct RunningProcess {
    pub(super) pid: Pid,
    pub(super) death: oneshot::Receiver<Death>,
    /// Ends with a reason when the sockets are of no use.
    session: JoinHandle<String>,
    flow: Rc<Flow>,
}

/// A process that was just started.
struct StartedProcess {
    pid: Pid,
    death: oneshot::Receiver<Death>,
    path: StartPath,
}

impl Kernel {
    /// Makes a kernel without a process and starts its actor. `dir` is for its sockets and connection file.
    pub(crate) fn spawn(
        number: u16,
        dir: PathBuf,
        outlet: Rc<Outlet>,
        children: Rc<Children>,
        linger: Arc<Linger>,
    ) -> io::Result<Rc<Self>> {
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let kernel = Rc::new(Self {
            number,
            outlet,
            view: Cell::default(),
            pid: Cell::new(None),
            interrupt_mode: Cell::default(),
            outlets: RefCell::default(),
            waiting: RefCell::default(),
            starting: Cell::new(0),
            echoes: Cell::new(None),
            max_rss: Cell::new(0),
            spec: RefCell::default(),
            tail: RefCell::default(),
            private: Private::new()?,
            muted: Cell::new(false),
            busy: Cell::new(false),
            changed: Notify::new(),
            forking: tokio::sync::Mutex::default(),
            children,
            linger,
            orders,
            dir,
        });
        tokio::task::spawn_local(run(Rc::clone(&kernel), inbox));
        Ok(kernel)
    }
}

/// Starts nothing by itself: the first order is a start.
async fn run(kernel: Rc<Kernel>, inbox: mpsc::Receiver<Order>) {
    let mut actor = Actor {
        kernel,
        inbox,
        backlog: VecDeque::new(),
        running: None,
        file: None,
        incarnation: 0,
        last_pid: 0,
    };
    while actor.step().await {}
}

enum Next {
    Order(Option<Order>),
    Died(Death),
    Broken(String),
}

impl Actor {
    /// One order or one death. False when no orders can come any more.
    async fn step(&mut self) -> bool {
        let next = match (self.backlog.pop_front(), &mut self.running) {
            (Some(order), _) => Next::Order(Some(order)),
            (None, None) => Next::Order(self.inbox.recv().await),
            (None, Some(running)) => tokio::select! {
                biased;
                death = &mut running.death => Next::Died(death.unwrap_or(UNKNOWN)),
                reason = &mut running.session => Next::Broken(reason.unwrap_or_else(|error| error.to_string())),
                order = self.inbox.recv() => Next::Order(order),
            },
        };
        match next {
            Next::Order(None | Some(Order::End)) => return false,
            Next::Order(Some(Order::Adopt(adoption))) => self.adopt(*adoption),
            Next::Order(Some(Order::Start { request, spec })) => {
                if self.running.is_some() {
                    self.start_failed(request, "the kernel is running", String::new());
                } else {
                    self.kernel.set_spec(spec);
                    self.start(request).await;
                }
                self.kernel.start_is_done();
            }
            Next::Order(Some(Order::Stop { request, grace, done })) => {
                self.stop(grace, false).await;
                self.stopped(request).await;
                // Who waits for it may have given up.
                if let Some(done) = done {
                    let _ = done.send(());
                }
            }
            Next::Order(Some(Order::Restart { request, grace })) => {
                self.stop(grace, true).await;
                self.start(request).await;
                self.kernel.start_is_done();
            }
            Next::Died(death) => self.exited(death, false, String::new()).await,
            Next::Broken(reason) => self.give_up(reason).await,
        }
        true
    }

    /// The sockets failed: the process is killed and the death says why.
    async fn give_up(&mut self, reason: String) {
        tracing::warn!(kernel = self.kernel.number, "the kernel is given up: {reason}");
        self.kernel.signal(Signal::KILL);
        if let Some(running) = &mut self.running {
            let death = timeout(AFTER_KILL, &mut running.death).await;
            let cpu_ms = death.ok().and_then(Result::ok).and_then(|death| death.cpu_ms);
            self.exited(
                Death {
                    cause: Cause::ProtocolAbort,
                    cpu_ms,
                },
                false,
                reason,
            )
            .await;
        }
    }

    /// Starts the next incarnation from the kept specification.
    async fn start(&mut self, request: RequestId) {
        let Some(spec) = self.kernel.spec() else {
            return self.start_failed(request, "it was never started", String::new());
        };
        if self.incarnation > 0 {
            // What an earlier incarnation left behind.
            self.sweep().await;
            shared_memory::remove_unused();
        }
        let tail = Tail::default();
        let file = match process::prepare(&self.kernel.dir, &spec, self.file.take()) {
            Ok(file) => file,
            Err(reason) => return self.start_failed(request, &reason, String::new()),
        };
        self.file = Some(file.clone());
        let begun = match self.begin(&spec, &tail).await {
            Ok(begun) => begun,
            Err(reason) => return self.start_failed(request, &reason, tail.text()),
        };
        let (pid, path) = (begun.pid.as_raw_nonzero().get(), begun.path);
        let patience = Duration::from_millis(spec.connect_ms);
        let start_ms = self.runs(begun.pid, begun.death, &spec, file, tail, patience);
        let incarnation = self.incarnation;
        let started = KernelStarted {
            pid,
            incarnation,
            start_ms,
            request,
            path,
        };
        let kernel = &self.kernel;
        kernel.outlet.event(kernel.number, Event::Started(started));
        tracing::info!(kernel = kernel.number, pid, incarnation, ?path, "started");
    }

    /// Has the zygote fork the kernel if that is wanted, else, or if it fails, executes the program.
    async fn begin(&self, spec: &KernelSpec, tail: &Tail) -> Result<StartedProcess, String> {
        let kernel = &self.kernel;
        let reaper = &kernel.children.reaper;
        if let Some(zygote) = kernel.children.zygote.as_ref().filter(|_| spec.via_zygote) {
            match process::fork(zygote, reaper, &kernel.dir, spec, tail).await {
                Ok((pid, death)) => {
                    let path = StartPath::Zygote;
                    return Ok(StartedProcess { pid, death, path });
                }
                Err(reason) => {
                    tracing::warn!(kernel = kernel.number, "started without the zygote: {reason}");
                }
            }
        }
        let spawned = process::spawn(&kernel.dir, spec).map_err(|error| format!("fork: {error}"))?;
        let pid = spawned.pid;
        let mut death = reaper.watch(pid);
        if let Err(reason) = spawned.executed(tail).await {
            kernel.pid.set(Some(pid));
            kernel.signal(Signal::KILL);
            kernel.pid.set(None);
            let _ = timeout(AFTER_KILL, &mut death).await;
            return Err(reason);
        }
        let path = StartPath::Cold;
        Ok(StartedProcess { pid, death, path })
    }

    /// Continues with a branch that its parent has forked.
    fn adopt(&mut self, adoption: Adoption) {
        let Adoption {
            spec,
            file,
            pid,
            death,
            parent,
            patience,
        } = adoption;
        let tail = parent.tail.borrow().clone();
        self.kernel.set_spec(Rc::clone(&spec));
        self.file = Some(file.clone());
        self.runs(pid, death, &spec, file, tail, patience);
    }

    /// A process of the next incarnation runs: its sockets are connected from now on. Gives the time of its start.
    fn runs(
        &mut self,
        pid: Pid,
        death: oneshot::Receiver<Death>,
        spec: &KernelSpec,
        file: ConnectionFile,
        tail: Tail,
        patience: Duration,
    ) -> u64 {
        let kernel = Rc::clone(&self.kernel);
        self.incarnation = self.incarnation.saturating_add(1);
        self.last_pid = pid.as_raw_nonzero().get();
        kernel.pid.set(Some(pid));
        kernel.interrupt_mode.set(spec.interrupt_mode);
        kernel.echoes.set(None);
        kernel.busy.set(false);
        kernel.max_rss.set(0);
        *kernel.tail.borrow_mut() = tail;
        let start_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis();
        let start_ms = u64::try_from(start_ms).unwrap_or(u64::MAX);
        kernel.set_view(ProcessView {
            incarnation: self.incarnation,
            pid: Some(self.last_pid),
            state: KernelState::Connecting,
            start_ms,
            alive: true,
        });
        let flow = Flow::new();
        let session = session::run(kernel, file, self.incarnation, patience, Rc::clone(&flow));
        let session = tokio::task::spawn_local(session);
        self.running = Some(RunningProcess {
            pid,
            death,
            session,
            flow,
        });
        start_ms
    }

    fn start_failed(&self, request: RequestId, reason: &str, stderr: String) {
        tracing::warn!(kernel = self.kernel.number, "start failed: {reason}");
        // The reason may quote a program name of any length.
        let reason = reason.chars().take(2000).collect();
        let failed = StartFailed {
            reason,
            stderr,
            request,
        };
        self.kernel
            .outlet
            .event(self.kernel.number, Event::StartFailed(failed));
    }

    /// Takes in the death of the process: last output first, then the event.
    pub(super) async fn exited(&mut self, death: Death, asked: bool, detail: String) {
        let Some(running) = self.running.take() else {
            return;
        };
        running.flow.drained().await;
        running.session.abort();
        let kernel = &self.kernel;
        kernel.gone();
        let view = kernel.view.get();
        kernel.set_view(ProcessView {
            pid: None,
            state: KernelState::Exited,
            ..view
        });
        let usage = death.cpu_ms.map(|cpu_ms| Usage {
            cpu_ms,
            max_rss: kernel.max_rss.get(),
        });
        let detail = if detail.is_empty() {
            shared_memory::explanation(death.cause).unwrap_or_default()
        } else {
            detail
        };
        let exited = KernelExited {
            incarnation: self.incarnation,
            pid: running.pid.as_raw_nonzero().get(),
            cause: death.cause,
            asked,
            detail,
            stderr_tail: kernel.tail.borrow().text(),
            last_data: 0,
            usage,
            out_of_memory: kernel.children.oom_kills.have_grown(),
        };
        tracing::info!(kernel = kernel.number, cause = ?death.cause, asked, "exited");
        kernel.outlet.event(kernel.number, Event::Exited(exited));
    }

    pub(super) fn incarnation(&self) -> u32 {
        self.incarnation
    }
}

/// When the reaper could not tell.
pub(super) const UNKNOWN: Death = Death {
    cause: Cause::Unknown,
    cpu_ms: None,
};
