//! WebSocket messages that are wrong: the documented close code with a reason, and no harm to other clients.

use bytes::Bytes;
use himalia_testkit::assert_eventually;
use himalia_testkit::client::{Framing, WsClient};
use himalia_wire::{Channel, build, v1};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::common::{gateway, until};

/// A proper frame.
fn frame() -> Vec<u8> {
    v1::encode(Channel::Shell, &build::kernel_info_request("s")).to_vec()
}

/// A proper frame whose `at`-th number (0 is the count of offsets) is something else.
fn with_number(at: usize, value: u64) -> Vec<u8> {
    let mut frame = frame();
    frame[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
    frame
}

/// A proper frame with another channel and header.
fn with(channel: &str, header: &str) -> Vec<u8> {
    let parts = [channel, header, "{}", "{}", "{}"];
    let offsets = parts.len() + 1;
    let mut at = 8 * (1 + offsets) as u64;
    let mut out = (offsets as u64).to_le_bytes().to_vec();
    out.extend(at.to_le_bytes());
    for part in parts {
        at += part.len() as u64;
        out.extend(at.to_le_bytes());
    }
    out.extend(parts.concat().bytes());
    out
}

#[tokio::test]
async fn v1_frames_that_lie() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut neighbour = gateway.connect(&kernel).await.unwrap();
    let mut cut = frame();
    cut.pop();
    let mut long = frame();
    long.push(b' ');
    for (what, frame, code) in [
        ("nothing", Vec::new(), 1007),
        ("7 bytes", vec![0; 7], 1007),
        ("no offsets", with_number(0, 0), 1007),
        ("too few offsets", with_number(0, 5), 1007),
        ("more offsets than bytes", with_number(0, 200), 1007),
        ("2^61 offsets", with_number(0, 1 << 61), 1009),
        ("2^64-1 offsets", with_number(0, u64::MAX), 1009),
        ("first offset within the table", with_number(1, 8), 1007),
        ("first offset beyond the table", with_number(1, 57), 1007),
        ("offsets go back", with_number(3, 56), 1007),
        ("an offset beyond the end", with_number(4, 1 << 40), 1007),
        ("an offset that overflows", with_number(4, u64::MAX), 1007),
        ("last offset before the end", with_number(6, 100), 1007),
        ("a byte too few", cut, 1007),
        ("a byte too many", long, 1007),
        ("a header that is no JSON", with("shell", "{"), 1007),
        ("a header that is a list", with("shell", "[]"), 1007),
        (
            "a header without msg_id",
            with("shell", r#"{"msg_type":"x_request","session":"s"}"#),
            1007,
        ),
        (
            "a header without msg_type",
            with("shell", r#"{"msg_id":"m","session":"s"}"#),
            1007,
        ),
        (
            "a msg_id that is a number",
            with("shell", r#"{"msg_id":1,"msg_type":"x","session":"s"}"#),
            1007,
        ),
        (
            "a header of 100 kB",
            with("shell", &format!(r#"{{"x":"{}"}}"#, "x".repeat(100_000))),
            1009,
        ),
    ] {
        let mut socket = gateway.connect(&kernel).await.unwrap();
        socket.send_raw(Message::Binary(frame.into())).await.unwrap();
        let closed = socket.closed().await.unwrap();
        assert_eq!(closed.code, Some(code), "{what}: {closed:?}");
        assert!(
            !closed.reason.is_empty() && closed.reason.lines().count() == 1,
            "{what}: {closed:?}"
        );
        assert!(!closed.reason.contains("panicked"), "{what}: {closed:?}");
    }
    let mut socket = gateway.connect(&kernel).await.unwrap();
    socket.send_raw(Message::text("{}")).await.unwrap();
    assert_eq!(
        socket.closed().await.unwrap().code,
        Some(1003),
        "text on a binary protocol"
    );
    assert_eq!(neighbour.execute("print here").await.unwrap().stdout(), "here\n");
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

#[tokio::test]
async fn messages_without_a_way_are_dropped_and_the_connection_goes_on() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let header = r#"{"msg_id":"m","msg_type":"kernel_info_request","session":"s"}"#;
    let mut socket = gateway.connect(&kernel).await.unwrap();
    for channel in ["", "shel", "SHELL", "iopub", "heartbeat", "shell\0", "\u{1f600}"] {
        socket
            .send_raw(Message::Binary(with(channel, header).into()))
            .await
            .unwrap();
    }
    assert_eq!(socket.execute("print on").await.unwrap().stdout(), "on\n");
    let mut legacy = WsClient::connect(&gateway.channels(&kernel, Framing::Legacy))
        .await
        .unwrap();
    for channel in ["shel", "iopub", ""] {
        let message = json!({
            "header": serde_json::from_str::<serde_json::Value>(header).unwrap(),
            "parent_header": {}, "metadata": {}, "content": {}, "channel": channel,
        });
        legacy.send_raw(Message::text(message.to_string())).await.unwrap();
    }
    assert_eq!(legacy.execute("print on").await.unwrap().stdout(), "on\n");
    assert!(gateway.log().contains("unknown channel"), "{}", gateway.log());
    // A type that the kernel does not know gets no answer and blocks nothing.
    socket
        .request(Channel::Shell, "no_such_request", &json!({}))
        .await
        .unwrap();
    assert_eq!(socket.execute("print on").await.unwrap().stdout(), "on\n");
    // The first few are logged one by one, and all are counted.
    drop(socket);
    let counted = |log: String| {
        log.lines()
            .any(|line| line.contains("were dropped") && line.contains("count=7"))
    };
    assert_eventually!(counted(gateway.log()), "{}", gateway.log());
}

#[tokio::test]
async fn legacy_messages_that_are_none() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let binary = |bytes: &[u8]| Message::Binary(Bytes::copy_from_slice(bytes));
    for (what, message) in [
        ("garbage", Message::text("garbage")),
        ("nothing", Message::text("")),
        ("a list", Message::text("[]")),
        ("no header", Message::text(r#"{"channel":"shell","content":{}}"#)),
        (
            "a header of text",
            Message::text(r#"{"channel":"shell","header":"x","content":{}}"#),
        ),
        ("depth", Message::text("[".repeat(100_000))),
        ("3 bytes", binary(&[0, 0, 0])),
        ("no buffers", binary(&[0, 0, 0, 0])),
        ("2^32-1 buffers", binary(&[0xff; 8])),
        (
            "an offset beyond the end",
            binary(&[0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 1, 0, b'{', b'}']),
        ),
        (
            "offsets go back",
            binary(&[0, 0, 0, 2, 0, 0, 0, 14, 0, 0, 0, 12, b'{', b'}']),
        ),
    ] {
        let mut socket = WsClient::connect(&gateway.channels(&kernel, Framing::Legacy))
            .await
            .unwrap();
        socket.send_raw(message).await.unwrap();
        let closed = socket.closed().await.unwrap();
        assert!(
            matches!(closed.code, Some(1007 | 1009)) && !closed.reason.is_empty(),
            "{what}: {closed:?}"
        );
    }
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_before_it_is_read() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut neighbour = gateway.connect(&kernel).await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    let request = format!(
        "GET /api/kernels/{kernel}/channels HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nauthorization: token {}\r\n\r\n",
        himalia_testkit::gateway::TOKEN
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    // A binary message that announces 2^40 bytes, masked with zeros, and a few of them.
    stream
        .write_all(&[0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3])
        .await
        .unwrap();
    // The close frame with code 1009 arrives, then the end.
    let mut reply = Vec::new();
    let read = stream.read_to_end(&mut reply);
    himalia_testkit::patience::within("the end", read)
        .await
        .unwrap()
        .unwrap();
    assert!(reply.starts_with(b"HTTP/1.1 101 "));
    let code = 1009_u16.to_be_bytes();
    let close = reply
        .windows(4)
        .find(|bytes| bytes[0] == 0x88 && bytes[2..] == code);
    assert!(close.is_some(), "{}", String::from_utf8_lossy(&reply));
    assert_eq!(neighbour.execute("print here").await.unwrap().stdout(), "here\n");
    until(&gateway, &kernel, |model| model["connections"] == 1).await;
}
