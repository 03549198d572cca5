//! A kernel that attacks the readers of its sockets. It implements ZMTP itself, since a library would prevent the attacks.
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
