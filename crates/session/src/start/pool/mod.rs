//! Warm pools: kernels that are ready before a caller asks for one.
//!
//! A pool belongs to one template of the configuration. Its members are ordinary kernel actors in sandboxes of their
//! own; they are in no list, have no row in the store, and are assigned once: a claim tells the kernel late what it
//! would have been started with, gives it its row, and publishes it. What is not claimed ends with the gateway; after a
//! kill, the next gateway's sweep removes it.
//!
//! Pooled kernels do not count towards `max_kernels`; a claim takes a place there, as a start does.

mod claim;
mod core;
mod driver;
mod hold;
pub(crate) mod late_binding;
mod member;
#[cfg(test)]
mod sim;

pub use driver::Pool;
