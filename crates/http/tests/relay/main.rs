//! Replicas in one process on loopback, with the scripted kernel; a client is connected to one that is not the owner.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod channels;
mod requests;
mod routes;
mod starts;
mod support;
mod take_over;
mod traces;
