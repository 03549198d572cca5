//! The proxy, over a pipe, with real hosts on loopback.

mod support;

mod hostile;
mod narrowed;
mod reached;
