//! What the rest of the engine holds of a kernel: its mailboxes, its log, and its state as of now.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use himalia_journal::{Journal, Record};
use himalia_model::{KernelId, KernelModel, Origin, SessionInfo, from_micros};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::core::Snapshot;
use super::event::{Answer, Command, CommandError, Request};
use super::execution_records::SandboxLoss;
use super::life::Phase;
use super::rules::Rules;
use super::streams::Streams;
use crate::facts::Facts;
use crate::feed::Seat;
use crate::inner::Link;
use crate::lease::{Lease, Share};
use crate::places::Place;

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
pub(crate) enum Stage {
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
pub(crate) struct Move {
    pub(crate) share: Share,
    pub(crate) link: Link,
    /// Tells, once, how the sandbox ended.
    pub(crate) sandbox_exit: oneshot::Receiver<String>,
    pub(crate) rules: Rules,
    pub(crate) lost: SandboxLoss,
    pub(crate) reply: oneshot::Sender<Result<Answer, CommandError>>,
}

/// A message on its way to the actor, with its share of the bytes that may wait.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) request: Request,
    pub(crate) share: Option<OwnedSemaphorePermit>,
}

/// The receiving ends, for the actor.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) moves: mpsc::Receiver<Move>,
    pub(crate) urgent: mpsc::Receiver<Envelope>,
    pub(crate) shell: mpsc::Receiver<Envelope>,
    pub(crate) snapshot: watch::Sender<Snapshot>,
    pub(crate) stage: watch::Sender<Stage>,
}

/// One kernel, as everybody but its actor sees it.
#[derive(Debug)]
pub(crate) struct Handle {
    facts: RwLock<Arc<Facts>>,
    /// The sandbox that it is in.
    lease: RwLock<Arc<Lease>>,
    /// The kernel's place under the limit of kernels; given back at its end.
    pub(crate) place: Mutex<Option<Place>>,
    pub(crate) journal: Journal,
    /// The number of the latest record that may be of use to a client: requests are the only ones that never are.
    pub(crate) shown: watch::Sender<u64>,
    /// Connections for transfers of files.
    pub(crate) streams: Arc<Streams>,
    pub(crate) orders: mpsc::Sender<Order>,
    moves: mpsc::Sender<Move>,
    pub(crate) urgent: mpsc::Sender<Envelope>,
    pub(crate) shell: mpsc::Sender<Envelope>,
    pub(crate) urgent_bytes: Arc<Semaphore>,
    pub(crate) shell_bytes: Arc<Semaphore>,
    pub(crate) snapshot: watch::Receiver<Snapshot>,
    pub(crate) stage: watch::Receiver<Stage>,
    pub(crate) last_activity: AtomicU64,
    pub(crate) connections: AtomicU32,
    /// The log has grown since its last sync.
    pub(crate) dirty: AtomicBool,
    pub(crate) disk_failing: AtomicBool,
    /// The present attachment of each wire session, and what closes it.
    pub(crate) attached: Mutex<HashMap<u64, Seat>>,
    dir: LogDir,
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
pub(crate) fn remove_log(path: &Path) {
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
pub(crate) fn remove_forgotten_logs(dir: &Path) {
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
    pub(crate) fn new(
        facts: Facts,
        lease: Arc<Lease>,
        journal: Journal,
        streams: Arc<Streams>,
        snapshot: Snapshot,
        last_activity: u64,
    ) -> (Arc<Self>, Mailboxes) {
        let (orders_in, orders) = mpsc::channel(COMMANDS);
        let (moves_in, moves) = mpsc::channel(1);
        let (urgent_in, urgent) = mpsc::channel(URGENT);
        let (shell_in, shell) = mpsc::channel(SHELL);
        let (snapshot_in, snapshot) = watch::channel(snapshot);
        let (stage_in, stage) = watch::channel(Stage::Present);
        let bytes = || Arc::new(Semaphore::new(WAITING_BYTES as usize));
        let handle = Self {
            facts: RwLock::new(Arc::new(facts)),
            lease: RwLock::new(lease),
            place: Mutex::new(None),
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
            last_activity: AtomicU64::new(last_activity),
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

    /// Its facts as of now.
    pub(crate) fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.facts.read())
    }

    /// The sandbox that it is in, or was in.
    pub(crate) fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease.read())
    }

