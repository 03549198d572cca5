//! TLS to the database, with rustls.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

use crate::StoreError;

/// Makes connections encrypted. It verifies certificates against those of an authority.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Trusts the certificates in the PEM file, or those of this machine. Blocks on the disk.
    pub(super) fn new(root_cert: Option<&Path>) -> Result<Self, StoreError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = root_cert {
            let bad = |reason: String| StoreError::Io {
                path: path.to_owned(),
                source: io::Error::other(reason),
            };
            let found = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(bad("has no certificate".to_owned()));
            }
        } else {
            roots.add_parsable_certificates(himalia_tls::machine_certificates());
        }
        let config = himalia_tls::client_of(roots).map_err(|error| StoreError::Database {
            reason: error.to_string(),
        })?;
        Ok(Self(Arc::new(config)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = EncryptedStream<S>;
    type TlsConnect = Connect;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Connect, Self::Error> {
        Ok(Connect {
            connector: TlsConnector::from(Arc::clone(&self.0)),
            name: ServerName::try_from(domain)?.to_owned(),
        })
    }
}

/// One handshake.
pub(super) struct Connect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connect {
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            self.connector
                .connect(self.name, stream)
                .await
                .map(EncryptedStream)
        })
    }
}

/// An encrypted connection. It binds no channel: the certificate is verified.
pub(super) struct EncryptedStream<S>(RustlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
