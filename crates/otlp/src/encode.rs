//! Spans and log records as messages of OTLP.

use himalia_traces::{SpanKind, SpanRecord, Value};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span, status};
use prost::Message as _;

/// The name of the part that makes the spans.
const SCOPE: &str = "himalia";

/// One request with these spans, of a gateway that is described by `resource`.
pub(crate) fn request(resource: &[(&'static str, String)], spans: &[SpanRecord]) -> Vec<u8> {
    let scope_spans = ScopeSpans {
        scope: Some(scope()),
        spans: spans.iter().map(span_of).collect(),
        ..ScopeSpans::default()
    };
    let resource_spans = ResourceSpans {
        resource: Some(described(resource)),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![resource_spans],
    }
    .encode_to_vec()
}

pub(crate) fn logs(resource: &[(&'static str, String)], entries: impl Iterator<Item = LogRecord>) -> Vec<u8> {
    let scope_logs = ScopeLogs {
        scope: Some(scope()),
        log_records: entries.collect(),
        ..ScopeLogs::default()
    };
    let resource_logs = ResourceLogs {
        resource: Some(described(resource)),
        scope_logs: vec![scope_logs],
        ..ResourceLogs::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![resource_logs],
    }
    .encode_to_vec()
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn described(resource: &[(&'static str, String)]) -> Resource {
    let attributes = resource
        .iter()
        .map(|(name, value)| attribute(name, text(value.clone())));
    Resource {
        attributes: attributes.collect(),
        ..Resource::default()
    }
}

pub(crate) fn attribute(name: &str, value: AnyValue) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(value),
        ..KeyValue::default()
    }
}

pub(crate) fn text(text: String) -> AnyValue {
    AnyValue {
        value: Some(any_value::Value::StringValue(text)),
    }
}

pub(crate) fn number(number: i64) -> AnyValue {
    AnyValue {
        value: Some(any_value::Value::IntValue(number)),
    }
}

fn span_of(record: &SpanRecord) -> Span {
    let nanos = |micros: u64| micros.saturating_mul(1000);
    let attributes = record.attributes.iter().map(|(name, value)| {
        let value = match value {
            Value::Text(value) => text(value.clone().into_owned()),
            Value::Number(value) => number(*value),
        };
        attribute(name, value)
    });
    let events = record.events.iter().map(|(name, at)| span::Event {
        time_unix_nano: nanos(*at),
        name: (*name).to_owned(),
        ..span::Event::default()
    });
    let kind = match record.kind {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
    };
    Span {
        trace_id: record.context.trace_id().to_vec(),
        span_id: record.context.span_id().to_vec(),
        parent_span_id: record.parent.map_or_else(Vec::new, |parent| parent.to_vec()),
        // Sampled.
        flags: 1,
        name: record.name.clone().into_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(record.begun),
        end_time_unix_nano: nanos(record.ended),
        attributes: attributes.collect(),
        events: events.collect(),
        status: record.error.as_ref().map(|error| Status {
            message: error.clone().into_owned(),
            code: status::StatusCode::Error.into(),
        }),
        ..Span::default()
    }
}
