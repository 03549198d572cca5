//! The facade of Azure's dynamic sessions: what their clients call, over one [`Engine`](himalia_engine::Engine).
//!
//! [`service`] is a tower service. The code that mounts it authenticates before it, and puts the
//! [`Principal`](himalia_engine::Principal) into the request's extensions.
//!
//! A pool is a template, and a session is one of the gateway that a client names by an identifier: the first request with an
//! identifier starts it.
//!
//! * `execute` runs code, in the two forms of the API.
//! * `value` is the value of an expression as JSON.
//! * `files` lists, reads, writes and removes files.
//! * `caller` has who calls, and for which session.
//! * `failure` gives errors the body that clients read.
//!
//! Invariant: there is no state between requests. What a client asks for that this gateway does not have is refused.

mod caller;
mod execute;
mod facade;
mod failure;
mod files;
mod limits;
mod value;

pub use facade::{NameOf, service};
