//! The E2B facade: what E2B's clients call, over one [`Engine`](himalia_engine::Engine).
//!
//! [`service`] is a tower service. The code that mounts it authenticates before it, and puts the
//! [`Principal`](himalia_engine::Principal) into the request's extensions.
//!
//! A sandbox of E2B is a session, its metadata are the labels of the session, its template is one of the gateway, and its timeout is
//! the lifetime. A context of the code interpreter is a kernel of the session.
//!
//! * `control` is the control plane: sandboxes are started, listed, changed and ended.
//! * `interpreter` runs code, in contexts.
//! * `envd` is the agent of a sandbox: its files and its commands. `connect` is the protocol of its calls.
//! * `caller` has who calls, and which sandbox a request is for.
//! * `failure` gives errors the bodies that each of these clients reads.
//!
//! Invariants: there is no state between requests, but the commands that run
//! (`envd::Processes`) and the directories that clients ask about (`envd::Watchers`). What a client asks for that this gateway does not have is refused, and never
//! ignored.

mod caller;
mod connect;
mod control;
mod envd;
mod facade;
mod failure;
mod interpreter;
mod killed;
mod limits;
mod service;

pub use facade::{Issuer, OfKey};
pub use service::service;
