//! Sandboxes that are plain processes on this host: level [`Isolation::None`](crate::Isolation::None).
//!
//! # Files
//! Everything of a sandbox lies in the run directory, under its secret name:
//!
//! | path | mode | what |
//! |---|---|---|
//! | `<id>/` | 0711 | the gateway listens here on `gw.sock`; `key` (0600) until the key was proven |
//! | `<id>.rt/` | 0700 | the shim's own: ZMQ sockets, connection files |
//! | `<id>.log` | 0600 | what the shim prints, emptied when it is over 256 KiB |
//! | `<id>.json` | 0600 | the record by which a later gateway process finds the processes again |
//!
//! # What this level does not give
//! All processes run as the gateway's user, so code in a kernel can read and kill whatever that user can, the gateway
//! included. When a sandbox ends, these processes are killed: all below the shim; those in the session or process
//! group of the shim or of a noted kernel; those that carry the mark of
//! [`SandboxHandle::kernel_env`](crate::SandboxHandle::kernel_env) in their first
//! environment; and their children. A process that made a session of its own, dropped its environment *and* lost
//! its parent before the shim was killed from outside is not found. Nor is a fork bomb
//! that starts processes faster than one pass over `/proc` certain to lose. No limit is enforced.

mod config;
mod hunt;
mod member;
mod noted;
mod provisioner;
mod spawn;
mod sweep;

#[cfg(test)]
mod tests;

pub use config::LocalConfig;
pub use provisioner::LocalProvisioner;
