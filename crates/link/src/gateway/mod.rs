//! The gateway's side: how a shim is reached, who is let in, and who waits for which stream.

mod dialer;
mod incoming;
mod listener;
mod stream;
mod streams;
mod unproven;

pub use listener::{Arrival, Gate, Listener};
pub use stream::{StreamConnection, StreamError, StreamReader, StreamWriter};
pub use streams::{ExpectedStream, Streams};
pub use unproven::UnprovenBudget;
