//! Place of an execution in a trace, and the spans of its way: queue, shim, kernel.
//!
//! An execution is a span below the caller's, with a span for each place on its way below it. Their ids follow from the caller's span and
//! the execution, so that the kernel can have them before they have ended, and are known again after a restart of the gateway.
//!
//! The shim and the kernel send nothing to a collector: a sandbox reaches no network, and what it sent could not be believed. The gateway records
//! what it saw. The span `himalia.shim` goes from the sending to the moment when the kernel is busy with it, with the moment when the shim had
//! accepted it as an event; `himalia.kernel` from there to reply and idle.

use std::borrow::Cow;

use himalia_model::{KernelId, TraceContext};
use himalia_traces::{SpanKind, SpanRecord};

/// Numbers of the spans below that of an execution: of the queue, and of the shim and the kernel in its first attempt.
const QUEUE: u64 = 0;
const SHIM: u64 = 1;
const KERNEL: u64 = 2;
/// The same in the next attempt are so many further.
const PER_ATTEMPT: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// The span of its execution.
    execution: TraceContext,
    /// Trace of a client's request: the span that this is below, and the time of the request, in microseconds since 1970. The execution of a native
    /// caller has a span of its own.
    client: Option<(TraceContext, u64)>,
    /// Counts how often it was sent, from 1.
    attempt: u32,
}

impl TracedRequest {
    /// A client's request below this span; `key` distinguishes it from others below the same. `None` if that is not sampled.
    pub fn of_client(caller: TraceContext, key: u64) -> Option<Self> {
        caller.is_sampled().then(|| Self {
            execution: caller.numbered(key),
            client: Some((caller, 0)),
            attempt: 1,
        })
    }

    /// A native execution's request.
    pub(crate) fn of_execution(execution: TraceContext, attempt: u32) -> Self {
        Self {
            execution,
            client: None,
            attempt,
        }
    }

    /// A client's request has come.
    pub(crate) fn received(&mut self, wall: u64) {
        if let Some((_, since @ 0)) = &mut self.client {
            *since = wall;
        }
    }

    /// The span of the kernel, for instruments in the kernel.
    pub(crate) fn kernel(&self) -> TraceContext {
        self.numbered(KERNEL)
    }

    fn numbered(&self, place: u64) -> TraceContext {
        let earlier = u64::from(self.attempt.saturating_sub(1));
        self.execution.numbered(place + earlier * PER_ATTEMPT)
    }
}

/// The span of a native execution, by the number of its first record.
pub(crate) fn of_execution(caller: TraceContext, seq: u64) -> TraceContext {
    caller.numbered(seq)
}

/// Progress of a traced request, with times in microseconds since 1970; 0 = not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTiming {
    traced: TracedRequest,
    sent: u64,
    accepted: u64,
    began: u64,
    /// `error` or `aborted`, by its reply.
    failed: Option<&'static str>,
}

impl RequestTiming {
    pub(crate) fn new(traced: TracedRequest) -> Self {
        Self {
            traced,
            sent: 0,
            accepted: 0,
            began: 0,
            failed: None,
        }
    }

    pub(crate) fn traced(&self) -> TracedRequest {
        self.traced
    }

    pub(crate) fn sent(&mut self, wall: u64) {
        self.sent = wall;
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.accepted != 0
    }

    pub(crate) fn accepted(&mut self, wall: u64) {
        self.accepted = wall;
    }

    pub(crate) fn began(&mut self, wall: u64) {
        if self.began == 0 {
            self.began = wall;
        }
    }

    pub(crate) fn failed(&mut self, how: &'static str) {
        self.failed = Some(how);
    }

    /// Spans of a request that has ended. `lost`: with the process that had it.
    pub(crate) fn spans(&self, ended: u64, lost: bool) -> impl Iterator<Item = Step> {
        let execution = self.traced.execution;
        let error = if lost { Some("lost") } else { self.failed };
        let below = |place, name, begun, ended| Step {
            name,
            context: self.traced.numbered(place),
            parent: execution,
            begun,
            ended,
            accepted: None,
            seq: None,
            error: None,
        };
        let client = self.traced.client.map(|(caller, since)| {
            let sent = if self.sent == 0 { ended } else { self.sent };
            let whole = Step {
                name: "himalia.execution",
                context: execution,
                parent: caller,
                error,
                ..below(QUEUE, "", since, ended)
            };
            [whole, below(QUEUE, "himalia.queue", since, sent)]
        });
        let shim = (self.sent != 0).then(|| {
            let busy = if self.began == 0 { ended } else { self.began };
            Step {
                // The news of it may come later than the first output.
                accepted: (self.sent..=busy)
                    .contains(&self.accepted)
                    .then_some(self.accepted),
                ..below(SHIM, "himalia.shim", self.sent, busy)
            }
        });
        let kernel = (self.began != 0).then(|| Step {
            error,
            ..below(KERNEL, "himalia.kernel", self.began, ended)
        });
        client.into_iter().flatten().chain(shim).chain(kernel)
    }
}

