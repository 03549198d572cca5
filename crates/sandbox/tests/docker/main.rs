//! The Docker provisioner at a real engine: `make test-docker`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

mod failures;
mod files;
mod fixture;
mod gvisor;
mod hardening;
mod lifecycle;
mod limits;
mod proxy;
mod uids;
