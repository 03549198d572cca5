//! Secrets are added, replaced and masked, over TLS to a server with a certificate of a test's authority.

use std::sync::Arc;

use himalia_credentials::{
    Credential, CredentialSource, CredentialValue, FoundCredentials, RenewedCredential, SecretText,
    SourceError, Unusable,
};
use himalia_model::credential::{CredentialFields, Intercept};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::support::{Client, Proxy, within};
use crate::{CredentialAccess, DenialKind, InterceptAuthority, InterceptKey, Roots};

const SECRET: &str = "s3cret-of-the-test";
const PLACEHOLDER: &str = "himalia-credential-api-placeholder";

/// Credentials of a test.
#[derive(Default)]
struct Source {
    held: Mutex<Vec<Credential>>,
    fails: Mutex<bool>,
    /// What takes the place of a refused token.
    next: Mutex<Option<&'static str>>,
}

impl Source {
    fn set(&self, definition: Value, value: &str) {
        let fields: CredentialFields = serde_json::from_value(definition).unwrap();
        let value = CredentialValue {
            value: SecretText::new(value.to_owned()),
            session_token: None,
            client_secret: None,
        };
        *self.held.lock() = vec![Credential::new("api", fields.try_into().unwrap(), value)];
    }
}

impl CredentialSource for Source {
    fn find<'a>(&'a self, _owner: &'a str, names: &'a [String]) -> FoundCredentials<'a> {
        Box::pin(async move {
            if *self.fails.lock() {
                return Err(SourceError);
            }
            let held = self.held.lock();
            Ok(held
                .iter()
                .filter(|one| names.contains(&one.name))
                .cloned()
                .collect())
        })
    }

    fn renewed<'a>(&'a self, _owner: &'a str, refused: &'a Credential) -> RenewedCredential<'a> {
        Box::pin(async move {
            let next = self.next.lock().take()?;
            let mut renewed = refused.clone();
            renewed.value.value = SecretText::new(next.to_owned());
            refused.known.add([renewed.value.value.clone()]);
            self.held.lock()[0] = renewed.clone();
            Some(renewed)
        })
    }
}

/// A server of `a.test` that speaks TLS. It answers each request with `answer`, in which `{}` is what it got.
struct Server {
    port: u16,
    read: Arc<Mutex<String>>,
    root: CertificateDer<'static>,
}

impl Server {
    async fn new(answer: impl Fn(&str) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let read: Arc<Mutex<String>> = Arc::default();
        let (answer, kept) = (Arc::new(answer), Arc::clone(&read));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, answer, read) = (acceptor.clone(), Arc::clone(&answer), Arc::clone(&kept));
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut got = Vec::new();
                    while !got.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        got.push(byte);
                    }
                    let got = String::from_utf8(got).unwrap();
                    read.lock().push_str(&got);
                    for part in answer(&got) {
                        if stream.write_all(&part).await.is_err() || stream.flush().await.is_err() {
                            return;
                        }
                    }
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { port, read, root }
    }

    /// One that repeats the head that it got, in its body and in a header, cut into parts of some bytes.
    async fn echoing(part: usize) -> Self {
        Self::new(move |got| {
            let line = got
                .lines()
                .find(|line| line.starts_with("authorization"))
                .unwrap_or("authorization: none");
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nx-echo: {line}\r\nset-cookie: a={line}\r\n\r\n",
                got.len()
            );
            let all = [head.as_bytes(), got.as_bytes()].concat();
            all.chunks(part).map(<[u8]>::to_vec).collect()
        })
        .await
    }

    fn got(&self) -> String {
        self.read.lock().clone()
    }
}

/// A session with a credential for the server.
struct WithCredential {
    proxy: Proxy,
    source: Arc<Source>,
    trusted: CertificateDer<'static>,
}

