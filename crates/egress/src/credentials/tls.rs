//! TLS to hosts, with verified certificates.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_model::network::Host;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::denial::{Denial, Target};

/// How long a handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The certificates of authorities that hosts are verified by.
#[derive(Clone)]
pub struct Roots {
    config: Arc<ClientConfig>,
    certificates: Arc<[CertificateDer<'static>]>,
}

impl Roots {
    /// Those of this machine, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`. Blocks on the disk.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn of_this_machine() -> io::Result<Self> {
        Self::new(rustls_native_certs::load_native_certs().certs)
    }

    /// These.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            certificates: certificates.into(),
        })
    }

    /// All of them and another one, PEM.
    pub fn bundle(&self, authority: &str) -> String {
        let mut bundle = String::new();
        for certificate in &*self.certificates {
            pem(certificate, &mut bundle);
        }
        bundle.push_str(authority);
        bundle
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
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn a_bundle_has_every_certificate() {
        let made = |name: &str| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            (made.cert.der().clone(), made.cert.pem())
        };
        let (first, own) = (made("a.test"), made("own.test"));
        let bundle = Roots::new(vec![first.0.clone()]).unwrap().bundle(&own.1);
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect();
        assert_eq!(read.unwrap(), [first.0, own.0]);
    }
}
