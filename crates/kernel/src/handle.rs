//! Handle of a kernel for the rest of the engine: its mailboxes, its log, and its present state.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use himalia_journal::{Journal, Record};
use himalia_link::Streams;
use himalia_metrics::Kernels;
use himalia_model::KernelId;
use himalia_traces::Traces;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::core::{Core, Snapshot};
use super::event::{Answer, Command, CommandError, Request};
use super::executions::records::SandboxLoss;
use super::host::KernelHost;
use super::life::Phase;
use super::link::Link;
use super::rules::Rules;

/// Commands that wait for the actor.
const COMMANDS: usize = 64;
/// Control and stdin messages that wait for the actor.
const URGENT: usize = 256;
/// Shell messages that wait for the actor.
const SHELL: usize = 64;
/// Bytes of messages that wait for the actor, for each of the two; one message always may.
const WAITING_BYTES: u32 = 64 << 20;

/// Stages of a kernel's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It may still do something.
    Present,
    /// The log is complete: feeds end once they have read it.
    Complete,
    /// No process or file of it is left.
    Gone,
}

/// An order on its way to the actor.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Result<Answer, CommandError>>,
}

/// A new sandbox on its way to the actor, in place of one that is gone.
#[derive(Debug)]
pub struct Move {
    /// Session of the new sandbox.
    pub host: Box<dyn KernelHost>,
    /// Link to the shim of the new sandbox.
    pub link: Link,
    /// Tells, once, how the sandbox ended.
    pub sandbox_exit: oneshot::Receiver<String>,
    pub rules: Rules,
    /// Losses with the sandbox before.
    pub lost: SandboxLoss,
    /// Answered when the move is in the log, or is refused.
    pub reply: oneshot::Sender<Result<Answer, CommandError>>,
}

/// A message on its way to the actor, with its share of the bytes that may wait.
#[derive(Debug)]
pub struct Envelope {
    pub request: Request,
    /// Share of the bytes that may wait; given back once the actor has taken the message.
    pub share: Option<OwnedSemaphorePermit>,
}

/// The receiving ends, for the actor.
#[derive(Debug)]
pub struct Mailboxes {
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) moves: mpsc::Receiver<Move>,
    pub(crate) urgent: mpsc::Receiver<Envelope>,
    pub(crate) shell: mpsc::Receiver<Envelope>,
    pub(crate) snapshot: watch::Sender<Snapshot>,
    pub(crate) stage: watch::Sender<Stage>,
}

/// One kernel, as everybody but its actor sees it.
#[derive(Debug)]
pub struct Handle {
    id: RwLock<KernelId>,
    pub journal: Journal,
    /// The number of the latest record that may be of use to a client: requests are the only ones that never are.
    pub shown: watch::Sender<u64>,
    /// Connections for transfers of files.
    pub streams: Arc<Streams>,
    pub(crate) orders: mpsc::Sender<Order>,
    moves: mpsc::Sender<Move>,
    /// For messages on control and stdin.
    pub urgent: mpsc::Sender<Envelope>,
    /// For messages on shell.
    pub shell: mpsc::Sender<Envelope>,
    /// Bytes that may wait there.
    pub urgent_bytes: Arc<Semaphore>,
    /// Bytes that may wait there.
    pub shell_bytes: Arc<Semaphore>,
    pub snapshot: watch::Receiver<Snapshot>,
    /// Stage of its end.
    pub stage: watch::Receiver<Stage>,
    /// Time of the latest activity, in microseconds since 1970.
    pub last_activity: AtomicU64,
    /// Clients that are attached.
    pub connections: AtomicU32,
    /// The log has grown since its last sync.
    pub dirty: AtomicBool,
    /// True if its log cannot be written.
    pub disk_failing: AtomicBool,
    /// The present attachment of each wire session, and what closes it.
    pub attached: Mutex<HashMap<u64, ClientSlot>>,
    /// Metrics of all kernels of the gateway.
    pub metrics: Arc<Kernels>,
    /// Recorder for spans of executions.
    pub traces: Traces,
    removal: Removal,
}

/// The one connected client of an owner, as the next one of the same owner finds it.
#[derive(Clone, Debug, Default)]
pub struct ClientSlot {
    /// Asks the client to go.
    pub closed: CancellationToken,
    /// It has gone, and its position is final.
    pub left: CancellationToken,
}