impl WithCredential {
    fn new(server: &Server, kind: Value, intercept: Intercept) -> Self {
        Self::with_list(
            json!([{"host": "a.test", "ports": [server.port], "methods": ["GET"]}]),
            server,
            kind,
            intercept,
        )
    }

    #[expect(clippy::needless_pass_by_value, reason = "what a macro has just made")]
    fn with_list(list: Value, server: &Server, kind: Value, intercept: Intercept) -> Self {
        let port = server.port;
        let mut definition = json!({"hosts": [format!("a.test:{port}")]});
        definition
            .as_object_mut()
            .unwrap()
            .extend(kind.as_object().unwrap().clone());
        let source = Arc::<Source>::default();
        source.set(definition, SECRET);
        let key = InterceptKey::generate().unwrap();
        let trusted = CertificateDer::from_pem_slice(key.certificate.as_bytes()).unwrap();
        let authority = InterceptAuthority::new(&key).unwrap();
        let roots = Roots::new(vec![server.root.clone()]).unwrap();
        let address = ([127, 0, 0, 1], port).into();
        let proxy = Proxy::new(list, &[address]).with_credentials(roots, authority);
        proxy.access.set_credentials(Some(CredentialAccess {
            owner: "acme".to_owned(),
            names: vec!["api".to_owned()],
            intercept,
            source: source.clone(),
        }));
        Self {
            proxy,
            source,
            trusted,
        }
    }

    fn bearer(server: &Server) -> Self {
        Self::new(server, json!({"kind": "bearer"}), Intercept::None)
    }

    /// What a client gets for a request to the internal name.
    async fn relayed(&self, request: &str) -> String {
        self.proxy.says(request.as_bytes()).await
    }

    /// What a client gets for a request in TLS to the server, through a tunnel.
    async fn in_tls(&self, server: &Server, request: &str) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut client = self.proxy.connect();
        client.tunnel(&format!("a.test:{}", server.port)).await;
        let Client(stream) = client;
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("a.test").unwrap();
        let mut stream = within(connector.connect(name, stream)).await?;
        within(stream.write_all(request.as_bytes())).await?;
        let mut got = Vec::new();
        within(stream.read_to_end(&mut got)).await?;
        Ok(String::from_utf8_lossy(&got).into_owned())
    }
}

const RELAYED: &str = "GET http://api.credential.internal/v1/x?y=1 HTTP/1.1\r\nHost: api.credential.internal\r\nAuthorization: Bearer own\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn the_internal_name_adds_the_secret_and_the_response_has_none() {
    for part in [1, 7, 10_000] {
        let server = Server::echoing(part).await;
        let place = WithCredential::bearer(&server);
        let text = place.relayed(RELAYED).await;
        let got = server.got();
        assert!(got.starts_with("GET /v1/x?y=1 HTTP/1.1\r\n"), "{got}");
        assert!(
            got.contains(&format!("host: a.test:{}\r\n", server.port)),
            "{got}"
        );
        assert!(
            got.contains(&format!("authorization: Bearer {SECRET}\r\n")) && !got.contains("own"),
            "{got}"
        );
        assert!(
            got.contains("accept-encoding: identity\r\n") && !got.contains("gzip"),
            "{got}"
        );
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(!text.contains(SECRET) && !text.contains("s3cret"), "{text}");
        let masked = "*".repeat(SECRET.len());
        assert_eq!(text.matches(&format!("Bearer {masked}")).count(), 3, "{text}");
        assert!(
            text.ends_with("\r\n\r\n") && text.contains("GET /v1/x?y=1"),
            "the whole body: {text}"
        );
        let [report] = &place.proxy.reports(1).await[..] else {
            panic!()
        };
        assert_eq!(
            (&report.credentials[..], &report.denial),
            (&["api".to_owned()][..], &None)
        );
        assert_eq!(report.target.to_string(), format!("a.test:{}", server.port));
    }
}

