//! Sandboxes as pods of a Kubernetes cluster: one pod for each.
//!
//! The shim is the first process of the kernel's container. An init container copies it into a volume, so that the image
//! need not have it. It listens on [`PORT`] with mutual TLS, and the gateway dials: a pod needs no way out. Its key and
//! certificate come from a secret that the init container alone mounts, and that is deleted when the shim runs.
//!
//! The provisioner calls the API server with typed objects alone, in one namespace, and watches the pods of its gateway by
//! their labels. What a pod's status says becomes a cause that an operator can act on (`observe`).

mod authorities;
mod config;
mod connect;
mod doctor;
mod error;
mod files;
mod inner;
mod member;
mod names;
mod nodes;
mod observe;
mod pod;
mod provisioner;
mod start;
mod watch;

pub use config::{DEFAULT_KIND, KubernetesConfig, PORT, PodKind};
pub use connect::connect;
pub use doctor::{Check, Verdict, examine};
pub use kube::Client;
pub use provisioner::KubernetesProvisioner;
