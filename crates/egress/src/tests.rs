//! The proxy, over a pipe, with real hosts on loopback.

mod support;

mod bounded;
mod credentials;
mod hostile;
mod internal;
mod narrowed;
mod reached;