#[tokio::test]
async fn a_tunnel_to_the_internal_name_does_the_same() {
    let server = Server::echoing(100).await;
    let place = WithCredential::bearer(&server);
    let mut client = place.proxy.connect();
    client.tunnel("api.credential.internal:80").await;
    client
        .send(b"GET /in-tunnel HTTP/1.1\r\nHost: api.credential.internal\r\nConnection: close\r\n\r\n")
        .await;
    let text = String::from_utf8(client.rest().await).unwrap();
    assert!(
        text.contains("GET /in-tunnel") && !text.contains(SECRET),
        "{text}"
    );
    assert!(server.got().contains(SECRET));
    let refused = place
        .proxy
        .says(b"CONNECT api.credential.internal:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(
        refused.contains("egress_request: api.credential.internal is plain HTTP at port 80"),
        "{refused}"
    );
}

#[tokio::test]
async fn what_may_not_be_used_is_refused_and_says_why() {
    let server = Server::echoing(100).await;
    let place = WithCredential::bearer(&server);
    for (request, expected) in [
        (
            RELAYED.replace("GET", "POST"),
            format!("egress_denied: POST a.test:{}", server.port),
        ),
        (
            RELAYED.replace("api.", "other."),
            "credential_denied: \"other\" is not a credential of this session (has: api)".to_owned(),
        ),
        (
            RELAYED.replace("Accept-Encoding: gzip", "Upgrade: websocket"),
            "credential_denied: a.test".to_owned(),
        ),
    ] {
        let text = place.relayed(&request).await;
        assert!(text.contains(&expected), "{text}");
    }
    assert_eq!(server.got(), "");
    place.source.held.lock().clear();
    let text = place.relayed(RELAYED).await;
    assert!(
        text.starts_with("HTTP/1.1 403 credential_denied: the credential api does not exist, or was revoked"),
        "{text}"
    );
    *place.source.fails.lock() = true;
    let text = place.relayed(RELAYED).await;
    assert!(
        text.starts_with("HTTP/1.1 503 credential_unavailable: "),
        "{text}"
    );
    let reports = place.proxy.reports(5).await;
    assert!(reports.iter().any(|one| {
        one.denial
            .as_ref()
            .is_some_and(|denial| denial.kind == DenialKind::Credential)
    }));
    place.proxy.access.set_credentials(None);
    assert!(place.relayed(RELAYED).await.contains("(has: none)"));
}

#[tokio::test]
async fn the_next_request_has_the_new_secret() {
    let server = Server::echoing(100).await;
    let place = WithCredential::bearer(&server);
    place.relayed(RELAYED).await;
    let definition = json!({"kind": "bearer", "hosts": [format!("a.test:{}", server.port)]});
    place.source.set(definition, "another-s3cret");
    place.relayed(RELAYED).await;
    assert!(server.got().contains("Bearer another-s3cret\r\n"));
}

#[tokio::test]
async fn a_host_with_another_certificate_gets_no_secret() {
    let (server, other) = (Server::echoing(100).await, Server::echoing(100).await);
    let mut place = WithCredential::bearer(&server);
    place.proxy = {
        let access = Arc::clone(&place.proxy.access);
        let roots = Roots::new(vec![other.root.clone()]).unwrap();
        let authority = InterceptAuthority::new(&InterceptKey::generate().unwrap()).unwrap();
        let address = ([127, 0, 0, 1], server.port).into();
        let mut proxy = Proxy::new(json!([]), &[address]).with_credentials(roots, authority);
        proxy.access = access;
        proxy
    };
    let text = place.relayed(RELAYED).await;
    assert!(
        text.starts_with("HTTP/1.1 502 egress_unreachable: a.test") && text.contains("certificate"),
        "{text}"
    );
    assert_eq!(server.got(), "");
}

