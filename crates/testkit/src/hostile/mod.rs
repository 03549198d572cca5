//! A kernel that attacks whoever reads its sockets. It speaks ZMTP itself, since a library would not let it.
//!
//! It behaves as a plain kernel until the `code` of an `execute_request` names an [`Attack`], or misbehaves
//! from the first byte ([`AtStart`]).

mod attack;
mod bytes_attacks;
mod kernel;
mod listener;
mod message_attacks;
mod start;
mod zmtp;

pub use attack::{Attack, HELP};
pub use kernel::{Options, run};
pub use start::AtStart;
