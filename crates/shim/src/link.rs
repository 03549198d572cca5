use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use himalia_link::Socket;
use himalia_shim_protocol::shim_link::Accept;
use himalia_shim_protocol::{
    AddLink, Command, Event, Hello, Lane, LinkAdded, Open, PerLane, ProtocolError, RefusalKind, RequestId,
    StartFailed, StreamFailure, ToShim, Welcome,
};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::coalesce::COALESCE_WINDOW;
use crate::kernel::{Kernel, Order};
use crate::linger::Linger;
use crate::outlet::Outlet;
use crate::shim::{FAREWELL, Shim};
use crate::work_dir::{self, WorkCopy};
use crate::{files, fork, lane};

/// Longest grace that is honoured, milliseconds.
const GRACE_MAX_MS: u64 = 3_600_000;

/// One way to the gateway, with the kernels that belong to it: the first link has those that the gateway starts, each
/// other one has a branch or an additional kernel.
#[derive(Debug)]
pub(crate) struct Link {
    shim: Rc<Shim>,
    name: String,
    /// The number of its branch or additional kernel; absent for the first link.
    branch: Option<u32>,
    /// The files of its branch, when they are a copy.
    files: Option<Rc<WorkCopy>>,
    pub(crate) outlet: Rc<Outlet>,
    kernels: RefCell<BTreeMap<u16, Rc<Kernel>>>,
    cuts: PerLane<Notify>,
    connected: Cell<PerLane<bool>>,
    /// Since when no gateway is there.
    alone_since: Cell<Option<Instant>>,
    closing: Cell<bool>,
    tasks: RefCell<Vec<AbortHandle>>,
}

