//! Servers that begin with `initialize`, and ask a person by a request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, Notify};

use super::support::*;
use crate::person::{Person, Question};
use crate::servers::Caller;

/// Chooses the first option.
#[derive(Debug)]
struct Chooser;

impl Person for Chooser {
    fn ask(&self, question: Question, _: Duration) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move { question.options.first().cloned() })
    }
}

fn question() -> String {
    let fields =
        json!({"name": {"type": "string", "default": "Ann"}, "age": {"type": "integer", "default": 30}});
    let params = json!({"message": "Right?", "requestedSchema": {"type": "object", "properties": fields, "required": []}});
    let asked = json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": params});
    format!("data: {asked}\n\n")
}

/// A server whose tool gives what a person answered: asked on the stream of the call, or on the stream of notifications.
async fn server(on_call: bool) -> Raw {
    let (answer, answered) = (Arc::new(Mutex::new(Value::Null)), Arc::new(Notify::new()));
    let (notices, listens) = (Arc::new(AsyncMutex::new(None)), Arc::new(Notify::new()));
    Raw::start(move |request, mut stream| {
        let (answer, answered) = (Arc::clone(&answer), Arc::clone(&answered));
        let (notices, listens) = (Arc::clone(&notices), Arc::clone(&listens));
        Box::pin(async move {
            if request.method == "GET" {
                begin(&mut stream, "text/event-stream").await;
                *notices.lock().await = Some(stream);
                listens.notify_one();
                return;
            }
            let message = request.json();
            if message["method"] == "initialize" {
                let can = &message["params"]["capabilities"]["elicitation"]["form"];
                assert!(can.is_object(), "{message}");
                let own = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"}});
                // A client listens to notifications of a session alone.
                let headers = "content-type: application/json\r\nmcp-session-id: s\r\n";
                respond(
                    &mut stream,
                    "200 OK",
                    headers,
                    result(&request, &own).to_string().as_bytes(),
                )
                .await;
                return;
            }
            if message["id"] == "q1" {
                *answer.lock().unwrap() = message["result"].clone();
                answered.notify_one();
            }
            let Some((request, mut stream)) = mcp_basics(request, stream, &tools(&["ask"])).await else {
                return;
            };
            begin(&mut stream, "text/event-stream").await;
            if on_call {
                chunk(&mut stream, question().as_bytes()).await;
            } else {
                if notices.lock().await.is_none() {
                    listens.notified().await;
                }
                let mut notices = notices.lock().await;
                chunk(notices.as_mut().unwrap(), question().as_bytes()).await;
            }
            answered.notified().await;
            let told = answer.lock().unwrap().take();
            let end = result(&request, &text(&told.to_string()));
            chunk(&mut stream, format!("data: {end}\n\n").as_bytes()).await;
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_person_of_a_call_answers_what_its_server_asks_meanwhile() {
    for on_call in [true, false] {
        let server = server(on_call).await;
        let servers = ready(&[("a", &server.url)]).await;
        let caller = Caller {
            person: Some(&Chooser),
            ..ME
        };
        let accepted = json!({"action": "accept", "content": {"name": "Ann", "age": 30}});
        let reply = servers
            .call(caller, "a", "ask", arguments(json!({})), LIMITS)
            .await;
        assert_eq!(
            reply.unwrap().content,
            accepted,
            "on the stream of the call: {on_call}"
        );
        let declined = call(&servers, "a", "ask").await.unwrap().content;
        assert_eq!(declined, json!({"action": "decline"}), "without a person");
    }
}
