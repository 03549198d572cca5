//! Replicas of the gateway on one store: who has what, and where it can be reached.

use uuid::Uuid;

/// A replica of the gateway, as the store knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReplicaRecord {
    /// Its name, of which no two living replicas have the same.
    pub name: String,
    /// Where other replicas reach it, as it was set with [`crate::Store::set_address`]; `None` until then.
    pub address: Option<String>,
    /// The gateway epoch of its process. A later process of the same name has a larger one.
    pub epoch: u64,
    /// Whether its lease is valid by the clock of the store. A replica without a valid lease answers nothing any more.
    pub live: bool,
}

/// What to find: [`crate::Store::locate`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Lookup {
    /// The kernel of this id; for the first kernel of a session that is the id of the session.
    Kernel(Uuid),
    /// The living session of this name.
    Name {
        /// The principal that owns it.
        owner: String,
        /// Its name.
        name: String,
    },
    /// An ended session of this id whose log is kept; the latest, if the id was used again.
    Ended(Uuid),
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

/// Where a thing is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location {
    /// The id of the kernel, of the ended session or of the Jupyter session.
    pub id: Uuid,
    /// The principal that owns it.
    pub owner: String,
    /// The replica that has it.
    pub replica: ReplicaRecord,
}

/// Which rows a list has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// Those of this replica.
    Own,
    /// Those of all replicas, living or not.
    All,
}
