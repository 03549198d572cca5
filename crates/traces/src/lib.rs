//! Spans of what the gateway does, from where they happen to an exporter.
//!
//! Spans say what was done, how long it took, and of which kernel and execution; never code, output, or names of files. Their queue is
//! bounded: what an exporter does not take in time is dropped and counted, and nothing waits for it. Without an exporter nothing is recorded.

mod record;
mod span;
mod traces;

pub use record::{SpanKind, SpanRecord, Value};
pub use span::Span;
pub use traces::{MAX_WAITING, Traces};
