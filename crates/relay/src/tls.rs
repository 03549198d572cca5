//! TLS 1.3 between replicas: both sides show a certificate of the authority.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};

/// The one protocol that peers speak.
const ALPN: &[u8] = b"h2";

/// TLS configurations of both sides. `root` is the only trusted certificate.
pub(crate) fn configs(
    root: CertificateDer<'static>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), Error> {
    let provider = himalia_tls::provider();
    let mut roots = RootCertStore::empty();
    roots.add(root)?;
    let roots = Arc::new(roots);
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
        .build()
        .map_err(|error| Error::General(error.to_string()))?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), key.clone_key())?;
    server.alpn_protocols = vec![ALPN.to_vec()];
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    client.alpn_protocols = vec![ALPN.to_vec()];
    Ok((Arc::new(server), Arc::new(client)))
}
