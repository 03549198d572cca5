use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use himalia_shim_protocol::shim_link::Accept;
use himalia_shim_protocol::{
    Command, Event, Hello, Lane, PerLane, ProtocolError, RequestId, StartFailed, ToShim, Welcome,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::kernel::{Kernel, Order};
use crate::options::Options;
use crate::outlet::Outlet;
use crate::reaper::Reaper;
use crate::signals::{Asked, Listener, Signals};
use crate::{lane, proc_tree, stats};

/// How long the end of the shim waits for the gateway to store what it has.
const FAREWELL: Duration = Duration::from_secs(2);
/// Longest grace that is honoured, milliseconds.
const GRACE_MAX_MS: u64 = 3_600_000;

/// The shim: its kernels, its reaper, its way to the gateway.
pub(crate) struct Shim {
    pub(crate) options: Rc<Options>,
    pub(crate) outlet: Rc<Outlet>,
    pub(crate) kernels: RefCell<BTreeMap<u16, Rc<Kernel>>>,
    reaper: Rc<Reaper>,
    key: String,
    cuts: PerLane<Notify>,
    connected: Cell<PerLane<bool>>,
    /// Since when no gateway is there.
    alone_since: Cell<Option<Instant>>,
    end: Notify,
    /// Grace of the end once it has begun.
    ending: Cell<Option<Duration>>,
}

/// Runs the shim to its end.
pub(crate) async fn run(options: Options, key: String, signals: Signals) -> anyhow::Result<()> {
    let options = Rc::new(options);
    let shim = Rc::new(Shim {
        outlet: Rc::new(Outlet::new(&options)),
        kernels: RefCell::default(),
        reaper: Rc::default(),
        key,
        cuts: PerLane::default(),
        connected: Cell::default(),
        alone_since: Cell::new(Some(Instant::now())),
        end: Notify::new(),
        ending: Cell::new(None),
        options,
    });
    tokio::task::spawn_local(Rc::clone(&shim).signals(signals.listen()?));
    for lane in Lane::ALL {
        tokio::task::spawn_local(lane::run(Rc::clone(&shim), lane));
    }
    tokio::task::spawn_local(stats::run(Rc::clone(&shim)));
    tokio::task::spawn_local(Rc::clone(&shim).orphan());
    tracing::info!(pid = std::process::id(), "ready");
    shim.end.notified().await;
    shim.stop_all().await;
    if let Err(error) = std::fs::remove_dir_all(&shim.options.runtime_dir) {
        tracing::info!("{} stays: {error}", shim.options.runtime_dir.display());
    }
    Ok(())
}

impl Shim {
    /// Reaps children and listens to whoever may end the shim.
    async fn signals(self: Rc<Self>, mut listener: Listener) {
        // Children may have ended before the signals were blocked (the shim can be exec'ed by their parent).
        self.reaper.reap();
        loop {
            match listener.next().await {
                Ok(asked) => {
                    for asked in asked {
                        match asked {
                            Asked::Reap => self.reaper.reap(),
                            Asked::Terminate => {
                                self.begin_end(
                                    "terminated",
                                    Duration::from_millis(self.options.stop_grace_ms),
                                );
                            }
                        }
                    }
                }
                Err(error) => {
                    tracing::error!("signals: {error}");
                    sleep(Duration::from_millis(100)).await;
                    self.reaper.reap();
                }
            }
        }
    }

    /// Ends the shim when no gateway was there for the configured time.
    async fn orphan(self: Rc<Self>) {
        let ttl = Duration::from_secs(self.options.orphan_ttl);
        if ttl.is_zero() {
            return;
        }
        loop {
            let left = match self.alone_since.get() {
                Some(since) => ttl.saturating_sub(since.elapsed()),
                None => ttl,
            };
            if left.is_zero() {
                self.begin_end("no gateway", Duration::from_millis(self.options.stop_grace_ms));
                return;
            }
            sleep(left).await;
        }
    }

    fn begin_end(&self, reason: &str, grace: Duration) {
        if self.ending.get().is_none_or(|before| grace < before) {
            tracing::info!("ending: {reason}");
            self.ending.set(Some(grace));
            self.end.notify_one();
        }
    }

    /// Stops every kernel, then whatever is left below the shim, then waits for the gateway to store it all.
    async fn stop_all(self: &Rc<Self>) {
        let grace = self.ending.get().unwrap_or_default();
        let kernels: Vec<Rc<Kernel>> = self.kernels.borrow().values().cloned().collect();
        let mut stops = Vec::new();
        for kernel in kernels {
            let (done, wait) = tokio::sync::oneshot::channel();
            kernel.order(Order::Stop {
                request: None,
                grace,
                done: Some(done),
            });
            stops.push(wait);
        }
        for stop in stops {
            let mut stop = stop;
            loop {
                tokio::select! {
                    _ = &mut stop => break,
                    // Asked again with less grace: the kernels hear it too.
                    () = self.end.notified() => {
                        let grace = self.ending.get().unwrap_or_default();
                        for kernel in self.kernels.borrow().values() {
                            kernel.order(Order::Stop { request: None, grace, done: None });
                        }
                    }
                }
            }
        }
        self.kill_rest().await;
        let drained = async {
            while self.alone_since.get().is_none() && !self.outlet.link(|link| link.is_drained()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(FAREWELL, drained).await.is_err() {
            tracing::info!("the gateway has not stored everything");
        }
    }

    async fn kill_rest(&self) {
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let (killed, left) = proc_tree::sweep(|| proc_tree::below(own, &HashSet::new())).await;
        if killed + left > 0 {
            tracing::info!(killed, left, "processes without a kernel");
        }
    }

    pub(crate) fn hello(&self, lane: Lane) -> Hello {
        let pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        self.outlet
            .link(|link| link.hello(lane, &self.key, env!("CARGO_PKG_VERSION"), pid))
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
                    kernel.send(lane, request, &frame);
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
            self.outlet.add_kernel(kernel)?;
            let made = Kernel::spawn(
                kernel,
                &self.options,
                Rc::clone(&self.outlet),
                Rc::clone(&self.reaper),
            );
            self.kernels.borrow_mut().insert(kernel, made);
        }
        let Accept::New(request) = self.accept(Lane::Now, kernel, number)? else {
            return Ok(());
        };
        if let Command::Shutdown(stop) = command {
            self.begin_end("asked by the gateway", grace(stop.grace_ms));
            return Ok(());
        }
        let Some(target) = self.kernel(kernel) else {
            self.outlet
                .refuse(kernel, Lane::Now, request, "kernel 0 is the shim itself");
            return Ok(());
        };
        match command {
            Command::Start(_) | Command::Restart(_) if self.ending.get().is_some() => {
                self.start_failed(kernel, request, "the shim is ending");
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
            Command::Shutdown(_) => {}
        }
        Ok(())
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
