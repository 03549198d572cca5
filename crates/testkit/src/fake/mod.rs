//! A scripted Jupyter kernel: the messages of a real one, in the order of a real one, without Python.
//!
//! The `code` of an `execute_request` is a list of commands, one per line; see [`Step`]. Everything else of
//! the protocol is answered as a plain kernel answers it: `kernel_info`, `complete`, `inspect`,
//! `is_complete`, `history`, `comm_*` (echoed), `debug_request`, `interrupt_request`, `shutdown_request`. Like
//! Himalia's own launcher it can be bound late and forked; beside it there is a small zygote.

mod branch;
mod execute;
mod interrupt;
mod iopub;
mod kernel;
pub(crate) mod maker;
pub(crate) mod requests;
mod router;
mod script;
mod steps;
mod zygote;

pub use branch::{BindMode, ForkMode, forked_twice, launched};
pub use kernel::{Options, run};
pub use script::{HELP, Step, parse};
pub use zygote::{ZygoteMode, become_shim, run as run_zygote};
