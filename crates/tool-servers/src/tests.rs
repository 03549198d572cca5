//! Servers on the loopback device: real ones, and hostile ones.

mod bounds;
mod hostile;
mod mcp;
mod openapi;
mod programs;
mod revision;
mod secrets;
mod support;
