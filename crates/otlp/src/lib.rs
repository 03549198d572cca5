//! Sends spans to an OpenTelemetry collector: OTLP over HTTP, in protobuf.
//!
//! One task reads the queue, collects spans for a moment, and sends them together. A collector that does not respond is tried again
//! with pauses; meanwhile the queue fills up, and what does not fit is dropped and counted. Nothing waits for a collector.

mod collector;
mod encode;
mod exporter;

pub use collector::{BadCollector, Collector};
pub use exporter::Exporter;
