//! One route of the table.

use axum::http::Method;
use axum::routing::MethodRouter;

use crate::app::App;
use crate::openapi::Operation;
use crate::relay::{Repeatability, ServedAt};

/// The callers that may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any caller, without a token. Keep this list short: such a route may show that the gateway lives, its version,
    /// the viewer's files, and the sign-in. Nothing of any kernel.
    Public,
    /// Any caller, from a page of any origin: what runs in the viewer's output frames, whose own origin is `null`.
    Anywhere,
    /// Holders of the token, and browsers that signed in with it.
    Token,
}

/// One route: a method on a path.
#[derive(Debug)]
pub struct Route {
    /// The method. `GET` serves `HEAD` too.
    pub method: Method,
    /// The path below the base URL, with `{parameters}`.
    pub path: &'static str,
    /// The callers that may use it.
    pub access: Access,
    /// True for a WebSocket.
    pub websocket: bool,
    /// The replica that serves its requests.
    pub(crate) served_at: ServedAt,
    /// The requests that may be sent to another replica after the first one was lost.
    pub(crate) repeatable: Repeatability,
    /// Name of the operation in the description of the native API; empty for the others.
    pub id: &'static str,
    /// One line for the API description.
    pub summary: &'static str,
    /// Adds what a route of the native API takes and answers to its description; the others have none.
    pub(crate) operation: Option<fn(&mut Operation<'_>)>,
    pub(crate) handler: fn() -> MethodRouter<App>,
}
