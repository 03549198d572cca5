//! `process.Process`: commands of a sandbox.
//!
//! A command continues when its client leaves, and other clients can connect to it. What is running is known here alone: a
//! command ends with the gateway.

mod login;
mod messages;
mod service;
mod table;

use axum::Router;
use axum::routing::post;

use crate::facade::Facade;

pub(crate) use table::Processes;

pub(super) fn routes() -> Router<Facade> {
    Router::new().route("/process.Process/{method}", post(service::call))
}
