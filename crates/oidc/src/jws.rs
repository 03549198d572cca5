//! Signed tokens in their compact form (RFC 7515), and public keys (RFC 7517), verified with `ring`.
//!
//! Only asymmetric signatures are known here: `none` and `HS256` are not names of an [`Algorithm`], so no setting can allow them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use crate::SignInError;

const TOKEN_BYTES: usize = 64 << 10;

/// Signature algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of RFC 7518")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// Name of the algorithm in tokens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            format!("{text:?} must be one of {all}")
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A public key of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Key id, which tokens name.
    pub(crate) id: Option<String>,
    /// The only algorithm it is for, if the provider says so.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Uncompressed points.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key as it is published. Members that are not used here are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PublishedKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    /// `None`: it is not for signatures, or of a kind that is not known here.
    pub(crate) fn read(published: PublishedKey) -> Option<Self> {
        if published.r#use.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        let point = |length: usize| {
            let (x, y) = (bytes(&published.x)?, bytes(&published.y)?);
            (x.len() == length && y.len() == length).then(|| [&[4], &*x, &*y].concat())
        };
        let material = match (published.kty.as_str(), published.crv.as_deref()) {
            ("RSA", _) => Material::Rsa {
                n: without_zeros(&bytes(&published.n)?),
                e: without_zeros(&bytes(&published.e)?),
            },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&published.x)?),
            _ => return None,
        };
        Some(Self {
            id: published.kid,
            algorithm: published.alg,
            material,
        })
    }

    /// True if the key may verify a token with this algorithm.
    pub(crate) fn is_for(&self, algorithm: Algorithm) -> bool {
        use Algorithm as A;
        let named = self.algorithm.as_deref();
        let fits = match self.material {
            Material::Rsa { .. } => {
                matches!(
                    algorithm,
                    A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512
                )
            }
            Material::P256(_) => algorithm == A::Es256,
            Material::P384(_) => algorithm == A::Es384,
            Material::Ed25519(_) => algorithm == A::EdDsa,
        };
        fits && named.is_none_or(|name| name == algorithm.as_str() || name == "Ed25519")
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> bool {
        let with = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key)
                .verify(message, signed)
                .is_ok()
        };
        match &self.material {
            Material::Rsa { n, e } => rsa(algorithm).is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signed).is_ok()
            }),
            Material::P256(point) => with(&signature::ECDSA_P256_SHA256_FIXED, point),
            Material::P384(point) => with(&signature::ECDSA_P384_SHA384_FIXED, point),
            Material::Ed25519(key) => with(&signature::ED25519, key),
        }
    }
}

/// RSA keys have 2048 to 8192 bits.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}

fn without_zeros(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default().to_vec()
}

/// A token whose signature is not verified yet.
#[derive(Debug)]
pub(crate) struct UnverifiedToken<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    message: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

impl<'a> UnverifiedToken<'a> {
    /// Reads a token whose algorithm is one of these.
    pub(crate) fn read(token: &'a str, allowed: &[Algorithm]) -> Result<Self, SignInError> {
        let format = |reason: &str| SignInError::token("format", reason);
        if token.len() > TOKEN_BYTES {
            return Err(format("is longer than 64 KiB"));
        }
        let (message, signature) = token
            .rsplit_once('.')
            .ok_or_else(|| format("the token is not a JWT"))?;
        let (header, payload) = message
            .split_once('.')
            .ok_or_else(|| format("the token is not a JWT"))?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = decode(header)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| format("its header cannot be read"))?;
        if header.crit.is_some() {
            return Err(format("its header demands extensions (crit)"));
        }
        let algorithm = header.alg.parse().ok().filter(|one| allowed.contains(one));
        let Some(algorithm) = algorithm else {
            let allowed = allowed.iter().map(|one| one.as_str()).collect::<Vec<_>>();
            let name: String = header.alg.chars().take(16).collect();
            return Err(SignInError::token(
                "algorithm",
                format!("is {name:?}, and this gateway accepts {}", allowed.join(", ")),
            ));
        };
        Ok(Self {
            algorithm,
            key_id: header.kid,
            message,
            payload,
            signature: decode(signature).ok_or_else(|| format("its signature cannot be read"))?,
        })
    }

    /// Returns the payload of the token if one of these keys signed it.
    pub(crate) fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k Key>,
    ) -> Result<serde_json::Map<String, serde_json::Value>, SignInError> {
        let message = self.message.as_bytes();
        let mut keys = keys.into_iter();
        if !keys.any(|key| key.verifies(self.algorithm, message, &self.signature)) {
            return Err(SignInError::token(
                "signature",
                "does not match the provider's key",
            ));
        }
        URL_SAFE_NO_PAD
            .decode(self.payload)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| SignInError::token("format", "its claims are no JSON object"))
    }
}
