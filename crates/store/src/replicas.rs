//! Replicas of the gateway on one store: who has what, and where it can be reached.

use uuid::Uuid;

use crate::{EndedRecord, KernelRecord};

/// A replica of the gateway, as the store knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReplicaRecord {
    /// The name, of which no two living replicas have the same.
    pub name: String,
    /// The address at which other replicas reach it, as it was set with [`crate::Store::set_address`]; `None` until then.
    pub address: Option<String>,
    /// The gateway epoch of its process. A later process of the same name has a larger one.
    pub epoch: u64,
    /// `true` if its lease is valid by the clock of the store. A replica without a valid lease answers nothing any more.
    pub live: bool,
}

/// Another replica that has kernels of a pool ready.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadyReplica {
    pub name: String,
    /// The address at which other replicas reach it.
    pub address: String,
    /// The number of kernels that were ready when it renewed its lease last.
    pub ready: u32,
}

/// The member of a session's row that says where its sandbox is, as a replica that has its log can reach it. A row without it is taken
/// over by no other replica: its log is on the disk of its own.
pub const PLACE: &str = "place";

/// The things that were taken from replicas whose lease has ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TakeOverResult {
    /// Kernels, oldest first, with the names of the replicas that had them.
    pub kernels: Vec<(KernelRecord, String)>,
    /// The epoch under which their shims are to be called: larger than that of any gateway before.
    pub epoch: u64,
    /// Ended sessions.
    pub ended: Vec<EndedRecord>,
    /// Shared logs that neither a kernel nor an ended session has.
    pub orphans: Vec<String>,
}

impl TakeOverResult {
    /// Returns true if nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty() && self.ended.is_empty() && self.orphans.is_empty()
    }
}

/// A thing to find: [`crate::Store::locate`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Lookup {
    /// The kernel of this id; for the first kernel of a session that is the id of the session.
    Kernel(Uuid),
    /// The living session of this name.
    Name {
        /// The principal that owns it.
        owner: String,
        name: String,
    },
    /// An ended session of this id whose log is kept; the latest, if the id was used again.
    Ended(Uuid),
    /// The latest session that had this name and has ended, if its log is kept.
    EndedName {
        /// The principal that owned it.
        owner: String,
        name: String,
    },
    /// The Jupyter session of this id.
    JupyterSession(Uuid),
    /// The Jupyter session of this document.
    JupyterPath {
        /// The principal that owns it.
        owner: String,
        /// The path of the document.
        path: String,
    },
}

/// The place of a thing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location {
    /// The id of the kernel, of the ended session or of the Jupyter session.
    pub id: Uuid,
    /// The principal that owns it.
    pub owner: String,
    pub replica: ReplicaRecord,
}

/// The rows that a list has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// The rows of this replica.
    Own,
    /// The rows of all replicas, living or not.
    All,
}

impl Scope {
    /// The statement of the list: the first for the rows of this replica, the second for all.
    pub(crate) fn of(self, lists: [&'static str; 2]) -> &'static str {
        let [own, all] = lists;
        match self {
            Self::Own => own,
            Self::All => all,
        }
    }
}
