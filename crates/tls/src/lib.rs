//! TLS of Himalia: one provider of cryptography, and settings that verify certificates.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};

/// The provider of cryptography. The workspace links no other one.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Makes the provider the one of the process, for libraries that take it from there, such as `reqwest`. Repeated calls do nothing.
pub fn install_provider() {
    // An error says that there is a provider already, which is this one.
    let _ = ring::default_provider().install_default();
}

/// Certificates of authorities of this machine, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`. Unreadable ones are left out. Blocks on the disk.
#[cfg(feature = "machine")]
pub fn machine_certificates() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Settings of a client that verifies servers by these authorities and shows no certificate: TLS 1.2 and 1.3. Certificates that cannot be
/// parsed are left out.
///
/// # Errors
/// The provider does not support a version of TLS.
pub fn client(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    client_of(roots)
}

/// The same with authorities that the caller has checked.
///
/// # Errors
/// The provider does not support a version of TLS.
pub fn client_of(roots: RootCertStore) -> Result<ClientConfig, Error> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Settings of a server with this certificate chain, that requests no certificate of clients: TLS 1.2 and 1.3.
///
/// # Errors
/// The certificate and the key do not belong together.
pub fn server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_certificates_are_left_out_and_damaged_chains_refused() {
        let damaged = CertificateDer::from(vec![1, 2, 3]);
        assert!(client([damaged.clone()]).is_ok());
        let key = PrivateKeyDer::from(rustls::pki_types::PrivatePkcs8KeyDer::from(vec![4]));
        assert!(server(vec![damaged], key).is_err());
        install_provider();
        install_provider();
        assert!(CryptoProvider::get_default().is_some());
    }
}
