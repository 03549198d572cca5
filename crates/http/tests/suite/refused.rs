//! Uploads that are refused while their body is still coming.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use common::{Gateway, Reply, TOKEN};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MIB: usize = 1 << 20;

/// Sends all of a body before it reads anything, as most clients do.
async fn upload(gateway: &Gateway, head: &str, bytes: usize, is_chunked: bool) -> Reply {
    let mut client = gateway.connect().await;
    let coding = if is_chunked {
        "Transfer-Encoding: chunked".to_owned()
    } else {
        format!("Content-Length: {bytes}")
    };
    let head = format!("{head}\r\nHost: x\r\n{coding}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len());
        if is_chunked {
            client.write_all(format!("{now:x}\r\n").as_bytes()).await.unwrap();
        }
        client.write_all(&piece[..now]).await.unwrap();
        if is_chunked {
            client.write_all(b"\r\n").await.unwrap();
        }
        left -= now;
    }
    if is_chunked {
        client.write_all(b"0\r\n\r\n").await.unwrap();
    }
    Reply::read(&mut client).await
}

#[tokio::test]
async fn a_refused_upload_gets_its_reason() {
    let gateway = Gateway::start().await;
    let files = "PUT /v1/sessions/unknown/files/x.bin HTTP/1.1";
    let right = format!("Authorization: Bearer {TOKEN}");
    let wrong = "Authorization: Bearer wrong";
    let cases = [
        (400, format!("POST /v1/sessions HTTP/1.1\r\n{right}\r\nHost: y")),
        (401, files.to_owned()),
        (404, format!("{files}\r\n{right}")),
        (429, format!("{files}\r\n{wrong}")),
    ];
    while gateway.bare("GET", "/v1/sessions", &[wrong], "").await.status != 429 {}
    for bytes in [1 << 10, 100 << 10, 5 * MIB, 32 * MIB] {
        for is_chunked in [false, true] {
            let large = (413, format!("POST /v1/sessions HTTP/1.1\r\n{right}"));
            let large = Some(large).filter(|_| bytes > 8 * MIB);
            for (status, head) in cases.iter().chain(&large) {
                let reply = upload(&gateway, head, bytes, is_chunked).await;
                assert_eq!(
                    reply.status, *status,
                    "{head}, {bytes} bytes, chunked: {is_chunked}"
                );
                assert!(!reply.body.is_empty());
                // A client must not send its next request into the end of the connection.
                let closes = reply.header("connection") == Some("close");
                let announced = bytes > 64 << 10 || *status == 429;
                assert_eq!(closes, announced, "{head}, {bytes} bytes, chunked: {is_chunked}");
            }
        }
    }
}

/// The response does not wait for a body that is not sent.
#[tokio::test]
async fn a_body_that_never_ends_is_cut_off() {
    let gateway = Gateway::start().await;
    let head = format!(
        "PUT /v1/sessions/unknown/files/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n",
        200 * MIB
    );
    let mut client = gateway.connect().await;
    client.write_all(head.as_bytes()).await.unwrap();
    let reply = Reply::read(&mut client).await;
    assert_eq!(reply.status, 404);
    assert_eq!(
        client.read(&mut [0]).await.unwrap(),
        0,
        "there is no next response"
    );
    let piece = vec![b'x'; MIB];
    let mut sent = 0;
    while client.write_all(&piece).await.is_ok() {
        sent += 1;
        assert!(sent < 128, "{sent} MiB were read");
    }
    // A gateway that stops does not wait for a rest.
    let mut client = gateway.connect().await;
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(Reply::read(&mut client).await.status, 404);
    gateway.shutdown.cancel();
    gateway.served.await.unwrap();
}
