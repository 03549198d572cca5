//! Sessions: a sandbox with its log and its kernels, from its start to what is kept of it after its end.
//!
//! | what | where |
//! |---|---|
//! | how one starts | `start`, over `new_sandbox`; from a pool `pool`, as a fork `fork`, an additional kernel `session_kernels`, in another sandbox `resume`, after a restart of the gateway `adopt` |
//! | what it is given | `templates`, within the limits `places`, `disk` |
//! | how one ends | `lifetimes`, `background` (idle kernels); what a kernel's actor needs then is `teardown` |
//! | what stays | `ended`, `left`, `collect`, `kept_files` |
//!
//! All of it is one object, [`SessionManager`]. It authorises nobody: whoever calls it has done that.

mod adopt;
mod background;
mod collect;
mod coming_up;
mod culling;
mod disk;
mod ended;
mod facts;
mod files;
mod fork;
mod gate;
mod kept;
mod kept_files;
mod lease;
mod left;
mod lifetimes;
mod logs;
mod manager;
mod memory;
mod named;
mod new_sandbox;
mod opening;
mod places;
mod pool;
mod provisioners;
mod refusal;
mod registry;
mod resume;
mod sandbox_exit;
mod session_kernel;
mod session_kernels;
mod start;
mod teardown;
mod templates;
#[cfg(test)]
mod testing;

pub use collect::{Bounds, WHOLE};
pub use ended::{EndedSessions, MAX_KEPT, ended_session, over};
pub use facts::{Around, Facts, Given, Role};
pub use files::{
    ByteRange, FileDownload, FileInfo, FileKind, FileListing, FileUpload, ListedFile, MAX_LISTED,
    MAX_TRANSFER_BYTES, MAX_TRANSFERS, PackedFiles, RemovedFiles, Transfer, WrittenFiles,
};
pub use gate::{Gate, Turn};
pub use kept::{Remembered, Shared};
pub use lease::Lease;
pub use left::{Left, ended_info};
pub use manager::SessionManager;
pub use memory::MemoryGauge;
pub use named::{MAX_NAME_CHARS, NAME_PATTERN};
pub use pool::Pool;
pub use provisioners::Provisioners;
pub use refusal::not_done;
pub use registry::Registry;
pub use session_kernel::SessionKernel;
pub use session_kernels::MAX_SESSION_KERNELS;
pub use templates::Templates;
