//! Life of a kernel: starts, deaths of its process, stops, ends of its sandbox: one file each.
//!
//! | what happens | file |
//! |---|---|
//! | a caller starts, interrupts, restarts or stops it | `commands` |
//! | a process starts, or could not be started | `start` |
//! | a process ends: crash, restart, stop, and the end of the kernel | `process_exit` |
//! | its sandbox ends, or is given up | `sandbox_end` |
//! | it continues in a new sandbox | `new_sandbox` |
//! | its shim is connected again | [`reconnect`] |
//!
//! [`state::Life`] has the facts: the phase, the process, why it is so, who waits. It changes them and knows nothing of the
//! rest of the core. The files of the table say what follows for requests, executions and the log. [`records`] is what the
//! log has of it, and `recovery` reads it back.

mod commands;
mod new_sandbox;
mod pending_exit;
mod phase;
mod process_exit;
pub(super) mod reconnect;
pub(super) mod records;
mod recovery;
mod sandbox_end;
mod start;
pub(super) mod state;
pub(super) mod waiters;

pub use pending_exit::MEMORY_WAIT;
pub use phase::Phase;
pub(super) use recovery::LifeCheckpoint;
