//! Tests of the HTTP interface on loopback.
//!
//! One program for all files: each would link the whole crate again.

mod api;
mod auth;
mod common;
mod e2b;
mod fairness;
mod hooks;
mod lease;
mod limits;
mod metrics;
mod mounted;
mod openapi;
mod refused;
mod routes;
mod sessions;
mod tenants;
mod tls;
mod tokens;
mod viewer;
