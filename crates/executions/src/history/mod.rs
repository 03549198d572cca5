//! History of a kernel, of native callers and of Jupyter clients alike, read back from its log.

mod cells;
mod export;
mod listed;
mod walk;

pub use cells::{Detail, MAX_CELL_BYTES};
pub use export::MAX_HISTORY_PAGE;
pub use export::{History, HistoryEntry, HistoryPosition, HistoryStatus};
pub use export::{history, notebook, script};
pub use listed::briefs;
pub use walk::CachedHistory;
