//! A span that has not ended.

use std::borrow::Cow;
use std::time::Instant;

use himalia_model::TraceContext;

use crate::record::{SpanRecord, Value};
use crate::traces::Traces;

/// A span that has not ended. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    traces: Traces,
    begun: Instant,
    /// Record whose end is still to be set.
    record: SpanRecord,
}

impl Span {
    pub(crate) fn new(traces: Traces, record: SpanRecord) -> Self {
        Self {
            traces,
            begun: Instant::now(),
            record,
        }
    }

    /// Context for child spans.
    pub fn context(&self) -> TraceContext {
        self.record.context
    }

    /// Gives it another name, once more is known.
    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        self.record.name = name.into();
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.record.attributes.push((name, value.into()));
    }

    /// It has failed: why, as a code or in a short text of this gateway's own.
    pub fn fail(&mut self, why: impl Into<Cow<'static, str>>) {
        self.record.error = Some(why.into());
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // The wall clock may have been set meanwhile.
        let took = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.record.ended = self.record.begun.saturating_add(took);
        let record = &mut self.record;
        self.traces.record(SpanRecord {
            name: std::mem::take(&mut record.name),
            attributes: std::mem::take(&mut record.attributes),
            events: std::mem::take(&mut record.events),
            error: record.error.take(),
            ..*record
        });
    }
}
