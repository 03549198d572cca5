//! One trace, from the client over two replicas to the kernel.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_otlp::{Collector, Exporter};
use himalia_testkit::client::{Connect, Framing, WsClient};
use himalia_testkit::otlp::TraceReceiver;
use himalia_testkit::patience::within;
use himalia_wire::{Channel, build, header};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};

use crate::support::{Replica, Replicas, TOKEN};

/// What is in code and output and must be nowhere in a trace.
const CANARY: &str = "canary";

/// Two replicas that send their spans to one receiver.
struct Traced {
    replicas: Replicas,
    receiver: TraceReceiver,
    exporters: Vec<Exporter>,
    spans: Vec<Span>,
}

impl Traced {
    async fn start() -> Self {
        let replicas = Replicas::start(2).await;
        let receiver = TraceReceiver::start(|_| (200, Vec::new())).await.unwrap();
        let mut exporters = Vec::new();
        for replica in &replicas.all {
            let (engine, collector) = (&replica.engine, Collector::new(&receiver.endpoint, "").unwrap());
            let counts = engine.counted().exports().traces.clone();
            let spans = engine.traces().open().unwrap();
            exporters.push(Exporter::start(collector, Vec::new(), spans, counts));
        }
        Self {
            replicas,
            receiver,
            exporters,
            spans: Vec::new(),
        }
    }

    /// Reads on until a span of this trace and name is there.
    async fn until(&mut self, trace: &str, name: &str) {
        let is_it = |span: &Span| hex(&span.trace_id) == trace && span.name == name;
        while !self.spans.iter().any(is_it) {
            let received = within(name, self.receiver.requests.recv())
                .await
                .unwrap()
                .unwrap();
            self.take(received.1.resource_spans);
        }
    }

    fn take(&mut self, all: Vec<opentelemetry_proto::tonic::trace::v1::ResourceSpans>) {
        let scopes = all.into_iter().flat_map(|one| one.scope_spans);
        self.spans.extend(scopes.flat_map(|scope| scope.spans));
    }

