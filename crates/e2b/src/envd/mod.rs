//! The agent of a sandbox: its files and its commands.

mod files;
mod path;
mod process;
mod user;

use axum::Router;
use axum::routing::{get, post};

use crate::facade::Facade;

pub(crate) use files::watch::Watchers;
pub(crate) use process::Processes;

pub(crate) fn routes() -> Router<Facade> {
    Router::new()
        .route("/files", get(files::content::read).post(files::content::write))
        .route("/filesystem.Filesystem/{method}", post(files::service::call))
        .merge(process::routes())
}
