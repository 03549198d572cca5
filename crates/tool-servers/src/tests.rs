//! Servers on the loopback device: real ones, and hostile ones.

mod bounds;
mod hostile;
mod mcp;
mod openapi;
mod programs;
mod questions;
mod revision;
mod secrets;
mod support;