    /// The end of the replicas, and all spans.
    async fn stop(mut self) -> Vec<Span> {
        self.replicas.stop().await;
        for exporter in self.exporters.drain(..) {
            exporter.finish(Duration::from_mins(1)).await;
        }
        while let Ok((_, request)) = self.receiver.requests.try_recv() {
            let scopes = request.resource_spans.into_iter().flat_map(|one| one.scope_spans);
            self.spans.extend(scopes.flat_map(|scope| scope.spans));
        }
        let shown = format!("{:?}", self.spans);
        assert!(!shown.contains(CANARY), "{shown}");
        self.spans
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn text(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|one| one.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text.clone()),
        Any::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The spans of one trace as paths of names from the client's span, with how often each is there. No span is without its parent.
fn tree(spans: &[Span], trace: &str, root: &str) -> BTreeMap<String, usize> {
    let of_trace: Vec<&Span> = spans.iter().filter(|span| hex(&span.trace_id) == trace).collect();
    let path = |span: &Span| {
        let (mut names, mut at) = (vec![span.name.clone()], span);
        while hex(&at.parent_span_id) != root {
            let parent = of_trace.iter().find(|other| other.span_id == at.parent_span_id);
            at = parent.unwrap_or_else(|| panic!("{} has no parent in {of_trace:?}", at.name));
            names.push(at.name.clone());
        }
        names.reverse();
        names.join(" > ")
    };
    let mut paths = BTreeMap::new();
    for span in &of_trace {
        *paths.entry(path(span)).or_default() += 1;
    }
    paths
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Executes over REST in a client's trace: the `traceparent` of the response, which is of the same trace and sampled or not as the client
/// says, and its body.
async fn executed(near: &Replica, kernel: &str, code: &str, trace: &str, flags: &str) -> (String, Value) {
    let path = format!("/v1/sessions/{kernel}/executions");
    let body = json!({"code": code, "wait_s": 60}).to_string();
    let parent = format!("00-{trace}-{SPAN}-{flags}");
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", parent.as_str()),
    ];
    let reply = near
        .http()
        .request("POST", &path, &headers, Some(body.as_bytes()))
        .await
        .unwrap();
    let given = reply.header("traceparent").unwrap().to_owned();
    let ends = format!("-{flags}");
    assert!(
        given.starts_with(&format!("00-{trace}-")) && given.ends_with(&ends),
        "{given}"
    );
    (given, reply.expect(200).unwrap().json().unwrap())
}

#[tokio::test]
async fn an_execution_over_rest_is_one_tree_below_the_client() {
    let mut traced = Traced::start().await;
    let [near, owner] = &traced.replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let code = format!("print {CANARY}");
    let (given, result) = executed(near, &kernel, &code, TRACE, "01").await;
    assert_eq!(result["status"], "ok", "{result}");
    let post = "POST /v1/sessions/{session_id}/executions";
    traced.until(TRACE, "himalia.relay").await;
    let spans = traced.stop().await;
    let ran = format!("{post} > himalia.relay > {post} > himalia.submit > himalia.execution");
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for end in ["", " > himalia.queue", " > himalia.shim", " > himalia.kernel"] {
        wanted.insert(format!("{ran}{end}"), 1);
    }
    let mut before = ran.as_str();
    while let Some((rest, _)) = before.rsplit_once(" > ") {
        wanted.insert(rest.to_owned(), 1);
        before = rest;
    }
    assert_eq!(tree(&spans, TRACE, SPAN), wanted);
    let of = |name: &str| {
        let mut found = spans
            .iter()
            .filter(|span| span.name == name && hex(&span.trace_id) == TRACE);
        found.next().unwrap()
    };
    let execution = of("himalia.execution");
    assert_eq!(
        text(execution, "himalia.execution.id"),
        result["id"].as_str().map(str::to_owned)
    );
    assert_eq!(text(execution, "himalia.kernel.id"), Some(kernel));
    assert_eq!(
        text(of("himalia.relay"), "himalia.replica").as_deref(),
        Some("r1")
    );
    assert_eq!(
        text(of(post), "http.response.status_code").as_deref(),
        Some("200")
    );
    let first = spans
        .iter()
        .find(|span| hex(&span.parent_span_id) == SPAN)
        .unwrap();
    assert_eq!(given, format!("00-{TRACE}-{}-01", hex(&first.span_id)));
    // Queue, shim and kernel follow each other and fill the execution.
    let (queue, shim, kernel) = (of("himalia.queue"), of("himalia.shim"), of("himalia.kernel"));
    assert_eq!(queue.start_time_unix_nano, execution.start_time_unix_nano);
    assert_eq!(shim.end_time_unix_nano, kernel.start_time_unix_nano);
    assert_eq!(kernel.end_time_unix_nano, execution.end_time_unix_nano);
    assert!(queue.end_time_unix_nano <= shim.start_time_unix_nano);
    // The kernel may be busy before the shim has said that it has it.
    assert!(shim.events.len() <= 1, "{shim:?}");
}

#[tokio::test]
async fn executions_over_a_websocket_are_below_their_metadata_or_the_upgrade() {
    let mut traced = Traced::start().await;
    let [near, owner] = &traced.replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let upgrade = "0af7651916cd43dd8448eb211c80319c";
    let connect = Connect {
        token: Some(TOKEN.into()),
        session_id: Some("s".into()),
        framing: Framing::V1,
        headers: vec![("traceparent", format!("00-{upgrade}-{SPAN}-01"))],
        ..Connect::new(format!("ws://{}/api/kernels/{kernel}/channels", near.address))
    };
    let mut client = WsClient::connect(&connect).await.unwrap();
    client.execute(&format!("print {CANARY}")).await.unwrap();
    let content = json!({"code": "error Boom", "silent": false, "store_history": true, "user_expressions": {},
        "allow_stdin": false, "stop_on_error": true});
    let mut parts = build::message(client.session(), "execute_request", None, &content);
    parts.metadata = json!({"traceparent": format!("00-{TRACE}-{SPAN}-01")})
        .to_string()
        .into();
    let msg_id = header::peek(&parts.header).unwrap().msg_id.into_owned();
    client.send(Channel::Shell, &parts).await.unwrap();
    client.finish(&msg_id).await.unwrap();
    traced.until(TRACE, "himalia.execution").await;
    client.close().await.unwrap();
    let spans = traced.stop().await;
    let below = ["", " > himalia.queue", " > himalia.shim", " > himalia.kernel"];
    let wanted: BTreeMap<String, usize> = below
        .iter()
        .map(|end| (format!("himalia.execution{end}"), 1))
        .collect();
    assert_eq!(tree(&spans, TRACE, SPAN), wanted);
    let mut paths = tree(&spans, upgrade, SPAN);
    paths.retain(|path, _| path.contains("himalia.execution"));
    let attach = "GET /api/kernels/{kernel_id}/channels > himalia.relay > POST > himalia.attach";
    let wanted: BTreeMap<String, usize> = below
        .iter()
        .map(|end| (format!("{attach} > himalia.execution{end}"), 1))
        .collect();
    assert_eq!(paths, wanted);
}

#[tokio::test]
async fn what_the_client_does_not_sample_is_not_recorded() {
    let mut traced = Traced::start().await;
    let [near, owner] = &traced.replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let other = "0af7651916cd43dd8448eb211c80319c";
    for (trace, flags) in [(other, "00"), (TRACE, "01")] {
        let (_, result) = executed(near, &kernel, "result 1", trace, flags).await;
        assert_eq!(result["status"], "ok");
    }
    traced.until(TRACE, "himalia.execution").await;
    let spans = traced.stop().await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) != other), "{spans:?}");
}