impl Link {
    /// A link that does not dial yet.
    pub(crate) fn new(
        shim: Rc<Shim>,
        name: String,
        branch: Option<u32>,
        files: Option<Rc<WorkCopy>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            outlet: Rc::new(Outlet::new(&shim.options)),
            shim,
            name,
            branch,
            files,
            kernels: RefCell::default(),
            cuts: PerLane::default(),
            connected: Cell::default(),
            alone_since: Cell::new(Some(Instant::now())),
            closing: Cell::new(false),
            tasks: RefCell::default(),
        })
    }

    /// Dials from now on, and counts the time without a gateway.
    pub(crate) fn dial(self: &Rc<Self>) {
        let mut tasks = self.tasks.borrow_mut();
        for lane in Lane::ALL {
            tasks.push(tokio::task::spawn_local(lane::run(Rc::clone(self), lane)).abort_handle());
        }
        tasks.push(tokio::task::spawn_local(Rc::clone(self).orphan()).abort_handle());
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One more connection to the gateway.
    pub(crate) async fn connect(&self) -> io::Result<Socket> {
        self.shim.options.gateway.connect(&self.name).await
    }

    /// Where its lanes are among the urgent sockets.
    pub(crate) fn linger(&self) -> &Linger {
        &self.shim.linger
    }

    /// The files of its branch, when they are a copy.
    pub(crate) fn files(&self) -> Option<&Rc<WorkCopy>> {
        self.files.as_ref()
    }

    /// Was it asked to close?
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// All its kernels.
    pub(crate) fn kernels(&self) -> Vec<Rc<Kernel>> {
        self.kernels.borrow().values().cloned().collect()
    }

    /// Is something kept for a gateway that is there?
    pub(crate) fn has_more(&self) -> bool {
        self.alone_since.get().is_none() && !self.outlet.link(|link| link.is_drained())
    }

    /// Ends the link when no gateway was there for the configured time.
    async fn orphan(self: Rc<Self>) {
        let ttl = Duration::from_secs(self.shim.options.orphan_ttl);
        if ttl.is_zero() {
            return;
        }
        loop {
            let left = match self.alone_since.get() {
                Some(since) => ttl.saturating_sub(since.elapsed()),
                None => ttl,
            };
            if left.is_zero() {
                self.close("no gateway", self.shim.stop_grace());
                return;
            }
            sleep(left).await;
        }
    }

    /// Stops the kernels and gives the link up. Asked again, it only shortens the grace.
    fn close(self: &Rc<Self>, reason: &str, grace: Duration) {
        let stops: Vec<_> = self.kernels().iter().map(|kernel| kernel.stop(grace)).collect();
        if self.closing.replace(true) {
            return;
        }
        tracing::info!(link = self.name, "closing the link: {reason}");
        let link = Rc::clone(self);
        tokio::task::spawn_local(async move {
            for stop in stops {
                let _ = stop.await;
            }
            let drained = async {
                while link.has_more() {
                    sleep(Duration::from_millis(10)).await;
                }
                // The lanes' turn to tell what was accepted.
                sleep(2 * COALESCE_WINDOW).await;
            };
            if timeout(FAREWELL, drained).await.is_err() {
                tracing::info!(link = link.name, "the gateway has not stored everything");
            }
            for task in link.tasks.take() {
                task.abort();
            }
            link.forget_kernels();
            link.shim.closed(&link);
        });
    }

    /// Lets the actors of stopped kernels end.
    pub(crate) fn forget_kernels(&self) {
        for kernel in self.kernels.take().into_values() {
            kernel.order(Order::End);
        }
    }

    pub(crate) fn hello(&self, lane: Lane) -> Hello {
        let key = &self.shim.key;
        self.outlet
            .link(|link| link.hello(lane, key, env!("CARGO_PKG_VERSION"), own_pid()))
    }

    pub(crate) fn welcomed(&self, lane: Lane, welcome: &Welcome) -> Result<(), ProtocolError> {
        if self.outlet.link(|link| link.welcome(lane, welcome))? {
            let other = if lane == Lane::Now { Lane::Data } else { Lane::Now };
            self.cuts[other].notify_one();
        }
        let mut connected = self.connected.get();
        connected[lane] = true;
        self.connected.set(connected);
        self.alone_since.set(None);
        if lane == Lane::Now {
            self.outlet.clear_transient();
        }
        Ok(())
    }

    pub(crate) fn lane_lost(&self, lane: Lane) {
        self.outlet.link(|link| link.disconnected(lane));
        let mut connected = self.connected.get();
        connected[lane] = false;
        self.connected.set(connected);
        if !connected.now && !connected.data && self.alone_since.get().is_none() {
            self.alone_since.set(Some(Instant::now()));
        }
    }

    /// Waits for the order to close a lane.
    pub(crate) async fn cut(&self, lane: Lane) {
        self.cuts[lane].notified().await;
    }

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

    /// Makes room for a kernel; it has no process yet.
    pub(crate) fn add_kernel(&self, number: u16) -> Result<Rc<Kernel>, ProtocolError> {
        let name = match self.branch {
            None => number.to_string(),
            Some(branch) if number == 1 => format!("b{branch}"),
            Some(branch) => format!("b{branch}-{number}"),
        };
        let made = Kernel::spawn(
            number,
            self.shim.options.runtime_dir.join(name),
            Rc::clone(&self.outlet),
            Rc::clone(&self.shim.children),
            Arc::clone(&self.shim.linger),
        )
        .map_err(|error| ProtocolError::State(format!("no random numbers: {error}")))?;
        if let Err(error) = self.outlet.add_kernel(number) {
            made.order(Order::End);
            return Err(error);
        }
        self.kernels.borrow_mut().insert(number, Rc::clone(&made));
        Ok(made)
    }

    fn command(self: &Rc<Self>, kernel: u16, number: u64, command: Command) -> Result<(), ProtocolError> {
        if matches!(command, Command::Start(_)) && kernel != 0 && self.kernel(kernel).is_none() {
            self.add_kernel(kernel)?;
        }
        let Accept::New(request) = self.accept(Lane::Now, kernel, number)? else {
            return Ok(());
        };
        let kind = command.kind();
        let refuse = |reason: &str| {
            self.outlet
                .refuse(kernel, Lane::Now, request, RefusalKind::Never, reason);
            Ok(())
        };
        let speaks = self
            .outlet
            .link(|link| link.protocol(Lane::Now))
            .unwrap_or_default();
        if kind.since() > speaks {
            let since = kind.since();
            let reason = format!(
                "{} is of version {since}, this connection has {speaks}",
                kind.as_str()
            );
            return refuse(&reason);
        }
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
            Command::Start(start) => target.order(Order::Start {
                request,
                spec: Rc::new(start.spec),
            }),
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
        let Ok(permit) = Arc::clone(&self.shim.streams).try_acquire_owned() else {
            return refuse(
                StreamFailure::Busy,
                "as many transfers as may be are open".to_owned(),
            );
        };
        let stream = files::Stream {
            gateway: self.shim.options.gateway.clone(),
            link: self.name.clone(),
            hello: hello.clone(),
            work_dir: work_dir::root(&self.shim.options, self.files.as_deref(), Path::new(&spec.cwd)),
            task: open.task,
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

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

fn grace(ms: u64) -> Duration {
    Duration::from_millis(ms.min(GRACE_MAX_MS))
}
