//! The listener with TLS.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::sync::Arc;

use himalia_http::Tls;
use himalia_testkit::patience::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::common::{Gateway, TOKEN};

/// A certificate for `localhost`, and the settings of a listener that has it.
fn certificate() -> (CertificateDer<'static>, Arc<ServerConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let settings = builder
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    (certificate, Arc::new(settings))
}

/// A gateway with TLS, its certificate, and where the next one comes from.
async fn gateway(waiting: usize) -> (Gateway, CertificateDer<'static>, watch::Sender<Arc<ServerConfig>>) {
    let (certificate, settings) = certificate();
    let (sender, settings) = watch::channel(settings);
    let gateway = Gateway::with(|config| {
        config.tls = Tls::new(settings);
        config.max_waiting = waiting;
    })
    .await;
    (gateway, certificate, sender)
}

async fn connect(
    gateway: &Gateway,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, gateway.connect().await);
    within("the handshake", handshake).await.unwrap()
}

async fn status(stream: &mut TlsStream<TcpStream>) -> String {
    let request =
        format!("GET /api/kernels HTTP/1.1\r\nHost: localhost\r\nAuthorization: token {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    let answer = async {
        while !reply.ends_with(b"[]") {
            assert_ne!(stream.read_buf(&mut reply).await.unwrap(), 0, "the end");
        }
    };
    within("the answer", answer).await.unwrap();
    String::from_utf8_lossy(&reply).lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let (gateway, first, settings) = gateway(16).await;
    let mut before = connect(&gateway, &first).await.unwrap();
    assert_eq!(status(&mut before).await, "HTTP/1.1 200 OK");
    let (second, next) = certificate();
    settings.send_replace(next);
    let mut after = connect(&gateway, &second).await.unwrap();
    assert_eq!(status(&mut after).await, "HTTP/1.1 200 OK");
    assert!(
        connect(&gateway, &first).await.is_err(),
        "the first certificate is gone"
    );
    assert_eq!(
        status(&mut before).await,
        "HTTP/1.1 200 OK",
        "what was open continues"
    );
}

#[tokio::test]
async fn handshakes_that_never_end_keep_no_client_out() {
    let (gateway, certificate, _settings) = gateway(4).await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        let mut stream = gateway.connect().await;
        // The beginning of a ClientHello that never comes.
        stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        silent.push(stream);
    }
    let mut stream = connect(&gateway, &certificate).await.unwrap();
    assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
    // The oldest had to go, and this one has shown its token: it stays whatever comes.
    let mut end = [0];
    let gone = within("the oldest", silent[0].read(&mut end)).await.unwrap();
    assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
    for _ in 0..8 {
        silent.push(gateway.connect().await);
    }
    assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_client_without_tls_is_let_go() {
    let (gateway, _, _settings) = gateway(16).await;
    let mut stream = gateway.connect().await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut reply = Vec::new();
    let _ = within("the end", stream.read_to_end(&mut reply)).await.unwrap();
    assert!(!reply.starts_with(b"HTTP"), "{reply:?}");
}
