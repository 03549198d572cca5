//! Servers of the revision without `initialize`: each request stands for itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::support::*;
use crate::call::CallError;

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
