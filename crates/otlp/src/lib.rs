//! Sends spans and log records to an OpenTelemetry collector: OTLP over HTTP, in protobuf.
//!
//! Spans: one task reads the queue, collects spans for a moment, and sends them together. A collector that does not respond is tried again
//! with pauses; meanwhile the queue fills up, and what does not fit is dropped and counted. Nothing waits for a collector.
//!
//! Log records are sent by their caller, who decides what happens to those that the collector did not take.

mod collector;
mod encode;
mod exporter;
mod logs;

pub use collector::{BadCollector, Collector};
pub use exporter::Exporter;
pub use logs::{LogEntry, LogSender};
