//! What a hostile server answers to a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::support::*;
use crate::call::{CallError, Limits};

const SHORT: Limits = Limits {
    time: Duration::from_millis(300),
    ..LIMITS
};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_harms_its_own_calls_alone() {
    let (closed, mut was_closed) = mpsc::unbounded_channel();
    let hanging = calls(&["wait"], move |_, mut stream| {
        let closed = closed.clone();
        Box::pin(async move {
            until_closed(&mut stream).await;
            closed.send(()).unwrap();
        })
    })
    .await;
    let good = calls(&["go"], |request, mut stream| {
        Box::pin(async move { respond_json(&mut stream, &result(&request, &text("done"))).await })
    })
    .await;
    let servers = Arc::new(ready(&[("bad", &hanging.url), ("good", &good.url)]).await);
    let before = hanging.requests.load(Ordering::SeqCst);
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..crate::MAX_CALLS {
        let servers = Arc::clone(&servers);
        waiting.spawn(async move { call_of(&servers, number % 2, "bad", "wait").await });
    }
    let all_sent = async {
        while hanging.requests.load(Ordering::SeqCst) < before + crate::MAX_CALLS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, all_sent).await.unwrap();
    assert_eq!(call(&servers, "good", "go").await.unwrap().content, json!("done"));
    // One more waits for its turn, and is not sent.
    let late = servers
        .call(ME, "bad", "wait", Map::new(), SHORT)
        .await
        .unwrap_err();
    assert!(
        matches!(late, CallError::Unavailable(_)) && !late.is_outcome_unknown(),
        "{late}"
    );
    assert_eq!(hanging.requests.load(Ordering::SeqCst), before + crate::MAX_CALLS);
    assert_eq!(servers.states()[0].calls, crate::MAX_CALLS);
    // Those that wait are bounded too.
    for number in 0..crate::MAX_WAITING {
        let servers = Arc::clone(&servers);
        waiting.spawn(async move { call_of(&servers, number % 4, "bad", "wait").await });
    }
    until(&servers, |servers| {
        servers.states()[0].calls == crate::MAX_CALLS + crate::MAX_WAITING
    })
    .await;
    let refused = call(&servers, "bad", "wait").await.unwrap_err();
    assert!(refused.to_string().contains("too many calls"), "{refused}");
    // Who gives up closes the connection of the call.
    waiting.shutdown().await;
    for _ in 0..crate::MAX_CALLS {
        tokio::time::timeout(LONG, was_closed.recv())
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(servers.states()[0].calls, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_calls_a_shared_server_all_the_time_holds_up_no_other_one() {
    let server = calls(&["wait", "go"], |request, mut stream| {
        Box::pin(async move {
            if request.tool().as_deref() == Some("wait") {
                until_closed(&mut stream).await;
            } else {
                respond_json(&mut stream, &result(&request, &text("done"))).await;
            }
        })
    })
    .await;
    let servers = Arc::new(ready(&[("a", &server.url)]).await);
    let before = server.requests.load(Ordering::SeqCst);
    let mut greedy = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let servers = Arc::clone(&servers);
        greedy.spawn(async move { call(&servers, "a", "wait").await });
    }
    until(&servers, |servers| servers.states()[0].calls == 200).await;
    until(&servers, |_| {
        server.requests.load(Ordering::SeqCst) == before + crate::MAX_CALLS_OF_SESSION
    })
    .await;
    for session in 0..100 {
        assert_eq!(
            call_of(&servers, session, "a", "go").await.unwrap().content,
            json!("done")
        );
    }
    let sent = server.requests.load(Ordering::SeqCst) - before;
    assert_eq!(sent, crate::MAX_CALLS_OF_SESSION + 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_reply_in_time_leaves_the_outcome_unknown_and_closes_the_connection() {
    let (closed, mut was_closed) = mpsc::unbounded_channel();
    let server = calls(
        &["before_head", "in_body", "in_events"],
        move |request, mut stream| {
            let closed = closed.clone();
            Box::pin(async move {
                match request.tool().as_deref() {
                    Some("in_body") => begin(&mut stream, "application/json").await,
                    Some("in_events") => {
                        begin(&mut stream, "text/event-stream").await;
                        while chunk(&mut stream, b": still here\n\n").await {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                    _ => {}
                }
                until_closed(&mut stream).await;
                closed.send(()).unwrap();
            })
        },
    )
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    for tool in ["before_head", "in_body", "in_events"] {
        let called = servers.call(ME, "a", tool, Map::new(), SHORT);
        let error = tokio::time::timeout(LONG / 2, called).await.unwrap().unwrap_err();
        assert!(
            matches!(error, CallError::Timeout(_)) && error.is_outcome_unknown(),
            "{tool}: {error}"
        );
        tokio::time::timeout(LONG, was_closed.recv())
            .await
            .unwrap()
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_cut_at_the_bound() {
    let (written, mut was_written) = mpsc::unbounded_channel();
    let server = calls(&["json", "event", "events", "long", "html"], move |request, mut stream| {
        let written = written.clone();
        Box::pin(async move {
            let id = request.json()["id"].clone();
            let begun = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"");
            let count = match request.tool().unwrap().as_str() {
                "json" => flood(&mut stream, "application/json", begun.as_bytes()).await,
                "event" => flood(&mut stream, "text/event-stream", format!("data: {begun}").as_bytes()).await,
                "events" => {
                    begin(&mut stream, "text/event-stream").await;
                    let piece = b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n".repeat(1000);
                    let mut count = 0;
                    while count < 1 << 30 && chunk(&mut stream, &piece).await {
                        count += piece.len();
                    }
                    count
                }
                "html" => flood(&mut stream, "text/html", b"<html>").await,
                _ => {
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999999999\r\n\r\n";
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await;
                    until_closed(&mut stream).await;
                    0
                }
            };
            written.send(count).unwrap();
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    for tool in ["json", "event", "events", "long", "html"] {
        let error = call(&servers, "a", tool).await.unwrap_err();
        let expected = match error {
            CallError::TooLarge(_) => tool != "html",
            CallError::Failed(_) => tool == "html",
            _ => false,
        };
        assert!(expected, "{tool}: {error}");
        let count = tokio::time::timeout(LONG, was_written.recv())
            .await
            .unwrap()
            .unwrap();
        // What was not read is in the buffers of the sockets.
        assert!(count < 32 << 20, "{tool}: {count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = other.local_addr().unwrap();
    let server = calls(&["go"], move |_, mut stream| {
        Box::pin(async move {
            let location = format!("location: http://{to}/secret\r\n");
            respond(&mut stream, "303 See Other", &location, b"").await;
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    let error = call(&servers, "a", "go").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Refused { code: 303, text, .. } if text.contains("not followed")),
        "{error}"
    );
    let reached = tokio::time::timeout(Duration::from_millis(200), other.accept()).await;
    assert!(reached.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_have_been_done_is_not_sent_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let server = calls(
        &["head", "body", "events", "expired"],
        move |request, mut stream| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                match request.tool().unwrap().as_str() {
                    "body" => {
                        begin(&mut stream, "application/json").await;
                        chunk(&mut stream, b"{\"jsonrpc\":").await;
                    }
                    "events" => {
                        begin(&mut stream, "text/event-stream").await;
                        chunk(
                            &mut stream,
                            b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n",
                        )
                        .await;
                    }
                    "expired" => {
                        respond(
                            &mut stream,
                            "503 Service Unavailable",
                            "retry-after: 0\r\n",
                            b"later",
                        )
                        .await;
                    }
                    _ => {}
                }
            })
        },
    )
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    for (number, tool) in ["head", "body", "events"].into_iter().enumerate() {
        let error = call(&servers, "a", tool).await.unwrap_err();
        assert!(
            matches!(error, CallError::Lost(_)) && error.is_outcome_unknown(),
            "{tool}: {error}"
        );
        assert_eq!(count.load(Ordering::SeqCst), number + 1, "{tool}");
    }
    let error = call(&servers, "a", "expired").await.unwrap_err();
    assert_eq!(
        error,
        CallError::Refused {
            code: 503,
            text: "later".to_owned(),
            retry_after: Some(0),
        }
    );
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_an_error_of_its_call() {
    let server = calls(&["any"], move |request, mut stream| {
        Box::pin(async move {
            let message = request.json();
            let kind = message["params"]["arguments"]["kind"].as_str().unwrap();
            let id = &message["id"];
            let json = |body: String| ("content-type: application/json\r\n", body.into_bytes());
            let (headers, body) = match kind {
                "html" => ("content-type: text/html\r\n", b"<html>".to_vec()),
                "no type" => ("", b"{}".to_vec()),
                "no json" => json("{\"jsonrpc\": \"2.0\", ".to_owned()),
                "other id" => json(json!({"jsonrpc": "2.0", "id": 4711, "result": {}}).to_string()),
                "no result" => json(json!({"jsonrpc": "2.0", "id": id}).to_string()),
                "odd result" => json(json!({"jsonrpc": "2.0", "id": id, "result": [5]}).to_string()),
                "deep" => json(format!(
                    "{{\"id\":{id},\"result\":{{\"structuredContent\":{}",
                    "[".repeat(100_000)
                )),
                "events" => ("content-type: text/event-stream\r\n", b"no event\n\n".to_vec()),
                "encoded" => (
                    "content-type: application/json\r\ncontent-encoding: gzip\r\n",
                    result(&request, &text("in clear text")).to_string().into_bytes(),
                ),
                "many" => json(format!(
                    "{{\"id\":{id},\"result\":{{\"structuredContent\":[0{}]}}}}",
                    ",0".repeat(500_000)
                )),
                _ => json(
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no\nsuch"}})
                        .to_string(),
                ),
            };
            respond(&mut stream, "200 OK", headers, &body).await;
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    for kind in [
        "html",
        "no type",
        "no json",
        "other id",
        "no result",
        "odd result",
        "deep",
        "events",
        "encoded",
        "many",
        "error",
    ] {
        let limits = Limits {
            reply_bytes: 4 << 20,
            ..LIMITS
        };
        let called = servers
            .call(ME, "a", "any", arguments(json!({"kind": kind})), limits)
            .await;
        match kind {
            // So many values are no reason yet.
            "many" => assert!(called.is_ok(), "{called:?}"),
            "error" => assert_eq!(
                called.unwrap_err(),
                CallError::Refused {
                    code: -32602,
                    text: "no such".to_owned(),
                    retry_after: None,
                }
            ),
            _ => assert!(matches!(called, Err(CallError::Failed(_))), "{kind}: {called:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let server = calls(&["go"], |request, mut stream| {
        Box::pin(async move { respond_json(&mut stream, &result(&request, &text("done"))).await })
    })
    .await;
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let servers = ready(&[("a", &server.url)]).await;
    call(&servers, "a", "go").await.unwrap();
    server.stop().await;
    let error = call(&servers, "a", "go").await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
    // The call makes it look; its tools stay known.
    until(&servers, |servers| failure(servers, "a").is_some()).await;
    assert_eq!(servers.snapshot()[0].tools.tools().len(), 1);
    let error = call(&servers, "a", "go").await.unwrap_err();
    assert!(error.to_string().contains("cannot be called now"), "{error}");
    // It comes back with other tools.
    let again = Raw::start_at(&address, |request, stream| {
        Box::pin(async move {
            if let Some((request, mut stream)) = mcp_basics(request, stream, &tools(&["go", "more"])).await {
                respond_json(&mut stream, &result(&request, &text("again"))).await;
            }
        })
    })
    .await;
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    assert_eq!(servers.snapshot()[0].tools.tools().len(), 2);
    assert_eq!(call(&servers, "a", "go").await.unwrap().content, json!("again"));
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_within_a_call_are_answered_and_bounded() {
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&answers);
    let server = Raw::start(move |request, stream| {
        let noted = Arc::clone(&noted);
        Box::pin(async move {
            let message = request.json();
            if message.get("method").is_none() && message.get("id").is_some() {
                noted.lock().unwrap().push(message);
            }
            let Some((request, mut stream)) = mcp_basics(request, stream, &tools(&["ask"])).await else {
                return;
            };
            begin(&mut stream, "text/event-stream").await;
            for number in 0..100 {
                let method = if number % 2 == 0 {
                    "ping"
                } else {
                    "sampling/createMessage"
                };
                let asked = json!({"jsonrpc": "2.0", "id": format!("s{number}"), "method": method});
                chunk(&mut stream, format!("data: {asked}\n\n").as_bytes()).await;
            }
            let end = result(&request, &text("asked"));
            chunk(&mut stream, format!("data: {end}\n\n").as_bytes()).await;
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    assert_eq!(call(&servers, "a", "ask").await.unwrap().content, json!("asked"));
    let answers = answers.lock().unwrap();
    assert_eq!(answers.len(), 16);
    assert_eq!(
        (&answers[0]["id"], &answers[0]["result"]),
        (&json!("s0"), &json!({}))
    );
    assert_eq!(answers[1]["error"]["code"], -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_resumed_as_the_server_asks_for() {
    let server = Raw::start(move |request, stream| {
        Box::pin(async move {
            if request.method == "GET" && request.headers.get("last-event-id").is_some_and(|id| id == "e1") {
                let mut stream = stream;
                begin(&mut stream, "text/event-stream").await;
                // The id of the only call, after the handshake and the list.
                for id in 0..20 {
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": text("resumed")});
                    chunk(&mut stream, format!("id: e2\ndata: {answer}\n\n").as_bytes()).await;
                }
                return;
            }
            let Some((_, mut stream)) = mcp_basics(request, stream, &tools(&["long"])).await else {
                return;
            };
            begin(&mut stream, "text/event-stream").await;
            chunk(&mut stream, b"id: e1\nretry: 100\ndata:\n\n").await;
            chunk(&mut stream, b"").await;
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    assert_eq!(
        call(&servers, "a", "long").await.unwrap().content,
        json!("resumed")
    );
}
