//! Keys and certificates as they are in files.

use std::io;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Certificate, key and root of one side.
pub(super) struct Material {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Material {
    /// From the texts of the three files.
    pub(super) fn parse(ca: &[u8], cert: &[u8], key: &[u8]) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for root in certificates("the authority's certificate", ca)? {
            let added = roots.add(root);
            added.map_err(|error| invalid("the authority's certificate", &error))?;
        }
        let key = PrivateKeyDer::from_pem_slice(key);
        Ok(Self {
            roots: Arc::new(roots),
            chain: certificates("the certificate", cert)?,
            key: key.map_err(|error| invalid("the private key", &error))?,
        })
    }
}

/// Error that names the invalid file.
pub(super) fn invalid(what: &str, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
}

fn certificates(what: &str, pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| invalid(what, &error))?;
    if all.is_empty() {
        return Err(invalid(what, &"there is none"));
    }
    Ok(all)
}
