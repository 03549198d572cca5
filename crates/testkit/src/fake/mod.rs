//! A scripted Jupyter kernel: the messages of a real one, in the order of a real one, without Python.
//!
//! The `code` of an `execute_request` is a list of commands, one per line; see [`Step`]. Everything else of
//! the protocol is answered as a plain kernel answers it: `kernel_info`, `complete`, `inspect`,
//! `is_complete`, `history`, `comm_*` (echoed), `debug_request`, `interrupt_request`, `shutdown_request`.

mod execute;
mod interrupt;
mod iopub;
mod kernel;
pub(crate) mod maker;
pub(crate) mod requests;
mod router;
mod script;
mod steps;

pub use kernel::{Options, run};
pub use script::{HELP, Step, parse};
