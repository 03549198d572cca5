//! What the rest of the engine holds of a kernel: its mailboxes, its log, and its state as of now.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use himalia_journal::{Journal, Record};
use himalia_link::Streams;
use himalia_model::KernelId;
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

/// How far a kernel's end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It may still do something.
    Present,
    /// Its log is complete: feeds end once they have read it.
    Complete,
    /// Nothing of it is left running.
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
    /// Who is above it in the new sandbox.
    pub host: Box<dyn KernelHost>,
    /// Where the shim of the new sandbox calls.
    pub link: Link,
    /// Tells, once, how the sandbox ended.
    pub sandbox_exit: oneshot::Receiver<String>,
    /// Those of the new sandbox.
    pub rules: Rules,
    /// What was lost with the sandbox before.
    pub lost: SandboxLoss,
    /// Answered when the move is in the log, or is refused.
    pub reply: oneshot::Sender<Result<Answer, CommandError>>,
}

/// A message on its way to the actor, with its share of the bytes that may wait.
#[derive(Debug)]
pub struct Envelope {
    /// The message.
    pub request: Request,
    /// Of the bytes that may wait; given back once the actor has taken the message.
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
    /// Its log.
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
    /// Its state as of now.
    pub snapshot: watch::Receiver<Snapshot>,
    /// How far its end is.
    pub stage: watch::Receiver<Stage>,
    /// Of its latest activity, microseconds since 1970.
    pub last_activity: AtomicU64,
    /// Clients that are attached.
    pub connections: AtomicU32,
    /// The log has grown since its last sync.
    pub dirty: AtomicBool,
    /// Its log cannot be written.
    pub disk_failing: AtomicBool,
    /// The present attachment of each wire session, and what closes it.
    pub attached: Mutex<HashMap<u64, Seat>>,
    dir: LogDir,
}

/// The one connected client of an owner, as the next one of the same owner finds it.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// Asks the client to go.
    pub closed: CancellationToken,
    /// It has gone, and its position is final.
    pub left: CancellationToken,
}

/// The directory of a log, removed with the last user of the handle if the kernel is forgotten.
#[derive(Debug)]
struct LogDir {
    path: PathBuf,
    remove: AtomicBool,
}

/// File that marks the log of a forgotten kernel: should this process end before its last user, the next one removes it.
const FORGOTTEN: &str = "forgotten";

impl LogDir {
    fn remove(&self) {
        if self.remove.swap(false, Ordering::AcqRel) {
            remove_log(&self.path);
        }
    }
}

impl Drop for LogDir {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes a log and its mark, the mark last: if this is cut short, the next process takes it up.
pub fn remove_log(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() != FORGOTTEN {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    if let Err(error) = std::fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove a kernel's log");
    }
}

/// Removes the logs below `dir` of kernels that were forgotten by a process that ended too early. Blocks on the disk.
pub fn remove_forgotten_logs(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_empty = || std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
        if path.join(FORGOTTEN).exists() || is_empty() {
            remove_log(&path);
        }
    }
}

impl Handle {
    /// A handle and the ends for its actor.
    pub fn new(id: KernelId, journal: Journal, streams: Arc<Streams>, core: &Core) -> (Arc<Self>, Mailboxes) {
        let (orders_in, orders) = mpsc::channel(COMMANDS);
        let (moves_in, moves) = mpsc::channel(1);
        let (urgent_in, urgent) = mpsc::channel(URGENT);
        let (shell_in, shell) = mpsc::channel(SHELL);
        let (snapshot_in, snapshot) = watch::channel(core.snapshot());
        let (stage_in, stage) = watch::channel(Stage::Present);
        let bytes = || Arc::new(Semaphore::new(WAITING_BYTES as usize));
        let handle = Self {
            id: RwLock::new(id),
            dir: LogDir {
                path: journal.dir().to_owned(),
                remove: AtomicBool::new(false),
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

    /// Whether it is dead and its sandbox is gone.
    pub fn is_lost(&self) -> bool {
        let snapshot = self.snapshot.borrow();
        snapshot.lost && snapshot.phase == Phase::Dead
    }

    /// Its identifier.
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

    /// Whether it has ended permanently.
    pub fn is_over(&self) -> bool {
        self.snapshot.borrow().phase == Phase::Over || *self.stage.borrow() != Stage::Present
    }

    /// Removes the log's directory once it has no readers any more.
    pub fn forget_log(&self) {
        if let Err(error) = std::fs::write(self.dir.path.join(FORGOTTEN), "") {
            tracing::warn!(kernel = %self.id(), %error, "cannot mark a log that is not needed any more");
        }
        self.dir.remove.store(true, Ordering::Release);
    }

    /// Removes a forgotten log at once, even if it still has readers: the process ends. Blocks on the disk.
    pub fn remove_log(&self) {
        self.dir.remove();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forgotten_and_empty_logs_are_swept() {
        let root = tempfile::tempdir().unwrap();
        for (name, files) in [("a", &["1.seg"][..]), ("b", &["1.seg", FORGOTTEN]), ("c", &[])] {
            std::fs::create_dir(root.path().join(name)).unwrap();
            for file in files {
                std::fs::write(root.path().join(name).join(file), "x").unwrap();
            }
        }
        remove_forgotten_logs(root.path());
        remove_forgotten_logs(&root.path().join("none"));
        let left: Vec<_> = std::fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["a"]);
    }
}