/// A span of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    name: &'static str,
    context: TraceContext,
    parent: TraceContext,
    begun: u64,
    ended: u64,
    accepted: Option<u64>,
    /// The execution, if it is native: the number of its first record.
    seq: Option<u64>,
    error: Option<&'static str>,
}

impl Step {
    /// A native execution that has waited for its turn.
    pub(crate) fn queue(execution: TraceContext, begun: u64, ended: u64) -> Self {
        Self {
            name: "himalia.queue",
            context: execution.numbered(QUEUE),
            parent: execution,
            begun,
            ended,
            accepted: None,
            seq: None,
            error: None,
        }
    }

    /// A native execution that has ended; `error` is an outcome that is none of success.
    pub(crate) fn execution(
        caller: TraceContext,
        seq: u64,
        begun: u64,
        ended: u64,
        error: Option<&'static str>,
    ) -> Self {
        Self {
            name: "himalia.execution",
            context: of_execution(caller, seq),
            parent: caller,
            seq: Some(seq),
            error,
            ..Self::queue(caller, begun, ended)
        }
    }

    /// For the exporter.
    pub(crate) fn record(self, kernel: KernelId) -> SpanRecord {
        let mut attributes = vec![("himalia.kernel.id", kernel.to_string().into())];
        if let Some(seq) = self.seq {
            attributes.push((
                "himalia.execution.id",
                format!("exe_{}_{seq}", kernel.0.simple()).into(),
            ));
        }
        SpanRecord {
            name: Cow::Borrowed(self.name),
            kind: SpanKind::Internal,
            context: self.context,
            parent: Some(self.parent.span_id()),
            begun: self.begun,
            ended: self.ended.max(self.begun),
            attributes,
            events: self.accepted.map(|at| ("accepted", at)).into_iter().collect(),
            error: self.error.map(Cow::Borrowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> RequestTiming {
        let caller = TraceContext::new(1, 2, true).unwrap();
        let mut traced = TracedRequest::of_client(caller, 7).unwrap();
        traced.received(100);
        RequestTiming::new(traced)
    }

    /// Name, begin, end, events and error.
    type Seen = (String, u64, u64, Vec<(&'static str, u64)>, Option<String>);

    fn spans(way: &RequestTiming, lost: bool) -> Vec<Seen> {
        let kernel = KernelId::random();
        way.spans(900, lost)
            .map(|step| step.record(kernel))
            .map(|span| {
                let error = span.error.map(Cow::into_owned);
                (span.name.into_owned(), span.begun, span.ended, span.events, error)
            })
            .collect()
    }

    #[test]
    fn the_places_on_the_way_follow_each_other() {
        let mut way = way();
        way.sent(200);
        way.accepted(300);
        way.began(400);
        way.failed("error");
        let error = Some("error".to_owned());
        assert_eq!(
            spans(&way, false),
            [
                (
                    "himalia.execution".to_owned(),
                    100,
                    900,
                    Vec::new(),
                    error.clone()
                ),
                ("himalia.queue".to_owned(), 100, 200, Vec::new(), None),
                ("himalia.shim".to_owned(), 200, 400, vec![("accepted", 300)], None),
                ("himalia.kernel".to_owned(), 400, 900, Vec::new(), error),
            ]
        );
        way.accepted(500);
        assert!(spans(&way, false)[2].3.is_empty(), "later than the span");
    }

    #[test]
    fn what_is_lost_ends_where_it_was() {
        let mut way = way();
        let lost = Some("lost".to_owned());
        let names = |way: &RequestTiming| {
            spans(way, true)
                .into_iter()
                .map(|span| span.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&way), ["himalia.execution", "himalia.queue"]);
        assert_eq!(spans(&way, true)[0].4, lost);
        way.sent(200);
        let all = spans(&way, true);
        assert_eq!((all.len(), all[2].1, all[2].2), (3, 200, 900));
    }

    #[test]
    fn what_is_not_sampled_has_no_way() {
        let caller = TraceContext::new(1, 2, false).unwrap();
        assert!(TracedRequest::of_client(caller, 7).is_none());
    }

    #[test]
    fn each_attempt_has_spans_of_its_own() {
        let execution = TraceContext::new(1, 2, true).unwrap();
        let of = |attempt| TracedRequest::of_execution(execution, attempt);
        let (first, second) = (of(1), of(2));
        let ids = [
            first.numbered(SHIM),
            first.kernel(),
            second.numbered(SHIM),
            second.kernel(),
            execution.numbered(QUEUE),
        ];
        let distinct: std::collections::HashSet<_> = ids.into_iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }
}
