//! The HTTP facade: the Jupyter REST and WebSocket API, native event streams and health probes over one
//! [`Engine`](himalia_engine::Engine).
//!
//! * [`serve`] accepts connections on a listener until its token is cancelled, then drains.
//! * `routes` holds the one table of routes: `router` is built from it, and a test walks it to prove that nothing
//!   but the short public list answers without a token.
//! * `engine_error` maps engine errors to status codes, in one place; `render` gives them the body of the client's API, and `problem` is
//!   that of the native one.
//! * `openapi` describes the native API, from the types of its handlers.
//! * `mounted` is the service of another facade, and `facades` has the routes of each: MCP, Azure's dynamic sessions, `OpenAI`'s
//!   containers, and E2B, whose credentials `auth::sandbox` checks.
//! * `relay` decides which requests go to another replica of the [`Cluster`].
//! * `oidc` signs people in whom an identity provider knows.
//! * `viewer` serves the page at `/`, and signs browsers in.
//! * `socket` is what is below a connection: TCP, or TLS over it.
//! * `jupyter` speaks the Jupyter API, `v1` the native one, `ws` is the WebSocket protocol (RFC 6455) itself.
//!
//! Invariants: no request reaches a handler before the token, or the cookie that stands for it, was checked; a
//! WebSocket is refused before the upgrade, not after it; a token is never logged and never put into a reply; every
//! read, wait and queue is bounded by a field of [`HttpConfig`] or by a constant that is documented where it stands.

mod app;
mod auth;
mod body;
mod caught;
mod config;
mod engine_error;
mod error;
mod etag;
mod facades;
mod health;
mod identify;
mod jupyter;
mod labels;
mod listen;
mod mounted;
mod oidc;
mod openapi;
mod prefix;
mod problem;
mod query;
mod relay;
mod render;
mod request_id;
mod route;
mod router;
mod routes;
mod socket;
mod traced;
mod unread_body;
mod v1;
mod variables;
mod viewer;
mod ws;

pub use auth::{AllowedOrigins, SandboxTokens, Token, Tokens};
pub use config::{ConfigError, HttpConfig};
pub use facades::azure::azure_session_name;
pub use facades::e2b::e2b_sandbox_of_key;
pub use himalia_cluster::{Cluster, Directory, Location};
pub use listen::{Listeners, Peers, ServeError, Tls, serve};
pub use mounted::{E2b, MountedService};
pub use oidc::{Grant, Oidc};
pub use openapi::openapi;
pub use route::{Access, Route};
pub use router::router;
pub use routes::ROUTES;
pub use viewer::{Viewer, ViewerFile};
#[cfg(any(test, feature = "echo"))]
pub use ws::serve_echo;
