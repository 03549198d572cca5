//! What is not allowed is not reached, however it is asked for.

use proptest::prelude::*;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::support::{Host, Proxy, within};
use crate::DenialKind;
use crate::client_hello::UNRECOGNIZED_NAME;
use crate::client_hello::tests::client_hello;

async fn refused(proxy: &Proxy, request: &str, status: &str) -> String {
    let text = proxy.says(request.as_bytes()).await;
    assert!(
        text.starts_with(&format!("HTTP/1.1 {status} ")),
        "{request:?}: {text:?}"
    );
    text
}

#[tokio::test]
async fn a_refusal_names_the_host_and_the_list() {
    let proxy = Proxy::new(json!(["pypi.org", "*.b.test:8443"]), &[]);
    let says =
        "egress_denied: example.org:443 is not on this session's list (allowed: pypi.org, *.b.test:8443)";
    let text = refused(
        &proxy,
        "CONNECT example.org:443 HTTP/1.1\r\nhost: e\r\n\r\n",
        "403",
    )
    .await;
    // Most clients show the reason of the response to a CONNECT, and nothing else.
    assert!(text.starts_with(&format!("HTTP/1.1 403 {says}\r\n")), "{text}");
    assert!(text.ends_with(&format!("\r\n\r\n{says}\n")), "{text}");
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert_eq!(report.target.to_string(), "example.org:443");
    assert_eq!(
        report
            .denial
            .as_ref()
            .map(|denial| (denial.kind, denial.to_string())),
        Some((DenialKind::Policy, says.to_owned()))
    );
}

#[tokio::test]
async fn other_ports_methods_and_addresses_are_refused() {
    let host = Host::http().await;
    let port = host.port();
    let list = json!(["a.test", "*", { "host": "b.test", "ports": [port], "methods": ["GET"] }]);
    let proxy = Proxy::new(list, &[host.address]);
    for request in [
        format!("CONNECT a.test:{port} HTTP/1.1\r\nhost: a\r\n\r\n"),
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\n\r\n"),
        format!("POST http://b.test:{port}/ HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"),
        format!("CONNECT b.test:{port} HTTP/1.1\r\nhost: a\r\n\r\n"),
        format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nhost: a\r\n\r\n"),
        "CONNECT 8.8.8.8:443 HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "CONNECT [::ffff:8.8.8.8]:443 HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
    ] {
        let request = request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
        refused(&proxy, &request, "403").await;
    }
    let text = proxy
        .says(
            format!("GET http://b.test:{port}/ HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await;
    assert!(text.ends_with("hello"), "{text}");
}

#[tokio::test]
async fn a_name_does_not_lead_to_an_address_that_is_not_public() {
    let host = Host::http().await;
    let port = host.port();
    let list = json!(["*", format!("a.test:{port}"), format!("rebinds.test:{port}")]);
    let proxy = Proxy::new(list, &[]);
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fd00:ec2::254",
        "100.100.100.200",
    ] {
        proxy.names.add("evil.test", &[&[address]]);
        let text = refused(&proxy, "CONNECT evil.test:443 HTTP/1.1\r\nhost: a\r\n\r\n", "403").await;
        assert!(text.contains("egress_denied: evil.test:443 is a"), "{text}");
    }
    refused(
        &proxy,
        &format!("GET http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
        "403",
    )
    .await;
    assert_eq!(host.accepted(), 0);
}

#[tokio::test]
async fn a_name_that_has_another_address_the_next_time_is_checked_again_and_the_checked_address_is_the_one() {
    let host = Host::http().await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("rebinds.test:{port}")]), &[host.address]);
    // The second answer is what a check that resolves twice would connect to.
    proxy.names.add("rebinds.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let request = format!("GET http://rebinds.test:{port}/ HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let text = proxy.says(request.as_bytes()).await;
    assert!(text.ends_with("hello"), "{text}");
    refused(&proxy, &request, "403").await;
    // Of several addresses, those that may not be reached are left out.
    proxy
        .names
        .add("rebinds.test", &[&["10.0.0.1", "127.0.0.2", "127.0.0.1"]]);
    let text = proxy.says(request.as_bytes()).await;
    assert!(text.ends_with("hello"), "{text}");
}

