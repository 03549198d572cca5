//! Sandboxes that are containers of a Docker engine: levels `container`, `gvisor` and what else a runtime gives.
//!
//! One sandbox is one container with the shim as its first process. The engine is spoken to over its unix socket; it
//! is the authority on which containers exist, so nothing is written down here beside labels.
//!
//! # What a container gets
//! No capability, `no-new-privileges`, the seccomp profile `docker/seccomp.json`, a user of its
//! own, a read-only root, no network (or one that the operator allowed), its own pid, ipc, uts and cgroup namespaces,
//! no devices beside the engine's usual harmless ones, bounded processes, memory without swap, processors and log. Its
//! writable places:
//!
//! | path | what |
//! |---|---|
//! | `/session` | work directory: a tmpfs, or the volume of [`Files::Session`](crate::Files::Session) |
//! | `/tmp`, `/dev/shm` | tmpfs, sized |
//! | `/himalia/run` | tmpfs of the shim: sockets, connection files |
//!
//! Mounted read-only: `/himalia/gw` (the gateway's socket), `/himalia/bin/himalia-shim`, `/himalia/kernel`. What the
//! tmpfs can hold is added to the limit on memory, so that a full one is a full disk and never an out-of-memory kill.
//!
//! # Files on the host
//! `<run_dir>/<id>/` (0711): the gateway listens there on `gw.sock`; `key` lies there until it was proven. It may be
//! read by others, since the container's user is another one; the run directory itself is closed.
//!
//! # When the engine does not answer
//! Each call has a deadline and fails with a text that says what is wrong. Ends of containers come as events; after a
//! broken connection they are looked up. Sandboxes of a gateway carry a label with the hash of its run directory, so
//! that two gateways at one engine do not take each other's.

mod apart;
mod body;
mod change;
mod client;
mod config;
mod doctor;
mod ending;
mod events;
mod image;
mod inner;
mod mapping;
mod member;
mod names;
mod network;
mod provisioner;
mod seccomp;
mod shared;
mod start;
mod uids;
mod usage;
mod volume;

pub use config::DockerConfig;
pub use doctor::EngineReport;
pub use provisioner::DockerProvisioner;
pub use seccomp::SECCOMP_PROFILE;
