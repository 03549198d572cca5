//! The authorities of this gateway: one that signs, and earlier ones whose pods still run.

use std::io;

use himalia_authority::{Authority, KeyPairPem};
use himalia_link::TlsClient;
use himalia_provisioner::SandboxError;
use k8s_openapi::api::core::v1::Pod;

use crate::names::AUTHORITY;

/// Signs certificates of sandboxes, and proves this gateway to them.
pub(crate) struct Authorities {
    current: IssuingAuthority,
    earlier: Vec<IssuingAuthority>,
}

/// An authority, and what it has issued to this process.
struct IssuingAuthority {
    authority: Authority,
    fingerprint: String,
    tls: TlsClient,
}

impl Authorities {
    /// The first signs.
    pub(crate) fn new(all: Vec<Authority>) -> Result<Self, SandboxError> {
        let mut all = all.into_iter().map(IssuingAuthority::new);
        let current = all.next().ok_or_else(|| SandboxError::BadSpec {
            field: "kubernetes.authority_keys",
            reason: "has no key".to_owned(),
        })?;
        Ok(Self {
            current: current?,
            earlier: all.collect::<Result<_, _>>()?,
        })
    }

    /// The certificate by which new sandboxes know gateways, PEM.
    pub(crate) fn cert(&self) -> &str {
        self.current.authority.cert()
    }

    /// The name of the key that signs.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.current.fingerprint
    }

    /// The certificate of a sandbox of this name.
    pub(crate) fn sandbox(&self, name: &str) -> Result<KeyPairPem, SandboxError> {
        let pair = self.current.authority.sandbox(name);
        pair.map_err(|error| certificates(&error))
    }

    /// Client of the authority that the pod names, whose gateways its shim accepts.
    pub(crate) fn of(&self, pod: Option<&Pod>) -> Result<&TlsClient, SandboxError> {
        let annotations = pod.and_then(|pod| pod.metadata.annotations.as_ref());
        let named = annotations.and_then(|all| all.get(AUTHORITY));
        let mut all = [&self.current].into_iter().chain(&self.earlier);
        let found = named.and_then(|named| all.find(|one| one.fingerprint == *named));
        found.map(|one| &one.tls).ok_or_else(|| SandboxError::Cluster {
            away: false,
            reason: format!(
                "no key of kubernetes.authority_keys is that of the pod's authority, {}",
                named.map_or("unknown", String::as_str)
            ),
        })
    }
}

impl IssuingAuthority {
    fn new(authority: Authority) -> Result<Self, SandboxError> {
        let made = |authority: &Authority| {
            let pair = authority.gateway()?;
            TlsClient::new(
                authority.cert().as_bytes(),
                pair.cert.as_bytes(),
                pair.key.as_bytes(),
            )
        };
        Ok(Self {
            tls: made(&authority).map_err(|error| certificates(&error))?,
            fingerprint: authority.fingerprint(),
            authority,
        })
    }
}

pub(crate) fn certificates(error: &io::Error) -> SandboxError {
    SandboxError::Cluster {
        away: false,
        reason: format!("the certificates of sandboxes: {error}"),
    }
}
