use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use himalia_link::{FIRST_LINK, Gateway};
use himalia_shim_protocol::Lane;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::children::Children;
use crate::files::STREAMS_MAX;
use crate::kernel::{Kernel, Order};
use crate::linger::Linger;
use crate::link::Link;
use crate::memory::OomKills;
use crate::network::Network;
use crate::options::{InheritedResources, Options};
use crate::process::PROCESSES_MAX;
use crate::signals::{Listener, SignalRequest, Signals};
use crate::zygote::Zygote;
use crate::{proc_tree, stats};

/// Longest wait for the gateway to store all data at the end of the shim or of a link.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(2);
/// Most links, the first one and branches in the making included.
const LINKS_MAX: usize = 64;

/// Dials one lane of a link for ever, in a task.
pub(crate) type Dial = fn(Rc<Link>, Lane) -> AbortHandle;

/// The shim: its links, its children, its end.
#[derive(Debug)]
pub(crate) struct Shim {
    pub(crate) options: Options,
    pub(crate) children: Rc<Children>,
    pub(crate) key: String,
    pub(crate) gateway: Gateway,
    pub(crate) linger: Arc<Linger>,
    pub(crate) dial: Dial,
    links: RefCell<Vec<Rc<Link>>>,
    /// Names of all links, those of branches in the making included.
    names: RefCell<BTreeSet<String>>,
    /// Branches that were ever begun.
    branches: Cell<u32>,
    /// One copy of files at a time.
    pub(crate) copying: Semaphore,
    /// Places for streams.
    pub(crate) streams: Arc<Semaphore>,
    /// Network of the sandbox, if it has one.
    pub(crate) network: Option<Network>,
    /// Places for commands.
    pub(crate) commands: Arc<Semaphore>,
    /// Set when copying must end.
    pub(crate) cancel: Arc<AtomicBool>,
    end: Notify,
    /// Grace of the end once it has begun.
    ending: Cell<Option<Duration>>,
}

/// Runs the shim to its end.
pub(crate) async fn run(
    options: Options,
    inherited: InheritedResources,
    gateway: Gateway,
    signals: Signals,
    linger: Arc<Linger>,
    dial: Dial,
) -> anyhow::Result<()> {
    let zygote = inherited.zygote.map(Zygote::new).transpose()?;
    let network = options.network.then(|| Network::start(&gateway, &inherited.key));
    let network = network.transpose().context("the proxy of the sandbox")?;
    let shim = Rc::new(Shim {
        children: Rc::new(Children {
            zygote,
            oom_kills: if options.count_oom {
                OomKills::counted()
            } else {
                OomKills::default()
            },
            ..Children::default()
        }),
        key: inherited.key,
        gateway,
        linger,
        dial,
        links: RefCell::default(),
        names: RefCell::default(),
        branches: Cell::new(0),
        copying: Semaphore::new(1),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        commands: Arc::new(Semaphore::new(PROCESSES_MAX)),
        cancel: Arc::default(),
        network,
        end: Notify::new(),
        ending: Cell::new(None),
        options,
    });
    tokio::task::spawn_local(Rc::clone(&shim).signals(signals.listen()?));
    let served = Rc::clone(&shim);
    tokio::task::spawn_local(async move {
        if let Err(error) = served.gateway.serve().await {
            tracing::error!("the gateway cannot call: {error}");
        }
    });
    shim.names.borrow_mut().insert(FIRST_LINK.to_owned());
    let first = Link::new(Rc::clone(&shim), FIRST_LINK.to_owned(), None, None);
    shim.open(&first);
    let sampled = Rc::clone(&shim);
    tokio::task::spawn_local(stats::run(move || {
        sampled.children.oom_kills.look();
        sampled.kernels()
    }));
    tracing::info!(pid = std::process::id(), "ready");
    shim.end.notified().await;
    shim.stop_all().await;
    // Here, since nothing that is dropped later can count on its task.
    for files in shim.links.borrow().iter().filter_map(|link| link.files()) {
        files.remove_now();
    }
    if let Err(error) = std::fs::remove_dir_all(&shim.options.runtime_dir) {
        tracing::info!("{} stays: {error}", shim.options.runtime_dir.display());
    }
    Ok(())
}