#[tokio::test]
async fn tls_must_name_the_host_of_its_tunnel() {
    let host = Host::answering("", b"server hello").await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    for server in [Some("b.test"), Some("a.test.b.test"), Some(""), None] {
        let mut client = proxy.connect();
        client.tunnel(&format!("a.test:{port}")).await;
        client.send(&client_hello(server)).await;
        assert_eq!(client.rest().await, UNRECOGNIZED_NAME, "{server:?}");
        let [report] = &proxy.reports(1).await[..] else {
            panic!()
        };
        assert_eq!(
            report.denial.as_ref().map(|denial| denial.kind),
            Some(DenialKind::Policy),
            "{server:?}"
        );
    }
    assert!(host.read.lock().is_empty(), "no byte of it arrives");
}

#[tokio::test]
async fn a_request_is_for_the_host_of_its_url_whatever_it_says_beside() {
    let host = Host::http().await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let text = proxy.says(format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: evil.test\r\nHost: other.test\r\nconnection: close\r\n\r\n").as_bytes()).await;
    assert!(text.ends_with("hello"), "{text}");
    let got = host.text().to_lowercase();
    assert!(
        got.contains(&format!("host: a.test:{port}\r\n")) && !got.contains("evil") && !got.contains("other"),
        "{got}"
    );
    for url in [
        format!("http://a.test:{port}@evil.test/"),
        format!("http://evil.test@a.test:{port}/"),
        "ftp://a.test/".to_owned(),
        "/".to_owned(),
        format!("http://a.test:{port}.evil.test/"),
        "http://a.test:0/".to_owned(),
    ] {
        let text = proxy
            .says(format!("GET {url} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n").as_bytes())
            .await;
        assert!(
            text.starts_with("HTTP/1.1 400 ") || text.starts_with("HTTP/1.1 403 "),
            "{url}: {text}"
        );
    }
}

#[tokio::test]
async fn two_readers_see_the_same_requests() {
    let host = Host::http().await;
    let port = host.port();
    let proxy = Proxy::new(
        json!([{ "host": "a.test", "ports": [port], "methods": ["GET", "POST"] }]),
        &[host.address],
    );
    let hidden = "PUT /hidden HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n";
    // Length and chunks: chunks count, and what follows them is a request to the proxy, which refuses it.
    let both = format!(
        "POST http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        hidden.len() + 5
    );
    proxy.says(both.as_bytes()).await;
    for request in [
        format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 50\r\n\r\nabc{hidden}"
        ),
        format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\nx: y\rz\r\n{hidden}"),
        format!("GET http://a.test:{port}/\r\n{hidden}"),
        format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\rx\r\n{hidden}"
        ),
    ] {
        proxy.says(request.as_bytes()).await;
    }
    let got = host.text();
    assert!(!got.contains("PUT "), "{got}");
    for request in got.to_lowercase().split("post / http/1.1\r\n").skip(1) {
        let framings =
            request.matches("content-length:").count() + request.matches("transfer-encoding:").count();
        assert!(framings <= 1, "{request}");
    }
}

#[tokio::test]
async fn a_tunnel_for_http_is_for_its_host() {
    let host = Host::http().await;
    let proxy = Proxy::new(json!(["a.test"]), &[host.address]);
    let target = crate::Target {
        host: himalia_model::network::Host::parse("a.test").unwrap(),
        port: 80,
    };
    // Nothing can listen on port 80 here: what follows a CONNECT to it is served as it would be.
    let serve = |request: String| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (target, address) = (target.clone(), host.address);
        let gate = std::sync::Arc::new(crate::gate::Gate::new(
            std::sync::Arc::clone(proxy.egress()),
            std::sync::Arc::clone(&proxy.access),
            proxy.access.account(),
            None,
        ));
        tokio::spawn(async move {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let meter = gate.meter(&target);
            let client = crate::prefixed::PrefixedStream {
                prefix: bytes::Bytes::new(),
                inner: theirs,
            };
            crate::tunnel::run(
                client,
                crate::meter::MeteredStream {
                    stream,
                    meter,
                    via: None,
                },
                target,
                &gate,
            )
            .await;
        });
        async move {
            let mut client = super::support::Client(ours);
            client.send(request.as_bytes()).await;
            String::from_utf8_lossy(&client.rest().await).into_owned()
        }
    };
    let close = "connection: close\r\n\r\n";
    let text = serve(format!("GET /x HTTP/1.1\r\nHost: A.test:80\r\n{close}")).await;
    assert!(text.ends_with("hello"), "{text}");
    for request in [
        "GET / HTTP/1.1\r\nHost: evil.test\r\n",
        "GET http://evil.test/ HTTP/1.1\r\nHost: a.test\r\n",
        "GET / HTTP/1.1\r\nHost: a.test:81\r\n",
    ] {
        let text = serve(format!("{request}{close}")).await;
        assert!(
            text.starts_with("HTTP/1.1 403 egress_denied: a request in a tunnel to a.test:80"),
            "{request:?}: {text}"
        );
    }
    for request in [
        "GET / HTTP/1.1\r\nHost: a.test\r\nHost: evil.test\r\n",
        "GET / HTTP/1.1\r\n",
    ] {
        let text = serve(format!("{request}{close}")).await;
        assert!(text.starts_with("HTTP/1.1 400 "), "{request:?}: {text}");
    }
    assert!(!host.text().contains("evil"));
}

