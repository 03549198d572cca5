//! The provisioner over the cluster of testkit: the contract of the API, and whole sandboxes with real shims.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by panicking")]

mod causes;
mod common;
mod contract;
mod requests;
mod sandboxes;
