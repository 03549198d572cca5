//! The Jupyter API, as `jupyter_server` 2 speaks it to `JupyterLab` in gateway mode, `@jupyterlab/services` and
//! `jupyter_client`.

pub(crate) mod about;
pub(crate) mod channels;
pub(crate) mod kernels;
pub(crate) mod kernelspecs;
pub(crate) mod me;
pub(crate) mod merge;
mod models;
pub(crate) mod policy;
mod quirks;
pub(crate) mod session_body;
pub(crate) mod sessions;

pub(crate) use channels::{ChannelsUpgrade, Sink, Source, attach as attach_of};
pub(crate) use models::kernel_id;