impl Shim {
    /// Reaps children and listens to everything that may end the shim.
    async fn signals(self: Rc<Self>, mut listener: Listener) {
        let reaper = &self.children.reaper;
        // Children may have ended before the signals were blocked (the shim can be exec'ed by their parent).
        reaper.reap();
        loop {
            match listener.next().await {
                Ok(asked) => {
                    for asked in asked {
                        match asked {
                            SignalRequest::Reap => reaper.reap(),
                            SignalRequest::Terminate => self.begin_end("terminated", self.stop_grace()),
                        }
                    }
                }
                Err(error) => {
                    tracing::error!("signals: {error}");
                    sleep(Duration::from_millis(100)).await;
                    reaper.reap();
                }
            }
        }
    }

    /// Default time for an orderly end of kernels.
    pub(crate) fn stop_grace(&self) -> Duration {
        Duration::from_millis(self.options.stop_grace_ms)
    }

    /// Lets a link dial.
    pub(crate) fn open(&self, link: &Rc<Link>) {
        self.links.borrow_mut().push(Rc::clone(link));
        self.name_link();
        link.dial();
    }

    /// The oldest link carries the network.
    fn name_link(&self) {
        if let Some(network) = &self.network {
            network.set_link(self.links.borrow().first().map(|link| link.name()));
        }
    }

    /// A link was given up. The shim ends with the last one.
    pub(crate) fn closed(&self, link: &Rc<Link>) {
        self.links.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
        self.name_link();
        self.release_name(link.name());
        if self.links.borrow().is_empty() {
            self.begin_end("the last link is closed", Duration::ZERO);
        }
    }

    /// All kernels of all links.
    pub(crate) fn kernels(&self) -> Vec<Rc<Kernel>> {
        let links = self.links.borrow();
        links.iter().flat_map(|link| link.kernels()).collect()
    }

    /// Takes a name for a new link. False when another link has it.
    pub(crate) fn reserve_name(&self, name: &str) -> bool {
        self.names.borrow_mut().insert(name.to_owned())
    }

    /// Is there no room for another link?
    pub(crate) fn is_full(&self) -> bool {
        self.names.borrow().len() >= LINKS_MAX
    }

    pub(crate) fn release_name(&self, name: &str) {
        self.names.borrow_mut().remove(name);
    }

    /// The number of a new branch, in names of directories: 2, 3, … (the first link is 1).
    pub(crate) fn next_branch(&self) -> u32 {
        self.branches.set(self.branches.get().saturating_add(1));
        self.branches.get().saturating_add(1)
    }

    /// Has the end begun?
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get().is_some()
    }

    pub(crate) fn begin_end(&self, reason: &str, grace: Duration) {
        if self.ending.get().is_none_or(|before| grace < before) {
            tracing::info!("ending: {reason}");
            self.cancel.store(true, Ordering::Relaxed);
            self.ending.set(Some(grace));
            self.end.notify_one();
        }
    }

    /// Stops every kernel, then whatever is left below the shim, then waits for the gateway to store it all.
    async fn stop_all(self: &Rc<Self>) {
        let grace = self.ending.get().unwrap_or_default();
        let stops: Vec<_> = self.kernels().iter().map(|kernel| kernel.stop(grace)).collect();
        for stop in stops {
            let mut stop = stop;
            loop {
                tokio::select! {
                    _ = &mut stop => break,
                    // Asked again with less grace: the kernels hear it too.
                    () = self.end.notified() => {
                        let grace = self.ending.get().unwrap_or_default();
                        for kernel in self.kernels() {
                            kernel.order(Order::Stop { request: None, grace, done: None });
                        }
                    }
                }
            }
        }
        self.kill_rest().await;
        let drained = async {
            while self.links.borrow().iter().any(|link| link.has_more()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(DRAIN_TIME, drained).await.is_err() {
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
}
