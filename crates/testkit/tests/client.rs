//! The WebSocket and HTTP clients against a server of this file.
#![allow(clippy::unwrap_used)]

use futures_util::{SinkExt, StreamExt};
use himalia_testkit::client::{Closed, Connect, Framing, WsClient};
use himalia_testkit::http::Http;
use himalia_wire::{Channel, Limits, Parts, build, legacy, v1};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// Answers each execution: a foreign message, busy, the code as output, reply and idle in the wrong order, and
/// closes with 1012 after the code `close`.
async fn serve(stream: TcpStream, framing: Framing) {
    let mut query = String::new();
    #[allow(clippy::result_large_err)] // The signature is tungstenite's.
    let select = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        request.uri().query().unwrap_or_default().clone_into(&mut query);
        if request
            .headers()
            .get("authorization")
            .is_none_or(|token| token != "token secret")
        {
            return Err(Response::builder().status(401).body(None).unwrap());
        }
        if let Some(protocol) = request.headers().get("sec-websocket-protocol") {
            response
                .headers_mut()
                .insert("sec-websocket-protocol", protocol.clone());
        }
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, select).await else {
        return;
    };
    assert!(query.starts_with("session_id=s-1"), "{query}");
    while let Some(Ok(message)) = socket.next().await {
        let (channel, request) = match message {
            Message::Text(text) => legacy::decode_text(&text, &Limits::CLIENT).unwrap(),
            Message::Binary(frame) => {
                let (channel, parts) = v1::decode(&frame, &Limits::CLIENT).unwrap();
                (Some(channel), parts)
            }
            _ => continue,
        };
        assert_eq!(channel, Some(Channel::Shell));
        let code: Value = serde_json::from_slice(&request.content).unwrap();
        if code["code"] == "close" {
            let frame = CloseFrame {
                code: 1012.into(),
                reason: "restart".into(),
            };
            socket.close(Some(frame)).await.unwrap();
            continue;
        }
        let parent = Some(&request.header[..]);
        let status =
            |state: &str| build::message("k", "status", parent, &json!({ "execution_state": state }));
        let mut stream = build::stream("k", parent, "stdout", code["code"].as_str().unwrap());
        stream.buffers.push("buffer".into());
        for (channel, parts) in [
            (Channel::Iopub, build::status("k", "busy")),
            (Channel::Iopub, status("busy")),
            (Channel::Iopub, stream),
            (Channel::Iopub, status("idle")),
            (
                Channel::Shell,
                build::message("k", "execute_reply", parent, &json!({ "status": "ok" })),
            ),
        ] {
            socket.send(frame(framing, channel, &parts)).await.unwrap();
        }
    }
}

fn frame(framing: Framing, channel: Channel, parts: &Parts) -> Message {
    match framing {
        Framing::V1 => Message::Binary(v1::encode(channel, parts)),
        Framing::Legacy => match legacy::encode(channel, parts).unwrap() {
            legacy::Frame::Text(text) => Message::text(text),
            legacy::Frame::Binary(frame) => Message::Binary(frame),
        },
    }
}

async fn connect(framing: Framing) -> Connect {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/channels", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, framing));
        }
    });
    Connect {
        token: Some("secret".into()),
        session_id: Some("s-1".into()),
        framing,
        ..Connect::new(url)
    }
}

#[tokio::test]
async fn executions_in_both_framings() {
    for framing in [Framing::V1, Framing::Legacy] {
        let mut client = WsClient::connect(&connect(framing).await).await.unwrap();
        for code in ["one", "two"] {
            let execution = client.execute(code).await.unwrap();
            assert_eq!(
                (execution.stdout().as_str(), execution.status().as_str()),
                (code, "ok")
            );
            assert_eq!(execution.summary(), "status, stream, status, execute_reply");
            assert_eq!(
                execution.of_type("stream").next().unwrap().parts.buffers,
                ["buffer"]
            );
        }
        // Two open requests are distinguished.
        let first = client.start("first").await.unwrap();
        let second = client.start("second").await.unwrap();
        assert_eq!(client.finish(&second).await.unwrap().stdout(), "second");
        assert_eq!(client.finish(&first).await.unwrap().stdout(), "first");
        assert_eq!(client.unclaimed().count(), 4);
        assert_eq!(client.next().await.unwrap().parent, None);
        client.start("close").await.unwrap();
        let closed = client.closed().await.unwrap();
        assert_eq!(
            closed,
            Closed {
                code: Some(1012),
                reason: "restart".into()
            }
        );
    }
}

#[tokio::test]
async fn a_refused_handshake_has_its_status() {
    let connect = Connect {
        token: Some("wrong".into()),
        ..connect(Framing::V1).await
    };
    let refused = WsClient::connect(&connect).await;
    assert_eq!(WsClient::refusal(refused), 401);
}

/// Answers one request with `reply`; the value is the request.
async fn answer_once(listener: TcpListener, reply: &'static [u8]) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).await.unwrap();
        request.extend_from_slice(&bytes[..read]);
    }
    for part in reply.chunks(7) {
        stream.write_all(part).await.unwrap();
    }
    String::from_utf8(request).unwrap()
}

async fn server(reply: &'static [u8]) -> (Http, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = Http::new(listener.local_addr().unwrap().to_string(), Some("secret"));
    (http, tokio::spawn(answer_once(listener, reply)))
}

#[tokio::test]
async fn replies_of_three_kinds() {
    for reply in [
        &b"HTTP/1.1 201 Created\r\nContent-Length: 7\r\nX-A: b\r\n\r\n{\"a\":1}"[..],
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nX-A: b\r\n\r\n{\"a\":1}",
    ] {
        let (http, served) = server(reply).await;
        let reply = http.post("/x", Some(&json!({ "b": 2 }))).await.unwrap().expect(201).unwrap();
        assert_eq!((reply.header("x-a"), reply.json().unwrap()), (Some("b"), json!({ "a": 1 })));
        let request = served.await.unwrap();
        assert!(request.starts_with("POST /x HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: token secret\r\n") && request.ends_with("{\"b\":2}"), "{request}");
    }
    let (http, _served) = server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone").await;
    let error = http.get("/").await.unwrap().expect(200).unwrap_err().to_string();
    assert_eq!(error, "status 404, not 200: none");
}

#[tokio::test]
async fn event_streams() {
    let reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
        12\r\n: hello\n\nid: 3\ndat\r\n5\r\na: x\n\r\n1\r\n\n\r\n0\r\n\r\n";
    let (http, served) = server(reply).await;
    let mut events = http.events("/e", Some(2)).await.unwrap();
    let event = events.next().await.unwrap();
    assert_eq!((event.id.as_deref(), event.data.as_str()), (Some("3"), "x"));
    assert!(events.next().await.unwrap_err().to_string().contains("ended"));
    assert!(served.await.unwrap().contains("last-event-id: 2\r\n"));
}
