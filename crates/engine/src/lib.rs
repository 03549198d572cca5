//! Kernels, their logs and their clients behind one authorised interface.
//!
//! Everything a facade (HTTP, later MCP) may do goes through [`Engine`]: each command names the [`Principal`] on
//! whose behalf it runs and is authorised on its object before anything else happens. The engine knows nothing of
//! HTTP. Below it are the sandbox provisioner, the journal and the protocol to the shims.

mod access;
mod adopt;
mod api;
mod background;
mod config;
mod error;
mod feed;
mod ids;
mod inner;
mod jupyter_sessions;
mod kernel;
mod kernelspecs;
pub mod model;
mod registry;
mod start;

pub use access::{Action, Object, Principal};
pub use api::{Drain, Engine};
pub use config::{CullConfig, EngineConfig};
pub use error::EngineError;
pub use feed::{Attach, Attachment, Closed, Delivery, Event, EventFeed, EventKind, Feed, Requests};
pub use ids::{JupyterSessionId, KernelId};
pub use model::{
    ExecutionState, GatewayStatus, KernelJson, KernelModel, KernelRef, KernelSpec, KernelSpecs, NewSession,
    SessionModel, SessionPatch, SpecFile, StartKernel,
};
