//! The authority of a gateway for the certificates with which it reads TLS. Its key never leaves the gateway, and its certificate is
//! trusted in sandboxes alone.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;

use himalia_model::network::Host;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use time::{Duration, OffsetDateTime};

/// Certificates of hosts that are kept.
const KEPT: usize = 256;
/// Tolerated difference between clocks.
const SKEW: Duration = Duration::hours(24);
/// Validity of a host's certificate.
const LEAF_VALIDITY: Duration = Duration::days(30);
/// When it is made anew.
const LEAF_USED: Duration = Duration::days(7);
/// Validity of the authority's certificate.
const VALIDITY: Duration = Duration::days(10 * 365);

/// A new authority, for the store.
#[derive(Clone)]
pub struct InterceptKey {
    /// Certificate of the authority, PEM.
    pub certificate: String,
    /// Private key of the authority, PEM. Do not log it.
    pub key: String,
}

impl InterceptKey {
    /// Makes one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = params();
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - SKEW, now + VALIDITY);
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl fmt::Debug for InterceptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterceptKey(…)")
    }
}

/// Signs the certificates of hosts.
pub struct InterceptAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// Key of all hosts.
    leaf_key: KeyPair,
    kept: Mutex<CertificateCache>,
}

#[derive(Default)]
struct CertificateCache {
    hosts: HashMap<Host, (Arc<ServerConfig>, OffsetDateTime)>,
    /// By age.
    order: VecDeque<Host>,
}

impl InterceptAuthority {
    /// With the key of the store. Certificates that any of its authorities signs are verified by the one certificate.
    ///
    /// # Errors
    /// They are damaged, or the system gives no random numbers.
    pub fn new(from: &InterceptKey) -> io::Result<Self> {
        let bad = |_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the authority for interception is damaged",
            )
        };
        let key = KeyPair::from_pem(&from.key).map_err(bad)?;
        Ok(Self {
            issuer: Issuer::new(params(), key),
            leaf_key: KeyPair::generate().map_err(io::Error::other)?,
            kept: Mutex::default(),
        })
    }

    /// TLS settings of a server for this host.
    pub(super) fn settings(&self, host: &Host) -> io::Result<Arc<ServerConfig>> {
        let now = OffsetDateTime::now_utc();
        if let Some((settings, made)) = self.kept.lock().hosts.get(host)
            && now - *made < LEAF_USED
        {
            return Ok(Arc::clone(settings));
        }
        let settings = Arc::new(self.sign(host, now)?);
        let mut kept = self.kept.lock();
        if kept
            .hosts
            .insert(host.clone(), (Arc::clone(&settings), now))
            .is_none()
        {
            kept.order.push_back(host.clone());
        }
        if kept.order.len() > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.hosts.remove(&oldest);
        }
        Ok(settings)
    }

    fn sign(&self, host: &Host, now: OffsetDateTime) -> io::Result<ServerConfig> {
        let name = match host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let mut params = CertificateParams::new(vec![name]).map_err(io::Error::other)?;
        params.distinguished_name = named("Himalia gateway");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (now - SKEW, now + LEAF_VALIDITY);
        let certificate = params
            .signed_by(&self.leaf_key, &self.issuer)
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der()));
        let settings = himalia_tls::server(vec![certificate.der().clone()], key);
        let mut settings = settings.map_err(io::Error::other)?;
        settings.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(settings)
    }
}

/// Parameters of an authority, apart from its key and its times.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("Himalia gateway: interception in sandboxes");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

impl fmt::Debug for InterceptAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterceptAuthority(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_kept_and_bounded() {
        let key = InterceptKey::generate().unwrap();
        let authority = InterceptAuthority::new(&key).unwrap();
        let host = |n: usize| Host::Name(format!("h{n}.test"));
        let first = authority.settings(&host(0)).unwrap();
        assert!(Arc::ptr_eq(&first, &authority.settings(&host(0)).unwrap()));
        for n in 1..=KEPT {
            authority.settings(&host(n)).unwrap();
        }
        assert_eq!(authority.kept.lock().hosts.len(), KEPT);
        assert!(!Arc::ptr_eq(&first, &authority.settings(&host(0)).unwrap()));
        assert!(!format!("{key:?} {authority:?}").contains("PRIVATE"));
    }
}
