//! Replicas in one process on loopback, with the scripted kernel; a client is connected to one that is not the owner.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod channels;
#[allow(unreachable_pub, reason = "the other suite has it too")]
#[path = "../suite/common/log.rs"]
mod log;
mod panics;
mod requests;
mod routes;
mod runs;
mod starts;
mod support;
mod take_over;
mod traces;
