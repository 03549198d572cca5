//! The code interpreter: `/execute` and `/contexts`. A context is a kernel of the session; the first one is the default.

mod contexts;
mod execute;
mod lines;
mod result;

use axum::Router;
use axum::routing::{delete, post};

use crate::facade::Facade;

pub(crate) fn routes() -> Router<Facade> {
    Router::new()
        .route("/execute", post(execute::execute))
        .route("/contexts", post(contexts::create).get(contexts::list))
        .route("/contexts/{context}", delete(contexts::remove))
        .route("/contexts/{context}/restart", post(contexts::restart))
}