    /// It is in another sandbox from now on.
    pub(super) fn set_lease(&self, lease: Arc<Lease>) {
        *self.lease.write() = lease;
    }

    /// Whether it is dead and its sandbox is gone.
    pub(crate) fn is_lost(&self) -> bool {
        let snapshot = self.snapshot.borrow();
        snapshot.lost && snapshot.phase == Phase::Dead
    }

    /// Changes its facts.
    pub(crate) fn change_facts(&self, change: impl FnOnce(&mut Facts)) {
        change(Arc::make_mut(&mut self.facts.write()));
    }

    /// Its identifier.
    pub(crate) fn id(&self) -> KernelId {
        self.facts.read().id
    }

    /// The kernel with what is around it.
    pub(crate) fn info(&self) -> SessionInfo {
        self.facts().info(self.model())
    }

    /// The kernel as commands show it.
    pub(crate) fn model(&self) -> KernelModel {
        let facts = self.facts();
        let snapshot = self.snapshot.borrow();
        KernelModel {
            id: facts.id,
            name: facts.name.clone(),
            last_activity: from_micros(self.last_activity.load(Ordering::Relaxed)),
            execution_state: snapshot.state,
            connections: self.connections.load(Ordering::Relaxed),
            reason: snapshot.reason.clone(),
            unresponsive: snapshot.unresponsive,
            incarnation: snapshot.incarnation,
        }
    }

    /// What the culler needs to know.
    pub(crate) fn cull_facts(&self) -> super::culling::CullFacts {
        super::culling::CullFacts {
            state: self.snapshot.borrow().state,
            revives: self.facts().origin == Origin::V1,
            connections: self.connections.load(Ordering::Relaxed),
            last_micros: self.last_activity.load(Ordering::Relaxed),
            spec_timeout: self.facts().cull_timeout,
        }
    }

    /// Gives an order and waits for its answer. `None` when the kernel is over.
    pub(crate) async fn order(&self, command: Command) -> Option<Result<Answer, CommandError>> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order { command, reply }).await.ok()?;
        answer.await.ok()
    }

    /// Has the actor go on in a new sandbox. Done when that is in the log. `None` when the kernel is over.
    pub(crate) async fn move_to(
        &self,
        of: impl FnOnce(oneshot::Sender<Result<Answer, CommandError>>) -> Move,
    ) -> Option<Result<Answer, CommandError>> {
        let (reply, answer) = oneshot::channel();
        self.moves.send(of(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Waits until nothing of it is left running.
    pub(crate) async fn gone(&self) {
        // An actor that ended without saying so has left nothing either.
        let _ = self.stage.clone().wait_for(|stage| *stage == Stage::Gone).await;
    }

    /// Whether it is over for good.
    pub(crate) fn is_over(&self) -> bool {
        self.snapshot.borrow().phase == Phase::Over || *self.stage.borrow() != Stage::Present
    }

    /// Removes the log's directory once nobody reads it any more.
    pub(crate) fn forget_log(&self) {
        if let Err(error) = std::fs::write(self.dir.path.join(FORGOTTEN), "") {
            tracing::warn!(kernel = %self.id(), %error, "cannot mark a log that is not needed any more");
        }
        self.dir.remove.store(true, Ordering::Release);
    }

    /// Removes a forgotten log at once, whoever still reads it: the process ends. Blocks on the disk.
    pub(crate) fn remove_log(&self) {
        self.dir.remove();
    }

    /// A share for a message of `bytes`, when there is room.
    pub(crate) fn share(bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, WAITING_BYTES)
    }
}

/// One record of a log; `None` if it is not there any more. May block on the disk.
pub(crate) fn record(journal: &Journal, seq: u64) -> Option<Arc<Record>> {
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
