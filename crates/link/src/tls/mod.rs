//! The transport over TCP: mutual TLS 1.3, in which the shim listens and the gateway dials.
//!
//! Each side has a key and a certificate of the gateway's own authority. The certificate of a sandbox bears its name and
//! serves as a server alone; that of a gateway serves as a client alone, so that the key of one sandbox opens no other.

mod call;
mod client;
mod material;
mod server;
mod socket;
mod tcp;

pub use client::{TlsClient, TlsEndpoint};
pub use server::TlsServer;
pub use tcp::listen as listen_tcp;

pub(crate) use call::LinkName;
pub(crate) use server::TlsBlocking;
pub(crate) use socket::TlsSocket;

/// The file with the certificate of this side, PEM.
pub const CERT_FILE: &str = "tls.crt";
/// The file with the private key of this side, PEM.
pub const CERT_KEY_FILE: &str = "tls.key";
/// The file with the certificate of the authority, PEM.
pub const CA_FILE: &str = "ca.crt";
/// Protocol name of the handshake: the version of the messages before the hello.
const ALPN: &[u8] = b"himalia-link/1";
