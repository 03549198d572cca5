//! The commands at an `https` URL: a TLS server with a certificate that is made here.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A server that answers every request with an empty list of sessions, and its CA in a file.
struct Server {
    port: u16,
    ca: PathBuf,
    dir: tempfile::TempDir,
}

impl Server {
    /// Its certificate is for this name.
    fn start(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = own.signed_by(&key, &ca).unwrap();
        let file = dir.path().join("ca.pem");
        fs::write(&file, ca.pem()).unwrap();

        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let (listener, config) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(config));
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(tls, socket.unwrap());
                let (mut request, mut byte) = (Vec::new(), [0]);
                while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                    request.push(byte[0]);
                }
                // A client that does not trust this has gone.
                let body = r#"{"sessions": []}"#;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        Self { port, ca: file, dir }
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.port)
    }

    /// Lists the sessions.
    fn list(&self, host: &str, args: &[&str], variables: &[(&str, &Path)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_himalia"))
            .args(["session", "ls", "--json", "--url", &self.url(host)])
            .args(args)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("HIMALIA_TOKEN", "canary")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What it says when it does not list them.
    fn refused(&self, host: &str, args: &[&str], variables: &[(&str, &Path)]) -> String {
        let output = self.list(host, args, variables);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty() && !said.contains("canary"), "{said}");
        said
    }
}

fn assert_lists(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"sessions\": []"));
}

#[test]
fn a_private_ca_is_trusted_when_it_is_named() {
    let server = Server::start("localhost");
    let ca = server.ca.to_str().unwrap();
    assert_lists(&server.list("localhost", &["--ca", ca], &[]));
    assert_lists(&server.list("localhost", &[], &[("HIMALIA_CA", &server.ca)]));
    // One that the system trusts, as the administrator would have it.
    assert_lists(&server.list("localhost", &[], &[("SSL_CERT_FILE", &server.ca)]));
}

#[test]
fn what_is_wrong_with_a_certificate_is_said() {
    let (server, other) = (Server::start("localhost"), Server::start("localhost"));
    let unknown = "its certificate is not from a CA that is trusted here; --ca FILE or HIMALIA_CA";
    let trusted = [("SSL_CERT_FILE", other.ca.as_path())];
    let said = server.refused("localhost", &[], &trusted);
    assert!(
        said.contains(&format!("localhost:{}: {unknown}", server.port)),
        "{said}"
    );
    // The CA that is named is the only one.
    let said = server.refused(
        "localhost",
        &["--ca", other.ca.to_str().unwrap()],
        &[("SSL_CERT_FILE", &server.ca)],
    );
    assert!(said.contains(unknown), "{said}");
    let said = server.refused("127.0.0.1", &["--ca", server.ca.to_str().unwrap()], &[]);
    assert!(
        said.contains("its certificate is not valid") && said.contains("localhost"),
        "{said}"
    );
}

#[test]
fn a_file_of_cas_must_have_one() {
    let server = Server::start("localhost");
    let empty = server.dir.path().join("empty.pem");
    let said = server.refused("localhost", &["--ca", empty.to_str().unwrap()], &[]);
    assert!(said.contains("empty.pem: No such file"), "{said}");
    fs::write(&empty, "no certificate\n").unwrap();
    let said = server.refused("localhost", &[], &[("HIMALIA_CA", &empty)]);
    assert!(said.contains("there is no certificate in it"), "{said}");
    let said = server.refused(
        "localhost",
        &[],
        &[
            ("SSL_CERT_FILE", &empty),
            ("SSL_CERT_DIR", Path::new("/nonexistent")),
        ],
    );
    assert!(said.contains("--ca FILE"), "{said}");
}

#[test]
fn a_plain_server_is_told_from_one_with_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let _ = socket.read(&mut [0; 1024]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let mut server = Server::start("localhost");
    server.port = port;
    let said = server.refused("localhost", &["--ca", server.ca.to_str().unwrap()], &[]);
    assert!(
        said.contains("it does not speak TLS; is its address http://?"),
        "{said}"
    );
}

#[test]
fn a_server_that_is_not_there_is_said() {
    let mut server = Server::start("localhost");
    server.port = 1;
    let said = server.refused("localhost", &["--ca", server.ca.to_str().unwrap()], &[]);
    assert!(
        said.contains("cannot connect to localhost:1: the gateway does not listen: Connection refused"),
        "{said}"
    );
}
