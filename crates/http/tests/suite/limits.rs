//! Connections: time, number and size limits, and the drain.

use crate::common;

use std::time::Duration;

use common::{Gateway, Reply, TOKEN};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn slow_headers_are_cut_off() {
    let gateway = Gateway::with(|config| config.header_timeout = Duration::from_millis(100)).await;
    let mut slow = gateway.connect().await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        .await
        .unwrap();
    let mut all = Vec::new();
    slow.read_to_end(&mut all).await.unwrap();
    assert!(!String::from_utf8_lossy(&all).contains("200 OK"));
}

#[tokio::test]
async fn slow_bodies_are_cut_off() {
    let gateway = Gateway::with(|config| config.body_timeout = Duration::from_millis(100)).await;
    let mut slow = gateway.connect().await;
    let head = format!(
        "POST /api/kernels HTTP/1.1\r\nHost: x\r\nAuthorization: token {TOKEN}\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(Reply::read(&mut slow).await.status, 408);
}

#[tokio::test]
async fn large_heads_are_refused() {
    let gateway = Gateway::start().await;
    let mut client = gateway.connect().await;
    let head = format!(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n",
        "x".repeat(400 << 10)
    );
    let _ = client.write_all(head.as_bytes()).await;
    let mut all = Vec::new();
    let _ = client.read_to_end(&mut all).await;
    assert!(!String::from_utf8_lossy(&all).contains("200 OK"));
}

#[tokio::test]
async fn idle_strangers_keep_no_client_out() {
    let gateway = Gateway::with(|config| config.max_waiting = 8).await;
    let mut strangers = Vec::new();
    for _ in 0..100 {
        strangers.push(gateway.connect().await);
    }
    assert_eq!(gateway.get("/api/kernels").await.status, 200);
    let mut byte = [0; 1];
    assert_eq!(strangers[0].read(&mut byte).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_connection_can_be_used_again_until_the_gateway_stops() {
    let gateway = Gateway::start().await;
    let mut client = gateway.connect().await;
    let request = format!("GET /api/kernels HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    for _ in 0..3 {
        client.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n[]") {
            assert_ne!(client.read_buf(&mut bytes).await.unwrap(), 0);
        }
    }
    gateway.shutdown.cancel();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    gateway.served.await.unwrap();
}

#[tokio::test]
async fn smuggling_is_refused() {
    let gateway = Gateway::start().await;
    for bad in [
        "POST /api/kernels HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nxxxxxx",
        "GET /healthz HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
        "GET  /healthz HTTP/9\r\n\r\n",
    ] {
        let mut client = gateway.connect().await;
        client.write_all(bad.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        let _ = client.read_to_end(&mut all).await;
        assert!(!String::from_utf8_lossy(&all).contains("200 OK"), "{bad}");
    }
}
