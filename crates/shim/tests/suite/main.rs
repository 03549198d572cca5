//! Tests of the shim as a process, with fake kernels.
//!
//! One program for all files: each would link the whole crate again.

mod additional;
mod binding;
mod branches;
mod flood;
mod hostile;
mod life;
mod link;
mod support;
mod zygote;
