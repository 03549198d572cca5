//! Against a receiver that speaks real HTTP.

use himalia_metrics::{ExportCounts, Metrics};
use himalia_testkit::otlp::TraceReceiver;
use himalia_traces::{SpanKind, Traces};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;

use super::*;

fn started(endpoint: &str) -> (Traces, Exporter, ExportCounts) {
    let counts = Metrics::new().exports().traces.clone();
    let traces = Traces::new(counts.clone());
    let collector = Collector::new(endpoint, "X-Key: k").unwrap();
    let resource = vec![("service.name", "himalia".to_owned())];
    let exporter = Exporter::start(collector, resource, traces.open().unwrap(), counts.clone());
    (traces, exporter, counts)
}

#[tokio::test]
async fn spans_arrive_as_they_were_with_the_headers() {
    let mut receiver = TraceReceiver::start(|_| (200, Vec::new())).await.unwrap();
    let (traces, exporter, counts) = started(&receiver.endpoint);
    let mut span = traces.begin("GET /x", SpanKind::Server, None).unwrap();
    span.set("http.response.status_code", 404);
    span.set("http.route", "/x");
    span.fail("not_found");
    let context = span.context();
    drop(span);
    let (head, request) = receiver.requests.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains("x-key: k\r\n") && head.contains("content-type: application/x-protobuf\r\n"));
    let resource = &request.resource_spans[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    assert_eq!(attributes[0].key, "service.name");
    let span = &resource.scope_spans[0].spans[0];
    assert_eq!((span.name.as_str(), span.kind), ("GET /x", 2));
    assert_eq!(span.trace_id, context.trace_id());
    assert_eq!(span.span_id, context.span_id());
    assert!(span.parent_span_id.is_empty());
    assert_eq!(span.status.as_ref().unwrap().code, 2);
    assert_eq!(span.attributes.len(), 2);
    assert!(span.start_time_unix_nano > 1_600_000_000_000_000_000);
    exporter.finish(Duration::from_secs(10)).await;
    assert_eq!((counts.sent.get(), counts.dropped.get()), (1, 0));
}

#[tokio::test]
async fn what_waits_is_sent_at_the_end() {
    let mut receiver = TraceReceiver::start(|_| (200, Vec::new())).await.unwrap();
    let (traces, exporter, counts) = started(&receiver.endpoint);
    for _ in 0..1300 {
        drop(traces.begin("x", SpanKind::Internal, None));
    }
    exporter.finish(Duration::from_secs(30)).await;
    assert_eq!((counts.sent.get(), counts.dropped.get()), (1300, 0));
    let mut sizes = Vec::new();
    while let Ok((_, request)) = receiver.requests.try_recv() {
        sizes.push(request.resource_spans[0].scope_spans[0].spans.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 1300);
    assert!(sizes.iter().all(|size| *size <= BATCH), "{sizes:?}");
}

#[tokio::test]
async fn a_collector_that_is_busy_is_tried_again_and_what_it_refuses_is_counted() {
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: String::new(),
        }),
    };
    let partial = partial.encode_to_vec();
    let mut receiver = TraceReceiver::start(move |number| match number {
        0 => (503, Vec::new()),
        1 => (200, partial.clone()),
        _ => (400, Vec::new()),
    })
    .await
    .unwrap();
    let (traces, exporter, counts) = started(&receiver.endpoint);
    for _ in 0..3 {
        drop(traces.begin("x", SpanKind::Internal, None));
    }
    let first = receiver.requests.recv().await.unwrap().1;
    assert_eq!(receiver.requests.recv().await.unwrap().1, first);
    drop(traces.begin("y", SpanKind::Internal, None));
    receiver.requests.recv().await.unwrap();
    exporter.finish(Duration::from_secs(10)).await;
    assert_eq!((counts.sent.get(), counts.dropped.get()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_dead_collector_costs_spans_and_nothing_else() {
    // Bound and never accepted: connections are made, and nothing responds.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (traces, exporter, counts) = started(&endpoint);
    let count = himalia_traces::MAX_WAITING as u64 + 2 * BATCH as u64;
    for _ in 0..count {
        drop(traces.begin("x", SpanKind::Internal, None));
    }
    assert!(counts.dropped.get() >= BATCH as u64);
    exporter.finish(Duration::from_secs(5)).await;
    drop(traces.begin("x", SpanKind::Internal, None));
    assert_eq!(counts.sent.get(), 0);
}
