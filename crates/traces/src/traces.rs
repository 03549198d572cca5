//! Recorder of spans.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use himalia_metrics::ExportCounts;
use himalia_model::TraceContext;
use tokio::sync::mpsc;

use crate::record::{SpanKind, SpanRecord};
use crate::span::Span;

/// Spans that wait for the exporter; more are dropped.
pub const MAX_WAITING: usize = 8192;

/// Recorder of spans. Clones name the same.
#[derive(Clone)]
pub struct Traces(Arc<Inner>);

struct Inner {
    queue: OnceLock<mpsc::Sender<SpanRecord>>,
    counts: ExportCounts,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traces")
    }
}

impl Traces {
    /// Creates a recorder that drops spans until [`Traces::open`].
    pub fn new(counts: ExportCounts) -> Self {
        Self(Arc::new(Inner {
            queue: OnceLock::new(),
            counts,
        }))
    }

    /// From now on spans are recorded, for the reader of this. `None` if there is one already.
    pub fn open(&self) -> Option<mpsc::Receiver<SpanRecord>> {
        let (queue, spans) = mpsc::channel(MAX_WAITING);
        self.0.queue.set(queue).ok()?;
        Some(spans)
    }

    /// True if spans are recorded.
    pub fn is_on(&self) -> bool {
        self.0.queue.get().is_some()
    }

    /// Begins a span below `parent`, or a new trace. `None` if nothing is recorded. What its parent does not sample is not recorded, but
    /// has a context, so that nothing below begins a trace of its own.
    pub fn begin(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        parent: Option<TraceContext>,
    ) -> Option<Span> {
        if !self.is_on() {
            return None;
        }
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        let (trace, span) = random.split_at(16);
        let span = u64::from_be_bytes(span.try_into().ok()?);
        let context = match parent {
            Some(parent) => parent.with_span(span),
            None => TraceContext::new(u128::from_be_bytes(trace.try_into().ok()?), span.max(1), true)?,
        };
        let record = SpanRecord {
            name: name.into(),
            kind,
            context,
            parent: parent.map(|parent| parent.span_id()),
            begun: now_micros(),
            ended: 0,
            attributes: Vec::new(),
            events: Vec::new(),
            error: None,
        };
        Some(Span::new(self.clone(), record))
    }

    /// Records a span that has ended, if its trace is sampled. Never waits.
    pub fn record(&self, span: SpanRecord) {
        let Some(queue) = self.0.queue.get().filter(|_| span.context.is_sampled()) else {
            return;
        };
        if queue.try_send(span).is_err() {
            self.0.counts.dropped.inc();
        }
    }
}

fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends by panicking")]
mod tests {
    use himalia_metrics::Metrics;

    use super::*;

    fn traces() -> (Traces, ExportCounts) {
        let counts = Metrics::new().exports().traces.clone();
        (Traces::new(counts.clone()), counts)
    }

    #[test]
    fn without_a_reader_there_are_no_spans() {
        let (traces, counts) = traces();
        assert!(traces.begin("x", SpanKind::Server, None).is_none());
        assert!(!traces.is_on() && counts.dropped.get() == 0);
    }

    #[test]
    fn a_span_is_below_its_parent_and_ends_when_it_is_dropped() {
        let (traces, _) = traces();
        let mut spans = traces.open().unwrap();
        assert!(traces.open().is_none());
        let mut root = traces.begin("root", SpanKind::Server, None).unwrap();
        root.set("n", 7);
        let context = root.context();
        drop(traces.begin("child", SpanKind::Client, Some(context)));
        root.fail("busy");
        drop(root);
        let (child, root) = (spans.try_recv().unwrap(), spans.try_recv().unwrap());
        assert_eq!((&*child.name, &*root.name), ("child", "root"));
        assert_eq!(child.parent, Some(root.context.span_id()));
        assert_eq!(child.context.trace_id(), root.context.trace_id());
        assert_eq!((root.parent, root.error.as_deref()), (None, Some("busy")));
        assert_eq!(root.attributes, [("n", Value::Number(7))]);
        assert!(root.ended >= root.begun && child.begun >= root.begun);
    }

    use crate::record::Value;

    #[test]
    fn what_is_not_sampled_is_not_recorded_and_begins_no_other_trace() {
        let (traces, counts) = traces();
        let mut spans = traces.open().unwrap();
        let parent = TraceContext::new(5, 6, false).unwrap();
        let span = traces.begin("x", SpanKind::Server, Some(parent)).unwrap();
        assert!(!span.context().is_sampled());
        assert_eq!(span.context().trace_id(), parent.trace_id());
        drop(span);
        assert!(spans.try_recv().is_err() && counts.dropped.get() == 0);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (traces, counts) = traces();
        let mut spans = traces.open().unwrap();
        for _ in 0..MAX_WAITING + 3 {
            drop(traces.begin("x", SpanKind::Server, None));
        }
        assert_eq!(counts.dropped.get(), 3);
        assert!(spans.try_recv().is_ok());
        drop(spans);
        drop(traces.begin("x", SpanKind::Server, None));
        assert_eq!(counts.dropped.get(), 4);
    }
}
