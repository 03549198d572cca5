//! Lists and descriptions of hostile servers, and how servers are looked after.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::Notify;

use super::support::*;
use crate::state::ServerState;
use crate::task::Timing;

/// A server of MCP that answers `tools/list` in its own way, with the cursor and how often it was asked.
async fn lists(page: impl Fn(Option<&str>, usize) -> serde_json::Value + Send + Sync + 'static) -> Raw {
    let (page, count) = (Arc::new(page), Arc::new(AtomicUsize::new(0)));
    Raw::start(move |request, mut stream| {
        let (page, count) = (Arc::clone(&page), Arc::clone(&count));
        Box::pin(async move {
            let message = request.json();
            if message["method"] == "tools/list" {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let answer = page(message["params"]["cursor"].as_str(), number);
                respond_json(&mut stream, &result(&request, &answer)).await;
            } else {
                mcp_basics(request, stream, &json!([])).await;
            }
        })
    })
    .await
}

async fn failed(server: &Raw) -> String {
    let servers = start_with(vec![config("a", json!({"url": server.url}))], Arc::default());
    until(&servers, |servers| failure(servers, "a").is_some()).await;
    assert!(servers.snapshot().is_empty());
    failure(&servers, "a").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_followed_to_their_end() {
    let server = lists(|cursor, _| match cursor {
        None => json!({"tools": tools(&["a", "b"]), "nextCursor": "2"}),
        Some("2") => json!({"tools": tools(&["c", "a"]), "nextCursor": "3"}),
        _ => json!({"tools": [{"name": "broken"}]}),
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    let ServerState::Ready { tools, left_out, .. } = &servers.states()[0].state else {
        panic!()
    };
    // One of the same name, and one without a schema.
    assert_eq!((*tools, left_out.count), (3, 2), "{left_out:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_without_end_are_given_up() {
    let same = lists(|_, _| json!({"tools": [], "nextCursor": "again"})).await;
    assert!(failed(&same).await.contains("repeats a page"));
    let endless = lists(|_, number| json!({"tools": [], "nextCursor": number.to_string()})).await;
    assert!(failed(&endless).await.contains("more than 1000 pages"));
    assert!(endless.requests.load(Ordering::SeqCst) < 4000);
    let long = "x".repeat(12 << 20);
    let heavy =
        lists(move |_, number| json!({"tools": [{"name": long}], "nextCursor": number.to_string()})).await;
    assert!(failed(&heavy).await.contains("bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_floods_is_cut() {
    let server = Raw::start(|request, mut stream| {
        Box::pin(async move {
            if request.json()["method"] == "tools/list" {
                let written = flood(
                    &mut stream,
                    "application/json",
                    b"{\"jsonrpc\":\"2.0\",\"result\":\"",
                )
                .await;
                assert!(written < 64 << 20, "{written}");
            } else {
                mcp_basics(request, stream, &json!([])).await;
            }
        })
    })
    .await;
    assert!(failed(&server).await.contains("bytes"));
    let handshake = Raw::start(|_, mut stream| {
        Box::pin(async move {
            let written = flood(
                &mut stream,
                "application/json",
                b"{\"jsonrpc\":\"2.0\",\"result\":\"",
            )
            .await;
            assert!(written < 32 << 20, "{written}");
        })
    })
    .await;
    assert!(failed(&handshake).await.contains("bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_of_its_failure_is_told() {
    let server = Raw::start(|_, mut stream| {
        Box::pin(async move { respond(&mut stream, "401 Unauthorized", "", b"who are you?").await })
    })
    .await;
    let reason = failed(&server).await;
    assert!(
        reason.contains("401") && reason.contains("who are you?"),
        "{reason}"
    );
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let servers = start_with(vec![config("a", json!({"url": gone}))], Arc::default());
    until(&servers, |servers| failure(servers, "a").is_some()).await;
    let ServerState::Failed {
        since_micros,
        next_attempt_micros,
        ..
    } = servers.states()[0].state
    else {
        panic!()
    };
    assert!(next_attempt_micros > since_micros && since_micros > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_at_a_later_version_is_asked_in_the_earlier_way() {
    let server = Raw::start(|request, mut stream| {
        Box::pin(async move {
            if request.json()["method"] == "server/discover" {
                respond(&mut stream, "500 Internal Server Error", "", b"unknown method").await;
            } else {
                mcp_basics(request, stream, &tools(&["a"])).await;
            }
        })
    })
    .await;
    ready(&[("a", &server.url)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_list_is_heard_and_a_flood_of_them_is_not_answered_with_one() {
    let (change, lists) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (changed, counted) = (Arc::clone(&change), Arc::clone(&lists));
    let server = Raw::start(move |request, mut stream| {
        let (change, lists) = (Arc::clone(&changed), Arc::clone(&counted));
        Box::pin(async move {
            let message = request.json();
            match (request.method.as_str(), message["method"].as_str()) {
                ("GET", _) => {
                    begin(&mut stream, "text/event-stream").await;
                    change.notified().await;
                    let event =
                        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
                    chunk(&mut stream, event.repeat(10_000).as_bytes()).await;
                    until_closed(&mut stream).await;
                }
                (_, Some("initialize")) => {
                    let answer = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "raw", "version": "1"}});
                    let answer = result(&request, &answer).to_string();
                    let headers = "content-type: application/json\r\nmcp-session-id: s1\r\n";
                    respond(&mut stream, "200 OK", headers, answer.as_bytes()).await;
                }
                (_, Some("tools/list")) => {
                    assert_eq!(request.headers["mcp-session-id"], "s1");
                    let names: &[&str] = match lists.fetch_add(1, Ordering::SeqCst) {
                        0 => &["a"],
                        _ => &["a", "b"],
                    };
                    respond_json(&mut stream, &result(&request, &json!({"tools": tools(names)}))).await;
                }
                _ => {
                    mcp_basics(request, stream, &json!([])).await;
                }
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    assert_eq!(servers.snapshot()[0].tools.tools().len(), 1);
    change.notify_one();
    until(&servers, |servers| servers.snapshot()[0].tools.tools().len() == 2).await;
    assert!(lists.load(Ordering::SeqCst) < 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_notifications_that_floods_is_cut_and_opened_anew_after_a_pause() {
    let (opened, mut was_opened) = tokio::sync::mpsc::unbounded_channel();
    let server = Raw::start(move |request, mut stream| {
        let opened = opened.clone();
        Box::pin(async move {
            let message = request.json();
            if request.method == "GET" {
                let at = tokio::time::Instant::now();
                begin(&mut stream, "text/event-stream").await;
                // It wants to be asked again at once, and asks for much itself.
                chunk(&mut stream, b"retry: 0\nid: 1\ndata:\n\n").await;
                let asked = b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n".repeat(1000);
                let mut written = 0;
                while written < 1 << 30 && chunk(&mut stream, &asked).await {
                    written += asked.len();
                }
                let _ = opened.send((at, written));
            } else if message["method"] == "initialize" {
                let answer = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"}});
                let answer = result(&request, &answer).to_string();
                let headers = "content-type: application/json\r\nmcp-session-id: s1\r\n";
                respond(&mut stream, "200 OK", headers, answer.as_bytes()).await;
            } else {
                mcp_basics(request, stream, &tools(&["go"])).await;
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    let mut times = Vec::new();
    for _ in 0..2 {
        let (at, written) = tokio::time::timeout(LONG, was_opened.recv())
            .await
            .unwrap()
            .unwrap();
        assert!(written < 32 << 20, "{written}");
        times.push(at);
    }
    assert!(times[1] - times[0] >= std::time::Duration::from_millis(900));
    // Of the pings few were answered.
    assert!(server.requests.load(Ordering::SeqCst) < 100);
    assert!(is_ready(&servers.states()[0].state));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_has_ended_is_begun_anew_and_the_call_is_not_repeated() {
    let (sessions, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, counted) = (Arc::clone(&sessions), Arc::clone(&count));
    let server = Raw::start(move |request, mut stream| {
        let (sessions, count) = (Arc::clone(&begun), Arc::clone(&counted));
        Box::pin(async move {
            let message = request.json();
            if message["method"] == "initialize" {
                let number = sessions.fetch_add(1, Ordering::SeqCst);
                let answer = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"}});
                let answer = result(&request, &answer).to_string();
                let headers = format!("content-type: application/json\r\nmcp-session-id: s{number}\r\n");
                respond(&mut stream, "200 OK", &headers, answer.as_bytes()).await;
            } else if request.tool().is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                if request.headers["mcp-session-id"] == "s0" {
                    respond(&mut stream, "404 Not Found", "", b"").await;
                } else {
                    respond_json(&mut stream, &result(&request, &text("new"))).await;
                }
            } else {
                mcp_basics(request, stream, &tools(&["go"])).await;
            }
        })
    })
    .await;
    let servers = ready(&[("a", &server.url)]).await;
    let error = call(&servers, "a", "go").await.unwrap_err();
    assert!(matches!(error, crate::CallError::Unavailable(_)), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
    until(&servers, |servers| {
        sessions.load(Ordering::SeqCst) == 2 && is_ready(&servers.states()[0].state)
    })
    .await;
    assert_eq!(call(&servers, "a", "go").await.unwrap().content, json!("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_longer_there_has_failed_without_a_call() {
    let gone = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    // Behind a proxy, which stays.
    let server = Raw::start(move |request, mut stream| {
        let is_gone = is_gone.load(Ordering::SeqCst);
        Box::pin(async move {
            if is_gone {
                respond(&mut stream, "502 Bad Gateway", "", b"nothing behind it").await;
            } else if request.json()["method"] == "ping" {
                // It knows no ping, and is there.
                respond(&mut stream, "400 Bad Request", "", b"").await;
            } else {
                mcp_basics(request, stream, &tools(&["a"])).await;
            }
        })
    })
    .await;
    let timing = Timing {
        health: std::time::Duration::from_millis(20),
        ..timing()
    };
    let servers = start_timed(
        vec![config("a", json!({"url": server.url}))],
        Arc::default(),
        timing,
    );
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    let before = server.requests.load(Ordering::SeqCst);
    until(&servers, |_| server.requests.load(Ordering::SeqCst) > before + 3).await;
    assert!(is_ready(&servers.states()[0].state));
    gone.store(true, Ordering::SeqCst);
    until(&servers, |servers| failure(servers, "a").is_some()).await;
    gone.store(false, Ordering::SeqCst);
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_cannot_be_read_again_leaves_its_server_as_it_is() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let server = Raw::start(move |request, mut stream| {
        let number = match request.target.as_str() {
            "/" => counted.fetch_add(1, Ordering::SeqCst),
            _ => usize::MAX,
        };
        Box::pin(async move {
            let operation = |id: &str| json!({"get": {"operationId": id}});
            match number {
                0 => {
                    let description = json!({"openapi": "3.1.0", "paths": {"/x": operation("x")}});
                    respond_json(&mut stream, &description).await;
                }
                1..4 => respond(&mut stream, "500 Internal Server Error", "", b"").await,
                usize::MAX => respond_json(&mut stream, &json!("called")).await,
                _ => {
                    let paths = json!({"/x": operation("x"), "/y": operation("y")});
                    respond_json(&mut stream, &json!({"openapi": "3.1.0", "paths": paths})).await;
                }
            }
        })
    })
    .await;
    let timing = Timing {
        refresh: std::time::Duration::from_millis(30),
        ..timing()
    };
    let servers = start_timed(
        vec![config("a", json!({"openapi": server.url}))],
        Arc::default(),
        timing,
    );
    until(&servers, |_| count.load(Ordering::SeqCst) >= 2).await;
    assert_eq!(call(&servers, "a", "x").await.unwrap().content, json!("called"));
    until(&servers, |servers| servers.snapshot()[0].tools.tools().len() == 2).await;
    assert!(is_ready(&servers.states()[0].state));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_of_one_name_are_refused() {
    let configs = vec![
        config("a", json!({"url": "http://127.0.0.1:9/"})),
        config("a", json!({"openapi": "x.json"})),
    ];
    let source: Arc<dyn himalia_credentials::CredentialSource> = Arc::new(Source::default());
    let error = crate::ToolServers::start(configs, &source, &no_programs(), &himalia_model::Clock::default())
        .unwrap_err();
    assert!(error.starts_with("a: "), "{error}");
}
