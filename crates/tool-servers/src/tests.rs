//! Servers on the loopback device: real ones, and hostile ones.

mod bounds;
mod hostile;
mod mcp;
mod openapi;
mod secrets;
mod support;
