//! A list that becomes shorter holds at once.

use serde_json::json;

use super::support::{Host, Proxy, allow, within};

#[tokio::test]
async fn a_tunnel_is_cut_when_the_list_no_longer_has_it() {
    let [one, two] = [
        Host::answering("ping", b"pong").await,
        Host::answering("ping", b"pong").await,
    ];
    let rules = [format!("a.test:{}", one.port()), format!("b.test:{}", two.port())];
    let proxy = Proxy::new(json!(rules), &[one.address, two.address]);
    let [mut cut, mut kept] = [proxy.connect(), proxy.connect()];
    cut.tunnel(&rules[0]).await;
    kept.tunnel(&rules[1]).await;
    for client in [&mut cut, &mut kept] {
        client.send(b"ping").await;
        client.until("pong").await;
    }
    proxy.access.set(&allow(json!([rules[1]])));
    assert!(cut.rest().await.is_empty());
    kept.send(b"ping").await;
    kept.until("pong").await;
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert!(
        report
            .denial
            .as_ref()
            .unwrap()
            .to_string()
            .starts_with(&format!("egress_denied: {} ", rules[0])),
        "{report:?}"
    );
    let text = proxy
        .says(format!("CONNECT {} HTTP/1.1\r\nhost: a\r\n\r\n", rules[0]).as_bytes())
        .await;
    assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
}

#[tokio::test]
async fn the_next_request_on_an_open_connection_is_checked_too() {
    let host = Host::http().await;
    let port = host.port();
    let rule = |methods: &[&str]| json!([{ "host": "a.test", "ports": [port], "methods": methods }]);
    let proxy = Proxy::new(rule(&["GET", "HEAD"]), &[host.address]);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client
            .send(format!("GET http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes())
            .await;
        client.until("hello").await;
    }
    assert_eq!(host.accepted(), 1, "the connection to the host is used again");
    client
        .send(format!("DELETE http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes())
        .await;
    let text = client.until("HEAD a.test").await;
    assert!(text.contains("403 egress_denied: DELETE a.test"), "{text}");
    assert!(!host.text().contains("DELETE"));
}

#[tokio::test]
async fn a_later_request_on_an_open_connection_is_cut_when_the_list_no_longer_has_it() {
    let host = Host::answering("\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    let port = host.port();
    let rule = |methods: &[&str]| json!([{ "host": "a.test", "ports": [port], "methods": methods }]);
    let proxy = Proxy::new(rule(&["GET", "PUT"]), &[host.address]);
    let mut client = proxy.connect();
    client
        .send(format!("GET http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes())
        .await;
    client.until("hello").await;
    // Its body never ends, so the host never answers.
    client
        .send(
            format!("PUT http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nsome")
                .as_bytes(),
        )
        .await;
    within(async {
        while !host.text().ends_with("some") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(host.accepted(), 1);
    proxy.access.set(&allow(rule(&["GET"])));
    assert!(client.rest().await.is_empty());
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert!(
        report.denial.as_ref().unwrap().to_string().contains("PUT a.test"),
        "{report:?}"
    );
}
