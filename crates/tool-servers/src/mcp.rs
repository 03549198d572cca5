//! Servers that speak the Model Context Protocol, over streamable HTTP or over the standard input and output of a program.
//!
//! `rmcp` has the life of a connection: how it begins in each version of the protocol, its session, the stream of notifications, the
//! answers to the server's requests. What it sends goes through [`transport`], or [`stdio`] for a program, which bounds what comes back. The answers to our
//! own questions, which are calls and lists, do not pass `rmcp` on their way back: a [`ticket`] takes them as bytes.

mod connection;
mod events;
mod message;
mod param_headers;
mod questions;
mod reply;
mod stdio;
mod ticket;
mod transport;

pub(crate) use connection::{Mcp, Signals};
