//! Sessions of the Jupyter REST API: a path, usually of a notebook, and the kernel it uses.

use uuid::Uuid;

/// One row of `jupyter_sessions`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JupyterSessionRecord {
    /// The session id of the REST API.
    pub id: Uuid,
    /// The principal that owns it.
    pub owner: String,
    /// Path of the document, as the client named it. It is a label: nothing is opened by it.
    pub path: String,
    /// Name of the document.
    pub name: String,
    /// `notebook`, `console`, `file` or whatever else the client says.
    pub kind: String,
    /// Its kernel. The kernel may be gone: that is for the reader to find out.
    pub kernel_id: Uuid,
    /// When it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
}
