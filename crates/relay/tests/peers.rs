//! Two replicas on loopback, and peers that are none.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use himalia_relay::{Authority, Identity, Peer, Pool, SendError, Statement, body, empty};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const DRAIN: Duration = Duration::from_secs(5);

struct Replica {
    peer: Peer,
    shutdown: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Replica {
    /// Listens as `b`; responds with what `service` does.
    async fn start<F>(
        authority: &Authority,
        service: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<himalia_relay::Body>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self::on(listener, address, authority, service, DRAIN)
    }

    fn on<F>(
        listener: TcpListener,
        address: SocketAddr,
        authority: &Authority,
        service: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        drain: Duration,
    ) -> Self
    where
        F: Future<Output = Response<himalia_relay::Body>> + Send + 'static,
    {
        let shutdown = CancellationToken::new();
        // As the address of a replica has it: an IPv6 address in brackets.
        let text = address.to_string();
        let (host, _) = text.rsplit_once(':').unwrap();
        let identity = authority.identity("b", host).unwrap();
        let serving = himalia_relay::serve(listener, identity, service, shutdown.clone(), drain);
        Self {
            peer: Peer {
                replica: "b".into(),
                address: address.to_string(),
            },
            shutdown,
            served: tokio::spawn(serving),
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.served.await.unwrap();
    }
}

fn identity(authority: &Authority) -> Identity {
    authority.identity("a", "127.0.0.1").unwrap()
}

async fn echo(request: Request<Incoming>) -> Response<himalia_relay::Body> {
    let statement = request.extensions().get::<Statement>().unwrap().clone();
    let target = request.uri().path_and_query().unwrap().to_string();
    let (method, body_of_request) = (request.method().clone(), request.into_body());
    let bytes = body_of_request.collect().await.unwrap().to_bytes();
    let text = format!(
        "{} {} for {}: {method} {target} {}",
        statement.from,
        statement.to,
        statement.caller,
        bytes.len()
    );
    Response::new(body(Full::from(text)))
}

async fn text(response: himalia_relay::Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_is_relayed_with_its_caller() {
    let authority = Authority::generate().unwrap();
    let replica = Replica::start(&authority, echo).await;
    let pool = Pool::new(identity(&authority));
    for size in [0, 1, 5 << 20] {
        let request = Request::post("/v1/x?y=1")
            .body(body(Full::from(vec![7; size])))
            .unwrap();
        let response = pool.send(&replica.peer, "ada", request).await.unwrap();
        assert_eq!(
            text(response).await,
            format!("a b for ada: POST /v1/x?y=1 {size}")
        );
    }
    assert_eq!((pool.usage().relayed, pool.usage().open), (3, 0));
    replica.stop().await;
}

#[tokio::test]
async fn a_replica_with_an_ipv6_address_is_reached() {
    let authority = Authority::generate().unwrap();
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let replica = Replica::on(listener, address, &authority, echo, DRAIN);
    assert!(replica.peer.address.starts_with("[::1]:"), "{:?}", replica.peer);
    let request = Request::get("/x").body(empty()).unwrap();
    let pool = Pool::new(identity(&authority));
    let response = pool.send(&replica.peer, "ada", request).await.unwrap();
    assert_eq!(text(response).await, "a b for ada: GET /x 0");
    replica.stop().await;
}

#[tokio::test]
async fn a_replica_that_comes_back_is_reached_again() {
    let authority = Authority::generate().unwrap();
    let replica = Replica::start(&authority, echo).await;
    let (peer, pool) = (replica.peer.clone(), Pool::new(identity(&authority)));
    let get = || Request::get("/x").body(empty()).unwrap();
    pool.send(&peer, "ada", get()).await.unwrap();
    replica.stop().await;
    let refused = pool.send(&peer, "ada", get()).await.unwrap_err();
    assert!(matches!(refused, SendError::NotSent(_)), "{refused:?}");
    let address: SocketAddr = peer.address.parse().unwrap();
    let listener = TcpListener::bind(address).await.unwrap();
    let replica = Replica::on(listener, address, &authority, echo, DRAIN);
    assert_eq!(
        pool.send(&peer, "ada", get()).await.unwrap().status(),
        StatusCode::OK
    );
    replica.stop().await;
}

#[tokio::test]
async fn a_lost_connection_is_said() {
    let authority = Authority::generate().unwrap();
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = move |request| {
        asked.send(()).unwrap();
        async move {
            std::future::pending::<()>().await;
            echo(request).await
        }
    };
    let replica = Replica::on(listener, address, &authority, silent, Duration::ZERO);
    let pool = Pool::new(identity(&authority));
    let request = Request::get("/x").body(empty()).unwrap();
    let sending = pool.send(&replica.peer, "ada", request);
    let lost = async {
        was_asked.recv().await.unwrap();
        replica.shutdown.cancel();
    };
    let (sent, ()) = tokio::join!(sending, lost);
    assert!(matches!(sent, Err(SendError::Lost(_))), "{sent:?}");
    replica.served.await.unwrap();
}

/// A peer that is paused keeps its connections and answers nothing.
#[tokio::test]
async fn what_waits_for_a_peer_fails_when_its_connection_is_cut() {
    let authority = Authority::generate().unwrap();
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let replica = Replica::start(&authority, move |request: Request<Incoming>| {
        let asked = asked.clone();
        async move {
            if request.uri().path() == "/x" {
                return echo(request).await;
            }
            asked.send(()).unwrap();
            if request.uri().path() == "/silent" {
                std::future::pending::<()>().await;
            }
            Response::new(body(StreamBody::new(stream::pending::<
                Result<Frame<Bytes>, std::convert::Infallible>,
            >())))
        }
    })
    .await;
    let pool = Pool::new(identity(&authority));
    let get = |path: &str| Request::get(path).body(empty()).unwrap();
    let stream = pool.send(&replica.peer, "ada", get("/stream")).await.unwrap();
    was_asked.recv().await.unwrap();
    let silent = pool.send(&replica.peer, "ada", get("/silent"));
    let cut = async {
        was_asked.recv().await.unwrap();
        let address = replica.peer.address.clone();
        assert_eq!(pool.connected_to(), std::slice::from_ref(&address));
        pool.cut("127.0.0.1:1");
        pool.cut(&address);
        assert!(pool.connected_to().is_empty());
    };
    let (sent, ()) = tokio::join!(silent, cut);
    assert!(matches!(sent, Err(SendError::Lost(_))), "{sent:?}");
    assert!(stream.into_body().frame().await.unwrap().is_err());
    // The next request has a new connection.
    text(pool.send(&replica.peer, "ada", get("/x")).await.unwrap()).await;
    assert_eq!(pool.usage().open, 0);
    replica.stop().await;
}

/// Another authority, no certificate at all, and no TLS.
#[tokio::test]
async fn strangers_are_refused() {
    let authority = Authority::generate().unwrap();
    let replica = Replica::start(&authority, echo).await;
    let stranger = Pool::new(identity(&Authority::generate().unwrap()));
    let get = || Request::get("/x").body(empty()).unwrap();
    let refused = stranger.send(&replica.peer, "ada", get()).await.unwrap_err();
    assert!(matches!(refused, SendError::NotSent(_)), "{refused:?}");

    let mut roots = rustls::RootCertStore::empty();
    let accepts_all = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
    roots.add(accepts_all.cert.der().clone()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(std::sync::Arc::new(Anything(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(&replica.peer.address)
        .await
        .unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
    let mut tls = connector.connect(name, stream).await.unwrap();
    // TLS 1.3: the client learns with its first read that its certificate is wanted.
    assert!(tls.read_u8().await.is_err());

    let mut plain = tokio::net::TcpStream::connect(&replica.peer.address)
        .await
        .unwrap();
    plain
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest).await;
    assert!(!rest.windows(4).any(|window| window == b"HTTP"));
    replica.stop().await;
}

#[derive(Debug)]
struct Anything(std::sync::Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A replica at an address that another one has now, and a request that was relayed before.
#[tokio::test]
async fn a_statement_is_for_one_replica_and_one_hop() {
    let authority = Authority::generate().unwrap();
    let replica = Replica::start(&authority, echo).await;
    let pool = Pool::new(identity(&authority));
    let get = || Request::get("/x").body(empty()).unwrap();
    let other = Peer {
        replica: "c".into(),
        ..replica.peer.clone()
    };
    let response = pool.send(&other, "ada", get()).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let mut relayed = get();
    relayed
        .headers_mut()
        .insert("himalia-relay", "x.y".parse().unwrap());
    let refused = pool.send(&replica.peer, "ada", relayed).await.unwrap_err();
    assert!(matches!(refused, SendError::Refused));
    replica.stop().await;
}

/// What a reader does not take is not produced, and other streams continue.
#[tokio::test]
async fn a_slow_reader_holds_little_and_delays_no_other() {
    let authority = Authority::generate().unwrap();
    let (produced, mut count) = mpsc::unbounded_channel();
    let replica = Replica::start(&authority, move |request| {
        let produced = produced.clone();
        async move {
            if request.method() == Method::GET {
                return echo(request).await;
            }
            let pieces = stream::iter(0..100_000).map(move |_| {
                produced.send(1000).unwrap();
                Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(&[0; 1000])))
            });
            Response::new(body(StreamBody::new(pieces)))
        }
    })
    .await;
    let pool = Pool::new(identity(&authority));
    let mut slow = Vec::new();
    for _ in 0..20 {
        let request = Request::post("/x").body(empty()).unwrap();
        slow.push(pool.send(&replica.peer, "ada", request).await.unwrap());
    }
    // Those 20 fill their windows, and stop.
    for _ in 0..50 {
        let request = Request::get("/x").body(empty()).unwrap();
        text(pool.send(&replica.peer, "ada", request).await.unwrap()).await;
    }
    let mut bytes = 0;
    while let Ok(more) = count.try_recv() {
        bytes += more;
    }
    assert!(bytes <= 20 * (4 << 16), "{bytes}");
    let mut last = slow.pop().unwrap().into_body();
    let mut taken = 0;
    while let Some(frame) = last.frame().await {
        taken += frame.unwrap().into_data().unwrap().len();
    }
    assert_eq!(taken, 100_000_000);
    assert_eq!(pool.usage().open, 19 + 1);
    drop((slow, last));
    replica.stop().await;
}
