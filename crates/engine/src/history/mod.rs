//! What was run in a kernel, by native callers and by Jupyter clients alike, read back from its log.

mod cells;
mod export;
mod walk;

pub(crate) use cells::{Cells, Detail};
pub use export::{History, HistoryEntry, HistoryStatus};
pub(crate) use export::{MAX_PAGE, history, notebook, script};
pub(crate) use walk::walk;
