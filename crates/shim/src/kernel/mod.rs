//! One kernel: its process, its sockets, and what is asked of it.

mod actor;
mod asking;
mod connection;
mod heartbeat;
mod output;
mod private;
mod process;
mod reader;
mod sending;
mod session;
mod sockets;
mod stop;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use himalia_shim_protocol::shim_link::ProcessView;
use himalia_shim_protocol::{InterruptMode, KernelSpec, KernelState, Lane, RefusalKind, RequestId, Stats};
use himalia_wire::{Channel, ConnectionFile, Parts};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::children::Children;
use crate::linger::Linger;
use crate::outlet::Outlet;
use crate::reaper::Death;
use output::Tail;
use private::Private;
use sending::WaitingMessage;
use sockets::Outlets;

pub(crate) use asking::{RequestFailure, error_of};
pub(crate) use process::{own_program, prepare, send_plan};

/// Order for the actor, which executes them in sequence.
#[derive(Debug)]
pub(crate) enum Order {
    Start {
        request: RequestId,
        spec: Rc<KernelSpec>,
    },
    /// Stop it and everything below it.
    Stop {
        request: Option<RequestId>,
        grace: Duration,
        done: Option<oneshot::Sender<()>>,
    },
    /// Stop it, then start it again.
    Restart { request: RequestId, grace: Duration },
    /// Continue with a process that exists: a branch.
    Adopt(Box<Adoption>),
    /// No more orders follow.
    End,
}

/// A branch's process, for its kernel.
#[derive(Debug)]
pub(crate) struct Adoption {
    /// Specification for a restart.
    pub(crate) spec: Rc<KernelSpec>,
    /// Connection file with the kernel's addresses.
    pub(crate) file: ConnectionFile,
    pub(crate) pid: Pid,
    /// End of the process.
    pub(crate) death: oneshot::Receiver<Death>,
    /// The parent, whose standard output it shares.
    pub(crate) parent: Rc<Kernel>,
    /// For its sockets to be ready.
    pub(crate) patience: Duration,
}

/// One kernel, as everybody but its actor sees it.
#[derive(Debug)]
pub(crate) struct Kernel {
    number: u16,
    outlet: Rc<Outlet>,
    view: Cell<ProcessView>,
    /// Set while the process can be signalled as a group.
    pid: Cell<Option<Pid>>,
    interrupt_mode: Cell<InterruptMode>,
    /// The sending halves, while the sockets are connected.
    outlets: RefCell<Option<Outlets>>,
    waiting: RefCell<Vec<WaitingMessage>>,
    /// Starts that are ordered and not done: messages wait for them.
    starting: Cell<u32>,
    /// Does it echo identity frames? Not known before its first reply.
    echoes: Cell<Option<bool>>,
    max_rss: Cell<u64>,
    /// Specification of the last start, or of the next one.
    spec: RefCell<Option<Rc<KernelSpec>>>,
    /// Last output of the present process on standard output and error.
    tail: RefCell<Tail>,
    private: Private,
    /// True if no message goes to the gateway: a branch that is not yet known to work.
    muted: Cell<bool>,
    /// It has read a shell request, or said busy, and not said idle since.
    busy: Cell<bool>,
    /// Told when the state changes; for one task at a time.
    changed: Notify,
    /// One fork at a time.
    pub(crate) forking: tokio::sync::Mutex<()>,
    children: Rc<Children>,
    linger: Arc<Linger>,
    orders: mpsc::Sender<Order>,
    dir: PathBuf,
}

impl Kernel {
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The process, while it runs.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.pid.get().map(|pid| pid.as_raw_nonzero().get())
    }

    /// Directory for sockets and the connection file.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Specification of the last start, with late bindings.
    pub(crate) fn spec(&self) -> Option<Rc<KernelSpec>> {
        self.spec.borrow().clone()
    }

    fn set_spec(&self, spec: Rc<KernelSpec>) {
        *self.spec.borrow_mut() = Some(spec);
    }

    pub(crate) fn state(&self) -> KernelState {
        self.view.get().state
    }

    /// Waits for the state to change; a change since the last call counts.
    pub(crate) async fn state_changed(&self) {
        self.changed.notified().await;
    }

    /// Hides what it says from the gateway, or no longer.
    pub(crate) fn mute(&self, muted: bool) {
        self.muted.set(muted);
    }

    /// Tells what it uses, and notes its memory.
    pub(crate) fn report(&self, stats: Stats) {
        self.max_rss.set(self.max_rss.get().max(stats.rss));
        self.outlet.stats(self.number, stats);
    }

    /// Orders a stop that no request asked for; the receiver hears when it is done.
    pub(crate) fn stop(&self, grace: Duration) -> oneshot::Receiver<()> {
        let (done, wait) = oneshot::channel();
        self.order(Order::Stop {
            request: None,
            grace,
            done: Some(done),
        });
        wait
    }

    /// Queues an order; refused when hundreds wait already.
    pub(crate) fn order(&self, order: Order) {
        let starts = matches!(order, Order::Start { .. } | Order::Restart { .. });
        let Err(error) = self.orders.try_send(order) else {
            self.starting.set(self.starting.get() + u32::from(starts));
            return;
        };
        match error.into_inner() {
            Order::Start { request, .. }
            | Order::Restart { request, .. }
            | Order::Stop {
                request: Some(request),
                ..
            } => {
                self.refuse(Lane::Now, request, RefusalKind::Full, "too many orders wait");
            }
            Order::Stop { .. } | Order::Adopt(_) | Order::End => {
                tracing::error!(kernel = self.number, "too many orders wait");
            }
        }
    }

    /// Interrupts it at once, past all queues.
    pub(crate) fn interrupt(&self) {
        match self.interrupt_mode.get() {
            InterruptMode::Signal => self.signal(Signal::INT),
            InterruptMode::Message => {
                let request = himalia_wire::build::interrupt_request(&self.session_name());
                self.send_own(&request);
            }
        }
    }

    /// Signals its process group; the process alone where it has no group of its own yet.
    fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid.get() else { return };
        if kill_process_group(pid, signal).is_err() {
            let _ = kill_process(pid, signal);
        }
    }

    /// The wire session of our own requests.
    fn session_name(&self) -> String {
        format!("himalia-shim-{}-{}", self.number, self.view.get().incarnation)
    }

    /// Sends a request of our own on control; nothing happens while the sockets are not there.
    fn send_own(&self, parts: &Parts) {
        if let Some(outlets) = &mut *self.outlets.borrow_mut()
            && let Err((_, reason)) = outlets.send(Channel::Control, None, parts)
        {
            tracing::warn!(kernel = self.number, "own request not sent: {reason}");
        }
    }

    fn set_state(&self, state: KernelState) {
        self.set_view(ProcessView {
            state,
            ..self.view.get()
        });
    }

    fn set_view(&self, view: ProcessView) {
        self.view.set(view);
        self.changed.notify_one();
        self.outlet.set_process(self.number, view);
    }

    fn set_alive(&self, alive: bool) {
        if self.view.get().alive != alive {
            self.set_view(ProcessView {
                alive,
                ..self.view.get()
            });
            self.outlet.heartbeat(self.number, alive);
        }
    }

    /// A reply has come: does the kernel echo identity frames?
    fn note_echo(&self, echoed: bool) {
        let before = self.echoes.get();
        if before.is_none() || echoed {
            self.echoes.set(Some(echoed));
        }
        if before.is_none() && !echoed {
            tracing::info!(
                kernel = self.number,
                "does not echo identities: its replies carry no request"
            );
        }
    }
}
