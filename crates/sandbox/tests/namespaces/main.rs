//! Sandboxes of namespaces, for real. Needs Linux with user namespaces, Python at `/usr/bin/python3`, and the binaries
//! `himalia-jail` and `himalia-shim` beside the test (`cargo build --workspace --bins`).
//!
//! Run by root, all of it runs a second time as an ordinary user: other ids, no control groups.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod fixture;

mod again;
mod binds;
mod changes;
mod ending;
mod files;
mod home;
mod inside;
mod leaving;
mod limits;
mod refusals;
mod zygote;