/// Removes a log with the last user of the handle if the kernel is forgotten.
#[derive(Debug)]
struct Removal {
    log: Journal,
    wanted: AtomicBool,
}

impl Removal {
    fn remove(&self) {
        if self.wanted.swap(false, Ordering::AcqRel) {
            self.log.remove();
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Handle {
    /// A handle and the ends for its actor.
    pub fn new(
        id: KernelId,
        journal: Journal,
        streams: Arc<Streams>,
        core: &Core,
        metrics: Arc<Kernels>,
        traces: Traces,
    ) -> (Arc<Self>, Mailboxes) {
        let (orders_in, orders) = mpsc::channel(COMMANDS);
        let (moves_in, moves) = mpsc::channel(1);
        let (urgent_in, urgent) = mpsc::channel(URGENT);
        let (shell_in, shell) = mpsc::channel(SHELL);
        let (snapshot_in, snapshot) = watch::channel(core.snapshot());
        let (stage_in, stage) = watch::channel(Stage::Present);
        let bytes = || Arc::new(Semaphore::new(WAITING_BYTES as usize));
        let handle = Self {
            id: RwLock::new(id),
            removal: Removal {
                log: journal.clone(),
                wanted: AtomicBool::new(false),
            },
            shown: watch::Sender::new(journal.head()),
            journal,
            streams,
            orders: orders_in,
            moves: moves_in,
            urgent: urgent_in,
            shell: shell_in,
            urgent_bytes: bytes(),
            shell_bytes: bytes(),
            snapshot,
            stage,
            last_activity: AtomicU64::new(core.last_activity()),
            connections: AtomicU32::new(0),
            dirty: AtomicBool::new(true),
            disk_failing: AtomicBool::new(false),
            attached: Mutex::new(HashMap::new()),
            metrics,
            traces,
        };
        let mailboxes = Mailboxes {
            orders,
            moves,
            urgent,
            shell,
            snapshot: snapshot_in,
            stage: stage_in,
        };
        (Arc::new(handle), mailboxes)
    }

    /// True if it is dead and its sandbox is gone.
    pub fn is_lost(&self) -> bool {
        let snapshot = self.snapshot.borrow();
        snapshot.lost && snapshot.phase == Phase::Dead
    }

    pub fn id(&self) -> KernelId {
        *self.id.read()
    }

    /// One that waited in a pool gets the identifier of the session that it becomes.
    pub fn set_id(&self, id: KernelId) {
        *self.id.write() = id;
    }

    /// Gives a command and waits for its answer. `None` when the kernel has ended.
    pub async fn order(&self, command: Command) -> Option<Result<Answer, CommandError>> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order { command, reply }).await.ok()?;
        answer.await.ok()
    }

    /// Has the actor continue in a new sandbox. Done when that is in the log. `None` when the kernel has ended.
    pub async fn move_to(
        &self,
        of: impl FnOnce(oneshot::Sender<Result<Answer, CommandError>>) -> Move,
    ) -> Option<Result<Answer, CommandError>> {
        let (reply, answer) = oneshot::channel();
        self.moves.send(of(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Waits until nothing of it is left running.
    pub async fn gone(&self) {
        // An actor that ended without saying so has left nothing either.
        let _ = self.stage.clone().wait_for(|stage| *stage == Stage::Gone).await;
    }

    /// True if it has ended permanently.
    pub fn is_over(&self) -> bool {
        self.snapshot.borrow().phase == Phase::Ended || *self.stage.borrow() != Stage::Present
    }

    /// Removes the log once its last reader is gone.
    pub fn forget_log(&self) {
        if let Err(error) = self.journal.forget() {
            tracing::warn!(kernel = %self.id(), %error, "cannot mark a log that is not needed any more");
        }
        self.removal.wanted.store(true, Ordering::Release);
    }

    /// Removes a forgotten log at once, even if it is being read: the process ends. Blocks on the disk.
    pub fn remove_log(&self) {
        self.removal.remove();
    }

    /// A share for a message of `bytes`, when there is room.
    pub fn share(bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, WAITING_BYTES)
    }
}

/// One record of a log; `None` if it is not there any more. May block on the disk.
pub fn record(journal: &Journal, seq: u64) -> Option<Arc<Record>> {
    match journal.cursor(seq.checked_sub(1)?).read(1, 1) {
        Ok(himalia_journal::Read::Records(records)) => {
            records.into_iter().next().filter(|record| record.seq == seq)
        }
        _ => None,
    }
}
