//! The secret that replicas share, and what it issues.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ServerConfig};
use sha2::Sha256;
use thiserror::Error;

use crate::statement::Signer;
use crate::tls;

/// The subject of the authority's certificate.
const NAME: &str = "Himalia replicas";
/// Purpose of the derived key of the statements.
const STATEMENTS: &[u8] = b"himalia relay statements 1";

/// A private key that all replicas have and nothing else has: its holder is a replica.
///
/// The authority's certificate follows from the key, and so does the key of the statements. Certificates of replicas are
/// made when a replica starts and live in its memory alone.
pub struct Authority {
    key: KeyPair,
}

/// A key that cannot be used.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// The text is not a private key in PEM (PKCS #8, P-256 or Ed25519).
    #[error("not a private key in PEM (PKCS #8)")]
    Key,
    /// The host of a replica's address cannot be in a certificate.
    #[error("not a host: {0}")]
    Host(String),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(String),
}

/// Certificate of a replica for its peers, and the check of theirs.
#[derive(Clone)]
pub struct Identity {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) signer: Arc<Signer>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("replica", &self.signer.replica())
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one, which no other replica has yet.
    pub fn generate() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(|error| AuthorityError::Tls(error.to_string()))?;
        Ok(Self { key })
    }

    pub fn from_pem(text: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(text).map_err(|_| AuthorityError::Key)?;
        Ok(Self { key })
    }

    /// Secret key and certificate as PEM.
    pub fn to_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The identity of a replica. `host` is the host of the address at which peers reach it: a name or an IP address.
    pub fn identity(&self, replica: &str, host: &str) -> Result<Identity, AuthorityError> {
        let failed = |error: rcgen::Error| AuthorityError::Tls(error.to_string());
        let authority = authority_params();
        let root = authority.self_signed(&self.key).map_err(failed)?;
        let issuer = Issuer::from_params(&authority, &self.key);
        let key = KeyPair::generate().map_err(failed)?;
        let leaf = leaf_params(replica, host)?
            .signed_by(&key, &issuer)
            .map_err(failed)?;
        let chain: Vec<CertificateDer<'static>> = vec![leaf.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let (server, client) = tls::configs(root.der().clone(), chain, key)
            .map_err(|error| AuthorityError::Tls(error.to_string()))?;
        Ok(Identity {
            server,
            client,
            signer: Arc::new(Signer::new(self.statement_key(), replica)),
        })
    }

    fn statement_key(&self) -> [u8; 32] {
        // The DER of a key is a secret of full entropy; HMAC takes a key of any length.
        #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.serialized_der()).expect("a key of any length");
        mac.update(STATEMENTS);
        mac.finalize().into_bytes().into()
    }
}

impl Identity {
    pub fn replica(&self) -> &str {
        self.signer.replica()
    }

    /// Signer and verifier of statements.
    pub fn signer(&self) -> &Arc<Signer> {
        &self.signer
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn leaf_params(replica: &str, host: &str) -> Result<CertificateParams, AuthorityError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let bad = |_| AuthorityError::Host(host.to_owned());
    rustls::pki_types::ServerName::try_from(host.to_owned())
        .map_err(|_| AuthorityError::Host(host.to_owned()))?;
    let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(bad)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, replica);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_as_text() {
        let authority = Authority::generate().unwrap();
        let again = Authority::from_pem(&authority.to_pem()).unwrap();
        assert_eq!(authority.statement_key(), again.statement_key());
        assert!(matches!(Authority::from_pem("no key"), Err(AuthorityError::Key)));
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        let authority = Authority::generate().unwrap();
        for host in ["127.0.0.1", "[::1]", "::1", "replica-0.himalia.svc"] {
            authority.identity("a", host).unwrap();
        }
        for host in ["", "a b", "a/b"] {
            assert!(
                matches!(authority.identity("a", host), Err(AuthorityError::Host(_))),
                "{host}"
            );
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let authority = Authority::generate().unwrap();
        let identity = authority.identity("a", "127.0.0.1").unwrap();
        let shown = format!("{authority:?} {identity:?}");
        assert_eq!(shown, "Authority Identity { replica: \"a\", .. }");
    }
}
