//! `himalia-jail` on this host, as root (when the tests run as root) and as an ordinary user.
//!
//! They need user namespaces, `/usr/bin/python3` and `setpriv`; no network.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod exec;
mod prepare;
mod resize;
mod support;
