//! TLS to hosts, with verified certificates.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use himalia_model::network::Host;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::key_store;
use crate::denial::{Denial, Target};

const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Certificates of authorities, as programs read them.
#[derive(Clone, Debug)]
pub struct TrustStore {
    /// PEM, one behind the other.
    pub bundle: Bytes,
    /// A key store of Java, JKS.
    pub key_store: Bytes,
}

/// The certificates of authorities that hosts are verified by.
#[derive(Clone)]
pub struct Roots {
    config: Arc<ClientConfig>,
    certificates: Arc<[CertificateDer<'static>]>,
}

impl Roots {
    /// Certificates of this machine, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`. Blocks on the disk.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn of_this_machine() -> io::Result<Self> {
        Self::new(himalia_tls::machine_certificates())
    }

    /// These.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> io::Result<Self> {
        let config = himalia_tls::client(certificates.iter().cloned());
        let mut config = config.map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            certificates: certificates.into(),
        })
    }

    /// All of them and another one, which is PEM.
    ///
    /// # Errors
    /// The other one is damaged.
    pub fn trusted(&self, authority: &str) -> io::Result<TrustStore> {
        let other = CertificateDer::from_pem_slice(authority.as_bytes()).map_err(io::Error::other)?;
        let all: Vec<&[u8]> = self
            .certificates
            .iter()
            .chain([&other])
            .map(AsRef::as_ref)
            .collect();
        let mut bundle = String::new();
        for certificate in &all {
            pem(certificate, &mut bundle);
        }
        Ok(TrustStore {
            bundle: bundle.into(),
            key_store: key_store::of(all.into_iter())?.into(),
        })
    }

    /// Speaks TLS on a connection to a host, as its client.
    pub(super) async fn connect<S>(&self, target: &Target, stream: S) -> Result<TlsStream<S>, Denial>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let failed = |reason: String| Denial::unreachable(format_args!("{target}: TLS: {reason}"));
        let name = match &target.host {
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|error| failed(error.to_string()))?
            }
            Host::Address(address) => ServerName::from(*address),
        };
        let connector = TlsConnector::from(Arc::clone(&self.config));
        match timeout(HANDSHAKE_TIME, connector.connect(name, stream)).await {
            Ok(connected) => connected.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", HANDSHAKE_TIME.as_secs()))),
        }
    }
}

/// One certificate, in lines of 64 characters.
fn pem(certificate: &[u8], text: &mut String) {
    text.push_str("-----BEGIN CERTIFICATE-----\n");
    let encoded = STANDARD.encode(certificate);
    for line in encoded.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Roots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_every_certificate() {
        let made = |name: &str| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            (made.cert.der().clone(), made.cert.pem())
        };
        let (first, own) = (made("a.test"), made("own.test"));
        let roots = Roots::new(vec![first.0.clone()]).unwrap();
        let trusted = roots.trusted(&own.1).unwrap();
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&trusted.bundle).collect();
        assert_eq!(read.unwrap(), [first.0.clone(), own.0.clone()]);
        let both = [first.0.as_ref(), own.0.as_ref()];
        assert_eq!(trusted.key_store, key_store::of(both.into_iter()).unwrap());
        assert!(roots.trusted("no certificate").is_err());
    }
}
