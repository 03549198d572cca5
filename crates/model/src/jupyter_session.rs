//! Jupyter REST sessions as commands show them: a path bound to a kernel.

use crate::{JupyterSessionId, KernelId, KernelModel};

/// A Jupyter session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionModel {
    /// Its identifier.
    pub id: JupyterSessionId,
    /// The client's path; at most one session has it.
    pub path: String,
    /// A name for people, possibly empty.
    pub name: String,
    /// `notebook`, `console`, `file` …
    pub kind: String,
    /// Its kernel.
    pub kernel: KernelModel,
}

/// Which kernel a session is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRef {
    /// An existing kernel; wins over `name`. On creation an unknown id starts a kernel with that id.
    pub id: Option<KernelId>,
    /// A kernelspec to start.
    pub name: Option<String>,
}

/// What a caller asks of a new Jupyter session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The client's path, not empty.
    pub path: String,
    /// `notebook`, `console`, `file` …, not empty.
    pub kind: String,
    /// A name for people.
    pub name: Option<String>,
    /// Its kernel.
    pub kernel: KernelRef,
    /// Variables for a kernel that is started for it.
    pub env: std::collections::BTreeMap<String, String>,
}

/// What a caller changes of a Jupyter session; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPatch {
    /// New path.
    pub path: Option<String>,
    /// New name.
    pub name: Option<String>,
    /// New type.
    pub kind: Option<String>,
    /// Another kernel; the old one is shut down unless another session uses it.
    pub kernel: Option<KernelRef>,
}
