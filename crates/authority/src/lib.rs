//! The gateway's own certificate authority.
//!
//! It is two files in the data directory, made at the first start, or a key that several gateways have: the certificate
//! follows from the key. It signs two kinds of certificates: those of gateways,
//! which serve as TLS clients alone, and those of sandboxes, which bear one sandbox's name and serve as TLS servers alone.
//! So the key of a sandbox neither opens another sandbox nor passes for another sandbox. None is ever revoked: a sandbox's
//! key ends with the sandbox, a gateway's with its process.

mod files;

use std::fmt;
use std::io;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use sha2::{Digest, Sha256};
use time::{Duration, OffsetDateTime};

/// The file with the authority's private key, in the directory that [`Authority::open`] is given. Mode 0600.
pub const KEY_FILE: &str = "ca.key";
/// The file with the authority's certificate.
pub const CERT_FILE: &str = "ca.crt";

/// Tolerated difference between clocks.
const SKEW: Duration = Duration::hours(24);
/// Validity of certificates, which is longer than a sandbox lives.
const VALIDITY: Duration = Duration::days(20 * 365);

/// Bytes of a public key's digest that its name has.
const FINGERPRINT_BYTES: usize = 16;

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cert: String,
}

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct KeyPairPem {
    /// The certificate.
    pub cert: String,
    /// The private key. Do not log it.
    pub key: String,
}

impl Authority {
    /// Reads the authority in this directory, or makes both. Blocks.
    ///
    /// # Errors
    /// When a file cannot be read or written, others may read the key, or one of the two files is missing or damaged.
    pub fn open(dir: &Path) -> io::Result<Self> {
        if let Some((key, cert)) = files::read(dir)? {
            let key = KeyPair::from_pem(&key).map_err(|error| damaged(&dir.join(KEY_FILE), &error))?;
            return Ok(Self {
                issuer: Issuer::new(authority_params(), key),
                cert,
            });
        }
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let params = authority_params();
        let cert = params.self_signed(&key).map_err(|error| failed(&error))?.pem();
        files::write(dir, &key.serialize_pem(), &cert)?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            cert,
        })
    }

    /// The authority with this private key (PEM, PKCS #8). Those of one key verify what any of them has signed.
    ///
    /// # Errors
    /// When `pem` is no such key.
    pub fn from_key(pem: &str) -> io::Result<Self> {
        let key = KeyPair::from_pem(pem)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a private key in PEM (PKCS #8)"))?;
        let params = authority_params();
        let cert = params.self_signed(&key).map_err(|error| failed(&error))?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            cert,
        })
    }

    /// The name of its key: the same for all authorities of one key.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.issuer.key().subject_public_key_info());
        hex::encode(&digest[..FINGERPRINT_BYTES])
    }

    /// The authority's certificate, PEM.
    pub fn cert(&self) -> &str {
        &self.cert
    }

    /// A key pair of a gateway.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn gateway(&self) -> io::Result<KeyPairPem> {
        self.sign(Vec::new(), "himalia gateway", ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A key pair of the sandbox with this name, which is a DNS name.
    ///
    /// # Errors
    /// When `name` is no DNS name, or the system gives no random numbers.
    pub fn sandbox(&self, name: &str) -> io::Result<KeyPairPem> {
        let names = vec![name.to_owned()];
        self.sign(names, "himalia sandbox", ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn sign(
        &self,
        names: Vec<String>,
        common: &str,
        purpose: ExtendedKeyUsagePurpose,
    ) -> io::Result<KeyPairPem> {
        let mut params = CertificateParams::new(names).map_err(|error| failed(&error))?;
        params.distinguished_name = named(common);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity();
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let cert = params
            .signed_by(&key, &self.issuer)
            .map_err(|error| failed(&error))?;
        Ok(KeyPairPem {
            cert: cert.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(…)")
    }
}

impl fmt::Debug for KeyPairPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPairPem(…)")
    }
}

/// The same each time, but for the dates, so that the key alone makes the issuer again.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("himalia authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = validity();
    params
}

fn named(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn validity() -> (OffsetDateTime, OffsetDateTime) {
    let now = OffsetDateTime::now_utc();
    (now - SKEW, now + VALIDITY)
}

fn damaged(path: &Path, error: &dyn fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
}

fn failed(error: &rcgen::Error) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn the_authority_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("authority");
        let first = Authority::open(&place).unwrap();
        let second = Authority::open(&place).unwrap();
        assert_eq!(first.cert(), second.cert());
        assert_eq!(
            first.issuer.key().serialized_der(),
            second.issuer.key().serialized_der()
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&place), mode(&place.join(KEY_FILE))), (0o700, 0o600));
    }

    #[test]
    fn half_an_authority_and_one_that_others_can_read_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        Authority::open(dir.path()).unwrap();
        let key = dir.path().join(KEY_FILE);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            Authority::open(dir.path())
                .unwrap_err()
                .to_string()
                .contains("0600")
        );
        std::fs::remove_file(&key).unwrap();
        assert!(
            Authority::open(dir.path())
                .unwrap_err()
                .to_string()
                .contains("ca.key")
        );
        std::fs::write(&key, "no key").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Authority::open(dir.path()).is_err());
    }

    #[test]
    fn an_authority_follows_from_its_key() {
        let pem = KeyPair::generate().unwrap().serialize_pem();
        let (first, second) = (
            Authority::from_key(&pem).unwrap(),
            Authority::from_key(&pem).unwrap(),
        );
        assert_eq!(first.fingerprint(), second.fingerprint());
        assert_eq!(first.fingerprint().len(), 32);
        let other = KeyPair::generate().unwrap().serialize_pem();
        assert_ne!(
            first.fingerprint(),
            Authority::from_key(&other).unwrap().fingerprint()
        );
        // The key of one that is in a directory is such a key too.
        let dir = tempfile::tempdir().unwrap();
        let kept = Authority::open(dir.path()).unwrap();
        let key = std::fs::read_to_string(dir.path().join(KEY_FILE)).unwrap();
        assert_eq!(
            kept.fingerprint(),
            Authority::from_key(&key).unwrap().fingerprint()
        );
        let refused = Authority::from_key(first.cert()).unwrap_err().to_string();
        assert!(refused.contains("private key"), "{refused}");
    }
}
