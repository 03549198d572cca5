//! What is allowed is reached.

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::support::{Host, Proxy};
use crate::client_hello::tests::client_hello;

#[tokio::test]
async fn a_request_with_a_whole_url_is_forwarded_and_counted() {
    let host = Host::http().await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let text = proxy
        .says(format!("GET http://A.test:{port}/x?y=1 HTTP/1.1\r\nHost: a.test:{port}\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\n").as_bytes())
        .await;
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nhello"),
        "{text}"
    );
    let got = host.text().to_lowercase();
    assert!(got.starts_with("get /x?y=1 http/1.1\r\n"), "{got}");
    assert!(
        got.contains(&format!("\r\nhost: a.test:{port}\r\n")) && got.contains("x-end: 2"),
        "{got}"
    );
    assert!(!got.contains("proxy-") && !got.contains("x-hop"), "{got}");
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert_eq!(
        (report.target.to_string(), &report.denial),
        (format!("a.test:{port}"), &None)
    );
    assert!(report.sent_bytes > 20 && report.received_bytes > 40, "{report:?}");
}

#[tokio::test]
async fn requests_of_one_client_share_a_connection_to_a_host() {
    let host = Host::http().await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let mut client = proxy.connect();
    for _ in 0..3 {
        client
            .send(format!("GET http://a.test:{port}/ HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
            .await;
        client.until("hello").await;
    }
    assert_eq!(host.accepted(), 1);
}

#[tokio::test]
async fn a_tunnel_carries_bytes_of_any_protocol_on_a_port_that_is_named() {
    let host = Host::answering("ping", b"pong").await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let mut client = proxy.connect();
    client.tunnel(&format!("a.test:{port}")).await;
    client.send(b"ping").await;
    client.until("pong").await;
    drop(client);
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert_eq!(
        (report.sent_bytes, report.received_bytes, &report.denial),
        (4, 4, &None)
    );
}

#[tokio::test]
async fn bytes_that_come_with_the_connect_are_not_lost() {
    let host = Host::answering("ping", b"pong").await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let mut client = proxy.connect();
    client
        .send(format!("CONNECT a.test:{port} HTTP/1.1\r\nhost: a.test\r\n\r\nping").as_bytes())
        .await;
    client.until("pong").await;
}

#[tokio::test]
async fn tls_with_the_name_of_its_tunnel_passes_unchanged() {
    let host = Host::answering("", b"server hello").await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let mut client = proxy.connect();
    client.tunnel(&format!("a.test:{port}")).await;
    let hello = client_hello(Some("A.test"));
    let (first, rest) = hello.split_at(9);
    client.send(first).await;
    client.0.flush().await.unwrap();
    client.send(rest).await;
    client.until("server hello").await;
    assert_eq!(*host.read.lock(), hello);
}

#[tokio::test]
async fn socks_reaches_a_host_by_name() {
    let host = Host::answering("ping", b"pong").await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let mut client = proxy.connect();
    client.send(&[5, 2, 2, 0]).await;
    client.until("\x05\x00").await;
    let request = [&[5, 1, 0, 3, 6][..], b"a.test", &port.to_be_bytes()].concat();
    client.send(&request).await;
    client.until("\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00").await;
    client.send(b"ping").await;
    client.until("pong").await;
}

#[tokio::test]
async fn a_rule_that_names_an_address_allows_that() {
    let host = Host::http().await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("127.0.0.1:{port}")]), &[host.address]);
    let text = proxy
        .says(
            format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        )
        .await;
    assert!(text.ends_with("hello"), "{text}");
}

#[tokio::test]
async fn a_host_that_is_away_is_told_from_one_that_is_refused() {
    let proxy = Proxy::new(
        json!(["a.test:9", "gone.test"]),
        &["127.0.0.1:9".parse().unwrap()],
    );
    let text = proxy.says(b"CONNECT a.test:9 HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(
        text.starts_with("HTTP/1.1 502 egress_unreachable: a.test:9: "),
        "{text}"
    );
    let text = proxy
        .says(b"GET http://gone.test/ HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await;
    assert!(
        text.contains("502 egress_unreachable: the name gone.test was not resolved"),
        "{text}"
    );
}

#[tokio::test]
async fn the_proxy_of_the_gateways_network_is_used() {
    let above = Host::answering("\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let direct = Host::http().await;
    let port = direct.port();
    let proxy = format!("http://me:secret@{}", above.address);
    let list = json!([
        "elsewhere.test",
        "db.test:5432",
        format!("b.test:{port}"),
        "private.test"
    ]);
    let proxy = Proxy::behind(&proxy, list, &[direct.address]);
    proxy.names.add("private.test", &[&["10.0.0.1"]]);
    // A name without an address here.
    let close = "host: x\r\nconnection: close\r\n\r\n";
    let text = proxy
        .says(format!("GET http://elsewhere.test/x HTTP/1.1\r\n{close}").as_bytes())
        .await;
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    let mut client = proxy.connect();
    client.tunnel("db.test:5432").await;
    let got = above.text().to_lowercase();
    assert!(
        got.starts_with("get http://elsewhere.test:80/x http/1.1\r\n"),
        "{got}"
    );
    assert!(
        got.contains("connect db.test:5432 http/1.1\r\nhost: db.test:5432\r\n"),
        "{got}"
    );
    assert_eq!(got.matches("proxy-authorization: basic ").count(), 2, "{got}");
    // Excepted from it; refused before it.
    let text = proxy
        .says(format!("GET http://b.test:{port}/ HTTP/1.1\r\n{close}").as_bytes())
        .await;
    assert!(text.ends_with("hello"), "{text}");
    for host in ["private.test", "other.test"] {
        let text = proxy
            .says(format!("GET http://{host}/ HTTP/1.1\r\n{close}").as_bytes())
            .await;
        assert!(text.starts_with("HTTP/1.1 403 egress_denied"), "{text}");
    }
    assert!(!above.text().contains("private.test") && !above.text().contains("other.test"));
}
