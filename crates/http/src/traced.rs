//! The span of a request: below the one that its `traceparent` names, and above all that the gateway does for it.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use himalia_engine::{Span, SpanKind, TraceContext, Traces};

/// W3C Trace Context: given by clients and between replicas, and in responses.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The span of a request, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InSpan(pub(crate) TraceContext);

/// Begins the span of a request. `None` without an exporter.
pub(crate) fn begin(
    traces: &Traces,
    request: &mut Request,
    method: &'static str,
    parent: Option<TraceContext>,
) -> Option<Span> {
    let mut span = traces.begin(method, SpanKind::Server, parent)?;
    span.set("http.request.method", method);
    request.extensions_mut().insert(InSpan(span.context()));
    Some(span)
}

/// It was answered. `route` is one of the table.
pub(crate) fn answered(span: &mut Span, method: &'static str, route: Option<&'static str>, status: u16) {
    if let Some(route) = route {
        span.rename(format!("{method} {route}"));
        span.set("http.route", route);
    }
    span.set("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.fail(status.to_string());
    }
}

/// The span that headers name, if it is one.
pub(crate) fn named(headers: &HeaderMap) -> Option<TraceContext> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let (first, more) = (all.next()?, all.next());
    first
        .to_str()
        .ok()
        .filter(|_| more.is_none())?
        .trim()
        .parse()
        .ok()
}

/// Names a span in headers, in place of one that they name.
pub(crate) fn name(headers: &mut HeaderMap, context: TraceContext) {
    if let Ok(value) = HeaderValue::from_str(&context.to_string()) {
        headers.insert(TRACEPARENT, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_traceparent_counts_and_is_replaced() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut headers = HeaderMap::new();
        assert_eq!(named(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static("00-x"));
        assert_eq!(named(&headers), None);
        name(&mut headers, text.parse().unwrap());
        assert_eq!(named(&headers).unwrap().to_string(), text);
        headers.append(TRACEPARENT, HeaderValue::from_static("00-x"));
        assert_eq!(named(&headers), None);
    }
}
