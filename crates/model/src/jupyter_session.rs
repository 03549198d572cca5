//! Jupyter REST sessions as commands show them: a path bound to a kernel.

use crate::{JupyterSessionId, KernelId, KernelModel};

/// A Jupyter session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionModel {
    /// Id of the Jupyter session.
    pub id: JupyterSessionId,
    /// The client's path; at most one session has it.
    pub path: String,
    /// A name for people, possibly empty.
    pub name: String,
    /// `notebook`, `console`, `file` …
    pub kind: String,
    /// Kernel of the session.
    pub kernel: KernelModel,
}

/// Selection of a session's kernel: an existing one, or a kernelspec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRef {
    /// An existing kernel; wins over `name`. On creation an unknown id starts a kernel with that id.
    pub id: Option<KernelId>,
    /// A kernelspec to start.
    pub name: Option<String>,
}

/// Request for a new Jupyter session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The client's path, not empty.
    pub path: String,
    /// `notebook`, `console`, `file` …, not empty.
    pub kind: String,
    /// A name for people.
    pub name: Option<String>,
    /// Kernel to use or to start.
    pub kernel: KernelRef,
    /// Variables for a kernel that is started for it.
    pub env: std::collections::BTreeMap<String, String>,
}

/// Change of a Jupyter session; `None` keeps a field.
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