#[tokio::test]
async fn what_cannot_be_searched_is_not_passed_on() {
    let server = Server::new(|_| {
        vec![b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nabcde".to_vec()]
    })
    .await;
    let text = WithCredential::bearer(&server).relayed(RELAYED).await;
    assert!(
        text.starts_with("HTTP/1.1 403 credential_denied: ") && text.contains("(gzip)"),
        "{text}"
    );
    assert!(!text.contains("abcde"), "{text}");
}

#[tokio::test]
async fn a_redirect_to_the_same_host_stays_inside() {
    let server = Server::new(|got| {
        let port = got
            .split("host: a.test:")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .to_owned();
        vec![
            format!(
                "HTTP/1.1 302 Found\r\nlocation: https://a.test:{port}/next?a=b\r\ncontent-length: 0\r\n\r\n"
            )
            .into_bytes(),
        ]
    })
    .await;
    let text = WithCredential::bearer(&server).relayed(RELAYED).await;
    assert!(
        text.contains("location: http://api.credential.internal/next?a=b\r\n"),
        "{text}"
    );
}

fn in_tls(header: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: a.test:PORT\r\n{header}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn tls_that_is_read_has_the_secret_in_the_place_of_the_placeholder() {
    let server = Server::echoing(13).await;
    let request = |header: &str| in_tls(header).replace("PORT", &server.port.to_string());
    for intercept in [
        Intercept::Bound(true),
        Intercept::Hosts(vec![format!("a.test:{}", server.port).parse().unwrap()]),
    ] {
        let place = WithCredential::new(&server, json!({"kind": "bearer"}), intercept);
        server.read.lock().clear();
        let text = place
            .in_tls(&server, &request(&format!("Authorization: Bearer {PLACEHOLDER}")))
            .await
            .unwrap();
        assert!(
            server
                .got()
                .contains(&format!("authorization: Bearer {SECRET}\r\n")),
            "{}",
            server.got()
        );
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && !text.contains("s3cret"),
            "{text}"
        );
        let [report] = &place.proxy.reports(1).await[..] else {
            panic!()
        };
        assert_eq!(report.credentials, ["api"]);
        // Without a placeholder nothing is added, and methods are checked.
        server.read.lock().clear();
        place
            .in_tls(&server, &request("Authorization: Bearer own"))
            .await
            .unwrap();
        assert!(server.got().contains("Bearer own") && !server.got().contains(SECRET));
        let text = place
            .in_tls(&server, &request("X: y").replace("GET", "DELETE"))
            .await
            .unwrap();
        assert!(
            text.starts_with("HTTP/1.1 403 egress_denied: DELETE a.test"),
            "{text}"
        );
        let other = request("X: y").replace("Host: a.test", "Host: b.test");
        let text = place.in_tls(&server, &other).await.unwrap();
        assert!(
            text.starts_with("HTTP/1.1 403 egress_denied: a request in a tunnel"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn tls_to_other_hosts_is_not_read() {
    let server = Server::echoing(100).await;
    let list = json!([format!("a.test:{}", server.port)]);
    let elsewhere: Intercept = serde_json::from_value(json!(["b.test"])).unwrap();
    for (intercept, names) in [
        (elsewhere, true),
        (Intercept::Bound(true), false),
        (Intercept::None, true),
    ] {
        let place = WithCredential::with_list(list.clone(), &server, json!({"kind": "bearer"}), intercept);
        if !names {
            place
                .source
                .set(json!({"kind": "bearer", "hosts": ["b.test"]}), SECRET);
        }
        let request = in_tls(&format!("Authorization: Bearer {PLACEHOLDER}"));
        let error = place.in_tls(&server, &request).await.unwrap_err();
        assert!(
            error.to_string().contains("UnknownIssuer"),
            "the server's own certificate: {error}"
        );
        assert_eq!(server.got(), "");
    }
}

#[tokio::test]
async fn a_placeholder_is_not_replaced_towards_another_host_that_is_read() {
    let server = Server::echoing(100).await;
    let intercept: Intercept = serde_json::from_value(json!([format!("a.test:{}", server.port)])).unwrap();
    let place = WithCredential::new(&server, json!({"kind": "bearer"}), intercept);
    place
        .source
        .set(json!({"kind": "bearer", "hosts": ["b.test"]}), SECRET);
    let request =
        in_tls(&format!("Authorization: Bearer {PLACEHOLDER}")).replace("PORT", &server.port.to_string());
    let text = place.in_tls(&server, &request).await.unwrap();
    assert!(server.got().contains(PLACEHOLDER) && !server.got().contains(SECRET));
    assert!(text.contains(PLACEHOLDER), "{text}");
}

#[tokio::test]
async fn a_client_that_speaks_no_tls_to_a_host_that_is_read_is_refused() {
    let server = Server::echoing(100).await;
    let place = WithCredential::new(&server, json!({"kind": "bearer"}), Intercept::Bound(true));
    let mut client = place.proxy.connect();
    client.tunnel(&format!("a.test:{}", server.port)).await;
    client.send(in_tls("X: y").as_bytes()).await;
    client.rest().await;
    let [report] = &place.proxy.reports(1).await[..] else {
        panic!()
    };
    assert!(
        report
            .denial
            .as_ref()
            .unwrap()
            .to_string()
            .contains("cannot read the TLS"),
        "{report:?}"
    );
    assert_eq!(server.got(), "");
}

const TOKEN: &str = "the-second-access-token";

/// A server that takes the second token only, and a session with the first one.
async fn with_tokens() -> (Server, WithCredential) {
    let server = Server::new(|got| {
        let is_good = got.contains(TOKEN);
        let (status, challenge) = if is_good || got.starts_with("GET /plain") {
            (if is_good { "200 OK" } else { "401 Unauthorized" }, "")
        } else {
            (
                "401 Unauthorized",
                "www-authenticate: Bearer error=\"invalid_token\"\r\n",
            )
        };
        let text = format!(
            "HTTP/1.1 {status}\r\n{challenge}content-length: {}\r\n\r\n{got}",
            got.len()
        );
        vec![text.into_bytes()]
    })
    .await;
    let list = json!([{"host": "a.test", "ports": [server.port]}]);
    let kind = json!({"kind": "oauth2", "grant": "client_credentials", "issuer": "https://id.test", "client_id": "c"});
    let place = WithCredential::with_list(list, &server, kind, Intercept::None);
    *place.source.next.lock() = Some(TOKEN);
    (server, place)
}

#[tokio::test]
async fn a_request_whose_token_is_refused_is_sent_once_more_with_another_one() {
    let (server, place) = with_tokens().await;
    let text = place.relayed(RELAYED).await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(
        text.contains("Bearer ****") && !text.contains(TOKEN) && !text.contains(SECRET),
        "{text}"
    );
    assert_eq!(server.got().matches("GET /v1/x").count(), 2);
    // There is no third one: the refusal is passed on.
    place.source.set(
        json!({"kind": "oauth2", "grant": "client_credentials", "issuer": "https://id.test", "client_id": "c",
               "hosts": [format!("a.test:{}", server.port)]}),
        SECRET,
    );
    let text = place.relayed(RELAYED).await;
    assert!(text.starts_with("HTTP/1.1 401 "), "{text}");
    assert_eq!(server.got().matches("GET /v1/x").count(), 3);
}

#[tokio::test]
async fn a_request_that_may_have_been_done_or_cannot_be_repeated_is_sent_once() {
    let (server, place) = with_tokens().await;
    // No challenge.
    let plain = RELAYED.replace("/v1/x?y=1", "/plain");
    assert!(place.relayed(&plain).await.starts_with("HTTP/1.1 401 "));
    assert!(place.source.next.lock().is_some(), "no other token is got");
    let post = RELAYED
        .replace("GET ", "POST ")
        .replace("Connection", "Content-Length: 2\r\nConnection")
        + "ab";
    assert!(place.relayed(&post).await.starts_with("HTTP/1.1 401 "));
    assert_eq!(server.got().matches("POST /v1/x").count(), 1);
    // The next one has the other token.
    while place.source.next.lock().is_some() {
        tokio::task::yield_now().await;
    }
    assert!(place.relayed(&post).await.starts_with("HTTP/1.1 200 "));
}

/// The token of a session that has none yet.
fn without_token(place: &WithCredential) {
    let mut held = place.source.held.lock();
    held[0].value.value = SecretText::default();
    held[0].unusable = Some(Unusable::NoGrant("it has no grant yet".to_owned()));
}

#[tokio::test]
async fn a_credential_without_a_token_says_why() {
    let (server, place) = with_tokens().await;
    without_token(&place);
    let text = place.relayed(RELAYED).await;
    assert!(
        text.starts_with("HTTP/1.1 403 ") && text.contains("it has no grant yet"),
        "{text}"
    );
    assert_eq!(server.got(), "");
}

#[tokio::test]
async fn what_needs_no_token_is_passed_on_without_one() {
    let server = Server::echoing(10_000).await;
    let kind = json!({"kind": "oauth2", "grant": "client_credentials", "issuer": "https://id.test", "client_id": "c"});
    let place = WithCredential::new(&server, kind, Intercept::Bound(true));
    without_token(&place);
    let host = format!("a.test:{}", server.port);
    let plain = format!("GET /plain HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let text = place.in_tls(&server, &plain).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert!(text.contains("GET /plain"), "{text}");
    let wanted = plain.replace(
        "Connection",
        &format!("Authorization: Bearer {PLACEHOLDER}\r\nConnection"),
    );
    let text = place.in_tls(&server, &wanted).await.unwrap();
    assert!(
        text.starts_with("HTTP/1.1 403 ") && text.contains("it has no grant yet"),
        "{text}"
    );
}

/// A server that sends the part that it is asked for, or always one.
async fn sending_parts(always: bool) -> Server {
    Server::new(move |got| {
        let asked = got.lines().find_map(|line| line.strip_prefix("range: bytes="));
        let range = asked.or(always.then_some("0-3"));
        let line = got.lines().find(|line| line.starts_with("authorization"));
        let line = line.unwrap_or_default();
        let (status, body) = match range.and_then(|range| range.split_once('-')) {
            Some((from, to)) => {
                let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
                ("206 Partial Content", line.get(from..=to).unwrap_or_default())
            }
            None => ("200 OK", line),
        };
        let text = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        vec![text.into_bytes()]
    })
    .await
}

#[tokio::test]
async fn a_secret_is_not_read_in_parts() {
    let server = sending_parts(false).await;
    let place = WithCredential::bearer(&server);
    let asked = RELAYED.replace(
        "Connection",
        "Range: bytes=22-25\r\nIf-Range: \"x\"\r\nConnection",
    );
    let text = place.relayed(&asked).await;
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.contains("Bearer ****"),
        "{text}"
    );
    assert!(!text.contains("s3c") && !server.got().contains("range"), "{text}");
    // One that sends a part that was not asked for.
    let server = sending_parts(true).await;
    let place = WithCredential::bearer(&server);
    let text = place.relayed(RELAYED).await;
    assert!(
        text.starts_with("HTTP/1.1 403 ") && text.contains("byteranges"),
        "{text}"
    );
    // A signature has no secret that could be repeated.
    let server = sending_parts(false).await;
    let kind = json!({"kind": "aws_sigv4", "access_key": "AKID", "region": "r", "service": "s3"});
    let place = WithCredential::new(&server, kind, Intercept::None);
    let text = place.relayed(&asked).await;
    assert!(
        text.starts_with("HTTP/1.1 206 ") && server.got().contains("range: bytes=22-25"),
        "{text}"
    );
}