#[tokio::test]
async fn socks_refuses_what_http_refuses() {
    let proxy = Proxy::new(json!(["a.test"]), &[]);
    let name = |name: &str| [&[u8::try_from(name.len()).unwrap()][..], name.as_bytes()].concat();
    for (command, kind, address, reply) in [
        (1, 3, name("b.test"), 2),
        (1, 1, vec![127, 0, 0, 1], 2),
        (1, 4, std::net::Ipv6Addr::LOCALHOST.octets().to_vec(), 2),
        (1, 3, name("127.0.0.1"), 2),
        (1, 3, name("0x7f.1"), 8),
        // Listening, and UDP.
        (2, 3, name("a.test"), 7),
        (3, 3, name("a.test"), 7),
        (1, 9, vec![0; 4], 8),
    ] {
        let mut client = proxy.connect();
        let request = [
            &[5, 1, 0, 5, command, 0, kind][..],
            &address,
            &443_u16.to_be_bytes(),
        ]
        .concat();
        client.send(&request).await;
        let answer = client.rest().await;
        assert_eq!(answer.get(..4), Some(&[5, 0, 5, reply][..]), "{request:?}");
    }
    let mut client = proxy.connect();
    client.send(&[5, 1, 2]).await;
    assert_eq!(client.rest().await, [5, 0xff]);
}

#[tokio::test]
async fn a_session_has_so_many_connections_and_not_more() {
    let host = Host::answering("ping", b"pong").await;
    let port = host.port();
    let proxy = Proxy::new(json!([format!("a.test:{port}")]), &[host.address]);
    let _all = proxy
        .access
        .open
        .acquire_many(u32::try_from(crate::MAX_CONNECTIONS).unwrap())
        .await
        .unwrap();
    let text = refused(
        &proxy,
        &format!("CONNECT a.test:{port} HTTP/1.1\r\nhost: a\r\n\r\n"),
        "503",
    )
    .await;
    assert!(
        text.contains("egress_limit: 256 connections of this session are open"),
        "{text}"
    );
    let mut socks = proxy.connect();
    socks.send(&[5, 1, 0]).await;
    assert!(socks.rest().await.is_empty());
}

#[tokio::test]
async fn a_head_has_an_end() {
    let proxy = Proxy::new(json!(["a.test"]), &[]);
    let mut client = proxy.connect();
    client.send(b"GET http://a.test/ HTTP/1.1\r\n").await;
    let line = [b"x: ", &[b'y'; 1000][..], b"\r\n"].concat();
    let mut refused = false;
    for _ in 0..200 {
        if within(client.0.write_all(&line)).await.is_err() {
            refused = true;
            break;
        }
    }
    let text = String::from_utf8_lossy(&client.rest().await).into_owned();
    assert!(refused || text.starts_with("HTTP/1.1 431 "), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a client sends, the proxy ends, and nothing that is not allowed is reached.
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 1..400), kind in 0..4_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let proxy = Proxy::new(json!(["a.test"]), &[]);
            let mut client = proxy.connect();
            let head: &[u8] = [&b""[..], b"CONNECT ", b"\x05\x01\x00\x05\x01\x00\x03", b"GET http://a.test"][kind];
            client.send(&[head, &bytes].concat()).await;
            client.0.shutdown().await.unwrap();
            client.rest().await;
        });
    }
}
