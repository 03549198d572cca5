//! What was run in a kernel, by native callers and by Jupyter clients alike, read back from its log.

mod cells;
mod export;
mod listed;
mod walk;

pub(crate) use cells::{Detail, MAX_CELL_BYTES};
pub use export::MAX_HISTORY_PAGE;
pub use export::{History, HistoryEntry, HistoryStatus};
pub(crate) use export::{history, notebook, script};
pub(crate) use listed::briefs;
pub(crate) use walk::Past;
