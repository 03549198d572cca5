mod commands;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use himalia_link::{ListeningSocket, Socket};
use himalia_shim_protocol::{Hello, Lane, PerLane, ProtocolError, Welcome};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::coalesce::COALESCE_WINDOW;
use crate::kernel::{Kernel, Order};
use crate::linger::Linger;
use crate::outlet::Outlet;
use crate::shim::{DRAIN_TIME, Shim};
use crate::work_dir::WorkCopy;

/// Interval in which a connected shim checks for another listening gateway. A check is one system call.
const LOOK_EVERY: Duration = Duration::from_secs(2);

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
            tasks.push((self.shim.dial)(Rc::clone(self), lane));
        }
        tasks.push(tokio::task::spawn_local(Rc::clone(self).orphan()).abort_handle());
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One more connection to the gateway.
    pub(crate) async fn connect(&self) -> io::Result<Socket> {
        self.shim.gateway.connect(&self.name).await
    }

    /// Socket to which the link would connect.
    pub(crate) fn listening(&self) -> Option<ListeningSocket> {
        self.shim.gateway.listening(&self.name)
    }

    /// Waits until another gateway listens than the one that was connected to. That one may be paused, and its connection stays open.
    pub(crate) async fn another_listens(&self, connected_to: Option<ListeningSocket>) {
        if connected_to.is_none() {
            return pending().await;
        }
        loop {
            sleep(LOOK_EVERY).await;
            if self.listening().is_some_and(|found| Some(found) != connected_to) {
                return;
            }
        }
    }

    /// Position of the lanes among the urgent sockets.
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
            if timeout(DRAIN_TIME, drained).await.is_err() {
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
        if let Some(network) = &self.shim.network {
            network.saw_epoch(welcome.epoch);
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
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}
