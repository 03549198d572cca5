//! Servers of the revision without `initialize`: each request stands for itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::support::*;
use crate::call::CallError;
use crate::person::{Person, Question};
use crate::servers::Caller;

/// Answers what is not a call. `list` is the result of `tools/list` without its type.
async fn answered(request: Request, mut stream: TcpStream, list: &Value) -> Option<(Request, TcpStream)> {
    let own = match request.json()["method"].as_str() {
        Some("server/discover") => json!({
            "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        }),
        Some("tools/list") => list.clone(),
        Some("tools/call") => return Some((request, stream)),
        _ => json!({}),
    };
    let mut own = own;
    own["resultType"] = json!("complete");
    respond_json(&mut stream, &result(&request, &own)).await;
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_go_into_headers_too_and_a_tool_with_a_wrong_name_of_one_is_left_out() {
    let list = json!({"tools": [
        {"name": "good", "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}},
        {"name": "bad", "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "A B"}}}},
    ]});
    let server = Raw::start(move |request, stream| {
        let list = list.clone();
        Box::pin(async move {
            if let Some((request, mut stream)) = answered(request, stream, &list).await {
                let header = request.headers.get("mcp-param-region").cloned();
                respond_json(&mut stream, &result(&request, &text(&header.unwrap_or_default()))).await;
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    let call = servers.call(ME, "a", "good", arguments(json!({"region": "eu west"})), LIMITS);
    assert_eq!(call.await.unwrap().content, json!("eu west"));
    let tools = &servers.snapshot()[0].tools;
    assert_eq!(tools.tools().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_with_the_state_of_its_server_and_without_an_answer_of_a_person() {
    let rounds = Arc::new(Mutex::new(Vec::<Value>::new()));
    let seen = Arc::clone(&rounds);
    let list = json!({"tools": tools(&["once", "always"])});
    let server = Raw::start(move |request, stream| {
        let (list, seen) = (list.clone(), Arc::clone(&seen));
        Box::pin(async move {
            if let Some((request, mut stream)) = answered(request, stream, &list).await {
                let message = request.json();
                let is_first = message["params"].get("requestState").is_none();
                seen.lock().unwrap().push(message);
                let own = if is_first || request.tool().unwrap() == "always" {
                    let question = json!({"method": "elicitation/create", "params": {"message": "Sure?"}});
                    json!({"resultType": "input_required", "inputRequests": {"sure": question}, "requestState": "s/1"})
                } else {
                    text("done")
                };
                respond_json(&mut stream, &result(&request, &own)).await;
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    assert_eq!(call(&servers, "a", "once").await.unwrap().content, json!("done"));
    {
        let rounds = rounds.lock().unwrap();
        assert_eq!(rounds.len(), 2);
        assert_ne!(rounds[0]["id"], rounds[1]["id"]);
        assert_eq!(rounds[1]["params"]["requestState"], "s/1");
        assert_eq!(
            rounds[1]["params"]["inputResponses"],
            json!({"sure": {"action": "decline"}})
        );
    }
    let error = call(&servers, "a", "always").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Failed(text) if text.contains("more than 8 times")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_again_when_its_server_says_that_it_is_old() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lists);
    let server = Raw::start(move |request, stream| {
        let count = Arc::clone(&count);
        Box::pin(async move {
            if request.json()["method"] == "tools/list" {
                count.fetch_add(1, Ordering::SeqCst);
            }
            let list = json!({"tools": tools(&["x"]), "ttlMs": 5, "cacheScope": "private"});
            answered(request, stream, &list).await;
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    until(&servers, |_| lists.load(Ordering::SeqCst) >= 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_other_headers_is_listed_again_and_called_again_once() {
    let (lists, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (listed, called) = (Arc::clone(&lists), Arc::clone(&calls));
    let server = Raw::start(move |request, stream| {
        let (listed, called) = (Arc::clone(&listed), Arc::clone(&called));
        Box::pin(async move {
            let is_list = request.json()["method"] == "tools/list";
            let is_first = is_list && listed.fetch_add(1, Ordering::SeqCst) == 0;
            let header = if is_first { "Region" } else { "Zone" };
            let schema =
                json!({"type": "object", "properties": {"at": {"type": "string", "x-mcp-header": header}}});
            let list = json!({"tools": [{"name": "x", "inputSchema": schema}, {"name": "never", "inputSchema": schema}]});
            if let Some((request, mut stream)) = answered(request, stream, &list).await {
                called.fetch_add(1, Ordering::SeqCst);
                let zone = request.headers.get("mcp-param-zone").cloned();
                let id = &request.json()["id"];
                if let Some(zone) = zone.filter(|_| request.tool().unwrap() == "x") {
                    respond_json(&mut stream, &result(&request, &text(&zone))).await;
                    return;
                }
                let error =
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32020, "message": "headers"}});
                let header = "content-type: application/json\r\n";
                let error = error.to_string();
                respond(&mut stream, "400 Bad Request", header, error.as_bytes()).await;
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    let call = servers.call(ME, "a", "x", arguments(json!({"at": "eu"})), LIMITS);
    assert_eq!(call.await.unwrap().content, json!("eu"));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let call = servers.call(ME, "a", "never", arguments(json!({"at": "eu"})), LIMITS);
    let error = call.await.unwrap_err();
    assert!(
        matches!(error, CallError::Refused { code: -32020, .. }),
        "{error}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 4, "once more, and not again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_span_of_a_call_goes_with_it() {
    let list = json!({"tools": tools(&["x"])});
    let server = Raw::start(move |request, stream| {
        let list = list.clone();
        Box::pin(async move {
            if let Some((request, mut stream)) = answered(request, stream, &list).await {
                let meta = request.json()["params"]["_meta"].clone();
                assert!(
                    meta["io.modelcontextprotocol/protocolVersion"].is_string(),
                    "{meta}"
                );
                let named = meta["traceparent"].as_str().unwrap_or("none").to_owned();
                let header = request.headers.get("traceparent").map_or("none", String::as_str);
                assert_eq!(header, named);
                respond_json(&mut stream, &result(&request, &text(&named))).await;
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (trace, told) in [(None, "none"), (span.parse().ok(), span)] {
        let caller = Caller { trace, ..ME };
        let call = servers.call(caller, "a", "x", arguments(json!({})), LIMITS);
        assert_eq!(call.await.unwrap().content, json!(told));
    }
}

#[derive(Debug)]
struct Chooser(Mutex<Vec<Question>>);

impl Person for Chooser {
    fn ask(&self, question: Question, time: Duration) -> BoxFuture<'_, Option<String>> {
        assert!(!time.is_zero() && time <= LIMITS.time);
        let last = question.options.last().cloned();
        self.0.lock().unwrap().push(question);
        Box::pin(async move { last })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_answers_a_form_with_one_field() {
    let list = json!({"tools": tools(&["x"])});
    let server = Raw::start(move |request, stream| {
        let list = list.clone();
        Box::pin(async move {
            if let Some((request, mut stream)) = answered(request, stream, &list).await {
                let params = request.json()["params"].clone();
                let can = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"]["form"];
                let own = match params.get("inputResponses") {
                    Some(responses) => text(&responses.to_string()),
                    None if can.is_object() => {
                        let form = |field: Value| {
                            let schema = json!({"type": "object", "properties": field});
                            json!({"method": "elicitation/create", "params": {"message": "Where?", "requestedSchema": schema}})
                        };
                        let choice = form(json!({"at": {"type": "string", "enum": ["eu", "us"]}}));
                        let two = form(json!({"a": {"type": "string"}, "b": {"type": "string"}}));
                        json!({"resultType": "input_required", "inputRequests": {"one": choice, "two": two}})
                    }
                    None => text("no person"),
                };
                respond_json(&mut stream, &result(&request, &own)).await;
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    assert_eq!(
        call(&servers, "a", "x").await.unwrap().content,
        json!("no person")
    );
    let person = Chooser(Mutex::default());
    let caller = Caller {
        person: Some(&person),
        ..ME
    };
    let reply = servers.call(caller, "a", "x", arguments(json!({})), LIMITS).await;
    let told = json!({"one": {"action": "accept", "content": {"at": "us"}}, "two": {"action": "decline"}});
    assert_eq!(reply.unwrap().content, told);
    let asked = Question {
        text: "Where?".to_owned(),
        options: vec!["eu".to_owned(), "us".to_owned()],
        values: None,
    };
    assert_eq!(*person.0.lock().unwrap(), [asked]);
}
