//! What tests of the whole need: kernels that follow a script, kernels that attack, a WebSocket client,
//! and a gateway to start, kill and start again.
//!
//! | module | what |
//! |---|---|
//! | [`fake`] | the kernel of the binary `himalia-fake-kernel`: scripts instead of Python, ready in milliseconds |
//! | [`hostile`] | the kernel of the binary `himalia-hostile-kernel`: speaks raw ZMTP and breaks its rules |
//! | [`client`] | a WebSocket client for both framings |
//! | [`cluster`] | the part of the Kubernetes API that the product calls, and a node that runs pods as processes |
//! | [`http`] | as much HTTP as a test needs |
//! | [`gateway`] | starts the `himalia` binary on a free port, kills and restarts it |
//! | [`otlp`] | a receiver of traces, as a collector is one |
//! | [`patience`] | waiting for a condition with a deadline: [`assert_eventually!`] |
//! | [`postgres`] | a Postgres server, one database per test |
//!
//! Nothing here is used by the product.

pub mod binaries;
pub mod client;
pub mod cluster;
pub mod fake;
pub mod gateway;
pub mod hostile;
pub mod http;
pub mod otlp;
pub mod patience;
pub mod postgres;
